"""The layers that blocks are made of, as torch modules.

Attributes are named as timm names them (`conv_pw, bn1, conv_dw, bn2, se, conv_pwl, bn3`), and only
modules, `+` and `*` compute, so that `torch.fx` traces a network into a small, closed set of
operators.
"""

from __future__ import annotations

import torch
from torch import nn

from pocketnas.searchspace.plan import LayerPlan

_ACTIVATIONS: dict[str, type[nn.ReLU] | type[nn.ReLU6] | type[nn.Hardswish]] = {
    "relu": nn.ReLU,
    "relu6": nn.ReLU6,
    "hswish": nn.Hardswish,
}


def activation(name: str) -> nn.Module:
    """A module for an activation's name."""
    return _ACTIVATIONS[name](inplace=True)


def conv(inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> nn.Conv2d:
    """A convolution without bias that pads on all sides: (H, W) becomes (ceil(H/s), ceil(W/s))."""
    return nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)


class SqueezeExcite(nn.Module):
    """Scales channels by a gate computed from their means (Hu et al. 2018, section 3)."""

    def __init__(self, channels: int, squeezed: int) -> None:
        super().__init__()
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.conv_reduce = nn.Conv2d(channels, squeezed, 1)
        self.act1 = nn.ReLU(inplace=True)
        self.conv_expand = nn.Conv2d(squeezed, channels, 1)
        self.gate = nn.Sigmoid()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Scale `x` (N, C, H, W)."""
        means = self.pool(x)
        gate = self.gate(self.conv_expand(self.act1(self.conv_reduce(means))))
        return x * gate  # type: ignore[no-any-return]


class Layer(nn.Module):
    """What the three ops share: an optional shortcut around the layer's own function."""

    def __init__(self, plan: LayerPlan) -> None:
        super().__init__()
        self.has_skip = plan.shortcut is not None
        self.pool = _shortcut_pool(plan.stride) if plan.shortcut == "pool" else None
        self.se = (
            SqueezeExcite(plan.hidden_channels, plan.se_channels) if plan.se_channels else None
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map `x` (N, C, H, W) to (N, C', ceil(H / stride), ceil(W / stride))."""
        if not self.has_skip:
            return self.function(x)
        # The shortcut comes first: where it is pooled, `x` need not be kept for it any longer.
        shortcut = x if self.pool is None else self.pool(x)
        return self.function(x) + shortcut

    def function(self, x: torch.Tensor) -> torch.Tensor:
        """What the layer computes beside its shortcut."""
        raise NotImplementedError


class Conv(Layer):
    """`cn`: a k x k convolution with batch norm and activation."""

    def __init__(self, plan: LayerPlan, momentum: float) -> None:
        super().__init__(plan)
        block = plan.block
        self.conv = conv(plan.in_channels, plan.out_channels, block.kernel, plan.stride)
        self.bn1 = nn.BatchNorm2d(plan.out_channels, momentum=momentum)
        self.act1 = activation(block.activation)

    def function(self, x: torch.Tensor) -> torch.Tensor:
        """Convolve, then SE."""
        x = self.act1(self.bn1(self.conv(x)))
        return x if self.se is None else self.se(x)


class DepthwiseSeparable(Layer):
    """`ds`: a depthwise k x k convolution, then a linear 1 x 1 one."""

    def __init__(self, plan: LayerPlan, momentum: float) -> None:
        super().__init__(plan)
        inputs, outputs, block = plan.in_channels, plan.out_channels, plan.block
        self.conv_dw = conv(inputs, inputs, block.kernel, plan.stride, groups=inputs)
        self.bn1 = nn.BatchNorm2d(inputs, momentum=momentum)
        self.act1 = activation(block.activation)
        self.conv_pw = conv(inputs, outputs, 1)
        self.bn2 = nn.BatchNorm2d(outputs, momentum=momentum)

    def function(self, x: torch.Tensor) -> torch.Tensor:
        """Convolve each channel, SE, then mix the channels."""
        x = self.act1(self.bn1(self.conv_dw(x)))
        x = x if self.se is None else self.se(x)
        return self.bn2(self.conv_pw(x))  # type: ignore[no-any-return]


class InvertedResidual(Layer):
    """`ir`: 1 x 1 that expands, depthwise k x k, linear 1 x 1 (Sandler et al. 2018, section 3)."""

    def __init__(self, plan: LayerPlan, momentum: float) -> None:
        super().__init__(plan)
        hidden, block = plan.hidden_channels, plan.block
        self.conv_pw = conv(plan.in_channels, hidden, 1)
        self.bn1 = nn.BatchNorm2d(hidden, momentum=momentum)
        self.act1 = activation(block.activation)
        self.conv_dw = conv(hidden, hidden, block.kernel, plan.stride, groups=hidden)
        self.bn2 = nn.BatchNorm2d(hidden, momentum=momentum)
        self.act2 = activation(block.activation)
        self.conv_pwl = conv(hidden, plan.out_channels, 1)
        self.bn3 = nn.BatchNorm2d(plan.out_channels, momentum=momentum)

    def function(self, x: torch.Tensor) -> torch.Tensor:
        """Expand, convolve each channel, SE, then project."""
        x = self.act1(self.bn1(self.conv_pw(x)))
        x = self.act2(self.bn2(self.conv_dw(x)))
        x = x if self.se is None else self.se(x)
        return self.bn3(self.conv_pwl(x))  # type: ignore[no-any-return]


_OPS = {"cn": Conv, "ds": DepthwiseSeparable, "ir": InvertedResidual}


def build_layer(plan: LayerPlan, momentum: float) -> Layer:
    """The module of a planned layer.

    Args:
        plan: What the layer is.
        momentum: Momentum of its batch norms, in torch's sense.
    """
    return _OPS[plan.block.op](plan, momentum)


def _shortcut_pool(stride: int) -> nn.AvgPool2d:
    """Average pooling that keeps to the size of a padded convolution of that stride.

    At stride 1 it is 3 x 3; at stride 2 it is 2 x 2, and an odd last row or column is averaged
    alone. Padding never counts as zeros.
    """
    if stride == 1:
        return nn.AvgPool2d(3, 1, padding=1, count_include_pad=False)
    return nn.AvgPool2d(2, 2, ceil_mode=True, count_include_pad=False)
