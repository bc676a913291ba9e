"""`ds`: a depthwise k x k convolution, then a linear 1 x 1 one that mixes the channels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pocketnas.searchspace.ops.op import Conv, Op

if TYPE_CHECKING:
    from pocketnas.searchspace.plan import LayerPlan


def _convs(plan: LayerPlan) -> tuple[Conv, ...]:
    inputs, kernel = plan.in_channels, plan.block.kernel
    return (
        Conv("conv_dw", inputs, kernel, plan.stride, depthwise=True, se=True),
        Conv("conv_pw", plan.out_channels, activated=False),
    )


# The published strings of `ds` have an `e1`.
DEPTHWISE_SEPARABLE = Op("ds", "depthwise separable convolution", _convs, writes_e1=True)
