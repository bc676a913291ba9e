"""Hypothesis strategies: any block and any arch that may be described."""

from __future__ import annotations

from hypothesis import strategies as st

from pocketnas.searchspace import Arch, Block, Head, Stem
from pocketnas.searchspace.blocks import (
    MAX_CHANNELS,
    MAX_EXPANSION,
    MAX_KERNEL,
    MAX_REPEATS,
    MIN_SE,
)
from pocketnas.searchspace.ops import find_op, op_names

ACTIVATIONS = ("relu", "relu6", "hswish")
SKIPS = ("identity", "none", "pool")


def blocks(
    *,
    channels: int = MAX_CHANNELS,
    repeats: int = MAX_REPEATS,
    kernel: int = MAX_KERNEL,
    expansion: int = MAX_EXPANSION,
) -> st.SearchStrategy[Block]:
    def build(op: str, expansion: int, kernel: int, **fields: object) -> Block:
        return Block(
            op=op,
            kernel=2 * kernel + 1,
            expansion=expansion if find_op(op).expands else 1,
            **fields,  # type: ignore[arg-type]
        )

    return st.builds(
        build,
        op=st.sampled_from(op_names()),
        repeats=st.integers(1, repeats),
        kernel=st.integers(0, (kernel - 1) // 2),
        stride=st.integers(1, 2),
        expansion=st.integers(1, expansion),
        channels=st.integers(1, channels),
        se=st.just(0.0) | st.floats(MIN_SE, 1.0),
        skip=st.sampled_from(SKIPS),
        activation=st.sampled_from(ACTIVATIONS),
    )


def archs() -> st.SearchStrategy[Arch]:
    return st.builds(
        Arch,
        blocks=st.lists(blocks(), min_size=1, max_size=8).map(tuple),
        stem=st.builds(
            Stem,
            channels=st.integers(1, MAX_CHANNELS),
            stride=st.integers(1, 2),
            activation=st.sampled_from(ACTIVATIONS),
        ),
        head=st.builds(
            Head,
            channels=st.integers(1, MAX_CHANNELS),
            activation=st.sampled_from(ACTIVATIONS),
        ),
    )


def small_archs() -> st.SearchStrategy[Arch]:
    """Archs that build and run in milliseconds, with shapes that often match."""
    block = blocks(channels=3, repeats=3, kernel=5, expansion=3)
    return st.builds(
        Arch,
        blocks=st.lists(block, min_size=1, max_size=3).map(tuple),
        stem=st.builds(Stem, channels=st.integers(1, 3), stride=st.integers(1, 2)),
        head=st.builds(Head, channels=st.integers(1, 6)),
    )
