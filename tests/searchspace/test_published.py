"""The published networks are exactly those of the papers."""

from __future__ import annotations

import pytest

from pocketnas.errors import ArchError
from pocketnas.searchspace import PUBLISHED, build_network, count, parse_arch
from pocketnas.searchspace.published import published

IMAGENET = ((224, 224, 3), 1000)


@pytest.mark.parametrize(
    ("name", "params", "madds"),
    [
        ("mobilenet_v2", 3_504_872, 300_774_272),
        ("mnasnet_a1", 3_887_038, 311_579_072),
        ("mnasnet_b1", 4_383_312, 314_415_872),
        ("mnasnet_small", 2_030_264, None),
        ("mobilenet_v2@1.4", 6_108_776, None),
        ("mobilenet_v2@0.5", 1_968_680, None),
    ],
)
def test_published_networks_have_the_published_size(
    name: str, params: int, madds: int | None
) -> None:
    cost = count(published(name), *IMAGENET)
    assert cost.params == params
    if madds is not None:
        assert cost.madds == madds
    network = build_network(published(name), *IMAGENET)
    assert sum(parameter.numel() for parameter in network.parameters()) == params


def test_mnasnet_a1_prints_as_its_seven_published_strings() -> None:
    assert published("mnasnet_a1").strings == (
        "ds_r1_k3_s1_e1_c16_noskip",
        "ir_r2_k3_s2_e6_c24",
        "ir_r3_k5_s2_e3_c40_se0.25",
        "ir_r4_k3_s2_e6_c80",
        "ir_r2_k3_s1_e6_c112_se0.25",
        "ir_r3_k5_s2_e6_c160_se0.25",
        "ir_r1_k3_s1_e6_c320",
    )


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_networks_round_trip(name: str) -> None:
    arch = published(name)
    assert arch.name == name
    assert parse_arch(str(arch)) == arch
    assert published(f"{name}@1") == published(f"{name}@1.0") == arch


def test_widths_round_to_a_multiple_of_8_and_never_down_by_more_than_a_tenth() -> None:
    for name in PUBLISHED:
        full = published(name)
        for width in ("0.35", "0.5", "0.75", "1.1", "1.4", "2"):
            arch = published(f"{name}@{width}")
            pairs = zip((full.stem, *full.blocks), (arch.stem, *arch.blocks), strict=True)
            for before, after in pairs:
                wanted = before.channels * float(width)
                assert after.channels % 8 == 0
                assert after.channels >= 0.9 * wanted
                assert abs(after.channels - wanted) <= 8
            assert arch.name == f"{name}@{width}"


def test_only_the_head_of_a_wide_mobilenet_v2_widens() -> None:
    assert published("mobilenet_v2@1.4").head.channels == 1792
    assert published("mobilenet_v2@0.5").head.channels == 1280
    assert published("mnasnet_a1@1.4").head.channels == 1280
    assert published("mnasnet_a1@0.5").head.channels == 1280


@pytest.mark.parametrize(
    ("name", "named"),
    [
        ("mnasnet_a2", "did you mean 'mnasnet_a1'?"),
        ("", "no published network is called ''"),
        ("MobileNet_V2", "known are mobilenet_v2"),
        ("mnasnet_a1@", "width of 'mnasnet_a1@' must be a decimal"),
        ("mnasnet_a1@0", "width of"),
        ("mnasnet_a1@-1", "width of"),
        ("mnasnet_a1@nan", "width of"),
        ("mnasnet_a1@inf", "width of"),
        ("mnasnet_a1@1e0", "width of"),
        ("mnasnet_a1@0.75@0.75", "width of"),
        ("mnasnet_a1@9", "from 0.1 to 4"),
        ("mnasnet_a1@ 1", "width of"),
    ],
)
def test_unknown_names_and_widths_are_refused_by_name(name: str, named: str) -> None:
    with pytest.raises(ArchError) as caught:
        published(name)
    assert named in str(caught.value)
