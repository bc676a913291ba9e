"""The search spaces that come with PocketNAS."""

from __future__ import annotations

from functools import cache

from pocketnas.searchspace.arch import parse_arch
from pocketnas.searchspace.choices import BlockChoices
from pocketnas.searchspace.space import SearchSpace

_BASES: dict[str, tuple[int, tuple[str, ...]]] = {
    # MnasNet's own: MobileNetV2's stages (Tan et al. 2019, section 4.1) with MnasNet's ReLU.
    "mnasnet": (
        224,
        (
            "ds_r1_k3_s1_e1_c16",
            "ir_r2_k3_s2_e6_c24",
            "ir_r3_k3_s2_e6_c32",
            "ir_r4_k3_s2_e6_c64",
            "ir_r3_k3_s1_e6_c96",
            "ir_r3_k3_s2_e6_c160",
            "ir_r1_k3_s1_e6_c320",
        ),
    ),
    # The same for 32-pixel images: the first two halvings are left out.
    "mnasnet-cifar": (
        32,
        (
            "stem_c32_s1",
            "ds_r1_k3_s1_e1_c16",
            "ir_r2_k3_s1_e6_c24",
            "ir_r3_k3_s2_e6_c32",
            "ir_r4_k3_s2_e6_c64",
            "ir_r3_k3_s1_e6_c96",
            "ir_r3_k3_s2_e6_c160",
            "ir_r1_k3_s1_e6_c320",
        ),
    ),
    # Five narrow blocks for images of 8 to 28 pixels: a candidate trains in seconds on a CPU.
    "mnasnet-mini": (
        28,
        (
            "stem_c8_s1",
            "ds_r1_k3_s1_e1_c8",
            "ir_r1_k3_s2_e3_c16",
            "ir_r2_k3_s2_e3_c24",
            "ir_r2_k3_s1_e3_c40",
            "ir_r1_k3_s2_e3_c64",
            "head_c128",
        ),
    ),
}

BUILTIN_SPACES = tuple(_BASES)
"""Their names."""


@cache
def builtin_space(name: str) -> SearchSpace:
    """The built-in space of that name, one of `BUILTIN_SPACES`."""
    resolution, strings = _BASES[name]
    base = parse_arch(strings, f"{name} base")
    choices = tuple(BlockChoices().fitted(block) for block in base.blocks)
    return SearchSpace(name, base, choices, resolution)
