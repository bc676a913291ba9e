"""The choices of a block's decisions: what they may be, and what they do to the block."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from pocketnas.errors import ArchError, SpaceError
from pocketnas.searchspace.blocks import Block
from pocketnas.searchspace.notation import shown
from pocketnas.searchspace.ops import find_op, ops
from pocketnas.searchspace.published import round_channels

Choice: TypeAlias = str | int | float

FIELDS = ("op", "kernel", "se", "skip", "filters", "layers")
"""What is decided for each block, in this order."""

MAX_CHOICES = 64
MAX_FACTOR = 64
_OP = re.compile(r"([a-z]+)([1-9][0-9]?)?")


@dataclass(frozen=True)
class BlockChoices:
    """The choices that one block has; the defaults are MnasNet's.

    Attributes:
        op: `conv`, `ds`, `ir` with its expansion, such as `ir6`, or a registered op's.
        kernel: Widths of the square kernel.
        se: Squeeze-and-excitation ratios.
        skip: `none`, `identity`, `pool`.
        filters: Factors of the base block's channels.
        layers: Differences from the base block's number of layers.
    """

    op: tuple[str, ...] = ("conv", "ds", "ir3", "ir6")
    kernel: tuple[int, ...] = (3, 5)
    se: tuple[float, ...] = (0.0, 0.25)
    skip: tuple[str, ...] = ("none", "identity", "pool")
    filters: tuple[float, ...] = (0.75, 1.0, 1.25)
    layers: tuple[int, ...] = (-1, 0, 1)

    def fitted(self, base: Block) -> BlockChoices:
        """These choices without numbers of layers that would leave the block none."""
        kept = tuple(difference for difference in self.layers if base.repeats + difference >= 1)
        return replace(self, layers=kept)


@dataclass(frozen=True)
class Decision:
    """One decision: its name, such as `b1.op`, and its choices."""

    name: str
    choices: tuple[Choice, ...]


def check_choices(name: str, base: Block, field: str, choices: tuple[Any, ...]) -> None:
    """Refuse the choices of one decision that could not all be taken, or told apart.

    Args:
        name: The decision, such as `b1.op`.
        base: The base's block that it changes.
        field: Which of `FIELDS` it decides.
        choices: Its choices.

    Raises:
        SpaceError: There are none or too many, one is given twice, or no block can have one.
    """
    if not 1 <= len(choices) <= MAX_CHOICES:
        raise SpaceError(
            f"the decision '{name}' has {len(choices)} choices: give from 1 to {MAX_CHOICES}"
        )
    for position, choice in enumerate(choices):
        if choice in choices[:position]:
            raise SpaceError(f"the decision '{name}' has the choice {shown(choice)} twice")
        try:
            _try_choice(base, field, choice)
        except ArchError as error:
            raise SpaceError(
                f"the decision '{name}' has an impossible choice {shown(choice)}: {error}"
            ) from None


def _try_choice(base: Block, field: str, choice: Any) -> None:
    if field == "op":
        kind, expansion = parse_op(choice)
        replace(base, op=kind, expansion=expansion)
    elif field == "filters":
        if type(choice) not in (int, float) or not 0 < choice <= MAX_FACTOR:
            raise ArchError("filters are factors of the base block's channels, such as 0.75")
        replace(base, channels=round_channels(choice * base.channels))
    elif field == "layers":
        if type(choice) is not int:
            raise ArchError("layers are whole differences from the base block's, such as -1")
        replace(base, repeats=base.repeats + choice)
    else:
        replace(base, **{field: choice})


def channels_apart(name: str, base: Block, filters: Sequence[float]) -> tuple[int, ...]:
    """The channels that each factor stands for.

    They are rounded to the coarsest of 8, 4, 2 and 1 that leaves a factor of 1 at the base block's
    own channels and no two factors with the same.

    Raises:
        SpaceError: The base block has too few channels to keep the factors apart.
    """
    for divisor in (8, 4, 2, 1):
        widths = tuple(round_channels(factor * base.channels, divisor) for factor in filters)
        keeps_base = 1 not in filters or widths[filters.index(1)] == base.channels
        if keeps_base and len(set(widths)) == len(widths):
            return widths
    raise SpaceError(
        f"the decision '{name}' has choices {listed(filters)} that round to the same channels, "
        f"since the base block has only {base.channels}: use fewer choices or a wider base"
    )


def parse_op(op: object) -> tuple[str, int]:
    """The op and the expansion of a block for a choice such as `ir6`.

    Raises:
        ArchError: There is no such choice.
    """
    if isinstance(op, str) and (match := _OP.fullmatch(op)):
        for known in ops():
            if known.choice == match[1] and known.expands == bool(match[2]):
                return known.name, int(match[2] or 1)
    known_ops = ", ".join(f"{known.choice}N" if known.expands else known.choice for known in ops())
    raise ArchError(f"ops are {known_ops}, where N is an expansion, as in 'ir6'")


def format_op(block: Block) -> str:
    """The choice that a block's op and expansion stand for."""
    op = find_op(block.op)
    return f"{op.choice}{block.expansion}" if op.expands else op.choice


def listed(choices: Sequence[Choice]) -> str:
    """Choices as they appear in an error."""
    return ", ".join(map(str, choices))
