// The page's data as graphpipe wrote it (docs/report.md), its columns unpacked: times become
// seconds.

function unpackTasks(columns, tick) {
  const n = columns.gap.length;
  const start = new Float64Array(n);
  const end = new Float64Array(n);
  let now = 0;
  for (let i = 0; i < n; ++i) {
    now += columns.gap[i];
    start[i] = now * tick;
    now += columns.length[i];
    end[i] = now * tick;
  }
  const kinds = [...new Set(columns.kind)].map((letter) => letter.charCodeAt(0));
  return { n, start, end, kind: columns.kind, kinds, stage: columns.stage, microBatch: columns.micro_batch };
}

// Starts are counted from the start before.
function unpackSpans({ start: steps, length, ...others }, tick) {
  const start = sums(steps, tick);
  const end = start.map((t, i) => t + length[i] * tick);
  return { n: start.length, start, end, ...others };
}

function sums(steps, scale) {
  let now = 0;
  return Float64Array.from(steps, (step) => (now += step) * scale);
}

function unpackLine({ time, value, unit }, tick) {
  return { time: sums(time, tick), value: sums(value, unit) };
}

function unpackPlan(plan) {
  const tick = plan.tick_s;
  if (plan.timeline) {
    for (const rank of plan.timeline.ranks) {
      rank.tasks = unpackTasks(rank.tasks, tick);
      rank.idle = unpackSpans(rank.idle, tick);
      rank.memory = unpackLine(rank.memory, tick);
      rank.in_flight = unpackLine(rank.in_flight, tick);
    }
    plan.timeline.messages = unpackSpans(plan.timeline.messages, tick);
    plan.timeline.path = unpackSpans(plan.timeline.path, tick);
    plan.timeline.ranks.forEach((rank, r) => {
      rank.stages = plan.stages.flatMap((s, i) => (s.ranks.includes(r) ? [i] : []));
    });
  }
  for (const rank of plan.measured?.ranks ?? []) {
    rank.tasks = unpackTasks(rank.tasks, tick);
    rank.waits = unpackSpans(rank.waits, tick);
    rank.memory = unpackLine(rank.memory, tick);
  }
  return plan;
}

export function readData() {
  const data = JSON.parse(document.getElementById('data').textContent);
  data.plans.forEach(unpackPlan);
  const seen = new Map();
  for (const plan of data.plans) seen.set(plan.planner, (seen.get(plan.planner) ?? 0) + 1);
  for (const plan of data.plans) {
    plan.name = seen.get(plan.planner) > 1 ? `${plan.planner} (${plan.file})` : plan.planner;
  }
  return data;
}

// The first index whose value is greater than x, of values that ascend.
export function upperBound(values, x) {
  let low = 0;
  let high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] > x) high = middle;
    else low = middle + 1;
  }
  return low;
}
