"""How windows move over images: torch's paddings, and which of them TFLite calls SAME."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from pocketnas.export.graph import Padding, Window

Pair = tuple[int, int]


def conv_window(module: nn.Conv2d, size: Pair) -> Window:
    """The window of a convolution over an image of (H, W) pixels."""
    kernel, stride, dilation = pair(module.kernel_size), pair(module.stride), pair(module.dilation)
    reach = _reach(kernel, dilation)
    if module.padding == "same":  # only at stride 1; as in TFLite, the odd row is at the end
        before = ((reach[0] - 1) // 2, (reach[1] - 1) // 2)
        outputs = size
    else:
        before = (0, 0) if isinstance(module.padding, str) else pair(module.padding)
        outputs = (
            (size[0] + 2 * before[0] - reach[0]) // stride[0] + 1,
            (size[1] + 2 * before[1] - reach[1]) // stride[1] + 1,
        )
    return _window(kernel, stride, dilation, before, size, outputs)


def pool_window(module: nn.AvgPool2d, size: Pair) -> Window:
    """The window of a pooling over an image of (H, W) pixels."""
    kernel = pair(module.kernel_size)
    stride = pair(module.stride)
    before = pair(module.padding)

    def outputs(axis: int) -> int:
        room = size[axis] + 2 * before[axis] - kernel[axis]
        if not module.ceil_mode:
            return room // stride[axis] + 1
        count = -(-room // stride[axis]) + 1
        # A window that would start behind the image and its first padding is left out.
        starts_inside = (count - 1) * stride[axis] < size[axis] + before[axis]
        return count if starts_inside else count - 1

    return _window(kernel, stride, (1, 1), before, size, (outputs(0), outputs(1)))


def slid_size(window: Window, size: Pair) -> Pair:
    """The (H, W) that come of an image of (H, W) pixels; not above 0 where it is too small."""
    padding, reach = window.padding, _reach(window.kernel, window.dilation)
    rows = size[0] + padding.top + padding.bottom - reach[0]
    columns = size[1] + padding.left + padding.right - reach[1]
    return rows // window.stride[0] + 1, columns // window.stride[1] + 1


def is_same_padding(window: Window, size: Pair) -> bool:
    """Whether TFLite's SAME pads an image of (H, W) pixels just as this window does.

    SAME makes ceil(size / stride) outputs, and pads by what these need: half before, and half,
    rounded up, behind.
    """
    reach, padding = _reach(window.kernel, window.dilation), window.padding
    slid = slid_size(window, size)
    for axis, actual in enumerate([(padding.top, padding.bottom), (padding.left, padding.right)]):
        outputs = -(-size[axis] // window.stride[axis])
        total = max((outputs - 1) * window.stride[axis] + reach[axis] - size[axis], 0)
        if slid[axis] != outputs or actual != (total // 2, total - total // 2):
            return False
    return True


def pair(value: int | Sequence[int]) -> Pair:
    """Torch's number or pair of numbers, as (vertical, horizontal)."""
    if isinstance(value, int):
        return value, value
    vertical, horizontal = value
    return int(vertical), int(horizontal)


def _reach(kernel: Pair, dilation: Pair) -> Pair:
    """The pixels from the first to the last that a kernel reads."""
    return (kernel[0] - 1) * dilation[0] + 1, (kernel[1] - 1) * dilation[1] + 1


def _window(
    kernel: Pair, stride: Pair, dilation: Pair, before: Pair, size: Pair, outputs: Pair
) -> Window:
    """A window with as much padding behind the image as its last position needs."""
    reach = _reach(kernel, dilation)
    behind = [
        max(0, (outputs[axis] - 1) * stride[axis] + reach[axis] - size[axis] - before[axis])
        for axis in (0, 1)
    ]
    padding = Padding(before[0], behind[0], before[1], behind[1])
    return Window(kernel, stride, padding, dilation)
