// How many ranks compute over time, as a strip: forwards below, backwards above them.

import { kFont, colour, prepare, taskColour } from './theme.js';

// Busy ranks per column, forwards and the rest apart.
function density(ranks, columns, until) {
  const forward = new Float32Array(columns);
  const other = new Float32Array(columns);
  for (const rank of ranks) {
    const { n, start, end, kind } = rank.tasks;
    for (let i = 0; i < n; ++i) {
      const into = kind[i] === 'F' ? forward : other;
      const a = (start[i] / until) * columns;
      const b = (end[i] / until) * columns;
      const first = Math.floor(a);
      const last = Math.min(Math.floor(b), columns - 1);
      if (first === last) {
        into[first] += b - a;
        continue;
      }
      into[first] += first + 1 - a;
      for (let c = first + 1; c < last; ++c) into[c] += 1;
      if (last > first) into[last] += Math.min(b, columns) - last;
    }
  }
  return { forward, other };
}

// `left`, `right`: pixels beside the strip. `window_s`: what is shown elsewhere, marked.
export function drawOverview(canvas, plan, until, height, { left = 0, right = 0, window_s } = {}) {
  const { context, width } = prepare(canvas, height);
  const columns = Math.max(1, Math.floor(width - left - right));
  const ranks = plan.timeline.ranks;
  const key = `${columns} ${until}`;
  if (plan.densityKey !== key) {
    plan.densityKey = key;
    plan.density = density(ranks, columns, until);
  }
  const { forward, other } = plan.density;
  const scale = (height - 2) / ranks.length;
  context.fillStyle = colour('idle');
  const ends = (plan.iteration_s / until) * columns;
  context.fillRect(left, 1, ends, height - 2);
  for (let c = 0; c < columns; ++c) {
    const f = forward[c] * scale;
    const b = other[c] * scale;
    if (f > 0) {
      context.fillStyle = taskColour('F');
      context.fillRect(left + c, height - 1 - f, 1, f);
    }
    if (b > 0) {
      context.fillStyle = taskColour('B');
      context.fillRect(left + c, height - 1 - f - b, 1, b);
    }
  }
  if (!window_s) return;
  const [from, to] = window_s.map((s) => left + (s / until) * columns);
  context.fillStyle = colour('panel');
  context.globalAlpha = 0.65;
  context.fillRect(left, 0, from - left, height);
  context.fillRect(to, 0, left + columns - to, height);
  context.globalAlpha = 1;
  context.strokeStyle = colour('accent');
  context.lineWidth = 2;
  context.strokeRect(from, 1, Math.max(to - from, 2), height - 2);
  context.fillStyle = colour('muted');
  context.font = kFont;
  context.textAlign = 'left';
  context.textBaseline = 'middle';
  context.fillText('busy ranks', 4, height / 2);
}
