"""Networks compute what their archs say, and train."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import fx, nn

from pocketnas.errors import ArchError
from pocketnas.searchspace import (
    PUBLISHED,
    Arch,
    Network,
    build_network,
    parse_arch,
    parse_block,
)
from pocketnas.searchspace.layers import Layer
from pocketnas.searchspace.plan import LayerPlan
from pocketnas.searchspace.published import published
from tests.searchspace.strategies import small_archs

ALLOWED = (
    nn.ReLU,
    nn.ReLU6,
    nn.Hardswish,
    nn.Sigmoid,
    nn.AdaptiveAvgPool2d,
    nn.AvgPool2d,
    nn.Dropout,
    nn.Flatten,
    nn.Linear,
    nn.Conv2d,
    nn.BatchNorm2d,
)


def seeded(arch: Arch, shape: tuple[int, int, int] = (16, 16, 3), classes: int = 5) -> Network:
    torch.manual_seed(0)
    return build_network(arch, shape, classes)


def images(shape: tuple[int, int, int], number: int = 4) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(number, shape[2], shape[0], shape[1], generator=generator)


def shortcuts(network: Network) -> list[tuple[bool, bool]]:
    """For each layer, whether it has a shortcut, and whether that is pooled."""
    layers = (module for module in network.modules() if isinstance(module, Layer))
    return [(module.has_skip, module.pool is not None) for module in layers]


def layer(text: str, in_channels: int) -> Layer:
    block = parse_block(text)
    return Layer(LayerPlan(block, in_channels, block.stride), momentum=0.1).eval()


@settings(deadline=None, max_examples=60)
@given(small_archs(), st.integers(1, 9), st.integers(1, 9), st.integers(1, 3))
def test_any_arch_builds_runs_and_traces_to_the_closed_set_of_operators(
    arch: Arch, height: int, width: int, channels: int
) -> None:
    network = seeded(arch, (height, width, channels)).eval()
    batch = images((height, width, channels))
    logits = network(batch)
    assert logits.shape == (4, 5)
    traced = fx.symbolic_trace(network)
    torch.testing.assert_close(traced(batch), logits)
    for node in traced.graph.nodes:
        if node.op == "call_module":
            assert isinstance(traced.get_submodule(str(node.target)), ALLOWED)
        elif node.op not in ("placeholder", "output"):
            assert node.op == "call_function"
            assert getattr(node.target, "__name__", None) in ("add", "mul")


@settings(deadline=None, max_examples=60)
@given(small_archs())
def test_an_arch_and_its_canonical_arch_are_the_same_network(arch: Arch) -> None:
    batch = images((16, 16, 3))
    torch.testing.assert_close(
        seeded(arch).train()(batch), seeded(arch.canonical()).train()(batch), rtol=0, atol=0
    )


@settings(deadline=None, max_examples=60)
@given(small_archs())
def test_a_skip_that_is_not_the_identity_in_the_canonical_arch_matters(arch: Arch) -> None:
    plain = arch.canonical()
    for number, block in enumerate(plain.blocks):
        if block.skip != "identity":
            blocks = list(plain.blocks)
            blocks[number] = replace(block, skip="identity")
            assert shortcuts(seeded(plain)) != shortcuts(
                seeded(replace(plain, blocks=tuple(blocks)))
            )


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_networks_run(name: str) -> None:
    network = seeded(published(name), (32, 32, 3), 10).eval()
    assert network.arch.name == name
    assert network.input_shape == (32, 32, 3)
    assert network.classes == 10
    assert network(images((32, 32, 3))).shape == (4, 10)


@pytest.mark.parametrize("op", ["cn_r1_k3_s1_c4", "ds_r1_k3_s1_c4", "ir_r1_k3_s1_e2_c4"])
@pytest.mark.parametrize("se", ["", "_se0.25"])
def test_an_identity_skip_adds_the_input(op: str, se: str) -> None:
    built = layer(op + se, 4)
    x = images((7, 5, 4))
    torch.testing.assert_close(built(x), built.function(x) + x)
    assert not layer(f"{op}{se}_noskip", 4).has_skip
    assert not layer(op + se, 3).has_skip


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize(("height", "width"), [(6, 8), (7, 5), (1, 1), (2, 1)])
def test_a_pooled_skip_adds_the_mean_of_the_pixels_that_are_there(
    stride: int, height: int, width: int
) -> None:
    built = layer(f"ds_r1_k5_s{stride}_c4_pool", 4)
    x = images((height, width, 4))
    pooled = torch.empty(4, 4, -(-height // stride), -(-width // stride))
    for row in range(pooled.shape[2]):
        for column in range(pooled.shape[3]):
            top, left = row * stride, column * stride
            if stride == 1:
                window = x[:, :, max(0, top - 1) : top + 2, max(0, left - 1) : left + 2]
            else:
                window = x[:, :, top : top + 2, left : left + 2]
            pooled[:, :, row, column] = window.mean((2, 3))
    torch.testing.assert_close(built(x), built.function(x) + pooled)
    assert not layer(f"ds_r1_k5_s{stride}_c6_pool", 4).has_skip


def test_se_squeezes_the_input_channels_and_scales_the_expanded_ones() -> None:
    built = layer("ir_r1_k3_s1_e6_c16_se0.25", 16)
    assert built.se is not None
    assert built.se.conv_reduce.weight.shape == (4, 96, 1, 1)
    assert built.se.conv_expand.weight.shape == (96, 4, 1, 1)
    x = images((5, 5, 96))
    means = x.mean((2, 3), keepdim=True)
    squeezed = torch.relu(built.se.conv_reduce(means))
    torch.testing.assert_close(built.se(x), x * torch.sigmoid(built.se.conv_expand(squeezed)))


def test_layers_have_the_attribute_names_of_timm() -> None:
    names = {name for name, _ in layer("ir_r1_k3_s1_e6_c4_se0.25", 4).named_children()}
    assert {"conv_pw", "bn1", "conv_dw", "bn2", "se", "conv_pwl", "bn3"} <= names
    network = seeded(parse_arch("ds_r1_k3_s1_c16,ir_r2_k3_s2_e6_c24"))
    keys = network.state_dict().keys()
    for key in ("conv_stem.weight", "blocks.0.0.conv_dw.weight", "blocks.1.1.conv_pwl.weight"):
        assert key in keys
    assert {"conv_head.weight", "classifier.weight", "classifier.bias"} <= keys


@pytest.mark.parametrize("activation", ["nre", "nr6", "nhs"])
@pytest.mark.parametrize("skip", ["", "_noskip", "_pool"])
def test_gradients_reach_every_parameter_and_a_step_lowers_the_loss(
    activation: str, skip: str
) -> None:
    arch = parse_arch(
        f"stem_c8_s1_{activation},cn_r2_k3_s1_c8_{activation}{skip},"
        f"ds_r2_k3_s2_c8_se1_{activation}{skip},ir_r2_k5_s1_e3_c8_se1_{activation}{skip},"
        f"head_c32_{activation}"
    )
    network = seeded(arch, (12, 12, 3)).train()
    batch, targets = images((12, 12, 3), 16), torch.arange(16) % 5
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for step in range(30):
        loss = nn.functional.cross_entropy(network(batch), targets)
        optimizer.zero_grad()
        loss.backward()
        if step == 1:  # in step 0 the classifier's near-zero weights let next to nothing through
            for name, parameter in network.named_parameters():
                assert parameter.grad is not None, name
                assert torch.isfinite(parameter.grad).all(), name
                assert parameter.grad.abs().sum() > 0, name
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.9 * losses[0]


def test_fresh_weights_follow_mnasnet_and_the_seed() -> None:
    arch = published("mnasnet_a1@0.5")
    one, two = seeded(arch), seeded(arch)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters(), strict=True))
    stem = one.conv_stem.weight
    assert stem.std().item() == pytest.approx((2 / (9 * 16)) ** 0.5, rel=0.15)
    depthwise = one.get_parameter("blocks.5.1.conv_dw.weight")
    assert depthwise.std().item() == pytest.approx((2 / 25) ** 0.5, rel=0.05)
    assert one.classifier.weight.std().item() == pytest.approx(0.01, rel=0.1)
    assert not one.classifier.bias.any()


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"input_shape": (0, 8, 1)}, "input shape must be"),
        ({"input_shape": (8, 8)}, "input shape must be"),
        ({"input_shape": (8, 8, 10**9)}, "input shape must be"),
        ({"input_shape": (8.0, 8, 1)}, "input shape must be"),
        ({"classes": 0}, "number of classes must be"),
        ({"classes": 10**12}, "number of classes must be"),
        ({"dropout": 1.0}, "dropout must be"),
        ({"dropout": float("nan")}, "dropout must be"),
        ({"bn_momentum": 0.0}, "momentum of batch norm must be"),
    ],
)
def test_impossible_networks_are_refused(arguments: dict[str, object], named: str) -> None:
    defaults: dict[str, object] = {"input_shape": (8, 8, 1), "classes": 10}
    arch = parse_arch("stem_c8_s1,ds_r1_k3_s1_c8,head_c32")
    with pytest.raises(ArchError, match=named):
        build_network(arch, **{**defaults, **arguments})  # type: ignore[arg-type]


def test_a_giant_is_refused_before_it_fills_the_memory() -> None:
    giant = parse_arch(["ir_r64_k15_s1_e32_c8192"] * 64)
    with pytest.raises(ArchError, match="more than the 200,000,000 that are built"):
        build_network(giant, (8, 8, 3), 10)
