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
    """A layer of any op: its convolutions, and an optional shortcut around them.

    Attributes:
        order: The names of the modules beside the shortcut, in the order in which they run.
    """

    def __init__(self, plan: LayerPlan, momentum: float) -> None:
        super().__init__()
        self.has_skip = plan.shortcut is not None
        self.pool = _shortcut_pool(plan.stride) if plan.shortcut == "pool" else None
        squeezed, inputs = plan.se_channels, plan.in_channels
        self.se = (
            SqueezeExcite(next(part.outputs for part in plan.convs if part.se), squeezed)
            if squeezed
            else None
        )
        self.order: list[str] = []
        for number, part in enumerate(plan.convs, start=1):
            groups = inputs if part.depthwise else 1
            modules = {
                part.name: conv(inputs, part.outputs, part.kernel, part.stride, groups),
                f"bn{number}": nn.BatchNorm2d(part.outputs, momentum=momentum),
            }
            if part.activated:
                modules[f"act{number}"] = activation(plan.block.activation)
            for name, module in modules.items():
                self.add_module(name, module)
            self.order += [*modules, "se"] if part.se and squeezed else modules
            inputs = part.outputs

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map `x` (N, C, H, W) to (N, C', ceil(H / stride), ceil(W / stride))."""
        if not self.has_skip:
            return self.function(x)
        # The shortcut comes first: where it is pooled, `x` need not be kept for it any longer.
        shortcut = x if self.pool is None else self.pool(x)
        return self.function(x) + shortcut

    def function(self, x: torch.Tensor) -> torch.Tensor:
        """What the layer computes beside its shortcut."""
        for name in self.order:
            x = getattr(self, name)(x)
        return x


def _shortcut_pool(stride: int) -> nn.AvgPool2d:
    """Average pooling that keeps to the size of a padded convolution of that stride.

    At stride 1 it is 3 x 3; at stride 2 it is 2 x 2, and an odd last row or column is averaged
    alone. Padding never counts as zeros.
    """
    if stride == 1:
        return nn.AvgPool2d(3, 1, padding=1, count_include_pad=False)
    return nn.AvgPool2d(2, 2, ceil_mode=True, count_include_pad=False)
