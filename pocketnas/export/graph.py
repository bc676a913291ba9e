"""The small NHWC graph that every file is written from: operators as frozen descriptions.

A graph is a list of operators in the order in which they run. A value is known by its name, is
float32, and has the shape (1, H, W, C), or (1, C) once the image has been reduced away. Weights
stay in torch's layout; the writers of files rearrange them.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[np.float32]
Shape: TypeAlias = tuple[int, ...]

INPUT_NAME = "image"
OUTPUT_NAME = "logits"


@dataclass(frozen=True)
class Padding:
    """Rows and columns around an image that a window may reach into."""

    top: int = 0
    bottom: int = 0
    left: int = 0
    right: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether there are none."""
        return self == Padding()


@dataclass(frozen=True)
class Window:
    """How a convolution or a pooling moves over an image; each pair is (vertical, horizontal).

    The padding is only what windows reach: torch may pad a row at the end that none does.
    """

    kernel: tuple[int, int]
    stride: tuple[int, int] = (1, 1)
    padding: Padding = Padding()
    dilation: tuple[int, int] = (1, 1)


@dataclass(frozen=True, eq=False)
class Op:
    """An operator: the values that it reads, and the one that it makes, with that one's shape."""

    inputs: tuple[str, ...]
    output: str
    shape: Shape


@dataclass(frozen=True, eq=False)
class Fusable(Op):
    """An operator that can apply `relu` or `relu6` to its result."""

    activation: str | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class Conv(Fusable):
    """A convolution with zero padding; depthwise where there is a group a channel.

    Attributes:
        weight: (outputs, inputs / groups, kernel height, kernel width).
        bias: (outputs,).
    """

    weight: Array
    bias: Array
    window: Window
    groups: int = 1


@dataclass(frozen=True, eq=False, kw_only=True)
class Linear(Fusable):
    """A linear layer: (1, inputs) to (1, outputs).

    Attributes:
        weight: (outputs, inputs).
        bias: (outputs,).
    """

    weight: Array
    bias: Array


@dataclass(frozen=True, eq=False, kw_only=True)
class Scale(Op):
    """`x * scale + offset` with a number each per channel: a batch norm at inference.

    Fusing leaves none: it becomes part of the convolution before it, or one of its own.
    """

    scale: Array
    offset: Array


@dataclass(frozen=True, eq=False)
class Add(Fusable):
    """The sum of two values, which broadcast as in numpy."""


@dataclass(frozen=True, eq=False)
class Mul(Fusable):
    """The product of two values, which broadcast as in numpy."""


@dataclass(frozen=True, eq=False, kw_only=True)
class AveragePool(Fusable):
    """The mean over a window; padding never counts."""

    window: Window


@dataclass(frozen=True, eq=False, kw_only=True)
class Mean(Op):
    """The mean over the whole image: (1, 1, 1, C), or (1, C) without `keep_dims`."""

    keep_dims: bool


@dataclass(frozen=True, eq=False)
class Flatten(Op):
    """(1, 1, 1, C) to (1, C)."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Activation(Op):
    """An activation by itself: `relu`, `relu6`, `hswish` or `sigmoid`."""

    function: str


@dataclass(frozen=True, eq=False)
class Graph:
    """A network at inference, for one image.

    Attributes:
        input_shape: (H, W, C) of the value `image`.
        ops: In the order in which they run; each reads only `image` and what earlier ones made.
        output: The value that is the result.
    """

    input_shape: tuple[int, int, int]
    ops: tuple[Op, ...]
    output: str = OUTPUT_NAME

    @cached_property
    def shapes(self) -> dict[str, Shape]:
        """The shape of every value."""
        return {INPUT_NAME: (1, *self.input_shape)} | {op.output: op.shape for op in self.ops}

    @property
    def classes(self) -> int:
        """Number of logits."""
        return self.shapes[self.output][-1]

    def uses(self) -> Counter[str]:
        """How often each value is read; being the result counts as once."""
        return Counter(name for op in self.ops for name in op.inputs) + Counter([self.output])

    @cached_property
    def sha256(self) -> str:
        """Hash of the structure: operators, shapes and attributes, but no weights and no names.

        Two networks of the same arch have it in common, and files of one latency come of it.
        """
        numbers = {INPUT_NAME: 0} | {op.output: n for n, op in enumerate(self.ops, start=1)}
        rows = [_structure(op, numbers) for op in self.ops]
        text = json.dumps([self.input_shape, rows, numbers[self.output]])
        return hashlib.sha256(text.encode()).hexdigest()


def _structure(op: Op, numbers: dict[str, int]) -> list[Any]:
    """What an operator does, with its values by number."""

    def attributes() -> Iterator[tuple[str, Any]]:
        for field in fields(op):
            value = getattr(op, field.name)
            if field.name == "inputs":
                value = [numbers[name] for name in value]
            elif isinstance(value, np.ndarray):
                value = value.shape
            elif isinstance(value, Window):
                value = repr(value)
            if field.name != "output":
                yield field.name, value

    return [type(op).__name__, *attributes()]
