"""Archs: text form, file form, canonical form and key."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings

from pocketnas.errors import ArchError
from pocketnas.searchspace import (
    Arch,
    Head,
    Stem,
    arch_from_dict,
    arch_to_dict,
    candidate_key,
    parse_arch,
)
from tests.searchspace.strategies import archs

BLOCK = "ir_r1_k3_s1_e6_c24"


@settings(deadline=None, max_examples=300)
@given(archs())
def test_every_arch_survives_its_text_form(arch: Arch) -> None:
    assert parse_arch(str(arch)) == arch
    assert parse_arch(arch.strings) == arch
    assert str(parse_arch(str(arch))) == str(arch)


@settings(deadline=None)
@given(archs())
def test_every_arch_survives_its_file_form(arch: Arch) -> None:
    named = replace(arch, name="mine")
    text = json.dumps(arch_to_dict(named, input_shape=(28, 28, 1), classes=10))
    read = arch_from_dict(json.loads(text))
    assert read == arch
    assert read.name == "mine"


def test_stem_and_head_are_written_only_where_they_are_not_the_default() -> None:
    assert parse_arch(f"stem_c32_s2,{BLOCK},head_c1280").strings == (BLOCK,)
    arch = parse_arch(f" stem_c8_s1_nhs , {BLOCK} , head_c128_nr6 ")
    assert arch.stem == Stem(8, 1, "hswish")
    assert arch.head == Head(128, "relu6")
    assert arch.strings == ("stem_c8_s1_nhs", BLOCK, "head_c128_nr6")


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "unknown op ''"),
        (f"{BLOCK},,{BLOCK}", "unknown op ''"),
        (f"{BLOCK},", "unknown op ''"),
        ("stem_c32_s2,head_c1280", "from 1 to 64 blocks but got 0"),
        (f"{BLOCK},stem_c32_s2", "'stem_c32_s2' is out of place"),
        (f"head_c128,{BLOCK}", "'head_c128' is out of place"),
        (f"stem_c8_s1,stem_c8_s1,{BLOCK}", "'stem_c8_s1' is out of place"),
        (f"stem_c8,{BLOCK}", "gives no stride"),
        (f"stem_s1,{BLOCK}", "gives no channels"),
        (f"stem_c8_s1_k3,{BLOCK}", "unknown token 'k3'"),
        (f"stem_c8_s3,{BLOCK}", "stride must be"),
        (f"{BLOCK},head", "gives no channels"),
        (f"{BLOCK},head_c8_noskip", "unknown token 'noskip'"),
        (f"{BLOCK},head_c9000", "head's channels must be"),
        (",".join([BLOCK] * 65), "from 1 to 64 blocks but got 65"),
        ("," * 1_000_000, "at most 64 blocks"),
        (12, "must be given as block strings"),
        ([BLOCK, 12], "must be text"),
    ],
)
def test_malformed_archs_are_refused_by_name(text: str, named: str) -> None:
    with pytest.raises(ArchError) as caught:
        parse_arch(text)
    assert named in str(caught.value)


def test_a_name_is_no_part_of_an_arch() -> None:
    assert parse_arch(BLOCK, "one") == parse_arch(BLOCK, "two")
    assert hash(parse_arch(BLOCK, "one")) == hash(parse_arch(BLOCK, "two"))


@pytest.mark.parametrize(
    ("block", "canonical"),
    [
        ("ds_r1_k3_s1_c16_noskip", "ds_r1_k3_s1_e1_c16"),  # 32 to 16 channels: no shortcut at all
        ("ds_r1_k3_s1_c16_pool", "ds_r1_k3_s1_e1_c16"),
        ("ds_r1_k3_s2_c32_noskip", "ds_r1_k3_s2_e1_c32"),  # strided: no identity to leave out
        ("ds_r1_k3_s2_c32_pool", "ds_r1_k3_s2_e1_c32_pool"),  # but a pooled one
        ("ds_r1_k3_s1_c32_noskip", "ds_r1_k3_s1_e1_c32_noskip"),
        ("ds_r2_k3_s2_c16_noskip", "ds_r2_k3_s2_e1_c16_noskip"),  # the second layer has one
        ("ds_r2_k3_s2_c16_pool", "ds_r2_k3_s2_e1_c16_pool"),
    ],
)
def test_a_skip_without_effect_is_the_identity_in_the_canonical_arch(
    block: str, canonical: str
) -> None:
    assert str(parse_arch(block).canonical()) == canonical


@settings(deadline=None)
@given(archs())
def test_the_canonical_arch_is_its_own_canonical_arch(arch: Arch) -> None:
    assert arch.canonical().canonical() == arch.canonical()


def test_the_key_tells_candidates_apart_by_network_task_and_input_size() -> None:
    arch = parse_arch(BLOCK, "named")
    key = candidate_key(arch, "digits", (8, 8, 1))
    assert len(key) == 16
    assert int(key, 16) >= 0
    assert key == candidate_key(parse_arch(f"{BLOCK}_noskip"), "digits", (8, 8, 1))
    others = {
        candidate_key(parse_arch(f"{BLOCK}_se0.25"), "digits", (8, 8, 1)),
        candidate_key(parse_arch(f"stem_c24_s2,{BLOCK}"), "digits", (8, 8, 1)),
        candidate_key(arch, "fashion-mnist", (8, 8, 1)),
        candidate_key(arch, "digits", (28, 28, 1)),
    }
    assert len(others | {key}) == 5


def test_the_key_does_not_change_between_versions() -> None:
    """Run folders are full of them."""
    assert candidate_key(parse_arch(BLOCK), "digits", (8, 8, 1)) == "3ce61aa43a3be28f"


@pytest.mark.parametrize(
    ("document", "named"),
    [
        (None, "must hold an object"),
        ([BLOCK], "must hold an object"),
        ({"format": 1}, "key 'arch'"),
        ({"arch": [BLOCK]}, "format 1 but says None"),
        ({"format": 2, "arch": [BLOCK]}, "format 1 but says 2"),
        ({"format": 1, "arch": BLOCK}, "must be a list of strings"),
        ({"format": 1, "arch": [1]}, "must be a list of strings"),
        ({"format": 1, "arch": []}, "but got 0"),
        ({"format": 1, "arch": [BLOCK], "name": 5}, "name must be a line of text"),
        ({"format": 1, "arch": [BLOCK], "name": "\x1b[2J"}, "but is '\\x1b[2J'"),
        ({"format": 1, "arch": [BLOCK], "input_shape": [28, 28]}, "input shape must be"),
        ({"format": 1, "arch": [BLOCK], "input_shape": "28x28"}, "input shape must be"),
        ({"format": 1, "arch": [BLOCK], "input_shape": [0, 28, 1]}, "input shape must be"),
        ({"format": 1, "arch": [BLOCK], "classes": 0}, "number of classes must be"),
        ({"format": 1, "arch": [BLOCK], "classes": True}, "number of classes must be"),
    ],
)
def test_malformed_arch_files_are_refused_by_name(document: object, named: str) -> None:
    with pytest.raises(ArchError) as caught:
        arch_from_dict(document)
    assert named in str(caught.value)
