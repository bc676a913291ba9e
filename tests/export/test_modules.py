"""Simple networks of torch's modules export, and what cannot be exported is refused by name."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from pocketnas.errors import ExportError
from pocketnas.export import export_network
from pocketnas.export.graph import Conv
from pocketnas.export.windows import conv_window, pool_window, slid_size
from tests.export.networks import runs_whole_in_xnnpack, small, tflite_ops

IMAGE = (9, 12, 4)


class Wired(nn.Module):
    """Two convolutions and an activation, put together by a function that a test gives."""

    def __init__(self, forward: Callable[[Wired, torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.one = nn.Conv2d(4, 4, 3, padding=1)
        self.two = nn.Conv2d(4, 4, 1)
        self.bn = nn.BatchNorm2d(4)
        self.identity = nn.Identity()
        self.pool = nn.AvgPool2d(2)
        self.relu = nn.ReLU()
        self.relu_in_place = nn.ReLU(inplace=True)
        self.weight = nn.Parameter(torch.ones(1))
        self.wiring = forward

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.wiring(self, x)


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_convolutions_of_any_geometry_agree_with_torch(data: st.DataObject) -> None:
    pair = st.tuples(st.integers(1, 3), st.integers(1, 3))
    stride = data.draw(pair)
    paddings: st.SearchStrategy[str | tuple[int, int]] = st.sampled_from(
        [*product(range(4), range(4)), "valid"] + (["same"] if stride == (1, 1) else [])
    )
    groups = data.draw(st.sampled_from([1, 2, 4]))
    conv = nn.Conv2d(
        4,
        4 * data.draw(st.integers(1, 2)),
        data.draw(st.tuples(st.integers(1, 4), st.integers(1, 4))),
        stride,
        data.draw(paddings),
        data.draw(st.tuples(st.integers(1, 2), st.integers(1, 2))),
        groups,
        bias=data.draw(st.booleans()),
    )
    network = small(conv, nn.ReLU(), channels=conv.out_channels)
    shape = (data.draw(st.integers(7, 12)), data.draw(st.integers(7, 12)), 4)
    exported = export_network(network, shape)
    assert exported.parity.tflite_relative_error < 1e-5
    assert exported.parity.onnx_relative_error < 1e-5


@pytest.mark.parametrize("ceil_mode", [False, True])
def test_windows_make_images_of_torchs_size(ceil_mode: bool) -> None:
    for size, kernel, stride, padding in product(range(1, 7), range(1, 5), range(1, 4), range(3)):
        image = torch.zeros(1, 1, size, size)
        if 2 * padding <= kernel and size + 2 * padding >= kernel:
            pool = nn.AvgPool2d(kernel, stride, padding, ceil_mode, count_include_pad=False)
            window = pool_window(pool, (size, size))
            assert slid_size(window, (size, size)) == pool(image).shape[2:]
        if size + 2 * padding >= kernel:
            conv = nn.Conv2d(1, 1, kernel, stride, padding)
            window = conv_window(conv, (size, size))
            assert slid_size(window, (size, size)) == conv(image).shape[2:]


@pytest.mark.parametrize(
    "pool",
    [
        nn.AvgPool2d(3, 1, padding=1, count_include_pad=False),
        nn.AvgPool2d(2, 2, ceil_mode=True, count_include_pad=False),
        nn.AvgPool2d(2),
        nn.AvgPool2d((3, 2), (2, 1)),
    ],
)
@pytest.mark.parametrize("size", [5, 6])
def test_poolings_agree_with_torch_and_run_in_xnnpack(pool: nn.Module, size: int) -> None:
    exported = export_network(small(pool, nn.ReLU6()), (size, size + 1, 4))
    assert tflite_ops(exported.tflite)[0] == "AVERAGE_POOL_2D"
    assert runs_whole_in_xnnpack(exported.tflite)


@pytest.mark.parametrize("act", [nn.ReLU, nn.ReLU6, nn.Hardswish, nn.Sigmoid])
def test_activations_export_wherever_they_stand(act: Callable[[], nn.Module]) -> None:
    behind_linear = nn.Sequential(
        *small(act(), nn.Conv2d(4, 4, 1), act(), act(), nn.BatchNorm2d(4), act()), act()
    )
    export_network(behind_linear, IMAGE)


def test_a_batch_norm_is_folded_only_where_nothing_else_reads_the_convolution() -> None:
    folded = export_network(small(nn.Conv2d(4, 4, 3), nn.BatchNorm2d(4), nn.ReLU()), IMAGE)
    assert tflite_ops(folded.tflite) == ["CONV_2D", "MEAN", "FULLY_CONNECTED"]

    def read_twice(net: Wired, x: torch.Tensor) -> torch.Tensor:
        y = net.one(x)
        return net.relu(net.bn(y)) + y  # type: ignore[no-any-return]

    apart = export_network(small(Wired(read_twice)), IMAGE)
    assert tflite_ops(apart.tflite)[:3] == ["CONV_2D", "DEPTHWISE_CONV_2D", "ADD"]


@pytest.mark.parametrize(
    "wiring",
    [
        pytest.param(lambda net, x: net.bn(x), id="a batch norm of the image"),
        pytest.param(lambda net, x: net.relu(x + net.two(net.relu(x))), id="an activated sum"),
        pytest.param(lambda net, x: net.relu(net.one(x)) * net.one(x), id="a module used twice"),
        pytest.param(lambda net, x: net.two(x) + net.two(x), id="the same module's results"),
        pytest.param(
            lambda net, x: net.relu_in_place(y := net.one(x)) + net.two(y),
            id="a value read again after it was activated in place",
        ),
        pytest.param(
            lambda net, x: net.two(net.relu_in_place(y := net.identity(x)) * y) + x,
            id="the image itself activated in place",
        ),
        pytest.param(lambda net, x: (net.two(x), net.one(x))[1], id="a result that nobody reads"),
    ],
)
def test_wirings_agree_with_torch(wiring: Callable[[Wired, torch.Tensor], torch.Tensor]) -> None:
    export_network(small(Wired(wiring)), IMAGE)


def test_what_tracing_cannot_see_does_not_pass_the_check() -> None:
    def add_in_place_to_a_value_with_two_names(net: Wired, x: torch.Tensor) -> torch.Tensor:
        y = net.one(x)
        z = y
        y += net.two(x)
        return z * y

    with pytest.raises(ExportError, match="TFLite file disagrees with torch by"):
        export_network(small(Wired(add_in_place_to_a_value_with_two_names)), IMAGE)


def test_values_called_as_the_files_ends_do_not_clash_with_them() -> None:
    class Clashing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.image = nn.Conv2d(4, 4, 1)
            self.logits = small(nn.Conv2d(4, 4, 1))
            self.act = nn.Sigmoid()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.act(self.logits(self.image(x)))  # type: ignore[no-any-return]

    class Nested(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.logits = nn.Linear(3, 3)
            self.image = nn.Hardswish()
            self.inner = Clashing()

        def forward(self, image: torch.Tensor) -> torch.Tensor:
            return self.image(self.logits(self.inner(image)))  # type: ignore[no-any-return]

    export_network(Nested(), IMAGE)


def test_what_nobody_reads_is_left_out() -> None:
    network = small(Wired(lambda net, x: (net.two(x), net.one(x))[1]))
    assert sum(isinstance(op, Conv) for op in export_network(network, IMAGE).graph.ops) == 1


@pytest.mark.parametrize(
    ("layer", "named"),
    [
        (nn.MaxPool2d(2), "the module '0' is a MaxPool2d, which cannot be exported: use Conv2d"),
        (nn.Sequential(nn.Identity(), nn.GELU()), r"the module '0\.1' is a GELU"),
        (nn.BatchNorm2d(4, track_running_stats=False), "'0' .*keeps no running statistics"),
        (nn.Conv2d(4, 4, 3, padding=1, padding_mode="reflect"), "padding mode is 'reflect'"),
        (nn.Conv2d(3, 4, 1), r"'0' \(Conv2d\) .*takes 3 channels but gets 4"),
        (nn.Conv2d(4, 4, 11), r"'0' .*kernel is larger than its input of \(9, 12\) pixels"),
        (nn.Conv2d(4, 4, 1).double(), r"weights are torch\.float64, not torch\.float32"),
        (nn.AdaptiveAvgPool2d(2), "'0' .*only pooling to a single pixel"),
        (nn.AvgPool2d(3, 1, 1), "'0' .*count_include_pad=False"),
        (nn.AvgPool2d(3, 2, 1, count_include_pad=False), "'0' .*no such padding"),
        (nn.AvgPool2d(2, divisor_override=3), "'0' .*divisor of its own"),
        (nn.Flatten(), "'0' .*more than one pixel"),
        (nn.Linear(12, 12), "'0' .*put a Flatten before it"),
    ],
)
def test_modules_that_cannot_be_exported_are_named(layer: nn.Module, named: str) -> None:
    with pytest.raises(ExportError, match=named):
        export_network(nn.Sequential(layer, *small()), IMAGE)


@pytest.mark.parametrize(
    ("wiring", "named"),
    [
        (lambda net, x: torch.cat([x, x], 1), "the module '0' uses the function 'cat'"),
        (lambda net, x: torch.relu(x), "uses the function 'relu'"),
        (lambda net, x: x.mean((2, 3)), "uses the method 'mean' of a tensor"),
        (lambda net, x: x * net.weight, "uses the tensor '0.weight'"),
        (lambda net, x: x * 2, r"'0' has a \+ or \* with a number"),
        (lambda net, x: x if x.sum() > 0 else net.one(x), "cannot be traced: .*control flow"),
        (lambda net, x: x * len(x), "cannot be traced: .*len"),
        (lambda net, x: nn.ReLU()(x), "cannot be traced: .*not installed as a submodule"),
        (lambda net, x: net.one(x) + net.pool(x), "shapes .* do not match"),
    ],
)
def test_computations_that_cannot_be_exported_are_named(
    wiring: Callable[[Wired, torch.Tensor], torch.Tensor], named: str
) -> None:
    with pytest.raises(ExportError, match=named):
        export_network(small(Wired(wiring)), IMAGE)


def test_networks_of_other_ends_are_refused() -> None:
    class TwoImages(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return x + y

    class TwoResults(nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return x, x

    with pytest.raises(ExportError, match="second input 'y'"):
        export_network(TwoImages(), IMAGE)
    for network in (TwoResults(), nn.Sequential(nn.ReLU()), nn.Sequential()):
        with pytest.raises(ExportError, match=r"must return logits \(N, classes\)"):
            export_network(network, IMAGE)
    with pytest.raises(ExportError, match="input shape must be"):
        export_network(small(), (0, 9, 4))


def test_a_subclass_of_a_module_is_not_taken_for_it() -> None:
    class Doubling(nn.Conv2d):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return 2 * super().forward(x)

    with pytest.raises(ExportError, match="the forward of the module '0'"):
        export_network(small(Doubling(4, 4, 1)), IMAGE)
