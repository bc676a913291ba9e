"""`cn`: a k x k convolution with batch norm and activation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pocketnas.searchspace.ops.op import Conv, Op

if TYPE_CHECKING:
    from pocketnas.searchspace.plan import LayerPlan


def _convs(plan: LayerPlan) -> tuple[Conv, ...]:
    return (Conv("conv", plan.out_channels, plan.block.kernel, plan.stride, se=True),)


CONV = Op("cn", "convolution", _convs, choice="conv")
