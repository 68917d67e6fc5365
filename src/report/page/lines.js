// Memory and samples in flight of the selected rank, under the timeline and on its time axis.

import { upperBound } from './data.js';
import { colour, kFont, prepare } from './theme.js';
import { kLeft, kRight } from './timeline.js';

const kTop = 18;
const kBottom = 6;

function stepPath(context, line, x, y, until) {
  const [from, to] = x.domain();
  const first = Math.max(0, upperBound(line.time, from) - 1);
  if (line.time.length === 0) return;
  context.beginPath();
  let value = line.value[first];
  const start = Math.max(kLeft, x(line.time[first]));
  context.moveTo(start, first === 0 ? y(0) : y(value)); // before its first value it is 0
  context.lineTo(start, y(value));
  for (let i = first + 1; i < line.time.length && line.time[i] <= to; ++i) {
    context.lineTo(x(line.time[i]), y(value));
    value = line.value[i];
    context.lineTo(x(line.time[i]), y(value));
  }
  context.lineTo(x(Math.min(to, until)), y(value));
}

// The value of a step line at a time.
export function valueAt(line, time) {
  const i = upperBound(line.time, time) - 1;
  return i < 0 ? 0 : line.value[i];
}

// { title, line, other (measured), limit, limitText, text(value) }
export function drawLines(canvas, timeline, { title, line, other, limit, limitText, text }) {
  const { context, width, height } = prepare(canvas, 104);
  const x = timeline.scale;
  const values = [...line.value, ...(other?.value ?? [])];
  const peak = values.reduce((a, b) => Math.max(a, b), 0);
  // A limit far above is named, not drawn to scale.
  const top = Math.max(peak * 1.12, limit <= peak * 3 ? limit * 1.08 : 0, 1);
  const y = (v) => height - kBottom - (v / top) * (height - kTop - kBottom);
  context.font = kFont;
  context.textBaseline = 'middle';
  context.fillStyle = colour('line');
  for (const share of [0.25, 0.5, 0.75]) context.fillRect(kLeft, Math.round(y(peak * share)), width - kLeft - kRight, 1);
  context.fillStyle = colour('muted');
  context.textAlign = 'right';
  context.fillText(text(peak), kLeft - 6, y(peak));
  context.fillText(text(0), kLeft - 6, y(0) - 3);
  context.textAlign = 'left';
  context.fillStyle = colour('ink');
  context.fillText(title, 6, 9);
  context.save();
  context.beginPath();
  context.rect(kLeft, 0, width - kLeft - kRight, height);
  context.clip();
  stepPath(context, line, x, y, timeline.plan.iteration_s);
  context.strokeStyle = colour('accent');
  context.lineWidth = 1.6;
  context.stroke();
  context.lineTo(x(Math.min(x.domain()[1], timeline.plan.iteration_s)), y(0));
  context.lineTo(Math.max(kLeft, x(line.time[0] ?? 0)), y(0));
  context.closePath();
  context.globalAlpha = 0.14;
  context.fillStyle = colour('accent');
  context.fill();
  context.globalAlpha = 1;
  if (other?.time.length) {
    stepPath(context, other, x, y, timeline.plan.measured.iteration_s);
    context.setLineDash([3, 2]);
    context.strokeStyle = colour('ink');
    context.lineWidth = 1.2;
    context.stroke();
    context.setLineDash([]);
  }
  const inside = limit <= top;
  if (inside) {
    context.beginPath();
    context.moveTo(kLeft, y(limit));
    context.lineTo(width, y(limit));
    context.setLineDash([7, 4]);
    context.strokeStyle = colour('limit');
    context.lineWidth = 2;
    context.stroke();
    context.setLineDash([]);
  }
  context.restore();
  context.textAlign = 'right';
  context.fillStyle = colour('limit');
  context.fillText(inside ? limitText : `${limitText} (off the scale)`, width - kRight - 4, inside ? Math.max(9, y(limit) - 8) : 9);
  canvas.dataset.peak = peak;
}
