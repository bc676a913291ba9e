"""Published networks by name, with an optional width: `mobilenet_v2`, `mnasnet_a1@0.75`."""

from __future__ import annotations

import difflib
import re
from dataclasses import replace

from pocketnas.errors import ArchError
from pocketnas.searchspace.arch import Arch, parse_arch
from pocketnas.searchspace.notation import shown

MIN_WIDTH, MAX_WIDTH = 0.1, 4.0

_NETWORKS = {
    # Sandler et al. 2018, table 2.
    "mobilenet_v2": (
        "stem_c32_s2_nr6",
        "ds_r1_k3_s1_e1_c16_nr6",
        "ir_r2_k3_s2_e6_c24_nr6",
        "ir_r3_k3_s2_e6_c32_nr6",
        "ir_r4_k3_s2_e6_c64_nr6",
        "ir_r3_k3_s1_e6_c96_nr6",
        "ir_r3_k3_s2_e6_c160_nr6",
        "ir_r1_k3_s1_e6_c320_nr6",
        "head_c1280_nr6",
    ),
    # Tan et al. 2019, figure 7, and the code published with it.
    "mnasnet_a1": (
        "ds_r1_k3_s1_e1_c16_noskip",
        "ir_r2_k3_s2_e6_c24",
        "ir_r3_k5_s2_e3_c40_se0.25",
        "ir_r4_k3_s2_e6_c80",
        "ir_r2_k3_s1_e6_c112_se0.25",
        "ir_r3_k5_s2_e6_c160_se0.25",
        "ir_r1_k3_s1_e6_c320",
    ),
    "mnasnet_b1": (
        "ds_r1_k3_s1_e1_c16_noskip",
        "ir_r3_k3_s2_e3_c24",
        "ir_r3_k5_s2_e3_c40",
        "ir_r3_k5_s2_e6_c80",
        "ir_r2_k3_s1_e6_c96",
        "ir_r4_k5_s2_e6_c192",
        "ir_r1_k3_s1_e6_c320_noskip",
    ),
    "mnasnet_small": (
        "stem_c8_s2",
        "ds_r1_k3_s1_e1_c8",
        "ir_r1_k3_s2_e3_c16",
        "ir_r2_k3_s2_e6_c16",
        "ir_r4_k5_s2_e6_c32_se0.25",
        "ir_r3_k3_s1_e6_c32_se0.25",
        "ir_r3_k5_s2_e6_c88_se0.25",
        "ir_r1_k3_s1_e6_c144",
    ),
}

PUBLISHED = tuple(_NETWORKS)
"""The names, without widths."""

_WIDTH = re.compile(r"[0-9](?:\.[0-9]{1,6})?")


def published(name: str) -> Arch:
    """The published network of that name.

    Args:
        name: One of `PUBLISHED`, optionally followed by `@` and a width, which scales the
            channels of the stem and of every block. The head keeps its 1280 channels, but
            MobileNetV2's widens with widths above 1 (Sandler et al., section 4).

    Raises:
        ArchError: No such network is known, or the width is not one.
    """
    base, at, width = name.partition("@")
    if base not in _NETWORKS:
        near = difflib.get_close_matches(base[:80], PUBLISHED, n=1)
        hint = f"did you mean '{near[0]}'? " if near else ""
        raise ArchError(
            f"no published network is called {shown(base)}: {hint}known are {', '.join(PUBLISHED)}"
        )
    arch = parse_arch(_NETWORKS[base], base)
    if not at:
        return arch
    if not _WIDTH.fullmatch(width) or not MIN_WIDTH <= float(width) <= MAX_WIDTH:
        raise ArchError(
            f"the width of {shown(name)} must be a decimal from {MIN_WIDTH} to {MAX_WIDTH:g}, "
            f"such as '{base}@0.75'"
        )
    return _scaled(arch, float(width))


def round_channels(channels: float, divisor: int = 8) -> int:
    """The multiple of `divisor` nearest to `channels`, but never down by more than 10 %.

    The rule of MobileNet's published code.
    """
    rounded = max(divisor, int(channels + divisor / 2) // divisor * divisor)
    return rounded + divisor if rounded < 0.9 * channels else rounded


def _scaled(arch: Arch, width: float) -> Arch:
    if width == 1:
        return arch
    head = arch.head
    if arch.name == "mobilenet_v2" and width > 1:
        head = replace(head, channels=round_channels(width * head.channels))
    return Arch(
        blocks=tuple(
            replace(block, channels=round_channels(width * block.channels))
            for block in arch.blocks
        ),
        stem=replace(arch.stem, channels=round_channels(width * arch.stem.channels)),
        head=head,
        name=f"{arch.name}@{width:g}",
    )
