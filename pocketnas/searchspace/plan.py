"""What each layer of a block is, once the layers before it are known; no torch.

The network that is built and the cost that is counted both follow this one plan.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from pocketnas.errors import ArchError
from pocketnas.searchspace.blocks import Block
from pocketnas.searchspace.notation import shown
from pocketnas.searchspace.ops import Conv, find_op

MAX_SIDE = 4096
MAX_INPUT_CHANNELS = 1024
MAX_CLASSES = 100_000


@dataclass(frozen=True)
class LayerPlan:
    """One layer of a block.

    Attributes:
        block: The block that it belongs to.
        in_channels: Channels of its input.
        stride: The block's for its first layer, else 1.
    """

    block: Block
    in_channels: int
    stride: int

    @property
    def out_channels(self) -> int:
        """Channels of its output."""
        return self.block.channels

    @cached_property
    def convs(self) -> tuple[Conv, ...]:
        """Its convolutions, in the order in which they run."""
        return find_op(self.block.op).convs_of(self)

    @property
    def se_channels(self) -> int:
        """Channels that SE squeezes to, of the layer's input channels; 0 without SE."""
        return max(1, round(self.in_channels * self.block.se)) if self.block.se else 0

    @property
    def shortcut(self) -> str | None:
        """The shortcut that this layer really has: `identity`, `pool` or None."""
        matches = self.in_channels == self.out_channels
        if self.block.skip == "pool" and matches:
            return "pool"
        if self.block.skip == "identity" and matches and self.stride == 1:
            return "identity"
        return None

    @property
    def skip_matters(self) -> bool:
        """Whether another network would result if the block's skip were the identity."""
        matches = self.in_channels == self.out_channels
        return matches and (self.stride == 1 or self.block.skip == "pool")


def plan_layers(in_channels: int, blocks: Iterable[Block]) -> tuple[tuple[LayerPlan, ...], ...]:
    """The layers of each block, where the first block's input has `in_channels` channels."""
    plans = []
    for block in blocks:
        first = LayerPlan(block, in_channels, block.stride)
        rest = (LayerPlan(block, block.channels, 1),) * (block.repeats - 1)
        plans.append((first, *rest))
        in_channels = block.channels
    return tuple(plans)


def require_task(input_shape: object, classes: object = 1) -> None:
    """Refuse an input shape or a number of classes that no network can have.

    Args:
        input_shape: (H, W, C).
        classes: Number of classes.

    Raises:
        ArchError: It is not three whole numbers from 1 up, or is beyond any use.
    """
    limits = (MAX_SIDE, MAX_SIDE, MAX_INPUT_CHANNELS)
    if (
        not isinstance(input_shape, tuple)
        or len(input_shape) != 3
        or not all(
            type(side) is int and 1 <= side <= limit
            for side, limit in zip(input_shape, limits, strict=True)
        )
    ):
        raise ArchError(
            f"an input shape must be (height, width, channels), each from 1 to at most {limits}, "
            f"but got {shown(input_shape)}"
        )
    if type(classes) is not int or not 1 <= classes <= MAX_CLASSES:
        raise ArchError(
            f"the number of classes must be from 1 to {MAX_CLASSES} but got {shown(classes)}"
        )
