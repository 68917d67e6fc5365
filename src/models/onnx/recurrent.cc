// RNN, GRU and LSTM. The plain LSTM (from a state of zeros, every step's state asked for)
// and the GRU whose reset gate stands behind its product are operators of ours; others are
// written out, step by step.

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "models/onnx/families.h"

namespace graphpipe::onnx_import {
namespace {

constexpr std::int64_t kMostSteps = 256;  // that are written out

enum class Cell { kRnn, kGru, kLstm };

struct Node {
  Cell cell = Cell::kRnn;
  std::int64_t gates = 1, directions = 1, hidden = 0, steps = 0, in = 0;
  bool samples_first = false;            // layout 1
  bool reset_behind = false;             // GRU's linear_before_reset
  std::vector<std::string> activations;  // of each direction, one after another
  double clip = 0;
};

bool is_zero(const Value& value) {
  const auto items = items_of(value);
  return items && std::ranges::all_of(items->items, [](const Item& i) { return i.number == 0; });
}

Node describe(Importer& m) {
  Node n;
  const std::string& type = m.node().type;
  n.cell = type == "LSTM" ? Cell::kLstm : type == "GRU" ? Cell::kGru : Cell::kRnn;
  n.gates = n.cell == Cell::kLstm ? 4 : n.cell == Cell::kGru ? 3 : 1;
  const std::string direction = m.text("direction", "forward");
  n.directions = direction == "bidirectional" ? 2 : 1;
  n.samples_first = m.integer("layout", 0) != 0;
  n.reset_behind = m.integer("linear_before_reset", 0) != 0;
  n.clip = m.number("clip", 0);
  const Value& x = m.in(0);
  const std::size_t samples = n.samples_first ? 0 : 1;
  if (x.dims.size() != 3 || x.dims[samples] != Dim{1, true}) {
    m.fail(fmt::format("input has shape {}, expected the samples on axis {} of 3",
                       dims_text(x.dims), samples));
  }
  n.steps = x.dims[1 - samples].size;
  n.in = x.dims[2].size;
  const Shape r = m.constant(2).shape();
  if (r.size() != 3 || r[0] != n.directions || r[1] != n.gates * r[2]) {
    m.fail("its recurrence weight has not the shape of its direction and gates");
  }
  n.hidden = r[2];
  if (m.constant(1).shape() != Shape{n.directions, n.gates * n.hidden, n.in}) {
    m.fail("its weight has not the shape of its input and gates");
  }
  if (const OnnxAttribute* given = m.attribute("activations")) {
    if (!std::holds_alternative<std::monostate>(*given)) m.fail("its activations are no names");
    m.fail("activations other than the default are not supported");
  }
  if (m.has_input(4) && m.in(4).is_constant()) {
    const auto lengths = items_of(m.in(4));
    if (!lengths || std::ranges::any_of(lengths->items, [&](const Item& i) {
          return i.number != static_cast<double>(n.steps);
        })) {
      m.fail("sequences of different lengths are not supported");
    }
  } else if (m.has_input(4)) {
    m.constant(4);
  }
  return n;
}

// ONNX's gates in PyTorch's order: LSTM i o f c -> i f c o; GRU z r h -> r z h.
std::vector<std::int64_t> gate_order(Cell cell) {
  if (cell == Cell::kLstm) return {0, 2, 3, 1};
  if (cell == Cell::kGru) return {1, 0, 2};
  return {0};
}

// A direction's part of a weight (directions, gates * rows, columns...), its gates in our order.
Value part_of(Importer& m, const Value& weight, std::int64_t direction, std::int64_t from,
              std::int64_t gates, std::int64_t rows, const std::vector<std::int64_t>& order,
              const std::string& suffix) {
  const Shape shape = weight.shape();
  std::int64_t columns = 1;
  for (std::size_t d = 2; d < shape.size(); ++d) columns *= shape[d];
  const auto element = static_cast<std::size_t>(dtype_bytes(weight.dtype));
  const auto held = bytes_of(weight);
  const std::string& bytes = *held;
  const auto block = static_cast<std::size_t>(rows * columns) * element;
  const std::size_t start = static_cast<std::size_t>(direction * shape[1] * columns) * element +
                            static_cast<std::size_t>(from * rows * columns) * element;
  std::string out;
  for (const std::int64_t gate : order) {
    out += bytes.substr(start + static_cast<std::size_t>(gate) * block, block);
  }
  Value part;
  part.dtype = weight.dtype;
  Shape own = {gates * rows};
  if (shape.size() > 2) own.push_back(columns);
  part.dims = plain_dims(own);
  part.bytes = std::make_shared<const std::string>(std::move(out));
  if (!weight.weight.empty()) part.weight = weight.weight + suffix;
  (void)m;
  return part;
}

// w_ih, w_hh, b_ih, b_hh of a direction.
std::vector<ParamId> weights_of(Importer& m, const Node& n, std::int64_t direction) {
  const std::string suffix = n.directions == 1 ? "" : direction == 0 ? ".forward" : ".backward";
  const std::vector<std::int64_t> order = gate_order(n.cell);
  std::vector<Value> parts = {
      part_of(m, m.constant(1), direction, 0, n.gates, n.hidden, order, suffix),
      part_of(m, m.constant(2), direction, 0, n.gates, n.hidden, order, suffix)};
  const Shape biases = {n.gates * n.hidden};
  for (const std::int64_t half : {0, 1}) {
    if (m.has_input(3)) {
      if (m.constant(3).shape() != Shape{n.directions, 2 * n.gates * n.hidden}) {
        m.fail("its bias has not the shape of its gates");
      }
      parts.push_back(part_of(m, m.constant(3), direction, half * n.gates, n.gates, n.hidden, order,
                              fmt::format("{}.{}", suffix, half == 0 ? "input" : "state")));
    } else {
      parts.push_back(constant_value(m.in(1).dtype, biases,
                                     std::vector<double>(static_cast<std::size_t>(biases[0]), 0)));
    }
  }
  std::vector<ParamId> params;
  for (const Value& part : parts) params.push_back(m.param(part, part.shape(), true));
  return params;
}

// What runs of a direction: the states of all steps (T, H), the last state and cell (H).
struct Run {
  TensorId all, last, cell;
};

TensorId clipped(Importer& m, const Node& n, TensorId x) {
  return n.clip > 0 ? m.unary("clip", x, -n.clip, n.clip) : x;
}

TensorId activated(Importer& m, OpKind kind, TensorId x) { return m.op(kind, {x}, {}, {}); }

struct State {
  TensorId h, c;
};

State lstm_step(Importer& m, const Node& n, TensorId gates, const State& s,
                const std::vector<Value>& peepholes) {
  const auto gate = [&](std::int64_t i) { return m.slice(gates, 0, i * n.hidden, n.hidden); };
  TensorId i = gate(0), f = gate(1), g = gate(2), o = gate(3);
  const auto peep = [&](TensorId x, TensorId cell, std::size_t which) {
    if (peepholes.empty()) return x;
    return m.binary("add", x, m.with_constant("mul", cell, peepholes[which]));
  };
  i = activated(m, OpKind::kSigmoid, clipped(m, n, peep(i, s.c, 0)));
  f = activated(m, OpKind::kSigmoid, clipped(m, n, peep(f, s.c, 2)));
  g = activated(m, OpKind::kTanh, clipped(m, n, g));
  const TensorId c = m.binary("add", m.binary("mul", f, s.c), m.binary("mul", i, g));
  o = activated(m, OpKind::kSigmoid, clipped(m, n, peep(o, c, 1)));
  return {m.binary("mul", o, activated(m, OpKind::kTanh, c)), c};
}

// x, h: the products of input and state with their weights, biases included.
TensorId gru_step(Importer& m, const Node& n, TensorId x, TensorId state,
                  const std::vector<ParamId>& params) {
  const auto gate = [&](TensorId of, std::int64_t i) {
    return m.slice(of, 0, i * n.hidden, n.hidden);
  };
  const TensorId h = m.op(OpKind::kLinear, {state}, {params[1], params[3]}, {});
  const auto both = [&](std::int64_t i) {
    return activated(m, OpKind::kSigmoid, clipped(m, n, m.binary("add", gate(x, i), gate(h, i))));
  };
  const TensorId r = both(0);
  const TensorId z = both(1);
  TensorId candidate;
  if (n.reset_behind) {
    candidate = m.binary("add", gate(x, 2), m.binary("mul", r, gate(h, 2)));
  } else {  // the reset stands before the product
    const TensorId reset =
        m.op(OpKind::kLinear, {m.binary("mul", r, state)}, {params[1], params[3]}, {});
    candidate = m.binary("add", gate(x, 2), gate(reset, 2));
  }
  candidate = activated(m, OpKind::kTanh, clipped(m, n, candidate));
  const TensorId kept = m.binary("mul", z, state);
  return m.binary("add", m.binary("mul", m.with_number("sub", z, 1, true), candidate), kept);
}

// An initial state (H) of a direction.
TensorId initial(Importer& m, const Node& n, std::size_t input, std::int64_t direction) {
  const Shape state = {n.hidden};
  if (!m.has_input(input)) {
    return m.materialize(constant_value(m.in(0).dtype, state,
                                        std::vector<double>(static_cast<std::size_t>(n.hidden), 0)),
                         false);
  }
  const Value& value = m.in(input);  // (directions, samples, H)
  const Shape shape = value.shape();
  if (value.dims.size() != 3 || shape != Shape{n.directions, n.hidden}) {
    m.fail(fmt::format("its initial state has shape {}, which is not one for each sample",
                       dims_text(value.dims)));
  }
  return m.reshape(m.slice(m.materialize(value), 0, direction, 1), state);
}

std::vector<Value> peepholes_of(Importer& m, const Node& n, std::int64_t direction) {
  std::vector<Value> values;
  if (!m.has_input(7) || n.cell != Cell::kLstm) return values;
  const Value& all = m.constant(7);  // (directions, 3 H): i, o, f
  if (all.shape() != Shape{n.directions, 3 * n.hidden}) m.fail("its peepholes have another shape");
  if (is_zero(all)) return values;
  for (const std::int64_t which : {0, 1, 2}) {
    values.push_back(part_of(m, all, direction, which, 1, n.hidden, {0},
                             fmt::format(".{}.{}", direction, which)));
  }
  return values;
}

Run written_out(Importer& m, const Node& n, TensorId x, std::int64_t direction, bool backwards) {
  if (n.steps > kMostSteps) {
    m.fail(fmt::format("has {} steps, and of this form at most {} are supported", n.steps,
                       kMostSteps));
  }
  const std::vector<ParamId> params = weights_of(m, n, direction);
  const std::vector<Value> peepholes = peepholes_of(m, n, direction);
  State s{initial(m, n, 5, direction), {}};
  if (n.cell == Cell::kLstm) s.c = initial(m, n, 6, direction);
  const TensorId products = m.op(OpKind::kLinear, {x}, {params[0], params[2]}, {});  // (T, gH)
  std::vector<TensorId> states(static_cast<std::size_t>(n.steps));
  for (std::int64_t i = 0; i < n.steps; ++i) {
    const std::int64_t t = backwards ? n.steps - 1 - i : i;
    const TensorId own = m.reshape(m.slice(products, 0, t, 1), {n.gates * n.hidden});
    if (n.cell == Cell::kGru) {
      s.h = gru_step(m, n, own, s.h, params);
    } else {
      const TensorId gates =
          m.binary("add", own, m.op(OpKind::kLinear, {s.h}, {params[1], params[3]}, {}));
      if (n.cell == Cell::kLstm) {
        s = lstm_step(m, n, gates, s, peepholes);
      } else {
        s.h = activated(m, OpKind::kTanh, clipped(m, n, gates));
      }
    }
    states[static_cast<std::size_t>(t)] = m.reshape(s.h, {1, n.hidden});
  }
  const TensorId all = n.steps == 1
                           ? states.front()
                           : m.op(OpKind::kConcat, states, {}, {{"axis", std::int64_t{0}}});
  return {all, s.h, s.c};
}

bool is_plain(Importer& m, const Node& n) {
  const auto from_zero = [&](std::size_t i) { return !m.has_input(i) || is_zero(m.in(i)); };
  const bool starts = from_zero(5) && (n.cell != Cell::kLstm || from_zero(6));
  if (n.cell == Cell::kRnn || n.clip > 0 || !starts) return false;
  if (n.cell == Cell::kGru) return n.reset_behind;
  return !m.wants_output(2) && peepholes_of(m, n, 0).empty();
}

Run run_direction(Importer& m, const Node& n, TensorId x, std::int64_t direction, bool backwards) {
  if (!is_plain(m, n)) return written_out(m, n, x, direction, backwards);
  Shape reversed;
  for (std::int64_t t = n.steps; t-- > 0;) reversed.push_back(t);
  const OpKind kind = n.cell == Cell::kLstm ? OpKind::kLstm : OpKind::kGru;
  const TensorId from = backwards ? m.pick(x, 0, reversed) : x;
  TensorId all = m.op(kind, {from}, weights_of(m, n, direction), {});
  TensorId last;
  if (m.wants_output(1)) last = m.reshape(m.slice(all, 0, n.steps - 1, 1), {n.hidden});
  if (backwards) all = m.pick(all, 0, reversed);
  return {all, last, {}};
}

// One part of each direction, side by side along a new axis.
TensorId beside(Importer& m, const std::vector<TensorId>& parts, std::int64_t axis,
                const Shape& shape) {
  std::vector<TensorId> shaped;
  for (const TensorId part : parts) shaped.push_back(m.reshape(part, shape));
  return shaped.size() == 1 ? shaped[0] : m.op(OpKind::kConcat, shaped, {}, {{"axis", axis}});
}

}  // namespace

void recurrent(Importer& m) {
  const Node n = describe(m);
  const TensorId x = m.materialize(m.in(0), false, true);  // (T, I), whatever the layout
  std::vector<Run> runs;
  for (std::int64_t d = 0; d < n.directions; ++d) {
    const bool backwards = d == 1 || m.text("direction", "forward") == "reverse";
    runs.push_back(run_direction(m, n, x, d, backwards));
  }
  const auto parts = [&](TensorId Run::*which) {
    std::vector<TensorId> tensors;
    for (const Run& run : runs) tensors.push_back(run.*which);
    return tensors;
  };
  const Dim samples{1, true};
  const Dim steps{n.steps}, directions{n.directions}, hidden{n.hidden};
  if (m.wants_output(0)) {  // (T, directions, N, H), or (N, T, directions, H)
    const TensorId all = beside(m, parts(&Run::all), 1, {n.steps, 1, n.hidden});
    m.out(0, m.value_of(all, n.samples_first ? Dims{samples, steps, directions, hidden}
                                             : Dims{steps, directions, samples, hidden}));
  }
  const Dims last =
      n.samples_first ? Dims{samples, directions, hidden} : Dims{directions, samples, hidden};
  if (m.wants_output(1)) {
    m.out(1, m.value_of(beside(m, parts(&Run::last), 0, {1, n.hidden}), last));
  }
  if (m.wants_output(2)) {
    m.out(2, m.value_of(beside(m, parts(&Run::cell), 0, {1, n.hidden}), last));
  }
}

}  // namespace graphpipe::onnx_import
