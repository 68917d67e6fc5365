// The stage graph, over the model's branches: operators of a stage in a branch are a box, and
// boxes stand where the model's tensors put them, whatever the planner: two plans of a model
// differ in what the boxes hold. Order edges, which carry nothing, are dashed arcs on top.

import dagre from '@dagrejs/dagre';
import { select } from 'd3-selection';
import { curveBumpX, line } from 'd3-shape';
import { zoom, zoomIdentity } from 'd3-zoom';

import { showTip } from './element.js';
import { bytesText, percentText, rangesText, secondsText } from './format.js';

const kWidth = 148;
const kHeight = 62;
const kName = 10; // of a stage of several boxes

function layout(plan) {
  const graph = new dagre.graphlib.Graph({ compound: true });
  graph.setGraph({ rankdir: 'LR', nodesep: 12, ranksep: 46, marginx: 14, marginy: 22 });
  graph.setDefaultEdgeLabel(() => ({}));
  const { pieces, edges } = plan.graph;
  const many = new Map();
  for (const piece of pieces) many.set(piece.stage, (many.get(piece.stage) ?? 0) + 1);
  pieces.forEach((piece, i) => {
    graph.setNode(`p${i}`, { width: kWidth, height: kHeight });
    if (many.get(piece.stage) === 1) return;
    graph.setNode(`s${piece.stage}`, {});
    graph.setParent(`p${i}`, `s${piece.stage}`);
  });
  for (const edge of edges) graph.setEdge(`p${edge.from}`, `p${edge.to}`);
  dagre.layout(graph);
  return { graph, stages: [...many].filter(([, n]) => n > 1).map(([stage]) => stage) };
}

// From the right of one box to the left of the other, by way of what dagre keeps free between where
// columns lie between.
function edgePoints(graph, e) {
  const [from, to] = [graph.node(e.v), graph.node(e.w)];
  const [begin, end] = [from.x + kWidth / 2, to.x - kWidth / 2];
  const between = graph.edge(e).points.slice(1, -1).filter(({ x }) => x > begin && x < end);
  return [{ x: begin, y: from.y }, ...(between.length > 1 ? between : []), { x: end, y: to.y }];
}

function busyShare(plan, stage) {
  if (!plan.timeline) return 0;
  const { ranks } = plan.stages[stage];
  const busy = ranks.reduce((sum, r) => sum + plan.timeline.ranks[r].busy_s, 0);
  return busy / (ranks.length * plan.iteration_s);
}

// How much of the critical path computes on each stage.
function pathShares(plan) {
  const shares = plan.stages.map(() => 0);
  if (!plan.timeline) return shares;
  const { path } = plan.timeline;
  for (let i = 0; i < path.n; ++i) {
    if (path.kind[i] !== 0) continue;
    shares[parseInt(path.what[i], 10)] += (path.end[i] - path.start[i]) / plan.iteration_s;
  }
  return shares;
}

function stageLines(plan, s, shares) {
  const stage = plan.stages[s];
  return [
    `stage ${s}: ${stage.operators} operators`,
    `${stage.first} .. ${stage.last}`,
    `rank ${rangesText(stage.ranks)}${stage.ranks.length > 1 ? `, ${stage.replication}` : ''}`,
    `micro-batch ${stage.micro_batch}, at most ${stage.in_flight} samples in flight`,
    ...(stage.memory_bytes ? [`at most ${bytesText(stage.memory_bytes)} a device`] : []),
    ...(stage.recompute ? ['runs its forwards again before backwards'] : []),
    `computes ${percentText(busyShare(plan, s))} of the time`,
    ...(shares[s] > 0 ? [`${percentText(shares[s])} of the critical path`] : []),
  ];
}

export function drawStageGraph(svgNode, plan, { selectRank }) {
  const svg = select(svgNode);
  svg.selectAll('*').remove();
  const { graph, stages } = layout(plan);
  const { width, height } = graph.graph();
  const shares = pathShares(plan);
  const defs = svg.append('defs');
  for (const name of ['data', 'order']) {
    defs.append('marker').attr('id', `arrow-${name}`).attr('viewBox', '0 0 8 8').attr('refX', 7)
      .attr('refY', 4).attr('markerWidth', 7).attr('markerHeight', 7).attr('orient', 'auto')
      .append('path').attr('d', 'M0,0 L8,4 L0,8 z').attr('class', `arrow ${name}`);
  }
  const world = svg.append('g');
  const curve = line((d) => d.x, (d) => d.y).curve(curveBumpX);

  for (const s of stages) {
    const box = graph.node(`s${s}`);
    const top = box.y - box.height / 2 - kName; // above the highest box
    world.append('rect').attr('class', 'stage-group').attr('rx', 10)
      .attr('x', box.x - box.width / 2).attr('y', top)
      .attr('width', box.width).attr('height', box.height + kName);
    world.append('text').attr('class', 'stage-name').attr('x', box.x - box.width / 2 + 8)
      .attr('y', top + 13).text(`stage ${s}`);
  }
  for (const e of graph.edges()) {
    const edge = plan.graph.edges.find((x) => `p${x.from}` === e.v && `p${x.to}` === e.w);
    const within = plan.graph.pieces[edge.from].stage === plan.graph.pieces[edge.to].stage;
    world.append('path').attr('class', within ? 'edge within' : 'edge data')
      .attr('marker-end', 'url(#arrow-data)').attr('d', curve(edgePoints(graph, e)))
      .append('title').text(`${bytesText(edge.bytes_per_sample)} a sample`);
  }
  drawOrder(world, plan, graph);
  drawPieces(world, plan, graph, shares, selectRank);

  const behaviour = zoom().scaleExtent([0.05, 4])
    .filter((e) => (e.type === 'wheel' ? e.ctrlKey || e.metaKey || e.shiftKey : !e.button))
    .on('zoom', (e) => world.attr('transform', e.transform));
  svg.call(behaviour).on('dblclick.zoom', null);
  const room = svgNode.clientWidth || 1000;
  const scale = Math.min(1, room / width, 620 / height);
  svg.attr('height', Math.max(150, Math.ceil(height * scale)));
  const fit = zoomIdentity.translate(Math.max(0, (room - width * scale) / 2), 0).scale(scale);
  svg.call(behaviour.transform, fit);
  return {
    zoomBy: (factor) => svg.call(behaviour.scaleBy, factor),
    fit: () => svg.call(behaviour.transform, fit),
  };
}

function drawOrder(world, plan, graph) {
  const last = new Map();
  const first = new Map();
  plan.graph.pieces.forEach((piece, i) => {
    if (!first.has(piece.stage)) first.set(piece.stage, graph.node(`p${i}`));
    last.set(piece.stage, graph.node(`p${i}`));
  });
  for (const edge of plan.edges) {
    if (edge.kind !== 'order') continue;
    const a = last.get(edge.from);
    const b = first.get(edge.to);
    const bend = Math.max(40, Math.abs(b.y - a.y) / 2);
    world.append('path').attr('class', 'edge order').attr('marker-end', 'url(#arrow-order)')
      .attr('d', `M${a.x},${a.y + kHeight / 2} C${a.x},${a.y + kHeight / 2 + bend} ${b.x},${b.y - kHeight / 2 - bend} ${b.x},${b.y - kHeight / 2}`)
      .append('title').text(`stage ${edge.from} before stage ${edge.to}: order only`);
  }
}

function drawPieces(world, plan, graph, shares, selectRank) {
  plan.graph.pieces.forEach((piece, i) => {
    const { x, y } = graph.node(`p${i}`);
    const s = piece.stage;
    const stage = plan.stages[s];
    const busy = busyShare(plan, s);
    const lines = stageLines(plan, s, shares);
    const select_ = () => selectRank(stage.ranks[0]);
    const g = world.append('g').attr('class', shares[s] > 0.02 ? 'piece critical' : 'piece')
      .attr('transform', `translate(${x - kWidth / 2},${y - kHeight / 2})`)
      .attr('tabindex', 0).attr('role', 'button').attr('aria-label', lines.join('. '))
      .on('click', select_)
      .on('keydown', (e) => (e.key === 'Enter' || e.key === ' ') && (e.preventDefault(), select_()))
      .on('mousemove', (e) => showTip(lines, e.clientX, e.clientY))
      .on('mouseleave blur', () => showTip(null))
      .on('focus', (e) => {
        if (!e.target.matches(':focus-visible')) return;
        const box = e.target.getBoundingClientRect();
        showTip(lines, box.left, box.bottom - 16);
      });
    g.append('rect').attr('class', 'box').attr('width', kWidth).attr('height', kHeight).attr('rx', 6);
    g.append('text').attr('class', 'title').attr('x', 8).attr('y', 16)
      .text(`stage ${s} · rank ${rangesText(stage.ranks)}`.slice(0, 24));
    g.append('text').attr('class', 'sub').attr('x', 8).attr('y', 31)
      .text(`${piece.branch || piece.first}`.slice(-24));
    g.append('text').attr('class', 'sub').attr('x', 8).attr('y', 45)
      .text(`${piece.operators} ops · b ${stage.micro_batch} · ${secondsText(busy * plan.iteration_s)}`);
    g.append('rect').attr('class', 'track').attr('x', 8).attr('y', 52).attr('width', kWidth - 16).attr('height', 4).attr('rx', 2);
    g.append('rect').attr('class', 'busy').attr('x', 8).attr('y', 52).attr('width', (kWidth - 16) * Math.min(1, busy)).attr('height', 4).attr('rx', 2);
  });
}
