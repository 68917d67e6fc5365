// The tables: plans beside one another, where each rank's time goes, predicted and measured.

import { byId, make } from './element.js';
import { bytesText, percentText, rateText, secondsText } from './format.js';
import { drawOverview } from './overview.js';
import { kReasons } from './theme.js';

function iterationCell(plan, slowest) {
  const bar = make('div', { class: 'bar', style: `width:${(100 * plan.iteration_s) / slowest}%` });
  const cell = make('div', { class: 'bar-track' }, bar);
  if (plan.lower_bound_s) {
    cell.append(make('div', {
      class: 'bound', title: `lower bound: ${secondsText(plan.lower_bound_s)}`,
      style: `left:${(100 * plan.lower_bound_s) / slowest}%`,
    }));
  }
  return cell;
}

// `choose(i)`: another plan is to be shown.
export function fillPlans(data, chosen, choose) {
  const { plans } = data;
  const slowest = Math.max(...plans.map((p) => p.iteration_s));
  const rows = plans.map((plan, i) => {
    const radio = make('input', {
      type: 'radio', name: 'plan', id: `plan-${i}`, checked: i === chosen, onchange: () => choose(i),
    });
    const cells = [
      secondsText(plan.iteration_s),
      rateText(plan.throughput_samples_per_s),
      data.comparable ? `${(slowest / plan.iteration_s).toFixed(2)}x` : '-',
      percentText(plan.bubble_fraction),
      plan.lower_bound_s ? percentText(plan.iteration_s / plan.lower_bound_s - 1) : '-',
      `${plan.depth}`,
      plan.micro_batch,
      `${plan.devices_used}/${plan.devices}`,
      bytesText(plan.peak_bytes),
    ];
    const strip = make('canvas', { class: 'strip', 'aria-hidden': 'true' });
    return make('tr', { class: i === chosen ? 'chosen' : '', onclick: () => radio.click() },
      make('th', { scope: 'row' }, make('label', { for: `plan-${i}` }, radio, ` ${plan.name}`),
        data.comparable ? null : make('div', { class: 'muted' }, `${plan.model}, ${plan.cluster}`)),
      make('td', { class: 'wide' }, iterationCell(plan, slowest)),
      ...cells.map((c) => make('td', { class: 'number' }, c)),
      make('td', { class: 'wide' }, strip));
  });
  byId('plans-body').replaceChildren(...rows);
}

export function drawStrips(plans) {
  const slowest = Math.max(...plans.map((p) => p.iteration_s));
  document.querySelectorAll('canvas.strip').forEach((canvas, i) => {
    if (plans[i].timeline) drawOverview(canvas, plans[i], slowest, 26);
  });
}

function taskSeconds(tasks) {
  const total = {};
  for (let i = 0; i < tasks.n; ++i) {
    total[tasks.kind[i]] = (total[tasks.kind[i]] ?? 0) + tasks.end[i] - tasks.start[i];
  }
  return total;
}

const kKinds = [
  ['F', 'forward', 'forwards'],
  ['B', 'backward', 'backwards'],
  ['I', 'backward', 'backwards, of inputs'],
  ['W', 'weight', 'backwards, of weights'],
  ['R', 'recompute', 'recomputes'],
];

// A bar a rank: computing by kind, then idle by reason.
export function fillRanks(plan, reasons, selectRank) {
  const rows = plan.timeline.ranks.map((rank, r) => {
    const seconds = taskSeconds(rank.tasks);
    const parts = kKinds.filter(([k]) => seconds[k] > 0).map(([k, c, name]) => [name, c, seconds[k]]);
    reasons.forEach((reason, i) => {
      const s = rank.waits.filter((w) => w.reason === i).reduce((sum, w) => sum + w.s, 0);
      if (s > 0) parts.push([reason, kReasons[i], s]);
    });
    const bar = make('div', { class: 'stack' }, ...parts.map(([name, c, s]) => make('div', {
      style: `width:${(100 * s) / plan.iteration_s}%;background:var(--${c})`,
      title: `rank ${r} ${name}: ${secondsText(s)} (${percentText(s / plan.iteration_s)})`,
    })));
    const text = parts.map(([name, , s]) => `${name} ${percentText(s / plan.iteration_s)}`).join(', ');
    return make('button', { class: 'rank-row', 'aria-label': `rank ${r}: ${text}`, onclick: () => selectRank(r) },
      make('span', { class: 'name' }, `rank ${r}`), bar,
      make('span', { class: 'number' }, percentText(1 - rank.busy_s / plan.iteration_s)));
  });
  byId('ranks').replaceChildren(...rows);
}

// In words, whom the selected rank waits for.
export function fillWaits(plan, reasons, r) {
  const rank = plan.timeline.ranks[r];
  const idle = rank.waits.reduce((sum, w) => sum + w.s, 0);
  const items = [...rank.waits].sort((a, b) => b.s - a.s).slice(0, 8).map((w) => {
    const whom = w.stage >= 0 ? `, stage ${w.stage}` : '';
    return make('li', {},
      make('span', { class: 'swatch', style: `background:var(--${kReasons[w.reason]})` }),
      ` ${secondsText(w.s)} ${reasons[w.reason]}${whom}`);
  });
  byId('waits').replaceChildren(
    make('h3', {}, `Rank ${r} idles ${secondsText(idle)}, ${percentText(idle / plan.iteration_s)} of the iteration`),
    make('ul', {}, ...items));
}

export function fillPath(plan) {
  const { total_s } = plan.timeline.path;
  const names = { tasks: 'tasks', messages: 'messages on their way', reductions: 'sums of gradients', waits: 'links or cores in use' };
  const parts = Object.entries(names).filter(([k]) => total_s[k] > 0)
    .map(([k, name]) => `${percentText(total_s[k] / plan.iteration_s)} ${name}`);
  byId('path-text').textContent =
    `The critical path, ${secondsText(plan.iteration_s)}: ${parts.join(', ')}. The iteration is shorter only where this path is.`;
}

export function fillMeasured(plan) {
  const section = byId('measured');
  section.hidden = !plan.measured;
  if (!plan.measured) return;
  const { iteration_s, stage_s, source, ranks } = plan.measured;
  const memory = ranks.some((rank) => rank.memory.time.length > 0);
  byId('measured-text').textContent =
    `Iteration: predicted ${secondsText(plan.iteration_s)}, measured ${secondsText(iteration_s)} ` +
    `(${(iteration_s / plan.iteration_s).toFixed(2)} times that), by ${source}. ` +
    'In the timeline the measured run stands below the predicted one on each rank' +
    (memory ? '; its memory line is dashed.' : '.');
  const rows = stage_s.map((measured, s) => {
    const predicted = plan.stage_s[s];
    const ratio = measured / predicted;
    const share = Math.max(-1, Math.min(1, Math.log2(ratio) / 2));
    const bar = make('div', { class: 'diverging' }, make('div', {
      class: ratio > 1 ? 'over' : 'under',
      style: ratio > 1 ? `left:50%;width:${50 * share}%` : `right:50%;width:${-50 * share}%`,
    }));
    return make('tr', {}, make('th', { scope: 'row' }, `stage ${s}`),
      make('td', { class: 'number' }, secondsText(predicted)),
      make('td', { class: 'number' }, secondsText(measured)),
      make('td', { class: 'number' }, `${ratio.toFixed(2)}x`), make('td', { class: 'wide' }, bar));
  });
  byId('measured-body').replaceChildren(...rows);
}
