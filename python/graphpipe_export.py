"""From a PyTorch module to a graphpipe graph: NAME.graph.json, and the module's weights beside it.

Runs where PyTorch is (1.13 or later) and needs nothing else. In Python:

    import graphpipe_export
    graphpipe_export.export(module, {"user": users, "item": items}, "net.graph.json",
                            loss="mse", labels="rating")

The inputs are example batches, by the names of forward()'s arguments, of two samples at least; the
samples are dimension 0 of every input. Or from a shell, with a function that returns the module and
such a dictionary:

    python3 graphpipe_export.py my_model.py:make -o net.graph.json --loss mse --labels rating

Then `graphpipe plan net.graph.json ...` and `graphpipe train`, which starts from these weights.

The module is traced by torch.fx, so its forward() must not branch on the values of tensors. Every
call must have a counterpart among graphpipe's operators; those that have none are listed all at once.
Losses mean over the samples, as those of torch.nn.functional do; "own" takes the output, one number
a sample, as the loss. docs/pytorch.md lists what is supported.
"""
import argparse
import collections
import copy
import importlib.util
import json
import operator
import pathlib
import struct
import sys

import torch
import torch.fx
import torch.nn.functional as F
from torch import nn

DTYPES = {torch.float32: "float32", torch.float64: "float64", torch.int64: "int64",
          torch.bool: "bool"}
SAFE_DTYPES = {torch.float32: "F32", torch.float64: "F64", torch.int64: "I64", torch.bool: "BOOL"}
LOSSES = ("mse", "cross_entropy", "binary_cross_entropy", "own")


class ExportError(Exception):
    """What is wrong with the module or the arguments, in one sentence."""


class Unsupported(Exception):
    """A call that graphpipe has no operator for."""


# ---------------------------------------------------------------------------------------------
# What a traced module computes: every node's value at two batch sizes, from which it shows
# which tensors have the samples.

class Recorder(torch.fx.Interpreter):
    def __init__(self, traced):
        super().__init__(traced)
        self.values = {}

    def run_node(self, node):
        value = super().run_node(node)
        self.values[node] = value
        return value


def record(traced, inputs, samples):
    recorder = Recorder(copy.deepcopy(traced))
    by_name = {n.name: n for n in recorder.module.graph.nodes}
    with torch.no_grad():
        recorder.run(*[value[:samples] for value in inputs.values()])
    return {node: recorder.values[by_name[node.name]] for node in traced.graph.nodes
            if by_name[node.name] in recorder.values}


Type = collections.namedtuple("Type", "dtype shape batched")


def type_of(name, at_n, at_fewer, samples):
    """The graph's type of a tensor that was seen with `samples` samples and with one fewer."""
    if at_n.dtype not in DTYPES:
        raise ExportError(f"{name}: dtype {at_n.dtype} has no counterpart; use float32, float64, "
                          "int64 or bool")
    shape, fewer = list(at_n.shape), list(at_fewer.shape)
    if shape == fewer:
        return Type(at_n.dtype, shape, False)
    if shape and shape[0] == samples and fewer == [samples - 1] + shape[1:]:
        return Type(at_n.dtype, shape[1:], True)
    raise ExportError(f"{name}: its shape is {shape} for {samples} samples and {fewer} for "
                      f"{samples - 1}; the samples must be dimension 0, and nothing else may "
                      "depend on them")


# ---------------------------------------------------------------------------------------------
# The graph.

class Graph:
    def __init__(self, name):
        self.name = name
        self.tensors, self.params, self.ops, self.inputs = [], [], [], []
        self.losses, self.metrics = [], []
        self.types = {}    # by name of tensor
        self.weights = {}  # by name of parameter

    def tensor(self, name, dtype, shape, batched):
        if name in self.types:
            raise ExportError(f"two tensors are called {name}")
        self.types[name] = Type(dtype, list(shape), batched)
        entry = {"name": name, "dtype": DTYPES[dtype], "shape": list(shape)}
        if not batched:
            entry["batched"] = False
        self.tensors.append(entry)
        return name

    def input(self, name, dtype, shape, batched=True):
        self.inputs.append(self.tensor(name, dtype, shape, batched))
        return name

    def param(self, name, values, trainable):
        """Of one name the same parameter: tied weights."""
        if name not in self.weights:
            values = values.detach().cpu().contiguous()
            self.weights[name] = values
            entry = {"name": name, "dtype": DTYPES[values.dtype], "shape": list(values.shape),
                     "init": {"kind": "given"}}
            if not trainable:
                entry["trainable"] = False
            self.params.append(entry)
        return name

    def op(self, name, kind, inputs, dtype, of_shape, params=(), batched=None, **attributes):
        """An operator with one output, of its own name."""
        if batched is None:
            batched = any(self.types[x].batched for x in inputs)
        self.tensor(name, dtype, of_shape, batched)
        self.ops.append({"name": name, "kind": kind, "attributes": attributes,
                         "inputs": list(inputs), "params": list(params), "outputs": [name]})
        return name

    def to_json(self):
        return json.dumps({"format": "graphpipe-graph", "version": 1, "name": self.name,
                           "tensors": self.tensors, "params": self.params, "ops": self.ops,
                           "inputs": self.inputs, "losses": self.losses,
                           "metrics": self.metrics}, indent=1) + "\n"


def write_safetensors(path, weights):
    header, at = {}, 0
    for name, values in weights.items():
        size = values.numel() * values.element_size()
        header[name] = {"dtype": SAFE_DTYPES[values.dtype], "shape": list(values.shape),
                        "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)))
        file.write(text)
        for values in weights.values():
            file.write(values.numpy().tobytes())


# ---------------------------------------------------------------------------------------------
# From calls to operators.

def pair(value, dimensions=2):
    return [value] * dimensions if isinstance(value, int) else list(value)


class Writer:
    """Turns the nodes of a traced module into operators. Shapes are those that were seen."""

    def __init__(self, module, traced, inputs, samples, name):
        self.module, self.traced, self.samples = module, traced, samples
        self.graph = Graph(name)
        self.seen = record(traced, inputs, samples)
        self.fewer = record(traced, inputs, samples - 1)
        self.names = {}  # of tensors, by node; of the outputs of a node that has several, a list
        self.param_names = {id(p): n for n, p in
                            list(module.named_parameters()) + list(module.named_buffers())}
        self.used = set()

    # -- helpers

    def type(self, node):
        return type_of(node.name, self.seen[node], self.fewer[node], self.samples)

    def tensor(self, node):
        """The graph's name of a node's value. Parameters have none."""
        if not isinstance(node, torch.fx.Node) or not isinstance(self.names.get(node), str):
            raise Unsupported(f"an argument that is no tensor of the model ({node})")
        return self.names[node]

    def in_type(self, node):
        return self.graph.types[self.tensor(node)]

    def unique(self, name):
        candidate, n = name, 1
        while candidate in self.used or candidate in self.graph.types:
            n += 1
            candidate = f"{name}_{n}"
        self.used.add(candidate)
        return candidate

    def own_name(self, node):
        return self.unique(str(node.target) if node.op == "call_module" else node.name)

    def param(self, value):
        return self.graph.param(self.param_names[id(value)], value,
                                isinstance(value, nn.Parameter) and value.requires_grad)

    def constant(self, value, dtype):
        """A number as a parameter that is not trained."""
        name = f"constant.{value}.{DTYPES[dtype]}"
        return self.graph.param(name, torch.tensor(value, dtype=dtype), False)

    def same(self, node, kind, x, params=(), name=None, **attributes):
        """One input, an output of its type."""
        t = self.in_type(x)
        return self.graph.op(name or self.own_name(node), kind, [self.tensor(x)], t.dtype, t.shape,
                             params, **attributes)

    def typed(self, node, kind, inputs, params=(), **attributes):
        """An output of the type that was seen."""
        t = self.type(node)
        return self.graph.op(self.own_name(node), kind, [self.tensor(x) for x in inputs], t.dtype,
                             t.shape, params, t.batched, **attributes)

    def axis(self, node, dim):
        """A dimension of the batch as an axis of the sample."""
        t, rank = self.in_type(node), len(self.seen[node].shape)
        dim = dim + rank if dim < 0 else dim
        if t.batched and dim == 0:
            raise Unsupported("an operation across samples (dimension 0)")
        return dim - 1 if t.batched else dim

    def elementwise(self, node, function, operands, alpha=0.0, beta=0.0, name=None):
        """Operands are nodes, parameters and numbers."""
        inputs, params, order = [], [], []
        floating = [self.in_type(x).dtype for x in operands
                    if isinstance(x, torch.fx.Node) and isinstance(self.names.get(x), str)]
        for x in operands:
            if isinstance(x, (int, float)) and not isinstance(x, bool):
                params.append(self.constant(x, floating[0]))
                order.append(-len(params))
            elif isinstance(x, torch.fx.Node) and x.op == "get_attr":
                params.append(self.param(self.seen_attribute(x)))
                order.append(-len(params))
            else:
                inputs.append(self.tensor(x))
                order.append(len(inputs) - 1)
        if not inputs:
            raise Unsupported("a computation of parameters alone")
        if len({len(self.graph.types[x].shape) for x in inputs if self.graph.types[x].batched}) > 1:
            raise Unsupported("broadcasting of batches with unlike numbers of dimensions")
        t = self.type(node)
        attributes = {"function": function, "operands": order, "alpha": float(alpha),
                      "beta": float(beta)}
        # A parameter may have a dimension of one where the batch has the samples.
        extra = max([self.graph.weights[p].dim() for p in params], default=0) - len(t.shape)
        if extra <= 0:
            return self.graph.op(name or self.own_name(node), "elementwise", inputs, t.dtype,
                                 t.shape, params, t.batched, **attributes)
        inputs = [self.with_ones(node, x, extra) for x in inputs]
        shape = [1] * extra + t.shape
        wide = self.graph.op(self.unique(f"{node.name}.wide"), "elementwise", inputs, t.dtype,
                             shape, params, t.batched, **attributes)
        return self.graph.op(name or self.own_name(node), "reshape", [wide], t.dtype, t.shape,
                             shape=t.shape)

    def with_ones(self, node, x, count):
        t = self.graph.types[x]
        shape = [1] * count + t.shape
        return self.graph.op(self.unique(f"{node.name}.ones"), "reshape", [x], t.dtype, shape,
                             shape=shape)

    def seen_attribute(self, node):
        value = self.module
        for part in node.target.split("."):
            value = getattr(value, part)
        return value

    def alike(self, nodes):
        types = [self.in_type(x) for x in nodes
                 if isinstance(x, torch.fx.Node) and isinstance(self.names.get(x), str)]
        return len(types) == len(nodes) and all(t == types[0] for t in types)

    def binary(self, node, function, a, b):
        if function in ("add", "mul") and self.alike([a, b]):
            return self.typed(node, function, [a, b])
        return self.elementwise(node, function, [a, b])

    def reshape(self, node, x):
        t = self.type(node)
        if t.batched != self.in_type(x).batched:
            raise Unsupported("a view that mixes samples with other dimensions")
        return self.typed(node, "reshape", [x], shape=t.shape)

    def reduce(self, node, function, x, dim, keep):
        if dim is None:
            raise Unsupported("a reduction over all dimensions, the samples among them")
        axes = sorted(self.axis(x, d) for d in ([dim] if isinstance(dim, int) else dim))
        return self.typed(node, "reduce", [x], axes=axes, function=function, keep=bool(keep))

    def transpose(self, node, x, permutation):
        t = self.in_type(x)
        if t.batched and permutation[0] != 0:
            raise Unsupported("a transposition of the samples")
        return self.typed(node, "transpose", [x],
                          permutation=[p - 1 for p in permutation[1:]] if t.batched
                          else list(permutation))

    def softmax(self, node, x, dim, function="softmax"):
        if dim is None:
            raise Unsupported("softmax without a dimension")
        axis = self.axis(x, dim)
        if function == "softmax" and axis == len(self.in_type(x).shape) - 1:
            return self.same(node, "softmax", x)
        return self.same(node, "along_axis", x, axis=axis, function=function)

    def split(self, node, x, dim, sizes):
        t, axis = self.in_type(x), self.axis(x, dim)
        name = self.own_name(node)
        outputs = []
        for i, size in enumerate(sizes):
            shape = list(t.shape)
            shape[axis] = size
            outputs.append(self.graph.tensor(f"{name}.{i}", t.dtype, shape, t.batched))
        self.graph.ops.append({"name": name, "kind": "split",
                               "attributes": {"axis": axis, "sizes": list(sizes)},
                               "inputs": [self.tensor(x)], "params": [], "outputs": outputs})
        return outputs

    def index(self, node, x, items):
        """x[:, 2:5], x[:, 0], x[:, None]: a slice an axis, and a reshape."""
        items = list(items) if isinstance(items, tuple) else [items]
        t = self.in_type(x)
        if any(item is Ellipsis for item in items):
            at = items.index(Ellipsis)
            given = sum(item is not None for item in items) - 1
            items[at:at + 1] = [slice(None)] * (len(self.seen[x].shape) - given)
        current, shape, dim = self.tensor(x), list(t.shape), 0
        for item in items:
            if item is None:
                continue
            size = self.seen[x].shape[dim]
            if isinstance(item, int):
                start, stop = item % size, item % size + 1
            elif isinstance(item, slice) and item.step in (None, 1):
                start, stop, _ = item.indices(size)
            else:
                raise Unsupported("an index that is no number, slice, None or Ellipsis")
            if (start, stop) != (0, size):
                axis = self.axis(x, dim)
                shape[axis] = stop - start
                current = self.graph.op(self.unique(f"{node.name}.slice"), "slice", [current],
                                        t.dtype, shape, axis=axis, start=start,
                                        length=stop - start)
            elif isinstance(item, int):
                self.axis(x, dim)
            dim += 1
        out = self.type(node)
        if out.shape != shape:
            current = self.graph.op(self.own_name(node), "reshape", [current], out.dtype, out.shape,
                                    shape=out.shape)
        return current

    # -- modules

    def call_module(self, node):
        m, x = self.traced.get_submodule(node.target), node.args[0] if node.args else None
        m = self.module.get_submodule(node.target)
        w = self.param

        def affine(layer):
            return [w(layer.weight)] + ([w(layer.bias)] if layer.bias is not None else [])

        if isinstance(m, nn.Linear):
            return self.typed(node, "linear", [x], affine(m))
        if isinstance(m, nn.Embedding):
            if m.padding_idx is not None or m.max_norm is not None or m.sparse:
                raise Unsupported("Embedding with padding_idx, max_norm or sparse gradients")
            return self.typed(node, "embedding", [x], [w(m.weight)])
        if isinstance(m, nn.EmbeddingBag):
            if m.mode not in ("sum", "mean") or len(node.args) > 1 or m.padding_idx is not None:
                raise Unsupported("EmbeddingBag with offsets, weights, padding_idx or max")
            return self.typed(node, "embedding_bag", [x], [w(m.weight)], mode=m.mode)
        if isinstance(m, nn.LayerNorm):
            if len(m.normalized_shape) != 1 or not m.elementwise_affine:
                raise Unsupported("LayerNorm over several dimensions, or without weights")
            return self.same(node, "layer_norm", x, affine(m), epsilon=m.eps)
        if isinstance(m, (nn.Conv1d, nn.Conv2d, nn.ConvTranspose2d)):
            return self.convolution(node, m, x, affine(m))
        if isinstance(m, (nn.BatchNorm1d, nn.BatchNorm2d)):
            if not m.affine or not m.track_running_stats or m.momentum is None:
                raise Unsupported("BatchNorm without weights, statistics or momentum")
            return self.same(node, "batch_norm", x,
                             affine(m) + [w(m.running_mean), w(m.running_var)], epsilon=m.eps,
                             momentum=m.momentum)
        if isinstance(m, (nn.MaxPool2d, nn.AvgPool2d)):
            return self.pool(node, x, m.kernel_size, m.stride, m.padding,
                             isinstance(m, nn.MaxPool2d), m)
        if isinstance(m, nn.AdaptiveAvgPool2d):
            return self.global_pool(node, x, m.output_size)
        if isinstance(m, (nn.Dropout, nn.Dropout1d, nn.Dropout2d)):
            if not isinstance(m, nn.Dropout):
                raise Unsupported("dropout of whole channels")
            return self.same(node, "dropout", x, rate=m.p)
        if isinstance(m, nn.Identity):
            return self.tensor(x)
        if isinstance(m, (nn.Flatten, nn.Unflatten)):
            return self.reshape(node, x)
        if isinstance(m, (nn.ReLU, nn.Sigmoid, nn.Tanh)):
            return self.same(node, type(m).__name__.lower(), x)
        if isinstance(m, nn.GELU):
            if m.approximate != "none":
                raise Unsupported("GELU by tanh")
            return self.same(node, "gelu", x)
        if isinstance(m, nn.LeakyReLU):
            return self.elementwise(node, "leaky_relu", [x], alpha=m.negative_slope)
        if isinstance(m, nn.ELU):
            return self.elementwise(node, "elu", [x], alpha=m.alpha)
        if isinstance(m, nn.SiLU):
            return self.silu(node, x)
        if isinstance(m, (nn.Softmax, nn.LogSoftmax)):
            return self.softmax(node, x, m.dim,
                                "softmax" if isinstance(m, nn.Softmax) else "log_softmax")
        if isinstance(m, (nn.LSTM, nn.GRU)):
            return self.recurrent(node, m, x)
        if isinstance(m, nn.MultiheadAttention):
            return self.attention(node, m)
        raise Unsupported(type(m).__name__)

    def convolution(self, node, m, x, params):
        if m.padding_mode != "zeros" or isinstance(m.padding, str):
            raise Unsupported(f"{type(m).__name__} with padding {m.padding_mode} {m.padding}")
        attributes = {"stride": list(m.stride), "padding": list(m.padding),
                      "dilation": list(m.dilation), "groups": m.groups}
        kind = {nn.Conv1d: "conv1d", nn.Conv2d: "conv2d",
                nn.ConvTranspose2d: "conv_transpose2d"}[type(m)]
        if kind == "conv_transpose2d":
            attributes["output_padding"] = list(m.output_padding)
        return self.typed(node, kind, [x], params, **attributes)

    def pool(self, node, x, kernel, stride, padding, is_max, m=None):
        if m is not None and (m.ceil_mode or not getattr(m, "count_include_pad", True) or
                              getattr(m, "dilation", 1) not in (1, (1, 1)) or
                              getattr(m, "divisor_override", None) is not None):
            raise Unsupported("a pool with ceil_mode, dilation or another divisor")
        return self.typed(node, "max_pool2d" if is_max else "avg_pool2d", [x],
                          kernel=pair(kernel), stride=pair(stride or kernel), padding=pair(padding))

    def global_pool(self, node, x, size):
        if pair(size) != [1, 1]:
            raise Unsupported("adaptive pooling to more than one pixel")
        t = self.in_type(x)
        mean = self.graph.op(self.unique(f"{node.name}.mean"), "global_avg_pool", [self.tensor(x)],
                             t.dtype, t.shape[:1])
        shape = [t.shape[0], 1, 1]
        return self.graph.op(self.own_name(node), "reshape", [mean], t.dtype, shape, shape=shape)

    def silu(self, node, x):
        gate = self.same(node, "sigmoid", x, name=self.unique(f"{node.name}.sigmoid"))
        t = self.in_type(x)
        return self.graph.op(self.own_name(node), "mul", [self.tensor(x), gate], t.dtype, t.shape)

    def recurrent(self, node, m, x):
        plain = (m.num_layers == 1 and m.batch_first and m.bias and not m.bidirectional and
                 len(node.args) == 1 and not node.kwargs and getattr(m, "proj_size", 0) == 0)
        if not plain:
            raise Unsupported(f"{type(m).__name__} other than one layer, batch_first, with bias, "
                              "one direction, from a state of zeros")
        t = self.in_type(x)
        params = [self.param(getattr(m, f"{kind}_l0"))
                  for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
        return [self.graph.op(self.own_name(node), type(m).__name__.lower(), [self.tensor(x)],
                              t.dtype, t.shape[:-1] + [m.hidden_size], params)]

    def attention(self, node, m):
        extra = [v for k, v in node.kwargs.items() if k not in ("need_weights",
                                                                  "average_attn_weights")]
        q, k, v = (list(node.args) + [None] * 3)[:3]
        plain = (q is k is v and len(node.args) == 3 and all(e is None for e in extra) and
                 m.batch_first and m._qkv_same_embed_dim and m.in_proj_bias is not None and
                 m.bias_k is None and not m.add_zero_attn and m.dropout == 0)
        if not plain:
            raise Unsupported("MultiheadAttention other than self-attention, batch_first, with "
                              "bias, without mask and dropout")
        params = [self.param(p) for p in (m.in_proj_weight, m.in_proj_bias, m.out_proj.weight,
                                          m.out_proj.bias)]
        return [self.same(node, "attention", q, params, causal=False, heads=m.num_heads)]

    # -- functions and methods

    def call_function(self, node):
        args, kwargs = list(node.args), dict(node.kwargs)
        name = node.target if node.op == "call_method" else FUNCTIONS.get(node.target)
        if name is None:
            raise Unsupported(getattr(node.target, "__name__", str(node.target)))
        if kwargs.pop("inplace", False) and name != "relu":
            raise Unsupported(f"{name} in place")
        return self.apply(node, name.rstrip("_"), args, kwargs)

    def apply(self, node, name, args, kwargs):
        x = args[0] if args else kwargs.get("input")

        def arg(i, key, default=None):
            return args[i] if len(args) > i else kwargs.get(key, default)

        if name == "linear":
            weights = [w for w in (arg(1, "weight"), arg(2, "bias")) if w is not None]
            if any(w.op != "get_attr" for w in weights):
                raise Unsupported("linear with a computed weight")
            return self.typed(node, "linear", [x],
                              [self.param(self.seen_attribute(w)) for w in weights])
        if name in ("add", "sub", "mul", "div", "truediv"):
            if kwargs.get("alpha", 1) != 1 or kwargs.get("rounding_mode") is not None:
                raise Unsupported(f"{name} with alpha or rounding_mode")
            return self.binary(node, "div" if name == "truediv" else name, x, arg(1, "other"))
        if name in ("relu", "sigmoid", "tanh"):
            return self.same(node, name, x)
        if name == "gelu":
            if kwargs.get("approximate", "none") != "none":
                raise Unsupported("gelu by tanh")
            return self.same(node, "gelu", x)
        if name == "silu":
            return self.silu(node, x)
        if name == "leaky_relu":
            return self.elementwise(node, name, [x], alpha=arg(1, "negative_slope", 0.01))
        if name in ("neg", "abs", "exp", "log", "sqrt", "reciprocal", "sin", "cos", "erf",
                    "softplus"):
            return self.elementwise(node, name, [x])
        if name in ("pow", "square"):
            return self.elementwise(node, "pow", [x, 2.0 if name == "square" else
                                                  arg(1, "exponent")])
        if name in ("clamp", "clip"):
            low, high = arg(1, "min"), arg(2, "max")
            return self.elementwise(node, "clip", [x], -3.4e38 if low is None else low,
                                    3.4e38 if high is None else high)
        if name in ("softmax", "log_softmax"):
            return self.softmax(node, x, arg(1, "dim"), name)
        if name in ("mean", "sum", "amax"):
            return self.reduce(node, {"amax": "max"}.get(name, name), x, arg(1, "dim"),
                               arg(2, "keepdim", False))
        if name in ("matmul", "bmm"):
            return self.typed(node, "matmul", [x, arg(1, "other", arg(1, "mat2"))],
                              transpose_b=False)
        if name in ("cat", "concat"):
            parts = list(arg(0, "tensors"))
            if len(parts) == 1:
                return self.tensor(parts[0])
            axis = self.axis(parts[0], arg(1, "dim", 0))
            return self.typed(node, "concat", parts, axis=axis)
        if name == "stack":
            return self.stack(node, list(arg(0, "tensors")), arg(1, "dim", 0))
        if name in ("reshape", "view", "flatten", "squeeze", "unsqueeze"):
            return self.reshape(node, x)
        if name == "permute":
            order = args[1:] if len(args) > 2 or isinstance(arg(1, "dims"), int) else \
                list(arg(1, "dims"))
            rank = len(self.seen[x].shape)
            return self.transpose(node, x, [d % rank for d in order])
        if name == "transpose":
            rank = len(self.seen[x].shape)
            order = list(range(rank))
            a, b = arg(1, "dim0") % rank, arg(2, "dim1") % rank
            order[a], order[b] = order[b], order[a]
            return self.transpose(node, x, order)
        if name in ("split", "chunk"):
            dim = arg(2, "dim", 0) % len(self.seen[x].shape)
            return self.split(node, x, dim, [part.shape[dim] for part in self.seen[node]])
        if name == "contiguous":
            return self.tensor(x)
        if name == "dropout":
            return self.same(node, "dropout", x, rate=float(arg(1, "p", 0.5)))
        if name in ("max_pool2d", "avg_pool2d"):
            plain = {"dilation": (1, (1, 1)), "ceil_mode": (False,), "return_indices": (False,),
                     "count_include_pad": (True,), "divisor_override": (None,)}
            if len(args) > 4 or any(value not in plain[key] for key, value in kwargs.items()
                                    if key in plain):
                raise Unsupported(f"{name} with other arguments than kernel, stride and padding")
            return self.pool(node, x, arg(1, "kernel_size"), arg(2, "stride"),
                             arg(3, "padding", 0), name == "max_pool2d")
        if name == "adaptive_avg_pool2d":
            return self.global_pool(node, x, arg(1, "output_size"))
        if name == "getitem":
            return self.index(node, x, args[1])
        raise Unsupported(name)

    def stack(self, node, parts, dim):
        t = self.type(node)
        axis = dim % len(self.seen[node].shape) - (1 if t.batched else 0)
        if axis < 0:
            raise Unsupported("a stack of samples")
        one = t.shape[:axis] + [1] + t.shape[axis + 1:]
        singles = [self.graph.op(self.unique(f"{node.name}.part"), "reshape", [self.tensor(x)],
                                 t.dtype, one, shape=one) for x in parts]
        if len(singles) == 1:
            return singles[0]
        return self.graph.op(self.own_name(node), "concat", singles, t.dtype, t.shape, axis=axis)

    # -- all nodes

    def run(self):
        """The graph's names of the module's outputs."""
        missing = collections.Counter()
        for node in self.traced.graph.nodes:
            if node.op == "output":
                break
            if node.op == "get_attr" or not self.is_traced(node):
                continue
            try:
                self.names[node] = self.write(node)
            except Unsupported as what:
                missing[str(what)] += 1
                self.stand_in(node)
        if missing:
            text = ", ".join(f"{what} ({count})" for what, count in sorted(missing.items()))
            raise ExportError(f"no operator of graphpipe does: {text}")
        result = node.args[0]
        outputs = list(result) if isinstance(result, (tuple, list)) else [result]
        return [self.tensor(output) for output in outputs]

    def is_traced(self, node):
        """Sizes and the like are in the shapes already."""
        value = self.seen.get(node)
        if node.op == "placeholder":
            return True
        several = isinstance(value, (tuple, list)) and not isinstance(value, torch.Size) and \
            any(isinstance(v, torch.Tensor) for v in value)
        return isinstance(value, torch.Tensor) or several

    def write(self, node):
        if node.op == "placeholder":
            t = self.type(node)
            if not t.batched:
                raise ExportError(f"input {node.target} has no samples in dimension 0")
            return self.graph.input(node.target, t.dtype, t.shape)
        if node.target is operator.getitem and isinstance(self.names.get(node.args[0]), list):
            outputs, i = self.names[node.args[0]], node.args[1]
            if not isinstance(i, int) or i >= len(outputs):
                raise Unsupported("the state or the weights that a module returns beside its output")
            return outputs[i]
        if node.op == "call_module":
            return self.call_module(node)
        return self.call_function(node)

    def stand_in(self, node):
        """Of a node that has no counterpart, so that all of them are found."""
        value = self.seen.get(node)
        if isinstance(value, torch.Tensor):
            t = self.type(node)
            self.names[node] = self.graph.tensor(self.unique(node.name), *t)


FUNCTIONS = {
    operator.add: "add", operator.iadd: "add", torch.add: "add", operator.sub: "sub",
    torch.sub: "sub", operator.mul: "mul", operator.imul: "mul", torch.mul: "mul",
    operator.truediv: "div", torch.div: "div", operator.neg: "neg", torch.neg: "neg",
    operator.matmul: "matmul", torch.matmul: "matmul", torch.bmm: "bmm", operator.pow: "pow",
    torch.pow: "pow", torch.square: "square", torch.abs: "abs", torch.exp: "exp", torch.log: "log",
    torch.sqrt: "sqrt", torch.sin: "sin", torch.cos: "cos", torch.erf: "erf",
    torch.reciprocal: "reciprocal", torch.clamp: "clamp", torch.relu: "relu", F.relu: "relu",
    torch.sigmoid: "sigmoid", F.sigmoid: "sigmoid", torch.tanh: "tanh", F.tanh: "tanh",
    F.gelu: "gelu", F.silu: "silu", F.leaky_relu: "leaky_relu", F.softplus: "softplus",
    torch.softmax: "softmax", F.softmax: "softmax", torch.log_softmax: "log_softmax",
    F.log_softmax: "log_softmax", torch.mean: "mean", torch.sum: "sum", torch.amax: "amax",
    torch.cat: "cat", torch.stack: "stack", torch.reshape: "reshape", torch.flatten: "flatten",
    torch.squeeze: "squeeze", torch.unsqueeze: "unsqueeze", torch.permute: "permute",
    torch.transpose: "transpose", torch.split: "split", torch.chunk: "chunk",
    F.linear: "linear", F.dropout: "dropout", F.max_pool2d: "max_pool2d", torch.max_pool2d: "max_pool2d",
    F.avg_pool2d: "avg_pool2d", F.adaptive_avg_pool2d: "adaptive_avg_pool2d",
    operator.getitem: "getitem",
}


# ---------------------------------------------------------------------------------------------
# The loss.

def add_loss(graph, outputs, loss, labels, loss_of):
    of = outputs[loss_of]
    t = graph.types[of]
    if loss == "own":
        if t.shape != [] or not t.batched:
            raise ExportError(f'loss "own": output {of} has shape {t.shape} a sample, expected one '
                              "number")
        graph.losses.append({"tensor": of})
        return
    if loss == "cross_entropy":
        if not t.shape:
            raise ExportError(f"loss cross_entropy: output {of} has no classes")
        if len(t.shape) > 1:  # PyTorch has the classes behind the samples, graphpipe last
            order = list(range(1, len(t.shape))) + [0]
            of = graph.op(f"{of}.classes_last", "transpose", [of], t.dtype,
                          [t.shape[d] for d in order], permutation=order)
            t = graph.types[of]
        target = graph.input(labels, torch.int64, t.shape[:-1])
        accuracy = graph.op("accuracy", "correct", [of, target], t.dtype, [])
        graph.metrics.append({"name": "accuracy", "kind": "mean", "tensor": accuracy})
    else:
        target = graph.input(labels, t.dtype, t.shape)
    kind = "mse_loss" if loss == "mse" else loss
    graph.losses.append({"tensor": graph.op("loss", kind, [of, target], t.dtype, [])})


def export(module, inputs, path, loss=None, labels="label", loss_of=0, name=None):
    """Writes the module as a graph to `path`, which ends with .graph.json, and its weights beside it.

    inputs: example batches by the names of forward()'s arguments, of at least two samples, all of
    the same number. loss: one of LOSSES, or None for a graph to plan only; of output number
    `loss_of`. labels: the name of the input that holds what is right. Returns the graph as a
    dictionary. Raises ExportError.
    """
    path = pathlib.Path(path)
    if not path.name.endswith(".graph.json"):
        raise ExportError(f"{path}: the name must end with .graph.json")
    if loss is not None and loss not in LOSSES:
        raise ExportError(f"loss {loss} is none of {', '.join(LOSSES)}")
    counts = {value.shape[0] if value.dim() else 0 for value in inputs.values()}
    if len(counts) != 1 or min(counts) < 2:
        raise ExportError("inputs: expected the same number of samples in dimension 0 of each, and "
                          f"at least 2, found {sorted(counts)}")
    # Running it must not move a batch norm's statistics; what is traced is the training.
    traced = torch.fx.symbolic_trace(copy.deepcopy(module).train(), concrete_args={
        argument: None for argument in optional_arguments(module, inputs)})
    names = [node.target for node in traced.graph.nodes if node.op == "placeholder"]
    given = [n for n in names if n in inputs]
    if set(given) != set(inputs):
        raise ExportError(f"inputs are {', '.join(inputs)}, and forward() takes {', '.join(names)}")
    for node in list(traced.graph.nodes):
        if node.op == "placeholder" and node.target not in inputs:
            if node.users and any(user.op != "call_function" or user.target.__name__ != "_assert"
                                  for user in node.users):
                raise ExportError(f"argument {node.target} of forward() is not among the inputs")
    ordered = {n: inputs[n] for n in given}
    writer = Writer(module, traced, ordered, counts.pop(), name or path.name.split(".")[0])
    outputs = writer.run()
    graph = writer.graph
    if loss is not None:
        add_loss(graph, outputs, loss, labels, loss_of)
    path.write_text(graph.to_json())
    write_safetensors(path.with_suffix(".safetensors"), graph.weights)
    return json.loads(graph.to_json())


def optional_arguments(module, inputs):
    """Arguments of forward() that have a default and are not given."""
    import inspect
    parameters = inspect.signature(module.forward).parameters.values()
    return [p.name for p in parameters if p.name not in inputs and
            p.default is not inspect.Parameter.empty]


def main():
    parser = argparse.ArgumentParser(description="From a PyTorch module to a graphpipe graph.")
    parser.add_argument("module", metavar="FILE.py:FUNCTION",
                        help="a function without arguments that returns the module and a dictionary "
                             "of example inputs")
    parser.add_argument("-o", "--output", required=True, help="NAME.graph.json")
    parser.add_argument("--loss", choices=LOSSES)
    parser.add_argument("--labels", default="label", help="name of the input that holds what is right")
    parser.add_argument("--loss-of", type=int, default=0, help="which output, from 0")
    arguments = parser.parse_args()
    file, colon, function = arguments.module.rpartition(":")
    try:
        if not colon:
            raise ExportError(f"expected FILE.py:FUNCTION, found {arguments.module}")
        spec = importlib.util.spec_from_file_location("model_to_export", file)
        code = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(code)
        module, inputs = getattr(code, function)()
        graph = export(module, inputs, arguments.output, arguments.loss, arguments.labels,
                       arguments.loss_of)
    except (ExportError, OSError, AttributeError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(f"{len(graph['ops'])} operators, {len(graph['params'])} parameters "
          f"written to {arguments.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
