"""Each torch module that can be exported, and the operator that it becomes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn

from pocketnas.export.graph import (
    Activation,
    Array,
    AveragePool,
    Conv,
    Flatten,
    Linear,
    Mean,
    Op,
    Scale,
    Shape,
)
from pocketnas.export.windows import conv_window, is_same_padding, pair, pool_window, slid_size


class Unsupported(Exception):
    """Why a module cannot become an operator."""


def _conv(module: nn.Conv2d, source: str, shape: Shape, output: str) -> Op:
    _require(module.padding_mode == "zeros", f"its padding mode is '{module.padding_mode}'")
    _require_channels(shape, module.in_channels)
    size = (shape[1], shape[2])
    window = conv_window(module, size)
    slid = slid_size(window, size)
    _require(min(slid) > 0, f"its kernel is larger than its input of {size} pixels")
    return Conv(
        (source,),
        output,
        (1, *slid, module.out_channels),
        weight=_array(module.weight),
        bias=_bias(module.bias, module.out_channels),
        window=window,
        groups=module.groups,
    )


def _batch_norm(module: nn.BatchNorm2d, source: str, shape: Shape, output: str) -> Op:
    """Ioffe & Szegedy 2015, algorithm 2: at inference, a scale and an offset per channel."""
    _require_channels(shape, module.num_features)
    mean, variance = module.running_mean, module.running_var
    if mean is None or variance is None:
        raise Unsupported("it keeps no running statistics")
    # In double precision, so that folding adds no error of its own to float32's.
    scale = 1 / np.sqrt(_array(variance).astype(np.float64) + module.eps)
    if module.affine:
        scale *= _array(module.weight)
    offset = -scale * _array(mean)
    if module.affine:
        offset += _array(module.bias)
    return Scale(
        (source,),
        output,
        shape,
        scale=scale.astype(np.float32),
        offset=offset.astype(np.float32),
    )


def _linear(module: nn.Linear, source: str, shape: Shape, output: str) -> Op:
    _require(len(shape) == 2, "it gets an image: put a Flatten before it")
    _require_channels(shape, module.in_features)
    return Linear(
        (source,),
        output,
        (1, module.out_features),
        weight=_array(module.weight),
        bias=_bias(module.bias, module.out_features),
    )


def _average_pool(module: nn.AvgPool2d, source: str, shape: Shape, output: str) -> Op:
    _require(len(shape) == 4, "it gets no image")
    _require(module.divisor_override is None, "it has a divisor of its own")
    _require(
        pair(module.padding) == (0, 0) or not module.count_include_pad,
        "its padding counts as zeros: give it count_include_pad=False",
    )
    size = (shape[1], shape[2])
    window = pool_window(module, size)
    slid = slid_size(window, size)
    _require(min(slid) > 0, f"its kernel is larger than its input of {size} pixels")
    _require(
        window.padding.is_empty or is_same_padding(window, size),
        f"TFLite has no such padding for an image of {size} pixels",
    )
    return AveragePool((source,), output, (1, *slid, shape[3]), window=window)


def _global_pool(module: nn.AdaptiveAvgPool2d, source: str, shape: Shape, output: str) -> Op:
    _require(len(shape) == 4, "it gets no image")
    _require(
        module.output_size in (1, (1, 1)),
        f"it pools to {module.output_size}: only pooling to a single pixel can be exported",
    )
    return Mean((source,), output, (1, 1, 1, shape[3]), keep_dims=True)


def _flatten(module: nn.Flatten, source: str, shape: Shape, output: str) -> Op:
    _require((module.start_dim, module.end_dim) == (1, -1), "it flattens only some dimensions")
    _require(len(shape) == 4, "it gets no image")
    # Several pixels would be flattened in another order than in torch's layout.
    _require(shape[1:3] == (1, 1), "it gets more than one pixel: pool to a single pixel first")
    return Flatten((source,), output, (1, shape[3]))


def _activation(function: str) -> Lowering:
    def lower(module: nn.Module, source: str, shape: Shape, output: str) -> Op:
        return Activation((source,), output, shape, function=function)

    return lower


def _require(condition: bool, otherwise: str) -> None:
    if not condition:
        raise Unsupported(otherwise)


def _require_channels(shape: Shape, channels: int) -> None:
    _require(shape[-1] == channels, f"it takes {channels} channels but gets {shape[-1]}")


def _array(tensor: torch.Tensor) -> Array:
    """A tensor's numbers, which must be of the precision that is exported, and finite."""
    _require(tensor.dtype == torch.float32, f"its weights are {tensor.dtype}, not torch.float32")
    array: Array = tensor.detach().numpy().copy()  # later training must not reach the graph
    _require(
        bool(np.isfinite(array).all()), "its weights are not finite, so its training has diverged"
    )
    return array


def _bias(bias: torch.Tensor | None, outputs: int) -> Array:
    return np.zeros(outputs, np.float32) if bias is None else _array(bias)


Lowering = Callable[[Any, str, Shape, str], Op]
"""(module, value that it reads, that value's shape, name of what it makes) to its operator."""

LOWERINGS: dict[type[nn.Module], Lowering] = {
    nn.Conv2d: _conv,
    nn.BatchNorm2d: _batch_norm,
    nn.Linear: _linear,
    nn.AvgPool2d: _average_pool,
    nn.AdaptiveAvgPool2d: _global_pool,
    nn.Flatten: _flatten,
    nn.ReLU: _activation("relu"),
    nn.ReLU6: _activation("relu6"),
    nn.Hardswish: _activation("hswish"),
    nn.Sigmoid: _activation("sigmoid"),
}
"""By the module's very type: a subclass may compute something else."""

PASSED_OVER = (nn.Dropout, nn.Identity)
"""Modules that do nothing at inference."""
