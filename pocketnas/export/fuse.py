"""Make a graph smaller without changing its result: fold batch norms, fuse activations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from pocketnas.export.graph import (
    INPUT_NAME,
    OUTPUT_NAME,
    Activation,
    Conv,
    Flatten,
    Fusable,
    Graph,
    Mean,
    Op,
    Scale,
    Window,
)

FUSED_ACTIVATIONS = ("relu", "relu6")
"""What TFLite's operators can apply to their own result."""

Merge = Callable[[Op, Op], Op | None]
"""(an operator, the only one that reads its result) to one that does the work of both, if any."""


def fuse(graph: Graph) -> Graph:
    """Fold batch norms into convolutions, then activations into what they follow.

    What comes back has no `Scale` and nothing that is not needed; its result is named `logits`.
    """
    graph = _merged(_needed(graph), _fold_scale)
    ops = tuple(_as_depthwise(op) if isinstance(op, Scale) else op for op in graph.ops)
    graph = _merged(_merged(replace(graph, ops=ops), _fuse_activation), _drop_flatten)
    return _renamed(graph)


def _fold_scale(op: Op, reader: Op) -> Op | None:
    """A batch norm after a convolution: scale its kernels (Jacob et al. 2018, section 3.2)."""
    if not isinstance(op, Conv) or not isinstance(reader, Scale):
        return None
    scale = reader.scale.astype(np.float64)
    return replace(
        op,
        weight=(op.weight * scale[:, None, None, None]).astype(np.float32),
        bias=(op.bias * scale + reader.offset).astype(np.float32),
    )


def _fuse_activation(op: Op, reader: Op) -> Op | None:
    if not isinstance(op, Fusable) or not isinstance(reader, Activation):
        return None
    if op.activation or reader.function not in FUSED_ACTIVATIONS:
        return None
    return replace(op, activation=reader.function)


def _drop_flatten(op: Op, reader: Op) -> Op | None:
    if not isinstance(op, Mean) or not isinstance(reader, Flatten):
        return None
    return replace(op, shape=reader.shape, keep_dims=False)


def _as_depthwise(op: Scale) -> Conv:
    """A batch norm that follows no convolution is a depthwise one with a 1 x 1 kernel."""
    channels = len(op.scale)
    return Conv(
        op.inputs,
        op.output,
        op.shape,
        weight=op.scale.reshape(channels, 1, 1, 1),
        bias=op.offset,
        window=Window((1, 1)),
        groups=channels,
    )


def _merged(graph: Graph, merge: Merge) -> Graph:
    """Merge each operator with its only reader, wherever `merge` knows how."""
    uses = graph.uses()
    made: dict[str, Op] = {}
    names = {INPUT_NAME: INPUT_NAME}  # what became of each value
    for op in graph.ops:
        source = op.inputs[0]
        before = made.get(names[source])
        if before is not None and uses[source] == 1 and (both := merge(before, op)):
            made[both.output] = both
            names[op.output] = both.output
            continue
        made[op.output] = replace(op, inputs=tuple(names[name] for name in op.inputs))
        names[op.output] = op.output
    return replace(graph, ops=tuple(made.values()), output=names[graph.output])


def _needed(graph: Graph) -> Graph:
    """The graph without what its result does not depend on."""
    needed, ops = {graph.output}, []
    for op in reversed(graph.ops):
        if op.output in needed:
            needed.update(op.inputs)
            ops.append(op)
    return replace(graph, ops=tuple(reversed(ops)))


def _renamed(graph: Graph) -> Graph:
    """The same graph with its result named as all files name it."""

    def name(value: str) -> str:
        return OUTPUT_NAME if value == graph.output else value

    ops = tuple(
        replace(op, inputs=tuple(map(name, op.inputs)), output=name(op.output)) for op in graph.ops
    )
    return Graph(graph.input_shape, ops)
