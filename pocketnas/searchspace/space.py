"""A search space: a base network and, for each of its blocks, the decisions that are open.

MnasNet's factorized hierarchical space (Tan et al. 2019, section 4.1): every block has six
decisions of its own. A candidate is a tuple of tokens, one a decision: the number of its choice.
"""

from __future__ import annotations

import hashlib
import json
import math
import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

from pocketnas.errors import SpaceError
from pocketnas.searchspace.arch import Arch
from pocketnas.searchspace.choices import (
    FIELDS,
    BlockChoices,
    Choice,
    Decision,
    channels_apart,
    check_choices,
    format_op,
    listed,
    parse_op,
)
from pocketnas.searchspace.cost import MAX_PARAMS, count
from pocketnas.searchspace.notation import shown
from pocketnas.searchspace.plan import MAX_SIDE

if TYPE_CHECKING:
    import numpy as np
    from optuna.distributions import BaseDistribution

Tokens: TypeAlias = tuple[int, ...]
"""The number of a choice for each decision."""


@dataclass(frozen=True)
class SearchSpace:
    """A fixed sequence of decisions, and the arch that each outcome stands for.

    Channels are the factor times the base block's, rounded to a multiple of 8, or of 4, 2 or 1
    where the base channels are too few to keep the choices apart.

    Attributes:
        name: What people call it.
        base: The network around which is searched: its stem, head, strides and activations stay.
        choices: For each block of the base.
        input_resolution: Height and width of the images that it is meant for, in pixels.

    Raises:
        SpaceError: A decision has no choices, a repeated one, or one that no block can have.
    """

    name: str
    base: Arch
    choices: tuple[BlockChoices, ...]
    input_resolution: int

    def __post_init__(self) -> None:
        if type(self.input_resolution) is not int or not 1 <= self.input_resolution <= MAX_SIDE:
            raise SpaceError(
                f"space {shown(self.name)} has the input resolution "
                f"{shown(self.input_resolution)}: use a number of pixels from 1 to {MAX_SIDE}"
            )
        if len(self.choices) != len(self.base.blocks):
            raise SpaceError(
                f"space {shown(self.name)} has choices for {len(self.choices)} blocks "
                f"but its base has {len(self.base.blocks)} blocks: give each block its choices"
            )
        for number, (block, choices) in enumerate(
            zip(self.base.blocks, self.choices, strict=True), start=1
        ):
            for field in FIELDS:
                check_choices(f"b{number}.{field}", block, field, getattr(choices, field))
        resolution = self.input_resolution
        params = count(self.base, (resolution, resolution, 3), 1).params
        if params > MAX_PARAMS:
            raise SpaceError(
                f"space {shown(self.name)} has a base with {params:,} parameters, more than the "
                f"{MAX_PARAMS:,} that are built: use fewer channels or layers"
            )
        _ = self._widths  # refuses channel counts that cannot be told apart

    @cached_property
    def decisions(self) -> tuple[Decision, ...]:
        """The decisions: block by block, and in the order of `FIELDS` within a block."""
        return tuple(
            Decision(f"b{number}.{field}", getattr(choices, field))
            for number, choices in enumerate(self.choices, start=1)
            for field in FIELDS
        )

    @cached_property
    def size(self) -> int:
        """The number of token tuples."""
        return math.prod(len(decision.choices) for decision in self.decisions)

    @cached_property
    def fingerprint(self) -> str:
        """16 hexadecimal digits, the same for spaces that hold the same archs by the same tokens.

        The name is no part of it, so a space's file may be renamed.
        """
        definition = {**self.to_dict(), "name": None, "channels": self._widths}
        return hashlib.sha256(json.dumps(definition, sort_keys=True).encode()).hexdigest()[:16]

    def sample(self, rng: np.random.Generator) -> Tokens:
        """Tokens drawn uniformly."""
        return tuple(rng.integers([len(d.choices) for d in self.decisions]).tolist())

    def decode(self, tokens: Sequence[int]) -> Arch:
        """The arch that tokens stand for.

        Raises:
            SpaceError: They are not one token a decision, each the number of a choice.
        """
        picked = self._picked(tokens)
        blocks = []
        for index, base in enumerate(self.base.blocks):
            op, kernel, se, skip, _, layers = picked[
                index * len(FIELDS) : (index + 1) * len(FIELDS)
            ]
            width = self._widths[index][tokens[index * len(FIELDS) + FIELDS.index("filters")]]
            kind, expansion = parse_op(op)
            block = replace(
                base,
                op=kind,
                repeats=base.repeats + layers,
                kernel=kernel,
                expansion=expansion,
                channels=width,
                se=se,
                skip=skip,
            )
            blocks.append(block)
        return replace(self.base, blocks=tuple(blocks), name=None)

    def encode(self, arch: Arch) -> Tokens:
        """The tokens of an arch: `decode` of them gives an equal arch.

        Raises:
            SpaceError: The arch is not in this space; the error says where it differs.
        """
        if len(arch.blocks) != len(self.base.blocks):
            raise self._outside(f"it has {len(arch.blocks)} blocks, not {len(self.base.blocks)}")
        for part, own in ((arch.stem, self.base.stem), (arch.head, self.base.head)):
            if part != own:
                raise self._outside(f"it has {part}, not {own}")
        tokens: list[int] = []
        for index, (block, base) in enumerate(zip(arch.blocks, self.base.blocks, strict=True)):
            for field in ("stride", "activation"):
                if getattr(block, field) != getattr(base, field):
                    raise self._outside(
                        f"b{index + 1} has {field} {getattr(block, field)}, "
                        f"not {getattr(base, field)}"
                    )
            choices = self.choices[index]
            rows: tuple[tuple[str, Choice, tuple[Choice, ...]], ...] = (
                ("op", format_op(block), choices.op),
                ("kernel", block.kernel, choices.kernel),
                ("SE ratio", block.se, choices.se),
                ("skip", block.skip, choices.skip),
                ("channels", block.channels, self._widths[index]),
                ("layers", block.repeats, tuple(base.repeats + n for n in choices.layers)),
            )
            for word, value, offered in rows:
                if value not in offered:
                    raise self._outside(
                        f"b{index + 1} has {word} {value}, not one of {listed(offered)}"
                    )
                tokens.append(offered.index(value))
        return tuple(tokens)

    def neighbors(self, tokens: Sequence[int]) -> Iterator[Tokens]:
        """All tokens that differ in exactly one decision.

        Raises:
            SpaceError: `tokens` are not of this space.
        """
        self._picked(tokens)
        here = tuple(tokens)
        for position, decision in enumerate(self.decisions):
            for token in range(len(decision.choices)):
                if token != here[position]:
                    yield (*here[:position], token, *here[position + 1 :])

    def distributions(self) -> dict[str, BaseDistribution]:
        """The decisions for Optuna: a categorical distribution over the choices of each."""
        from optuna.distributions import CategoricalDistribution

        return {d.name: CategoricalDistribution(d.choices) for d in self.decisions}

    def tokens_to_params(self, tokens: Sequence[int]) -> dict[str, Choice]:
        """The choice of each decision, by its name: the params of an Optuna trial.

        Raises:
            SpaceError: `tokens` are not of this space.
        """
        names = (decision.name for decision in self.decisions)
        return dict(zip(names, self._picked(tokens), strict=True))

    def params_to_tokens(self, params: Mapping[str, object]) -> Tokens:
        """The tokens of an Optuna trial's params.

        Raises:
            SpaceError: A decision is missing, is none of this space's, or has another choice.
        """
        unknown = params.keys() - {decision.name for decision in self.decisions}
        if unknown:
            raise SpaceError(
                f"space {shown(self.name)} has no decision {shown(min(unknown))}: "
                "these params are of another space"
            )
        tokens = []
        for name, choices in ((d.name, d.choices) for d in self.decisions):
            if name not in params:
                raise SpaceError(
                    f"the decision '{name}' is missing: give one of {listed(choices)}"
                )
            if params[name] not in choices:
                raise SpaceError(
                    f"the decision '{name}' has no choice {shown(params[name])}: "
                    f"give one of {listed(choices)}"
                )
            tokens.append(choices.index(params[name]))
        return tuple(tokens)

    def to_dict(self) -> dict[str, Any]:
        """All that defines the space, in the form of a space's TOML file."""
        base = [str(self.base.stem), *map(str, self.base.blocks), str(self.base.head)]
        return {
            "name": self.name,
            "input_resolution": self.input_resolution,
            "base": base,
            "blocks": {
                f"b{number}": {field: list(getattr(choices, field)) for field in FIELDS}
                for number, choices in enumerate(self.choices, start=1)
            },
        }

    @cached_property
    def _widths(self) -> tuple[tuple[int, ...], ...]:
        """For each block, the channels that each of its `filters` choices stands for."""
        return tuple(
            channels_apart(f"b{number}.filters", block, choices.filters)
            for number, (block, choices) in enumerate(
                zip(self.base.blocks, self.choices, strict=True), start=1
            )
        )

    def _picked(self, tokens: Sequence[int]) -> list[Any]:
        """The choice of each decision."""
        if len(tokens) != len(self.decisions):
            raise SpaceError(
                f"space {shown(self.name)} has {len(self.decisions)} decisions "
                f"but got {len(tokens)} tokens"
            )
        picked: list[Any] = []
        for token, decision in zip(tokens, self.decisions, strict=True):
            if not 0 <= operator.index(token) < len(decision.choices):
                raise SpaceError(
                    f"the decision '{decision.name}' has {len(decision.choices)} choices, "
                    f"so its token must be below that but is {token}"
                )
            picked.append(decision.choices[token])
        return picked

    def _outside(self, difference: str) -> SpaceError:
        return SpaceError(f"the arch is not in space {shown(self.name)}: {difference}")
