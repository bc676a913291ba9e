"""What an op is: the convolutions that a layer of a block runs, one after another; no torch.

The network that is built and the cost that is counted both follow from this one description.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pocketnas.errors import ArchError

if TYPE_CHECKING:
    from pocketnas.searchspace.plan import LayerPlan


@dataclass(frozen=True)
class Conv:
    """A convolution without bias, the batch norm after it, and perhaps more.

    Attributes:
        name: What the layer calls it, as timm does where timm has it, such as `conv_pw`.
        outputs: Channels that it puts out; it takes what the convolution before it puts out.
        kernel: Odd width of its square kernel.
        stride: 1 or 2.
        depthwise: Whether it convolves each channel by itself.
        activated: Whether the block's activation follows; a linear one has none.
        se: Whether squeeze-and-excitation comes next, where the block has it.
    """

    name: str
    outputs: int
    kernel: int = 1
    stride: int = 1
    depthwise: bool = False
    activated: bool = True
    se: bool = False


@dataclass(frozen=True)
class Op:
    """A kind of block. The shortcut around its layers is the block's own matter.

    Attributes:
        name: How block strings begin, two lower-case letters or more, such as `ir`.
        summary: What it is, in a phrase.
        convs: The convolutions of a planned layer, in the order in which they run. The last puts
            out `plan.out_channels`, their strides make up `plan.stride`, and exactly one is
            marked as SE's place.
        expands: Whether it has an expansion; without one it is always 1.
        choice: What a space's `op` decision calls it, followed by the expansion if it has one;
            the name, if not given.
        writes_e1: Whether its block strings give an expansion though it is always 1.
    """

    name: str
    summary: str
    convs: Callable[[LayerPlan], tuple[Conv, ...]]
    expands: bool = False
    choice: str = ""
    writes_e1: bool = False

    def __post_init__(self) -> None:
        if not self.choice:
            object.__setattr__(self, "choice", self.name)

    def convs_of(self, plan: LayerPlan) -> tuple[Conv, ...]:
        """The convolutions of a planned layer, if they fit it.

        Raises:
            ArchError: They do not: the op itself is at fault.
        """
        convs = self.convs(plan)
        if not convs or convs[-1].outputs != plan.out_channels:
            raise ArchError(
                f"op '{self.name}' must end with the {plan.out_channels} channels of its block "
                f"but ends with {convs[-1].outputs if convs else 'no convolution'}: correct it"
            )
        if math.prod(conv.stride for conv in convs) != plan.stride:
            raise ArchError(
                f"op '{self.name}' must have stride {plan.stride} in all "
                f"but has strides {[conv.stride for conv in convs]}: correct it"
            )
        if sum(conv.se for conv in convs) != 1:
            raise ArchError(
                f"op '{self.name}' must mark exactly one convolution as the place of SE "
                f"but marks {[conv.name for conv in convs if conv.se]}: correct it"
            )
        if len({conv.name for conv in convs}) != len(convs):
            raise ArchError(
                f"op '{self.name}' must give its convolutions different names "
                f"but has {[conv.name for conv in convs]}: correct it"
            )
        return convs
