"""Costs agree with what the real torch modules have and do."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import fx, nn
from torch.fx.passes.shape_prop import ShapeProp

from pocketnas.searchspace import (
    Arch,
    Network,
    build_network,
    count,
    load_space,
    parse_arch,
)
from pocketnas.searchspace.published import published
from tests.searchspace.strategies import small_archs


def counted_by_hooks(network: Network) -> int:
    """Multiply-adds that the convolutions and linear layers really do for one image."""
    total = 0

    def add(module: nn.Module, _: object, output: torch.Tensor) -> None:
        nonlocal total
        if isinstance(module, nn.Conv2d):
            total += output[0].numel() * module.weight[0].numel()
        elif isinstance(module, nn.Linear):
            total += output[0].numel() * module.in_features

    handles = [module.register_forward_hook(add) for module in network.modules()]
    height, width, channels = network.input_shape
    with torch.no_grad():
        network.eval()(torch.zeros(1, channels, height, width))
    for handle in handles:
        handle.remove()
    return total


def peak_by_liveness(network: Network) -> int:
    """Peak bytes over the traced graph: what each operator reads, writes, and leaves for later."""
    height, width, channels = network.input_shape
    traced = fx.symbolic_trace(network.eval())
    with torch.no_grad():
        ShapeProp(traced).propagate(torch.zeros(1, channels, height, width))
    folded = (nn.BatchNorm2d, nn.ReLU, nn.ReLU6, nn.Hardswish, nn.Sigmoid, nn.Flatten, nn.Dropout)
    root: dict[fx.Node, fx.Node] = {}
    steps: list[tuple[fx.Node, set[fx.Node]]] = []
    for node in traced.graph.nodes:
        inputs = {root[argument] for argument in node.all_input_nodes}
        is_module = node.op == "call_module"
        if is_module and isinstance(traced.get_submodule(str(node.target)), folded):
            (root[node],) = inputs
        elif node.op != "output":
            root[node] = node
            steps.append((node, inputs))
    last_read = {read: number for number, (_, inputs) in enumerate(steps) for read in inputs}
    peak = 0
    for number, (node, inputs) in enumerate(steps[1:], start=1):
        later = {made for made, _ in steps[:number] if last_read[made] > number}
        alive = inputs | later | {node}
        peak = max(peak, sum(entry.meta["tensor_meta"].shape.numel() for entry in alive))
    return 4 * peak


def check(arch: Arch, input_shape: tuple[int, int, int], classes: int) -> None:
    cost = count(arch, input_shape, classes)
    network = build_network(arch, input_shape, classes)
    assert cost.params == sum(parameter.numel() for parameter in network.parameters())
    assert cost.madds == counted_by_hooks(network)
    assert cost.peak_activation_bytes == peak_by_liveness(network)


@settings(deadline=None, max_examples=80)
@given(small_archs(), st.integers(1, 9), st.integers(1, 9), st.integers(1, 3))
def test_any_arch_costs_what_its_network_does(
    arch: Arch, height: int, width: int, channels: int
) -> None:
    check(arch, (height, width, channels), 5)


def test_published_networks_cost_what_they_do() -> None:
    for name, shape in (
        ("mobilenet_v2", (96, 96, 3)),
        ("mnasnet_a1@0.75", (65, 33, 3)),
        ("mnasnet_small", (32, 32, 1)),
    ):
        check(published(name), shape, 10)


def test_the_rows_add_up_and_connect() -> None:
    for name in ("mnasnet", "mnasnet-cifar", "mnasnet-mini"):
        space = load_space(name)
        shape = (space.input_resolution, space.input_resolution, 3)
        cost = count(space.base, shape, 10)
        blocks = [f"b{number}" for number in range(1, len(space.base.blocks) + 1)]
        assert [row.name for row in cost.blocks] == ["stem", *blocks, "head", "classifier"]
        assert cost.madds == sum(row.madds for row in cost.blocks)
        assert cost.params == sum(row.params for row in cost.blocks)
        assert cost.peak_activation_bytes == max(row.peak_activation_bytes for row in cost.blocks)
        assert cost.blocks[0].input_shape == shape
        assert cost.blocks[-1].output_shape == (1, 1, 10)
        for before, after in zip(cost.blocks, cost.blocks[1:], strict=False):
            assert before.output_shape == after.input_shape


def test_a_small_network_costs_what_is_worked_out_by_hand() -> None:
    arch = parse_arch("stem_c4_s1,ir_r1_k3_s1_e2_c4_se0.25,head_c8")
    stem, block, head, classifier = count(arch, (6, 6, 3), 2).blocks
    assert stem.madds == 36 * 9 * 3 * 4
    assert stem.params == 9 * 3 * 4 + 2 * 4
    assert stem.peak_activation_bytes == 4 * 36 * (3 + 4)
    expand, depthwise, se, project = 4 * 8, 9 * 8, 8 * 1, 8 * 4
    assert block.madds == 36 * (expand + depthwise + project) + 2 * se
    assert block.params == (expand + 16) + (depthwise + 16) + (8 + 1) + (8 + 8) + (project + 8)
    # SE's scaling: the features, the scaled features, the gate, and the input for the shortcut.
    assert block.peak_activation_bytes == 4 * (36 * (8 + 8 + 4) + 8)
    assert head.madds == 36 * 4 * 8
    assert head.params == 4 * 8 + 2 * 8
    assert classifier.madds == 8 * 2
    assert classifier.params == 8 * 2 + 2


def test_leaving_a_skip_out_saves_the_memory_that_it_held() -> None:
    with_skip = count(parse_arch("ir_r2_k3_s1_e6_c32"), (32, 32, 3), 10)
    without = count(parse_arch("ir_r2_k3_s1_e6_c32_noskip"), (32, 32, 3), 10)
    assert with_skip.madds == without.madds
    saved = with_skip.blocks[1].peak_activation_bytes - without.blocks[1].peak_activation_bytes
    assert saved == 4 * 16 * 16 * 32
