"""A block of your own: the fused inverted residual, in one file.

    python examples/new_block.py

EfficientNetV2 (Tan and Le 2021, section 3.2) fuses the first two convolutions of an inverted
residual into one k x k convolution that expands: more MAdds, but often less time. To build it
into PocketNAS, `FUSED` and `convs` would move to a file of their own in
`pocketnas/searchspace/ops/`, and the op into the tuple `BUILTIN` there.
"""

from __future__ import annotations

import numpy as np
import torch

from pocketnas.export import export_network
from pocketnas.searchspace import (
    Conv,
    Op,
    build_network,
    count,
    parse_arch,
    register_op,
    space_from_dict,
)
from pocketnas.searchspace.plan import LayerPlan


def convs(plan: LayerPlan) -> tuple[Conv, ...]:
    """A k x k convolution that expands, SE's place, and a linear 1 x 1 one."""
    hidden = plan.in_channels * plan.block.expansion
    return (
        Conv("conv_exp", hidden, plan.block.kernel, plan.stride, se=True),
        Conv("conv_pwl", plan.out_channels, activated=False),
    )


FUSED = Op("er", "fused inverted residual", convs, expands=True)


def main() -> None:
    register_op(FUSED)
    torch.manual_seed(0)
    input_shape, classes = (32, 32, 3), 10

    # Block strings, costs, networks and both kinds of model files know the op at once.
    for text in ("ir_r2_k3_s2_e4_c24_se0.25", "er_r2_k3_s2_e4_c24_se0.25"):
        arch = parse_arch(f"stem_c16_s1,{text},head_c64")
        cost = count(arch, input_shape, classes)
        network = build_network(arch, input_shape, classes)
        assert cost.params == sum(weights.numel() for weights in network.parameters())
        exported = export_network(network, input_shape)  # fails unless both files agree with torch
        print(f"{text}: {cost.madds:,} MAdds, TFLite file of {len(exported.tflite):,} bytes")

    # So do search spaces, by the op's name and an expansion; in a TOML file it looks the same.
    space = space_from_dict(
        {
            "name": "fused or not",
            "input_resolution": 32,
            "base": ["stem_c16_s1", "er_r1_k3_s2_e2_c24", "ir_r2_k3_s2_e3_c40", "head_c128"],
            "choices": {"op": ["er2", "er4", "ir3", "ir6"]},
        }
    )
    arch = space.decode(space.sample(np.random.default_rng(0)))
    print(f"one of {space.size:,} candidates of the space '{space.name}': {arch}")


if __name__ == "__main__":
    main()
