// The timeline: a row a rank (two where a run was measured), drawn on a canvas.

import { scaleLinear } from 'd3-scale';
import { select } from 'd3-selection';
import { zoom, zoomIdentity } from 'd3-zoom';

import { upperBound } from './data.js';
import { showTip } from './element.js';
import { countText, bytesText, kTaskNames, secondsText } from './format.js';
import { drawNarrow } from './narrow.js';
import { drawOverview } from './overview.js';
import { colour, kFont, kReasons, prepare, taskColour } from './theme.js';

export const kLeft = 96;
export const kRight = 14;
const kAxis = 24;
const kMostBoxes = 4000; // drawn one by one
const kMostLines = 3000; // of messages, beyond which they hide the rest
const kNarrowest = 15; // of a box with a label, in pixels
const kNarrow = 2; // a label's margin in its box

export class Timeline {
  // `changed` is called when what is visible or selected has changed.
  constructor(canvas, overview, announce, changed) {
    this.canvas = canvas;
    this.overview = overview;
    this.announce = announce;
    this.changed = changed;
    this.show = { idle: true, path: true, messages: false };
    this.rank = 0;
    this.focus = null; // { rank, row, task } or { rank, idle }
    this.transform = zoomIdentity;
    this.behaviour = zoom()
      .scaleExtent([1, 1])
      .filter((e) => (e.type === 'wheel' ? e.ctrlKey || e.metaKey || e.shiftKey : !e.button))
      .wheelDelta((e) => -(e.deltaY || e.deltaX) * (e.deltaMode === 1 ? 0.05 : 0.002))
      .on('zoom', (e) => {
        this.transform = e.transform;
        this.requestDraw();
      });
    this.selection = select(canvas).call(this.behaviour).on('dblclick.zoom', null);
    canvas.addEventListener('mousemove', (e) => this.hover(e));
    canvas.addEventListener('mouseleave', () => this.setFocus(null));
    canvas.addEventListener('click', (e) => this.click(e));
    canvas.addEventListener('dblclick', (e) => this.zoomToTask(e));
    canvas.addEventListener('keydown', (e) => this.key(e));
    overview.addEventListener('pointerdown', (e) => {
      overview.setPointerCapture(e.pointerId);
      this.centre(e);
    });
    overview.addEventListener('pointermove', (e) => e.buttons && this.centre(e));
  }

  setPlan(plan, until) {
    this.plan = plan;
    this.until = until;
    this.ranks = plan.timeline.ranks;
    this.measured = plan.measured?.ranks;
    this.rank = Math.min(this.rank, this.ranks.length - 1);
    this.focus = null;
    const rows = this.ranks.length;
    const room = (least, most, all) => Math.floor(Math.max(least, Math.min(most, all / rows)));
    this.rowHeight = this.measured ? room(30, 44, 1000) : room(13, 26, 560);
    this.height = kAxis + rows * this.rowHeight + 6;
    this.resize();
  }

  resize() {
    this.width = Math.max(this.canvas.clientWidth, 200);
    const right = this.width - kRight;
    this.base = scaleLinear([0, this.until], [kLeft, right]);
    const shortest = this.shortest();
    const most = Math.max(1, Math.min(1e6, (200 * this.until) / (shortest * (right - kLeft))));
    this.behaviour
      .scaleExtent([1, most])
      .extent([[kLeft, 0], [right, this.height]])
      .translateExtent([[kLeft, 0], [right, this.height]]);
    this.selection.call(this.behaviour.transform, this.transform);
  }

  shortest() {
    let least = this.until;
    for (const { tasks } of this.ranks) {
      for (let i = 0; i < Math.min(tasks.n, 200); ++i) {
        const length = tasks.end[i] - tasks.start[i];
        if (length > 0) least = Math.min(least, length);
      }
    }
    return least;
  }

  get scale() {
    return this.transform.rescaleX(this.base);
  }
  get window_s() {
    return this.scale.domain();
  }

  // --- moving

  zoomBy(factor) {
    this.selection.call(this.behaviour.scaleBy, factor);
  }
  panBy(share) {
    const room = this.width - kLeft - kRight;
    this.selection.call(this.behaviour.translateBy, (-share * room) / this.transform.k, 0);
  }
  fit() {
    this.selection.call(this.behaviour.transform, zoomIdentity);
  }
  zoomTo(from, to) {
    const room = this.width - kLeft - kRight;
    const k = room / (this.base(to) - this.base(from));
    const next = zoomIdentity.translate(kLeft - k * this.base(from), 0).scale(k);
    this.selection.call(this.behaviour.transform, next);
  }
  centre(e) {
    const at = this.base.invert(e.offsetX);
    this.selection.call(this.behaviour.translateTo, this.base(at), 0);
  }
  reveal(start, end) {
    const [from, to] = this.window_s;
    if (start >= from && end <= to) return;
    this.selection.call(this.behaviour.translateTo, this.base((start + end) / 2), 0);
  }

  key(e) {
    const steps = {
      '+': () => this.zoomBy(1.5),
      '=': () => this.zoomBy(1.5),
      '-': () => this.zoomBy(1 / 1.5),
      0: () => this.fit(),
      Home: () => this.step(-Infinity),
      End: () => this.step(Infinity),
      ArrowLeft: () => (e.shiftKey ? this.panBy(-0.25) : this.step(-1)),
      ArrowRight: () => (e.shiftKey ? this.panBy(0.25) : this.step(1)),
      ArrowUp: () => this.selectRank(this.rank - 1),
      ArrowDown: () => this.selectRank(this.rank + 1),
      Enter: () => this.focus?.task !== undefined && this.zoomToFocus(),
      Escape: () => this.setFocus(null),
    };
    if (e.ctrlKey || e.metaKey || e.altKey || !steps[e.key]) return;
    e.preventDefault();
    steps[e.key]();
  }

  // To the selected rank's next task, or the one before.
  step(by) {
    const { tasks } = this.ranks[this.rank];
    if (tasks.n === 0) return;
    const here = this.focus?.rank === this.rank && this.focus.row === 0 && this.focus.task !== undefined;
    let at = here ? this.focus.task + by : upperBound(tasks.start, this.window_s[0]) - (by > 0 ? 0 : 1);
    at = Math.max(0, Math.min(tasks.n - 1, at));
    this.reveal(tasks.start[at], tasks.end[at]);
    this.setFocus({ rank: this.rank, row: 0, task: at });
    const x = this.scale((tasks.start[at] + tasks.end[at]) / 2);
    this.tipAt(x, kAxis + (this.rank + 0.5) * this.rowHeight);
    this.announce.textContent = this.describe(this.focus).join('. ');
  }

  selectRank(rank) {
    if (rank < 0 || rank >= this.ranks.length) return;
    this.rank = rank;
    this.announce.textContent = `rank ${rank}, ${this.stagesText(rank)}`;
    this.requestDraw();
  }

  // --- what is under the pointer

  pick(x, y) {
    const rank = Math.floor((y - kAxis) / this.rowHeight);
    if (rank < 0 || rank >= this.ranks.length || x < kLeft || x > this.width - kRight) return null;
    const lower = this.measured && (y - kAxis) % this.rowHeight > this.rowHeight / 2;
    const time = this.scale.invert(x);
    const source = lower ? this.measured[rank] : this.ranks[rank];
    const slack = this.scale.invert(x + 1) - time; // boxes are at least a pixel wide
    const task = upperBound(source.tasks.start, time) - 1;
    if (task >= 0 && time <= Math.max(source.tasks.end[task], source.tasks.start[task] + slack)) {
      return { rank, row: lower ? 1 : 0, task };
    }
    const spans = lower ? source.waits : source.idle;
    const idle = upperBound(spans.start, time) - 1;
    if (idle >= 0 && time <= spans.end[idle]) return { rank, row: lower ? 1 : 0, idle };
    return null;
  }

  hover(e) {
    this.setFocus(e.buttons ? null : this.pick(e.offsetX, e.offsetY));
    this.tipAt(e.offsetX, e.offsetY);
  }

  tipAt(x, y) {
    const box = this.canvas.getBoundingClientRect();
    showTip(this.focus && this.describe(this.focus), box.left + x, box.top + y);
  }

  click(e) {
    const rank = Math.floor((e.offsetY - kAxis) / this.rowHeight);
    if (rank >= 0 && rank < this.ranks.length) this.selectRank(rank);
  }

  zoomToTask(e) {
    this.focus = this.pick(e.offsetX, e.offsetY);
    if (this.focus?.task !== undefined) this.zoomToFocus();
    else this.zoomBy(2);
  }

  zoomToFocus() {
    const { tasks } = this.rowOf(this.focus);
    const { task } = this.focus;
    const around = 6 * (tasks.end[task] - tasks.start[task]);
    this.zoomTo(Math.max(0, tasks.start[task] - around), Math.min(this.until, tasks.end[task] + around));
  }

  setFocus(focus) {
    const same = JSON.stringify(focus) === JSON.stringify(this.focus);
    this.focus = focus;
    if (!focus) showTip(null);
    if (!same) this.requestDraw();
  }

  rowOf(focus) {
    return focus.row === 1 ? this.measured[focus.rank] : this.ranks[focus.rank];
  }

  stagesText(rank) {
    const { stages } = this.ranks[rank];
    return `${stages.length === 1 ? 'stage' : 'stages'} ${stages.join(', ')}`;
  }

  describe(focus) {
    const row = this.rowOf(focus);
    const measured = focus.row === 1 ? ', measured' : '';
    if (focus.task !== undefined) {
      const { tasks } = row;
      const i = focus.task;
      const stage = this.plan.stages[tasks.stage[i]];
      return [
        `${kTaskNames[tasks.kind[i]]} of micro-batch ${tasks.microBatch[i]}${measured}`,
        `stage ${tasks.stage[i]} on rank ${focus.rank}: ${stage.first} .. ${stage.last}`,
        `${secondsText(tasks.end[i] - tasks.start[i])}, from ${secondsText(tasks.start[i])} to ${secondsText(tasks.end[i])}`,
        ...(this.onPath(focus) ? ['on the critical path'] : []),
        ...(focus.row === 0 ? this.messageLines(focus) : []),
      ];
    }
    const spans = focus.row === 1 ? row.waits : row.idle;
    const i = focus.idle;
    const times = `${secondsText(spans.end[i] - spans.start[i])}, from ${secondsText(spans.start[i])} to ${secondsText(spans.end[i])}`;
    if (focus.row === 1) return [`waits: ${spans.what[i]}`, `rank ${focus.rank}, measured`, times];
    const whom = spans.what[i] ? [`${spans.what[i]}, on rank ${spans.rank[i]}`] : [];
    return [`idle: ${this.reasons[spans.reason[i]]}`, ...whom, `rank ${focus.rank}`, times];
  }

  messageLines(focus) {
    const { m, incoming, outgoing } = this.messagesOf(focus);
    const line = (i, word, rank) =>
      `${word} rank ${rank}: ${bytesText(m.bytes[i])}, ${secondsText(m.end[i] - m.start[i])}`;
    return [
      ...incoming.slice(0, 4).map((i) => line(i, 'from', m.from[i])),
      ...outgoing.slice(0, 4).map((i) => line(i, 'to', m.to[i])),
    ];
  }

  // The messages that a task reads and writes.
  messagesOf({ rank, task }) {
    const { tasks } = this.ranks[rank];
    const m = this.plan.timeline.messages;
    const { edges, stages } = this.plan;
    const stage = tasks.stage[task];
    const b = stages[stage].micro_batch;
    const forward = tasks.kind[task] === 'F';
    if (!forward && !'BI'.includes(tasks.kind[task])) return { m, incoming: [], outgoing: [] };
    const first = tasks.microBatch[task] * b;
    const incoming = [];
    const outgoing = [];
    for (let i = 0; i < m.n; ++i) {
      if ((m.direction[i] === 'F') !== forward) continue;
      const edge = edges[m.edge[i]];
      const [sender, receiver] = forward ? [edge.from, edge.to] : [edge.to, edge.from];
      if (m.from[i] === rank && sender === stage && m.micro_batch[i] === tasks.microBatch[task]) {
        outgoing.push(i);
      } else if (m.to[i] === rank && receiver === stage) {
        const size = stages[sender].micro_batch;
        const sent = m.micro_batch[i] * size;
        if (sent < first + b && first < sent + size) incoming.push(i);
      }
    }
    return { m, incoming, outgoing };
  }

  onPath({ rank, row, task }) {
    if (row !== 0) return false;
    const { path } = this.plan.timeline;
    const { tasks } = this.ranks[rank];
    const middle = (tasks.start[task] + tasks.end[task]) / 2;
    const i = upperBound(path.start, middle) - 1;
    return i >= 0 && path.rank[i] === rank && path.kind[i] === 0;
  }

  // --- drawing

  requestDraw() {
    if (this.pending) return;
    this.pending = true;
    requestAnimationFrame(() => {
      this.pending = false;
      this.draw();
      this.changed(this);
    });
  }

  draw() {
    const began = performance.now();
    const { context, width } = prepare(this.canvas, this.height);
    const x = this.scale;
    context.font = kFont;
    this.drawRows(context, width);
    context.save();
    context.beginPath();
    context.rect(kLeft, kAxis, width - kLeft - kRight, this.height - kAxis);
    context.clip();
    this.drawGrid(context, x);
    const narrow = this.visibleTasks(x) > kMostBoxes;
    for (let r = 0; r < this.ranks.length; ++r) this.drawRank(context, x, r, !narrow);
    if (narrow) this.drawAllNarrow(context, x);
    if (this.show.messages) this.drawMessages(context, x);
    if (this.show.path) this.drawPath(context, x);
    if (this.focus) this.drawFocus(context, x);
    context.restore();
    this.drawAxis(context, x, width);
    drawOverview(this.overview, this.plan, this.until, 34, {
      left: kLeft, right: kRight, window_s: this.window_s,
    });
    const [from, to] = this.window_s;
    Object.assign(this.canvas.dataset, { from, to, rank: this.rank, ms: performance.now() - began });
  }

  drawRows(context, width) {
    context.textBaseline = 'middle';
    for (let r = 0; r < this.ranks.length; ++r) {
      const y = kAxis + r * this.rowHeight;
      if (r === this.rank) {
        context.fillStyle = colour('line');
        context.fillRect(0, y, width, this.rowHeight);
      }
      context.fillStyle = r === this.rank ? colour('ink') : colour('muted');
      context.textAlign = 'left';
      const { stages } = this.ranks[r];
      const text = stages.length === 1 ? `rank ${r} · s${stages[0]}` : `rank ${r} · ${stages.length} stages`;
      const lane = this.measured ? this.rowHeight / 2 : this.rowHeight;
      context.fillText(text, 6, y + lane / 2 + 0.5, kLeft - 10);
      if (this.measured) context.fillText('measured', 6, y + lane * 1.5, kLeft - 10);
    }
  }

  drawGrid(context, x) {
    context.fillStyle = colour('line');
    for (const t of x.ticks(8)) context.fillRect(Math.round(x(t)), kAxis, 1, this.height);
  }

  // Of a row's boxes.
  get boxHeight() {
    return (this.measured ? this.rowHeight / 2 : this.rowHeight) - 2;
  }

  visibleTasks(x) {
    const [from, to] = x.domain();
    const count = ({ tasks }) => upperBound(tasks.start, to) - upperBound(tasks.start, from);
    return [...this.ranks, ...(this.measured ?? [])].reduce((sum, row) => sum + count(row), 0);
  }

  drawAllNarrow(context, x) {
    const top = (r) => kAxis + r * this.rowHeight + 1;
    const rows = this.ranks.map(({ tasks }) => tasks);
    const tops = this.ranks.map((_, r) => top(r));
    for (const [r, { tasks }] of (this.measured ?? []).entries()) {
      rows.push(tasks);
      tops.push(top(r) + this.rowHeight / 2 - 0.5);
    }
    drawNarrow(context, rows, x.domain(), kLeft, this.width - kLeft - kRight, tops, this.boxHeight);
  }

  drawRank(context, x, r, boxes) {
    const top = kAxis + r * this.rowHeight + 1;
    const high = this.boxHeight;
    const rank = this.ranks[r];
    if (this.show.idle) this.drawSpans(context, x, rank.idle, top, high, (i) => colour(kReasons[rank.idle.reason[i]]));
    if (boxes) this.drawTasks(context, x, rank.tasks, top, high);
    if (!this.measured) return;
    const below = top + this.rowHeight / 2 - 0.5;
    const { waits, tasks } = this.measured[r];
    if (this.show.idle) this.drawSpans(context, x, waits, below, high, () => colour('idle-producer'));
    if (boxes) this.drawTasks(context, x, tasks, below, high);
  }

  // Low bars: what a rank waits for.
  drawSpans(context, x, spans, top, high, fill) {
    const [from, to] = x.domain();
    const low = Math.max(2, Math.round(high * 0.28));
    const scale = (x.range()[1] - x.range()[0]) / (to - from);
    const offset = x.range()[0] - from * scale;
    let last = '';
    for (let i = Math.max(0, upperBound(spans.start, from) - 1); i < spans.n && spans.start[i] < to; ++i) {
      const wide = (spans.end[i] - spans.start[i]) * scale;
      if (wide < 1) continue;
      const style = fill(i);
      if (style !== last) context.fillStyle = last = style;
      context.fillRect(offset + spans.start[i] * scale, top + high - low, wide, low);
    }
  }

  // Colour by colour. Of boxes narrower than a pixel, one a pixel is drawn.
  drawTasks(context, x, tasks, top, high) {
    const { n, start, end, kind } = tasks;
    const [from, to] = x.domain();
    const first = Math.max(0, upperBound(start, from) - 1);
    const last = Math.min(n, upperBound(start, to));
    const scale = (x.range()[1] - x.range()[0]) / (to - from);
    const offset = x.range()[0] - from * scale;
    for (const letter of tasks.kinds) {
      let pixel = -1;
      let any = false;
      for (let i = first; i < last; ++i) {
        if (kind.charCodeAt(i) !== letter) continue;
        const a = offset + start[i] * scale;
        const wide = (end[i] - start[i]) * scale;
        if (wide < 1) {
          if (Math.floor(a) === pixel) continue;
          pixel = Math.floor(a);
        }
        if (!any) context.fillStyle = taskColour(String.fromCharCode(letter));
        any = true;
        context.fillRect(a, top, wide > 4 ? wide - 1 : Math.max(wide, 0.7), high);
      }
    }
    if (high >= 10) this.drawLabels(context, tasks, first, last, offset, scale, top + high / 2 + 0.5);
  }

  drawLabels(context, { start, end, kind, microBatch }, first, last, offset, scale, y) {
    context.textAlign = 'center';
    context.textBaseline = 'middle';
    for (let i = first; i < last; ++i) {
      const wide = (end[i] - start[i]) * scale;
      if (wide < kNarrowest) continue;
      const text = `${kind[i]}${microBatch[i]}`;
      if (wide < 7 * text.length + kNarrow) continue;
      context.fillStyle = kind[i] === 'F' ? colour('on-forward') : colour('on-backward');
      context.fillText(text, offset + start[i] * scale + wide / 2, y);
    }
  }

  rowMiddle(rank) {
    return kAxis + (rank + (this.measured ? 0.25 : 0.5)) * this.rowHeight;
  }

  line(context, x, m, i) {
    context.moveTo(x(m.start[i]), this.rowMiddle(m.from[i]));
    context.lineTo(x(m.end[i]), this.rowMiddle(m.to[i]));
  }

  drawMessages(context, x) {
    const m = this.plan.timeline.messages;
    const [from, to] = x.domain();
    let lines = 0;
    context.beginPath();
    for (let i = 0; i < m.n && m.start[i] < to && lines < kMostLines; ++i) {
      if (m.end[i] < from) continue;
      this.line(context, x, m, i);
      ++lines;
    }
    context.strokeStyle = colour('muted');
    context.globalAlpha = 0.55;
    context.lineWidth = 1;
    context.stroke();
    context.globalAlpha = 1;
  }

  // An underline where the path computes, a line where it crosses from rank to rank.
  drawPath(context, x) {
    const { path } = this.plan.timeline;
    const [from, to] = x.domain();
    const bottom = (rank) => kAxis + rank * this.rowHeight + (this.measured ? this.rowHeight / 2 : this.rowHeight) - 2;
    context.beginPath();
    let before = -1;
    for (let i = Math.max(0, upperBound(path.start, from) - 2); i < path.n && path.start[i] < to; ++i) {
      const y = bottom(path.rank[i]);
      if (before < 0) context.moveTo(x(path.start[i]), y);
      else context.lineTo(x(path.start[i]), y);
      context.lineTo(x(path.end[i]), path.to[i] >= 0 && path.kind[i] === 1 ? bottom(path.to[i]) : y);
      before = i;
    }
    context.lineJoin = 'round';
    context.strokeStyle = colour('panel');
    context.lineWidth = 4.5;
    context.stroke();
    context.strokeStyle = colour('path');
    context.lineWidth = 2.5;
    context.stroke();
  }

  drawFocus(context, x) {
    const { rank, row, task, idle } = this.focus;
    const source = this.rowOf(this.focus);
    const spans = task !== undefined ? source.tasks : row === 1 ? source.waits : source.idle;
    const i = task ?? idle;
    const high = this.measured ? this.rowHeight / 2 : this.rowHeight;
    const top = kAxis + rank * this.rowHeight + row * high;
    context.strokeStyle = colour('ink');
    context.lineWidth = 2;
    context.strokeRect(x(spans.start[i]), top, Math.max(2, x(spans.end[i]) - x(spans.start[i])), high - 1);
    if (row === 1 || task === undefined) return;
    const { m, incoming, outgoing } = this.messagesOf(this.focus);
    context.beginPath();
    for (const message of [...incoming, ...outgoing]) this.line(context, x, m, message);
    context.stroke();
  }

  drawAxis(context, x, width) {
    context.fillStyle = colour('panel');
    context.fillRect(kLeft, 0, width - kLeft, kAxis);
    context.fillStyle = colour('muted');
    context.textBaseline = 'middle';
    context.textAlign = 'center';
    const [from, to] = x.domain();
    const ticks = x.ticks(8);
    const unit = to >= 1 ? [1, 's'] : to >= 1e-3 ? [1e-3, 'ms'] : [1e-6, 'us'];
    const digits = Math.max(0, Math.min(6, -Math.floor(Math.log10((ticks[1] - ticks[0]) / unit[0] || 1))));
    for (const t of ticks) {
      const at = x(t);
      if (at < kLeft + 8 || at > width - kRight - 24) continue;
      context.fillText(`${(t / unit[0]).toFixed(digits)}`, at, kAxis / 2);
    }
    context.textAlign = 'left';
    context.fillText(`time, ${unit[1]}`, 6, kAxis / 2);
    context.textAlign = 'right';
    const span = to - from;
    if (span < this.until * 0.999) context.fillText(`${secondsText(span)} shown`, width - kRight, kAxis / 2);
  }

  summary() {
    const tasks = this.ranks.reduce((sum, rank) => sum + rank.tasks.n, 0);
    return `${countText(tasks)} tasks on ${this.ranks.length} ranks`;
  }
}
