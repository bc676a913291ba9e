"""Search spaces: sizes, tokens and archs, and Optuna."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import optuna
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pocketnas.errors import SpaceError
from pocketnas.searchspace import (
    BUILTIN_SPACES,
    BlockChoices,
    SearchSpace,
    build_network,
    count,
    load_space,
    parse_arch,
)
from pocketnas.searchspace.published import published

EXAMPLE = str(Path(__file__).parents[2] / "examples" / "my_space.toml")
SPACES = (*BUILTIN_SPACES, EXAMPLE)


def any_tokens(space: SearchSpace) -> st.SearchStrategy[tuple[int, ...]]:
    return st.tuples(*(st.integers(0, len(d.choices) - 1) for d in space.decisions))


@pytest.mark.parametrize("name", SPACES)
@settings(deadline=None, max_examples=100)
@given(st.data())
def test_tokens_archs_params_and_text_round_trip(name: str, data: st.DataObject) -> None:
    space = load_space(name)
    tokens = data.draw(any_tokens(space))
    arch = space.decode(tokens)
    assert space.encode(arch) == tokens
    assert parse_arch(str(arch)) == arch
    assert space.encode(parse_arch(str(arch))) == tokens
    assert space.params_to_tokens(space.tokens_to_params(tokens)) == tokens


@pytest.mark.parametrize("name", SPACES)
def test_the_base_is_in_its_own_space(name: str) -> None:
    space = load_space(name)
    assert space.decode(space.encode(space.base)) == space.base


def test_mnasnet_has_the_decisions_of_the_paper() -> None:
    space = load_space("mnasnet")
    assert space.input_resolution == 224
    assert len(space.decisions) == 42
    assert [d.name for d in space.decisions[:7]] == [
        "b1.op",
        "b1.kernel",
        "b1.se",
        "b1.skip",
        "b1.filters",
        "b1.layers",
        "b2.op",
    ]
    choices = {d.name: d.choices for d in space.decisions}
    assert choices["b4.op"] == ("conv", "ds", "ir3", "ir6")
    assert choices["b4.kernel"] == (3, 5)
    assert choices["b4.se"] == (0.0, 0.25)
    assert choices["b4.skip"] == ("none", "identity", "pool")
    assert choices["b4.filters"] == (0.75, 1.0, 1.25)
    assert choices["b4.layers"] == (-1, 0, 1)
    assert choices["b1.layers"] == choices["b7.layers"] == (0, 1)
    assert space.size == (4 * 2 * 2 * 3 * 3 * 3) ** 5 * (4 * 2 * 2 * 3 * 3 * 2) ** 2


def test_the_base_of_mnasnet_is_mobilenet_v2_with_relu() -> None:
    base, model = load_space("mnasnet").base, published("mobilenet_v2")
    assert [replace(block, activation="relu") for block in model.blocks] == list(base.blocks)
    cost = count(base, (224, 224, 3), 1000)
    assert (cost.params, cost.madds) == (3_504_872, 300_774_272)


def test_mini_is_small_enough_to_train_in_seconds() -> None:
    space = load_space("mnasnet-mini")
    assert 1_000_000 < count(space.base, (28, 28, 1), 10).madds < 2_500_000
    rng = np.random.default_rng(0)
    madds = [count(space.decode(space.sample(rng)), (28, 28, 1), 10).madds for _ in range(200)]
    assert max(madds) < 20_000_000
    logits = build_network(space.base, (8, 8, 1), 10)
    assert logits.classes == 10


@pytest.mark.parametrize("name", SPACES)
def test_channel_choices_stay_apart_and_keep_the_base(name: str) -> None:
    space = load_space(name)
    tokens = list(space.encode(space.base))
    for number, block in enumerate(space.base.blocks):
        position = 6 * number + 4
        widths = []
        for token, factor in enumerate(space.decisions[position].choices):
            arch = space.decode([*tokens[:position], token, *tokens[position + 1 :]])
            widths.append(arch.blocks[number].channels)
            assert abs(widths[-1] - float(factor) * block.channels) <= 4
        assert len(set(widths)) == len(widths)
    if name == "mnasnet":
        decisions = range(4, 42, 6)
        wide = space.decode([2 if n in decisions else token for n, token in enumerate(tokens)])
        assert [block.channels for block in wide.blocks] == [20, 32, 40, 80, 120, 200, 400]


@pytest.mark.parametrize(
    ("channels", "filters", "widths"),
    [
        (64, (0.75, 1.0, 1.25), [48, 64, 80]),
        (20, (0.75, 1.0, 1.25), [16, 20, 24]),  # to multiples of 4, since 20 is none of 8
        (17, (1.0,), [17]),
        (8, (0.75, 1.0, 1.25), [6, 8, 10]),
        (4, (0.75, 1.0, 1.25), [3, 4, 5]),
    ],
)
def test_channels_are_rounded_no_finer_than_they_must(
    channels: int, filters: tuple[float, ...], widths: list[int]
) -> None:
    base = parse_arch(f"ds_r1_k3_s1_c{channels}")
    choices = BlockChoices(("ds",), (3,), (0.0,), ("identity",), filters, (0,))
    space = SearchSpace("mine", base, (choices,), 28)
    found = [space.decode((0, 0, 0, 0, token, 0)) for token in range(space.size)]
    assert [arch.blocks[0].channels for arch in found] == widths


def test_samples_are_uniform_and_follow_the_seed() -> None:
    space = load_space("mnasnet-mini")
    one, two = np.random.default_rng(7), np.random.default_rng(7)
    samples = [space.sample(one) for _ in range(3000)]
    assert samples == [space.sample(two) for _ in range(3000)]
    assert all(type(token) is int for token in samples[0])
    for position, decision in enumerate(space.decisions):
        column = [tokens[position] for tokens in samples]
        expected = 3000 / len(decision.choices)
        for token in range(len(decision.choices)):
            assert abs(column.count(token) - expected) < 5 * expected**0.5


def test_neighbors_differ_in_one_decision_and_are_all_there() -> None:
    space = load_space("mnasnet-mini")
    here = space.encode(space.base)
    found = list(space.neighbors(here))
    assert len(set(found)) == len(found) == sum(len(d.choices) - 1 for d in space.decisions)
    for tokens in found:
        assert sum(a != b for a, b in zip(tokens, here, strict=True)) == 1
        space.decode(tokens)


@pytest.mark.parametrize("sampler", ["RandomSampler", "TPESampler", "NSGAIISampler"])
def test_optuna_searches_the_space(sampler: str) -> None:
    space = load_space("mnasnet-mini")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(sampler=getattr(optuna.samplers, sampler)(seed=0))
    for _ in range(15):
        trial = study.ask(space.distributions())
        arch = space.decode(space.params_to_tokens(trial.params))
        study.tell(trial, count(arch, (28, 28, 1), 10).madds)
    best = space.params_to_tokens(study.best_params)
    assert space.tokens_to_params(best) == study.best_params


def test_the_fingerprint_follows_all_that_defines_a_space_but_not_its_name() -> None:
    space = load_space("mnasnet-mini")
    fingerprints = {load_space(name).fingerprint for name in SPACES}
    assert len(fingerprints) == len(SPACES)
    assert replace(space, name="other").fingerprint == space.fingerprint
    changed = [
        replace(space, input_resolution=32),
        replace(space, base=replace(space.base, head=replace(space.base.head, channels=64))),
        replace(space, choices=(replace(space.choices[0], kernel=(5, 3)), *space.choices[1:])),
    ]
    assert len({other.fingerprint for other in (space, *changed)}) == 4


def test_fingerprints_do_not_change_between_versions() -> None:
    """A run can only be resumed while they stay."""
    assert {name: load_space(name).fingerprint for name in BUILTIN_SPACES} == {
        "mnasnet": "8451e26d874e5329",
        "mnasnet-cifar": "9f20b56b46eee524",
        "mnasnet-mini": "9ea1a693eabb9895",
    }


@pytest.mark.parametrize(
    ("position", "text", "named"),
    [
        (0, "stem_c16_s1", "it has stem_c16_s1, not stem_c8_s1"),
        (6, "head_c256", "it has head_c256, not head_c128"),
        (1, "ds_r1_k7_s1_e1_c8", "b1 has kernel 7, not one of 3, 5"),
        (1, "ds_r3_k3_s1_e1_c8", "b1 has layers 3, not one of 1, 2"),
        (2, "ir_r1_k3_s2_e4_c16", "b2 has op ir4, not one of conv, ds, ir3, ir6"),
        (2, "ir_r1_k3_s1_e3_c16", "b2 has stride 1, not 2"),
        (2, "ir_r1_k3_s2_e3_c16_nr6", "b2 has activation relu6, not relu"),
        (2, "ir_r1_k3_s2_e3_c17", "b2 has channels 17, not one of 12, 16, 20"),
        (2, "ir_r1_k3_s2_e3_c16_se0.5", "b2 has SE ratio 0.5, not one of 0.0, 0.25"),
    ],
)
def test_an_arch_outside_is_refused_with_the_difference(
    position: int, text: str, named: str
) -> None:
    space = load_space("mnasnet-mini")
    strings = list(space.base.strings)
    strings[position] = text
    with pytest.raises(SpaceError) as caught:
        space.encode(parse_arch(strings))
    assert named in str(caught.value)


def test_an_arch_of_another_length_is_refused() -> None:
    with pytest.raises(SpaceError, match="it has 7 blocks, not 5"):
        load_space("mnasnet-mini").encode(published("mnasnet_a1"))


@pytest.mark.parametrize("change", [(0, 4), (0, -1), (5, 2)])
def test_tokens_outside_their_choices_are_refused(change: tuple[int, int]) -> None:
    space = load_space("mnasnet-mini")
    tokens = list(space.encode(space.base))
    tokens[change[0]] = change[1]
    for use in (space.decode, space.tokens_to_params, lambda t: list(space.neighbors(t))):
        with pytest.raises(SpaceError, match=space.decisions[change[0]].name):
            use(tokens)
        with pytest.raises(SpaceError, match="30 decisions but got 29 tokens"):
            use(tokens[:-1])


def test_params_of_another_space_are_refused() -> None:
    space = load_space("mnasnet-mini")
    params = space.tokens_to_params(space.encode(space.base))
    with pytest.raises(SpaceError, match=r"no decision 'b6\.op'"):
        space.params_to_tokens({**params, "b6.op": "ds"})
    with pytest.raises(SpaceError, match=r"'b1\.kernel' has no choice 7: give one of 3, 5"):
        space.params_to_tokens({**params, "b1.kernel": 7})
    del params["b1.op"]
    with pytest.raises(SpaceError, match=r"'b1\.op' is missing: give one of conv, ds"):
        space.params_to_tokens(params)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"op": ()}, "'b1.op' has 0 choices"),
        ({"op": ("ds", "ds")}, "'b1.op' has the choice 'ds' twice"),
        ({"op": ("mb",)}, "'b1.op' has an impossible choice 'mb'"),
        ({"op": ("ir0",)}, "impossible choice 'ir0'"),
        ({"op": ("ir64",)}, "impossible choice 'ir64'"),
        ({"kernel": (4,)}, "kernel must be odd but got 4"),
        ({"kernel": tuple(range(1, 140, 2))}, "'b1.kernel' has 70 choices"),
        ({"se": (float("nan"),)}, "'b1.se' has an impossible choice nan"),
        ({"skip": ("dense",)}, "'b1.skip' has an impossible choice 'dense'"),
        ({"filters": (0.0,)}, "'b1.filters' has an impossible choice 0.0"),
        ({"filters": (float("inf"),)}, "'b1.filters' has an impossible choice inf"),
        ({"filters": (1.0, 1.01)}, "round to the same channels"),
        ({"layers": (-1, 0)}, "'b1.layers' has an impossible choice -1"),
        ({"layers": (0.5,)}, "'b1.layers' has an impossible choice 0.5"),
        ({"layers": (100,)}, "'b1.layers' has an impossible choice 100"),
    ],
)
def test_impossible_choices_are_refused_by_name(change: dict[str, object], named: str) -> None:
    base = parse_arch("ds_r1_k3_s1_c8")
    choices = replace(BlockChoices().fitted(base.blocks[0]), **change)  # type: ignore[arg-type]
    with pytest.raises(SpaceError) as caught:
        SearchSpace("mine", base, (choices,), 28)
    assert named in str(caught.value)


def test_a_space_must_fit_its_base_and_be_buildable() -> None:
    base = parse_arch("ds_r2_k3_s1_c8")
    with pytest.raises(SpaceError, match="choices for 0 blocks but its base has 1"):
        SearchSpace("mine", base, (), 28)
    with pytest.raises(SpaceError, match="input resolution 0"):
        SearchSpace("mine", base, (BlockChoices(),), 0)
    giant = parse_arch("cn_r2_k15_s1_c8192")
    with pytest.raises(SpaceError, match="more than the 200,000,000"):
        SearchSpace("mine", giant, (replace(BlockChoices(), filters=(1.0,)),), 28)
