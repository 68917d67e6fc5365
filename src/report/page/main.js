// Puts the page together.

import { readData } from './data.js';
import { byId, make } from './element.js';
import { bytesText, countText, percentText, rateText, secondsText } from './format.js';
import { drawLines } from './lines.js';
import { drawStageGraph } from './stage_graph.js';
import { drawStrips, fillMeasured, fillPath, fillPlans, fillRanks, fillWaits } from './tables.js';
import { kReasons, readTheme } from './theme.js';
import { Timeline } from './timeline.js';

const data = readData();
let chosen = 0;
let stageGraph = null;
let waitsShown = '';

const timeline = new Timeline(byId('timeline'), byId('overview'), byId('announce'), changed);
timeline.reasons = data.reasons;

function plan() {
  return data.plans[chosen];
}

// The same time axis for plans that compete, so that a shorter one looks shorter.
function untilOf(p) {
  const ends = (data.comparable ? data.plans : [p]).map((q) => Math.max(q.iteration_s, q.measured?.iteration_s ?? 0));
  return byId('same-scale').checked ? Math.max(...ends) : Math.max(p.iteration_s, p.measured?.iteration_s ?? 0);
}

function changed() {
  const p = plan();
  const rank = p.timeline.ranks[timeline.rank];
  drawLines(byId('memory'), timeline, {
    title: `memory, rank ${timeline.rank}`,
    line: rank.memory, other: p.measured?.ranks[timeline.rank].memory,
    limit: rank.memory_bytes, limitText: `the device has ${bytesText(rank.memory_bytes)}`, text: bytesText,
  });
  drawLines(byId('in-flight'), timeline, {
    title: `in flight, rank ${timeline.rank}`,
    line: rank.in_flight, limit: rank.in_flight_limit,
    limitText: `the plan allows ${countText(rank.in_flight_limit)}`, text: countText,
  });
  byId('rank').value = timeline.rank;
  const key = `${chosen} ${timeline.rank}`;
  if (key === waitsShown) return;
  waitsShown = key;
  fillWaits(p, data.reasons, timeline.rank);
}

function fillFigures(p) {
  const gap = p.lower_bound_s ? `${percentText(p.iteration_s / p.lower_bound_s - 1)} above` : 'not known';
  const figures = [
    ['iteration', secondsText(p.iteration_s), `mini-batch ${countText(p.mini_batch)}`],
    ['throughput', rateText(p.throughput_samples_per_s), 'samples a second'],
    ['bubble', percentText(p.bubble_fraction), `${p.devices_used} of ${p.devices} devices`],
    ['lower bound', gap, p.lower_bound_s ? `no plan is faster than ${secondsText(p.lower_bound_s)}` : 'of a plan by hand'],
    ['depth', `${p.depth}`, `${p.stages.length} stages, micro-batch ${p.micro_batch}`],
    ['peak memory', bytesText(p.peak_bytes), 'on the fullest rank'],
  ];
  byId('figures').replaceChildren(...figures.map(([name, value, note]) => make('div', { class: 'figure' },
    make('div', { class: 'name' }, name), make('div', { class: 'value' }, value), make('div', { class: 'note' }, note))));
}

function selectRank(rank) {
  timeline.selectRank(rank);
  byId('timeline').scrollIntoView({ block: 'nearest' });
}

function show(index) {
  chosen = index;
  const p = plan();
  document.querySelectorAll('#plans-body tr').forEach((row, i) => row.classList.toggle('chosen', i === index));
  byId('plan-name').textContent = `${p.name}: ${p.model} on ${p.cluster}`;
  byId('plan-note').textContent =
    `schedule ${p.schedule}, optimiser ${p.optimizer}, weights ${p.weights}, options ${p.options}, costs: ${p.costs}, from ${p.file}`;
  fillFigures(p);
  stageGraph = drawStageGraph(byId('stages'), p, { selectRank });
  byId('with-timeline').hidden = !p.timeline;
  byId('no-timeline').hidden = Boolean(p.timeline);
  fillMeasured(p);
  if (!p.timeline) return;
  byId('rank').replaceChildren(...p.timeline.ranks.map((_, r) => make('option', { value: r }, `rank ${r}`)));
  timeline.setPlan(p, untilOf(p));
  timeline.fit();
  byId('timeline').setAttribute('aria-label',
    `Timeline of ${p.name}: ${timeline.summary()}. Arrow keys go from task to task and rank to rank, plus and minus zoom, 0 shows all.`);
  fillRanks(p, data.reasons, selectRank);
  fillPath(p);
}

function fillLegend() {
  const tasks = [['forward', 'F forward'], ['backward', 'B backward'], ['path', 'critical path']];
  const used = new Set(data.plans.flatMap((p) => p.timeline?.ranks.flatMap((r) => r.waits.map((w) => w.reason)) ?? []));
  const kinds = new Set(data.plans.flatMap((p) => p.timeline?.ranks.flatMap((r) => [...new Set(r.tasks.kind)]) ?? []));
  if (kinds.has('W')) tasks.splice(2, 0, ['weight', 'W weights’ half']);
  if (kinds.has('R')) tasks.splice(2, 0, ['recompute', 'R recompute']);
  const reasons = data.reasons.map((text, i) => [kReasons[i], `idle: ${text}`]).filter((_, i) => used.has(i));
  byId('legend').replaceChildren(...[...tasks, ...reasons].map(([c, text]) => make('span', { class: 'key' },
    make('span', { class: c === 'path' ? 'swatch line' : c.startsWith('idle') ? 'swatch low' : 'swatch', style: `background:var(--${c})` }), ` ${text}`)));
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  readTheme();
  drawStrips(data.plans);
  if (plan().timeline) timeline.requestDraw();
}

function connect() {
  const on = (id, event, act) => byId(id).addEventListener(event, act);
  on('zoom-in', 'click', () => timeline.zoomBy(1.6));
  on('zoom-out', 'click', () => timeline.zoomBy(1 / 1.6));
  on('fit', 'click', () => timeline.fit());
  on('graph-in', 'click', () => stageGraph.zoomBy(1.4));
  on('graph-out', 'click', () => stageGraph.zoomBy(1 / 1.4));
  on('graph-fit', 'click', () => stageGraph.fit());
  on('rank', 'change', (e) => timeline.selectRank(Number(e.target.value)));
  for (const what of ['idle', 'path', 'messages']) {
    on(`show-${what}`, 'change', (e) => {
      timeline.show[what] = e.target.checked;
      timeline.requestDraw();
    });
  }
  on('same-scale', 'change', () => {
    timeline.setPlan(plan(), untilOf(plan()));
    timeline.fit();
  });
  const dark = window.matchMedia('(prefers-color-scheme: dark)');
  on('theme', 'click', () => setTheme(document.documentElement.dataset.theme === 'dark' ? 'light' : 'dark'));
  dark.addEventListener('change', (e) => setTheme(e.matches ? 'dark' : 'light'));
  let resizing = 0;
  window.addEventListener('resize', () => {
    clearTimeout(resizing);
    resizing = setTimeout(() => {
      drawStrips(data.plans);
      if (plan().timeline) timeline.resize();
    }, 80);
  });
}

function start() {
  const dark = window.matchMedia('(prefers-color-scheme: dark)').matches;
  document.documentElement.dataset.theme = dark ? 'dark' : 'light';
  readTheme();
  const [first] = data.plans;
  const same = data.plans.every((p) => p.model === first.model && p.cluster === first.cluster);
  byId('title').textContent = same ? `${first.model} on ${first.cluster}` : 'Plans';
  document.title = `${byId('title').textContent} · graphpipe`;
  byId('headline').textContent = data.headline;
  byId('version').textContent = `graphpipe ${data.version}`;
  byId('same-scale-label').hidden = !(data.comparable && data.plans.length > 1);
  chosen = data.plans.reduce((best, p, i) => (data.comparable && p.iteration_s < data.plans[best].iteration_s ? i : best), 0);
  fillPlans(data, chosen, show);
  fillLegend();
  connect();
  drawStrips(data.plans);
  show(chosen);
  requestAnimationFrame(() => requestAnimationFrame(() => {
    performance.mark('graphpipe-painted');
    document.documentElement.dataset.painted = performance.now().toFixed(0);
  }));
}

start();
// For tests: where things are on the canvas.
window.graphpipe = { data, timeline, plan };
