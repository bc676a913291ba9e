"""An arch: the immutable description of one network, its text form, its file form and its key."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pocketnas.errors import ArchError
from pocketnas.searchspace.blocks import (
    MAX_CHANNELS,
    MAX_STRIDE,
    Block,
    format_activation,
    parse_block,
    require_choice,
    require_int,
)
from pocketnas.searchspace.notation import ACTIVATIONS, is_name, read_tokens, require_fields, shown
from pocketnas.searchspace.plan import plan_layers, require_task

MAX_BLOCKS = 64
FILE_FORMAT = 1


@dataclass(frozen=True)
class Stem:
    """The first convolution, 3 x 3.

    Raises:
        ArchError: A value is out of its range.
    """

    channels: int = 32
    stride: int = 2
    activation: str = "relu"

    def __post_init__(self) -> None:
        require_int("the stem's channels", self.channels, MAX_CHANNELS)
        require_int("the stem's stride", self.stride, MAX_STRIDE)
        require_choice("the stem's activation", self.activation, tuple(ACTIVATIONS))

    def __str__(self) -> str:
        return f"stem_c{self.channels}_s{self.stride}{format_activation(self.activation)}"


@dataclass(frozen=True)
class Head:
    """The last convolution, 1 x 1, before pooling and the classifier.

    Raises:
        ArchError: A value is out of its range.
    """

    channels: int = 1280
    activation: str = "relu"

    def __post_init__(self) -> None:
        require_int("the head's channels", self.channels, MAX_CHANNELS)
        require_choice("the head's activation", self.activation, tuple(ACTIVATIONS))

    def __str__(self) -> str:
        return f"head_c{self.channels}{format_activation(self.activation)}"


@dataclass(frozen=True)
class Arch:
    """One network, up to its input shape and its number of classes.

    Attributes:
        blocks: The stages, from the input side on.
        stem: The convolution before them.
        head: The convolution after them.
        name: What people call it; two archs that differ only in their names are equal.

    Raises:
        ArchError: There is no block, or there are too many.
    """

    blocks: tuple[Block, ...]
    stem: Stem = Stem()
    head: Head = Head()
    name: str | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if not 1 <= len(self.blocks) <= MAX_BLOCKS:
            raise ArchError(
                f"an arch must have from 1 to {MAX_BLOCKS} blocks but got {len(self.blocks)}"
            )

    @property
    def strings(self) -> tuple[str, ...]:
        """The block strings, with those of a stem and a head that are not the default ones."""
        stem = () if self.stem == Stem() else (str(self.stem),)
        head = () if self.head == Head() else (str(self.head),)
        return (*stem, *map(str, self.blocks), *head)

    def __str__(self) -> str:
        return ",".join(self.strings)

    def canonical(self) -> Arch:
        """The same network, written in one way only.

        A skip that can take no effect, because no layer of its block has the shapes for it, is
        written as the identity: equal networks have equal canonical archs.
        """
        plans = plan_layers(self.stem.channels, self.blocks)
        blocks = tuple(
            block
            if any(layer.skip_matters for layer in layers)
            else replace(block, skip="identity")
            for block, layers in zip(self.blocks, plans, strict=True)
        )
        return replace(self, blocks=blocks)


def parse_arch(text: str | Sequence[str], name: str | None = None) -> Arch:
    """Read an arch from block strings.

    Args:
        text: Block strings, in a sequence or separated by commas; `stem_c32_s2` may come first
            and `head_c1280` last, and are these defaults where absent.
        name: What to call the arch.

    Raises:
        ArchError: There is no block, or a string is malformed; the error names it.
    """
    if isinstance(text, str):
        pieces = [piece.strip() for piece in text.split(",")]
    elif isinstance(text, Sequence):
        pieces = list(text)
    else:
        raise ArchError(f"an arch must be given as block strings but got {shown(text)}")
    if len(pieces) > MAX_BLOCKS + 2:
        raise ArchError(f"an arch must have at most {MAX_BLOCKS} blocks but got {len(pieces)}")
    stem, head = Stem(), Head()
    if pieces and _is(pieces[0], "stem"):
        stem = _parse_stem(pieces.pop(0))
    if pieces and _is(pieces[-1], "head"):
        head = _parse_head(pieces.pop())
    for piece in pieces:
        if _is(piece, "stem") or _is(piece, "head"):
            raise ArchError(
                f"block string {shown(piece)} is out of place: "
                "an arch has at most one stem, which comes first, and one head, which comes last"
            )
    return Arch(tuple(parse_block(piece) for piece in pieces), stem, head, name)


def candidate_key(arch: Arch, task: str, input_shape: tuple[int, int, int]) -> str:
    """The name of a candidate: 16 hexadecimal digits, the same for equal networks.

    Args:
        arch: Its description; only what the canonical arch says counts.
        task: What it is trained on, as the data set names itself.
        input_shape: (H, W, C).
    """
    plain = arch.canonical()
    parts = [str(plain.stem), *map(str, plain.blocks), str(plain.head)]
    document = json.dumps([parts, task, list(input_shape)])
    return hashlib.sha256(document.encode()).hexdigest()[:16]


def arch_to_dict(
    arch: Arch, *, input_shape: tuple[int, int, int] | None = None, classes: int | None = None
) -> dict[str, Any]:
    """The content of an `arch.json`; input shape (H, W, C) and classes only where given."""
    document: dict[str, Any] = {"format": FILE_FORMAT, "name": arch.name, "arch": [*arch.strings]}
    if input_shape is not None:
        document["input_shape"] = list(input_shape)
    if classes is not None:
        document["classes"] = classes
    return document


def arch_from_dict(document: object) -> Arch:
    """Read the content of an `arch.json`; keys that it does not know are left to others.

    Raises:
        ArchError: It is not such a content, or of a newer format.
    """
    if not isinstance(document, Mapping) or "arch" not in document:
        raise ArchError("an arch file must hold an object with the key 'arch', a list of strings")
    if document.get("format") != FILE_FORMAT:
        raise ArchError(
            f"an arch file must be of format {FILE_FORMAT} "
            f"but says {shown(document.get('format'))}: "
            "read it with the PocketNAS that wrote it"
        )
    name = document.get("name")
    if name is not None and not is_name(name):
        raise ArchError(f"an arch file's name must be a line of text but is {shown(name)}")
    strings = document["arch"]
    if not isinstance(strings, list) or not all(isinstance(piece, str) for piece in strings):
        raise ArchError(f"an arch file's 'arch' must be a list of strings but is {shown(strings)}")
    if document.get("input_shape") is not None:
        shape = document["input_shape"]
        require_task(tuple(shape) if isinstance(shape, list) else shape)
    if document.get("classes") is not None:
        require_task((1, 1, 1), document["classes"])
    return parse_arch(strings, name)


def _is(piece: object, kind: str) -> bool:
    return isinstance(piece, str) and piece.split("_", 1)[0] == kind


def _parse_stem(text: str) -> Stem:
    fields = read_tokens(text, ("channels", "stride", "activation"))
    require_fields(text, fields, ("channels", "stride"))
    return Stem(**fields)


def _parse_head(text: str) -> Head:
    fields = read_tokens(text, ("channels", "activation"))
    require_fields(text, fields, ("channels",))
    return Head(**fields)
