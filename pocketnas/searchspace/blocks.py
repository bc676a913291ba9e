"""A block: one stage of an arch, and its text form, such as `ir_r3_k5_s2_e3_c40_se0.25`."""

from __future__ import annotations

from dataclasses import dataclass

from pocketnas.errors import ArchError
from pocketnas.searchspace.notation import (
    ACTIVATIONS,
    SKIPS,
    read_tokens,
    require_fields,
    shown,
    write_ratio,
)
from pocketnas.searchspace.ops import find_op, op_names

MAX_REPEATS = 64
MAX_KERNEL = 15
MAX_STRIDE = 2
MAX_EXPANSION = 32
MAX_CHANNELS = 8192
MIN_SE = 0.001

_FIELDS = ("repeats", "kernel", "stride", "expansion", "channels", "se", "skip", "activation")


@dataclass(frozen=True)
class Block:
    """One stage of an arch: `repeats` layers of one kind.

    The first layer has the stride and changes the number of channels; the others have stride 1.

    Attributes:
        op: `cn` (k x k convolution), `ds` (depthwise k x k, then a linear 1 x 1), `ir` (inverted
            residual: 1 x 1 that expands, depthwise k x k, linear 1 x 1; MobileNetV2, section 3),
            or another that was registered. An `ir` always has its expanding convolution, also at
            expansion 1.
        repeats: Number of layers.
        kernel: Odd width of the square kernel.
        stride: Stride of the first layer, 1 or 2.
        expansion: Hidden channels over input channels; 1 for ops that do not expand.
        channels: Output channels of each layer.
        se: Squeeze-and-excitation ratio, of the layer's input channels (MnasNet, section 4);
            0 for none.
        skip: `identity` (where the stride is 1 and the channels match), `none`, or `pool` (an
            average-pooled shortcut wherever the channels match).
        activation: `relu`, `relu6` or `hswish`.

    Raises:
        ArchError: A value is of the wrong type or out of its range.
    """

    op: str
    repeats: int
    kernel: int
    stride: int
    expansion: int
    channels: int
    se: float = 0.0
    skip: str = "identity"
    activation: str = "relu"

    def __post_init__(self) -> None:
        require_choice("op", self.op, op_names())
        require_int("repeats", self.repeats, MAX_REPEATS)
        require_int("kernel", self.kernel, MAX_KERNEL)
        require_int("stride", self.stride, MAX_STRIDE)
        require_int("expansion", self.expansion, MAX_EXPANSION)
        require_int("channels", self.channels, MAX_CHANNELS)
        if self.kernel % 2 == 0:
            raise ArchError(f"a kernel must be odd but got {self.kernel}: use 3, 5 or 7")
        if self.expansion != 1 and not find_op(self.op).expands:
            raise ArchError(
                f"op '{self.op}' does not expand, so its expansion must be 1 "
                f"but got {self.expansion}: use op 'ir' to expand"
            )
        if type(self.se) not in (int, float) or not (self.se == 0 or MIN_SE <= self.se <= 1):
            raise ArchError(
                f"an SE ratio must be 0 or from {MIN_SE} to 1 but got {shown(self.se)}: "
                "use 0 for none, or the paper's 0.25"
            )
        require_choice("skip", self.skip, ("identity", *SKIPS))
        require_choice("activation", self.activation, tuple(ACTIVATIONS))

    def __str__(self) -> str:
        return format_block(self)


def parse_block(text: str) -> Block:
    """Read a block string; tokens may come in any order after the op.

    Args:
        text: For example `ds_r1_k3_s1_e1_c16_noskip`. The `e1` of ops that do not expand may
            be left out, and so may everything that has its default value.

    Raises:
        ArchError: A token is unknown, repeated, missing or out of range; the error names it.
    """
    if not isinstance(text, str):
        raise ArchError(f"a block string must be text but got {shown(text)}")
    op = text.split("_", 1)[0]
    names = op_names()
    if op not in names:
        raise ArchError(
            f"block string {shown(text)} starts with an unknown op {shown(op)}: "
            f"use {', '.join(names[:-1])} or {names[-1]}"
        )
    fields = read_tokens(text, _FIELDS)
    if not find_op(op).expands:
        fields.setdefault("expansion", 1)
    require_fields(text, fields, ("repeats", "kernel", "stride", "expansion", "channels"))
    try:
        return Block(op=op, **fields)
    except ArchError as error:
        raise ArchError(f"block string {shown(text)} is out of range: {error}") from None


def format_block(block: Block) -> str:
    """The block's one canonical string; `parse_block` of it gives an equal block.

    The expansion is written for `ds` and `ir` (as the published strings have it), not for `cn`.
    """
    op = find_op(block.op)
    expansion = f"_e{block.expansion}" if op.expands or op.writes_e1 else ""
    text = (
        f"{block.op}_r{block.repeats}_k{block.kernel}_s{block.stride}{expansion}_c{block.channels}"
    )
    if block.se:
        text += f"_se{write_ratio(block.se)}"
    text += format_activation(block.activation)
    if block.skip != "identity":
        text += f"_{SKIPS[block.skip]}"
    return text


def format_activation(activation: str) -> str:
    """The suffix of an activation: empty for the default, ReLU."""
    return "" if activation == "relu" else f"_{ACTIVATIONS[activation]}"


def require_int(field: str, value: object, most: int) -> None:
    """Refuse anything but a whole number from 1 to `most`.

    Raises:
        ArchError: `value` is none.
    """
    if type(value) is not int or not 1 <= value <= most:
        raise ArchError(f"{field} must be a whole number from 1 to {most} but got {shown(value)}")


def require_choice(field: str, value: object, choices: tuple[str, ...]) -> None:
    """Refuse anything but one of `choices`.

    Raises:
        ArchError: `value` is none of them.
    """
    if not isinstance(value, str) or value not in choices:
        raise ArchError(f"{field} must be one of {', '.join(choices)} but got {shown(value)}")
