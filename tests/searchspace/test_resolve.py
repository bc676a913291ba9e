"""An ARCH argument is a published name, a path or block strings."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pocketnas.errors import ArchError
from pocketnas.searchspace import arch_to_dict, resolve_arch
from pocketnas.searchspace.published import published
from pocketnas.searchspace.resolve import DescribedArch, describe_arch

STRINGS = "stem_c8_s1,ds_r1_k3_s1_e1_c8,head_c64"


def test_a_name_a_file_a_bundle_and_strings_are_understood(tmp_path: Path) -> None:
    arch = published("mnasnet_a1@0.75")
    (tmp_path / "arch.json").write_text(json.dumps(arch_to_dict(arch)))
    for argument in (
        "mnasnet_a1@0.75",
        str(tmp_path / "arch.json"),
        str(tmp_path),
        ",".join(arch.strings),
        f" {arch} ",
    ):
        assert resolve_arch(argument) == arch
    assert resolve_arch(str(tmp_path)).name == "mnasnet_a1@0.75"
    assert str(resolve_arch(STRINGS)) == STRINGS


def test_a_published_name_is_never_shadowed_by_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mnasnet_a1").mkdir()
    monkeypatch.chdir(tmp_path)
    assert resolve_arch("mnasnet_a1") == published("mnasnet_a1")


@pytest.mark.parametrize(
    ("argument", "named"),
    [
        ("mnasnet_a11", "did you mean 'mnasnet_a1'?"),
        ("resnet50", "give a published name (mobilenet_v2"),
        ("", "'' is no arch"),
        ("ir_r1_k3_s1_c8", "gives no expansion"),
        ("runs/none/arch.json", "no arch file or bundle at 'runs/none/arch.json'"),
        ("mnasnet_a1@x", "width of 'mnasnet_a1@x'"),
        ("\0", "is no arch"),
        ("x" * 100_000, "is no arch"),
        ("/" + "x" * 100_000, "no arch file or bundle"),
    ],
)
def test_what_is_not_understood_is_named(argument: str, named: str) -> None:
    with pytest.raises(ArchError) as caught:
        resolve_arch(argument)
    assert named in str(caught.value)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (b"", "is not JSON"),
        (b"\xff\xfe\xfa", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b"1" * 10_000, "is not JSON"),
        (b" " * 1_000_001, "too large"),
        (b"{}", "malformed: an arch file must hold"),
        (b'{"format": 1, "arch": ["xy_r1"]}', "malformed: block string 'xy_r1'"),
    ],
)
def test_broken_arch_files_are_named(tmp_path: Path, content: bytes, named: str) -> None:
    path = tmp_path / "arch.json"
    path.write_bytes(content)
    with pytest.raises(ArchError) as caught:
        resolve_arch(str(path))
    assert named in str(caught.value)
    assert "arch.json" in str(caught.value) or len(str(path)) > 70


def test_a_folder_without_an_arch_and_an_unreadable_file_are_named(tmp_path: Path) -> None:
    with pytest.raises(ArchError, match=r"holds no arch\.json"):
        resolve_arch(str(tmp_path))
    (tmp_path / "arch.json").mkdir()
    with pytest.raises(ArchError, match="cannot be read"):
        resolve_arch(str(tmp_path))


@settings(deadline=None)
@given(st.text(max_size=40).filter(lambda text: not os.path.exists(text.strip() or "/")))
def test_any_text_is_an_arch_or_one_sentence(text: str) -> None:
    sentence = "understood"
    try:
        resolve_arch(text)
    except ArchError as error:
        sentence = str(error)
    assert sentence.isprintable()


def test_what_a_file_says_of_the_task_comes_with_the_arch(tmp_path: Path) -> None:
    path = tmp_path / "arch.json"
    arch = published("mnasnet_a1")
    path.write_text(json.dumps(arch_to_dict(arch, input_shape=(28, 30, 1), classes=7)))
    assert describe_arch(str(tmp_path)) == DescribedArch(arch, path, (28, 30, 1), 7)
    path.write_text(json.dumps(arch_to_dict(arch) | {"input_shape": None, "classes": None}))
    assert describe_arch(str(path)) == DescribedArch(arch, path)
    assert describe_arch("mnasnet_a1") == DescribedArch(arch)
