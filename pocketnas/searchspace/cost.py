"""What an arch costs before anything runs: params, MAdds, peak activation memory; no torch.

MAdds are those of convolutions and linear layers, SE's included; everything else is left out, as
the papers do. Params are what training adjusts: weights, biases, and batch norm's scale and shift.

Peak activation memory is that of the deployed network, run one operator after another in float32
with batch norm and activations folded into the operators before them: for each operator its
inputs, its output, and what a later operator still needs (a shortcut, or the features that SE's
gate will scale). The peak is the largest of these sums.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pocketnas.searchspace.arch import Arch
from pocketnas.searchspace.plan import LayerPlan, plan_layers, require_task

FLOAT_BYTES = 4

MAX_PARAMS = 200_000_000
"""More is no network for a phone, and is not built: it may not fit this machine's memory."""

Shape = tuple[int, int, int]
"""(H, W, C)."""


@dataclass(frozen=True)
class BlockCost:
    """One row of a cost table.

    Attributes:
        name: `stem`, `b1`, `b2`, ..., `head` or `classifier`.
        text: What it is: a block string where it has one.
        input_shape: (H, W, C).
        output_shape: (H, W, C).
        madds: Multiply-adds for one image.
        params: Trainable parameters.
        peak_activation_bytes: While this row runs.
    """

    name: str
    text: str
    input_shape: Shape
    output_shape: Shape
    madds: int
    params: int
    peak_activation_bytes: int


@dataclass(frozen=True)
class Cost:
    """What an arch costs for one image.

    Attributes:
        params: Trainable parameters.
        madds: Multiply-adds of convolutions and linear layers.
        peak_activation_bytes: The largest of the rows'.
        blocks: The rows: stem, every block, head, classifier.
    """

    params: int
    madds: int
    peak_activation_bytes: int
    blocks: tuple[BlockCost, ...]


@dataclass(frozen=True)
class _Operator:
    """One operator: its MAdds and params, and how many values are alive while it runs."""

    madds: int
    params: int
    alive: int


def count(arch: Arch, input_shape: Shape, classes: int) -> Cost:
    """Count an arch's params, MAdds and peak activation memory.

    Args:
        arch: What to count.
        input_shape: (H, W, C).
        classes: Number of logits.

    Raises:
        ArchError: The input shape or the number of classes is out of its range.
    """
    require_task(input_shape, classes)
    stem, head = arch.stem, arch.head
    shape = _strided(input_shape, stem.stride, stem.channels)
    ops = [_conv(input_shape, shape, kernel=3)]
    rows = [_row("stem", str(stem), input_shape, shape, ops)]
    for number, layers in enumerate(plan_layers(stem.channels, arch.blocks), start=1):
        start, ops = shape, []
        for layer in layers:
            ops += _layer_ops(layer, shape)
            shape = _strided(shape, layer.stride, layer.out_channels)
        rows.append(_row(f"b{number}", str(layers[0].block), start, shape, ops))
    start, shape = shape, (shape[0], shape[1], head.channels)
    rows.append(_row("head", str(head), start, shape, [_conv(start, shape, kernel=1)]))
    logits = (1, 1, classes)
    ops = [
        _Operator(0, 0, _size(shape) + head.channels),
        _Operator(head.channels * classes, (head.channels + 1) * classes, head.channels + classes),
    ]
    rows.append(_row("classifier", f"mean, linear to {classes}", shape, logits, ops))
    return Cost(
        params=sum(row.params for row in rows),
        madds=sum(row.madds for row in rows),
        peak_activation_bytes=max(row.peak_activation_bytes for row in rows),
        blocks=tuple(rows),
    )


def _row(name: str, text: str, start: Shape, end: Shape, ops: list[_Operator]) -> BlockCost:
    return BlockCost(
        name=name,
        text=text,
        input_shape=start,
        output_shape=end,
        madds=sum(op.madds for op in ops),
        params=sum(op.params for op in ops),
        peak_activation_bytes=FLOAT_BYTES * max(op.alive for op in ops),
    )


def _layer_ops(layer: LayerPlan, start: Shape) -> Iterator[_Operator]:
    """The operators of one layer, in the order in which `layers.Layer` runs them."""
    end = _strided(start, layer.stride, layer.out_channels)
    kept = 0
    if layer.shortcut == "pool":
        kept = _size(end)
        yield _Operator(0, 0, _size(start) + kept)
    elif layer.shortcut == "identity":
        kept = _size(start)
    # While the first operator reads the input, an identity shortcut is that very tensor.
    besides = 0 if layer.shortcut == "identity" else kept
    for conv in layer.convs:
        shape = _strided(start, conv.stride, conv.outputs)
        groups = start[2] if conv.depthwise else 1
        yield _conv(start, shape, conv.kernel, groups=groups, kept=besides)
        start, besides = shape, kept
        if conv.se and layer.se_channels:
            yield from _se_ops(shape, layer.se_channels, kept)
    if layer.shortcut is not None:
        yield _Operator(0, 0, kept + 2 * _size(end))


def _se_ops(features: Shape, squeezed: int, kept: int) -> Iterator[_Operator]:
    """Mean, reduce, expand and scale; the features wait for their gate all the while."""
    channels, kept = features[2], kept + _size(features)
    weights = channels * squeezed
    yield _Operator(0, 0, kept + channels)
    yield _Operator(weights, weights + squeezed, kept + channels + squeezed)
    yield _Operator(weights, weights + channels, kept + squeezed + channels)
    yield _Operator(0, 0, kept + channels + _size(features))


def _conv(start: Shape, end: Shape, kernel: int, *, groups: int = 1, kept: int = 0) -> _Operator:
    """A convolution without bias, and the batch norm after it."""
    weights = kernel * kernel * (start[2] // groups) * end[2]
    return _Operator(
        madds=weights * end[0] * end[1],
        params=weights + 2 * end[2],
        alive=_size(start) + _size(end) + kept,
    )


def _strided(shape: Shape, stride: int, channels: int) -> Shape:
    return -(-shape[0] // stride), -(-shape[1] // stride), channels


def _size(shape: Shape) -> int:
    return shape[0] * shape[1] * shape[2]
