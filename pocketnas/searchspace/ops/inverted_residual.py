"""`ir`: 1 x 1 that expands, depthwise k x k, linear 1 x 1 (Sandler et al. 2018, section 3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pocketnas.searchspace.ops.op import Conv, Op

if TYPE_CHECKING:
    from pocketnas.searchspace.plan import LayerPlan


def _convs(plan: LayerPlan) -> tuple[Conv, ...]:
    hidden = plan.in_channels * plan.block.expansion
    return (
        Conv("conv_pw", hidden),
        Conv("conv_dw", hidden, plan.block.kernel, plan.stride, depthwise=True, se=True),
        Conv("conv_pwl", plan.out_channels, activated=False),
    )


INVERTED_RESIDUAL = Op("ir", "inverted residual", _convs, expands=True)
