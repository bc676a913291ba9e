"""Block strings: one canonical form, and a parser that takes nothing for granted."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pocketnas.errors import ArchError
from pocketnas.searchspace import Block, format_block, parse_block
from tests.searchspace.strategies import blocks


@settings(deadline=None, max_examples=300)
@given(blocks())
def test_every_block_survives_its_text_form(block: Block) -> None:
    assert parse_block(format_block(block)) == block
    assert format_block(parse_block(str(block))) == str(block)


@settings(deadline=None)
@given(blocks(), st.randoms(use_true_random=False))
def test_tokens_come_in_any_order(block: Block, random: object) -> None:
    op, *tokens = str(block).split("_")
    random.shuffle(tokens)  # type: ignore[attr-defined]
    assert parse_block("_".join([op, *tokens])) == block


def test_a_block_string_says_what_the_paper_says() -> None:
    assert parse_block("ir_r3_k5_s2_e3_c40_se0.25") == Block(
        op="ir", repeats=3, kernel=5, stride=2, expansion=3, channels=40, se=0.25
    )


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("ds_r1_k3_s1_c16", "ds_r1_k3_s1_e1_c16"),
        ("cn_r1_k3_s1_e1_c16_nre", "cn_r1_k3_s1_c16"),
        ("ir_c24_e6_s2_k3_r2_se0", "ir_r2_k3_s2_e6_c24"),
        ("ir_r2_k3_s2_e1_c24_se1.000_pool_nhs", "ir_r2_k3_s2_e1_c24_se1_nhs_pool"),
        ("ds_r1_k3_s1_e1_noskip_nr6_c16", "ds_r1_k3_s1_e1_c16_nr6_noskip"),
    ],
)
def test_defaults_are_not_written(text: str, canonical: str) -> None:
    assert str(parse_block(text)) == canonical


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("ir_r1_k3_s1_e6_c24_d2", "unknown token 'd2'"),
        ("ir_r1_k3_s1_e6_c24_skip", "unknown token 'skip'"),
        ("ir_r1_k3_s1_e6_c24_se0.25x", "unknown token 'se0.25x'"),
        ("ir_r1_k3_s1_e6_c24_se.25", "unknown token 'se.25'"),
        ("ir_r1_k3_s1_e6_c24_se1e-1", "unknown token 'se1e-1'"),
        ("ir_r1_k3_s1_e6_c24_senan", "unknown token 'senan'"),
        ("ir_r01_k3_s1_e6_c24", "unknown token 'r01'"),
        ("ir_r-1_k3_s1_e6_c24", "unknown token 'r-1'"),
        ("ir_r0_k3_s1_e6_c24", "unknown token 'r0'"),
        ("ir_r1.0_k3_s1_e6_c24", "unknown token 'r1.0'"),
        ("ir_r1_k3_s1_e6_c24_", "unknown token ''"),
        ("ir_r1_k3_s1_e6__c24", "unknown token ''"),
        ("ir_r1_k3_s1_e6_C24", "unknown token 'C24'"),
        ("ir_r1_k3_s1_e6_c24 ", "unknown token 'c24 '"),
        ("ir_r1_k3_s1_e6_c24\n", "unknown token 'c24\\n'"),
        ("ir_r1_k3_s1_e6_c٢٤", "unknown token 'c\\u0662\\u0664'"),
        ("ir_r1_k3_s1_e6_c24_r2", "repeats a second time with 'r2'"),
        ("ir_r1_k3_s1_e6_c24_noskip_pool", "skip a second time with 'pool'"),
        ("ir_r1_k3_s1_e6_c24_nre_nre", "activation a second time with 'nre'"),
        ("ir_r1_k3_s1_e6", "gives no channels: add a token such as 'c1'"),
        ("ir_r1_k3_s1_c24", "gives no expansion: add a token such as 'e1'"),
        ("ir", "gives no repeats"),
        ("er_r1_k3_s1_e6_c24", "unknown op 'er'"),
        ("IR_r1_k3_s1_e6_c24", "unknown op 'IR'"),
        ("", "unknown op ''"),
        ("ds_r1_k3_s1_e3_c16", "expansion must be 1 but got 3"),
        ("cn_r1_k3_s1_e6_c16", "op 'cn' does not expand"),
        ("ir_r1_k4_s1_e6_c24", "kernel must be odd but got 4"),
        ("ir_r1_k17_s1_e6_c24", "kernel must be a whole number from 1 to 15 but got 17"),
        ("ir_r1_k3_s3_e6_c24", "stride must be a whole number from 1 to 2 but got 3"),
        ("ir_r65_k3_s1_e6_c24", "repeats must be a whole number from 1 to 64 but got 65"),
        ("ir_r1_k3_s1_e33_c24", "expansion must be"),
        ("ir_r1_k3_s1_e6_c999999999", "channels must be a whole number from 1 to 8192"),
        ("ir_r1_k3_s1_e6_c" + "9" * 10_000, "unknown token"),
        ("ir_r1_k3_s1_e6_c24_se1.5", "SE ratio must be"),
        ("ir_r1_k3_s1_e6_c24_se0.0001", "SE ratio must be"),
    ],
)
def test_malformed_block_strings_are_refused_by_name(text: str, named: str) -> None:
    with pytest.raises(ArchError) as caught:
        parse_block(text)
    assert named in str(caught.value)


@settings(deadline=None, max_examples=300)
@given(st.text(alphabet="irdscnkoplephu_0123456789.-+ \n\0é", max_size=60) | st.text())
def test_hostile_text_is_refused_in_one_short_printable_line(text: str) -> None:
    sentence = None
    try:
        block = parse_block(text)
    except ArchError as error:
        sentence = str(error)
    if sentence is None:
        assert parse_block(str(block)) == block
    else:
        assert sentence.isprintable()
        assert sentence.isascii()
        assert len(sentence) < 500


@pytest.mark.parametrize("text", [None, 3, b"ir_r1_k3_s1_e6_c24", ["ir"]])
def test_what_is_no_text_is_no_block(text: object) -> None:
    with pytest.raises(ArchError, match="must be text"):
        parse_block(text)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "change",
    [
        {"op": "mb"},
        {"op": ["ir"]},
        {"repeats": 0},
        {"repeats": True},
        {"channels": 16.0},
        {"se": float("nan")},
        {"se": -0.25},
        {"se": "0.25"},
        {"skip": "residual"},
        {"skip": None},
        {"activation": "swish"},
    ],
)
def test_a_block_of_impossible_values_cannot_be_made(change: dict[str, object]) -> None:
    block = parse_block("ir_r1_k3_s1_e6_c24")
    with pytest.raises(ArchError, match=next(iter(change)).replace("se", "SE ratio")):
        replace(block, **change)  # type: ignore[arg-type]


def test_a_block_cannot_be_changed() -> None:
    block = parse_block("ir_r1_k3_s1_e6_c24")
    with pytest.raises(FrozenInstanceError):
        block.channels = 32  # type: ignore[misc]
