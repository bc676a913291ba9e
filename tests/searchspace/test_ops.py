"""An op that is registered is an op like any other; one that is wrong is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from pocketnas.errors import ArchError, SpaceError
from pocketnas.searchspace import (
    Conv,
    Op,
    build_network,
    count,
    load_space,
    ops,
    parse_arch,
    parse_block,
    register_op,
    resolve_arch,
)
from pocketnas.searchspace.plan import LayerPlan
from tests.searchspace.test_cost import check


def bottleneck(plan: LayerPlan) -> tuple[Conv, ...]:
    """As in ResNet, but widening: three convolutions, the last with an activation."""
    hidden = plan.in_channels * plan.block.expansion
    return (
        Conv("conv1", hidden, activated=False),
        Conv("conv2", hidden, plan.block.kernel, plan.stride),
        Conv("conv3", plan.out_channels, se=True),
    )


BOTTLENECK = Op("bneck", "bottleneck", bottleneck, expands=True)
PLAIN = Op("plain", "a convolution under another name", ops.BUILTIN[0].convs, choice="simple")


@pytest.fixture(autouse=True)
def _forgets_ops(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers is gone after it."""
    monkeypatch.setattr(ops, "_OPS", dict(ops._OPS))


def test_a_registered_op_reads_writes_costs_and_builds() -> None:
    with pytest.raises(ArchError, match=r"unknown op 'bneck': use cn, ds or ir"):
        parse_block("bneck_r2_k3_s2_e2_c8")
    assert register_op(BOTTLENECK) is BOTTLENECK
    text = "bneck_r2_k3_s2_e2_c8_se0.5,bneck_r2_k5_s1_e1_c8_pool"
    arch = resolve_arch(text)
    assert str(arch) == text
    check(arch, (9, 7, 3), 4)
    layer = build_network(arch, (9, 7, 3), 4).blocks[0][0]
    names = [name for name, _ in layer.named_children()]
    assert names == ["se", "conv1", "bn1", "conv2", "bn2", "act2", "conv3", "bn3", "act3"]
    assert layer.order == ["conv1", "bn1", "conv2", "bn2", "act2", "conv3", "bn3", "act3", "se"]


def test_an_op_that_does_not_expand_needs_no_expansion() -> None:
    register_op(PLAIN)
    arch, same = parse_arch("plain_r1_k3_s1_c8"), parse_arch("cn_r1_k3_s1_c8")
    assert parse_arch("plain_r1_k3_s1_e1_c8") == arch
    assert str(arch) == "plain_r1_k3_s1_c8"
    assert count(arch, (8, 8, 3), 2).params == count(same, (8, 8, 3), 2).params
    with pytest.raises(ArchError, match="op 'plain' does not expand"):
        parse_block("plain_r1_k3_s1_e2_c8")


def test_a_space_offers_a_registered_op_by_its_choice(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(
        "input_resolution = 8\nbase = ['stem_c4_s1', 'bneck_r1_k3_s1_e2_c8', 'head_c16']\n"
        "[choices]\nop = ['bneck2', 'bneck12', 'simple', 'ir3']"
    )
    with pytest.raises(SpaceError, match="unknown op 'bneck'"):
        load_space(path)
    register_op(BOTTLENECK)
    with pytest.raises(SpaceError, match=r"impossible choice 'simple': ops are conv, ds, irN, bn"):
        load_space(path)
    register_op(PLAIN)
    space = load_space(path)
    rng = np.random.default_rng(0)
    seen = set()
    for _ in range(60):
        tokens = space.sample(rng)
        arch = space.decode(tokens)
        assert space.encode(arch) == tokens
        seen.add((arch.blocks[0].op, arch.blocks[0].expansion))
    assert seen == {("bneck", 2), ("bneck", 12), ("plain", 1), ("ir", 3)}


@pytest.mark.parametrize("choice", ["bneck", "simple2", "plain", "bneck0", "bneck100", "cn"])
def test_a_choice_has_an_expansion_just_where_its_op_has_one(choice: str) -> None:
    register_op(BOTTLENECK)
    register_op(PLAIN)
    space = load_space("mnasnet-mini")
    with pytest.raises(SpaceError, match=f"impossible choice '{choice}'"):
        replace(space, choices=(replace(space.choices[0], op=(choice,)), *space.choices[1:]))


@pytest.mark.parametrize("name", ["", "x", "Ir", "ir2", "a_b", "stem", "head", "a" * 17])
def test_a_name_that_block_strings_cannot_begin_with_is_refused(name: str) -> None:
    with pytest.raises(ArchError, match="an op cannot be called"):
        register_op(replace(BOTTLENECK, name=name, choice="good"))


@pytest.mark.parametrize(("name", "choice"), [("ir", "ir"), ("conv", ""), ("good", "conv")])
def test_a_taken_name_is_refused(name: str, choice: str) -> None:
    with pytest.raises(ArchError, match=r"there is an op '(ir|conv)' already"):
        register_op(replace(BOTTLENECK, name=name, choice=choice))


def test_registering_the_same_op_again_changes_nothing() -> None:
    for _ in range(2):
        register_op(BOTTLENECK)
    assert ops.op_names() == ("cn", "ds", "ir", "bneck")


@pytest.mark.parametrize(
    ("convs", "complaint"),
    [
        ((), "ends with no convolution"),
        ((Conv("a", 7, stride=2, se=True),), "must end with the 8 channels .* ends with 7"),
        ((Conv("a", 8, se=True),), r"must have stride 2 in all but has strides \[1\]"),
        ((Conv("a", 8, stride=2),), r"exactly one convolution as the place of SE but marks \[\]"),
        ((Conv("a", 8, stride=2, se=True), Conv("a", 8)), "different names"),
    ],
)
def test_an_op_that_does_not_fit_its_block_is_refused(
    convs: tuple[Conv, ...], complaint: str
) -> None:
    register_op(Op("wrong", "wrong", lambda plan: convs))
    arch = parse_arch("wrong_r1_k3_s2_c8")
    with pytest.raises(ArchError, match=complaint):
        count(arch, (8, 8, 3), 2)


def test_weights_are_drawn_in_the_same_order_as_ever() -> None:
    """Seeds of earlier runs must go on to mean the same networks."""
    torch.manual_seed(0)
    layer = build_network(parse_arch("ir_r1_k3_s1_e2_c32_se0.5"), (8, 8, 3), 2).blocks[0][0]
    assert [name for name, _ in layer.named_children()] == [
        "se",
        *("conv_pw", "bn1", "act1", "conv_dw", "bn2", "act2", "conv_pwl", "bn3"),
    ]
