"""An ARCH argument's task: from options, then its file, then defaults."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pocketnas.cli.arch import arch_task
from pocketnas.searchspace import arch_to_dict, resolve_arch

STRINGS = "stem_c8_s1,ds_r1_k3_s1_e1_c8,head_c64"


def write_bundle(folder: Path) -> None:
    folder.mkdir()
    arch = arch_to_dict(resolve_arch(STRINGS), input_shape=(28, 30, 1), classes=7)
    (folder / "arch.json").write_text(json.dumps(arch))
    (folder / "weights.safetensors").write_bytes(b"")


def test_options_go_before_the_file_and_the_file_before_defaults(tmp_path: Path) -> None:
    write_bundle(tmp_path / "bundle")
    task = arch_task(str(tmp_path / "bundle"), None, None, None)
    assert (task.input_shape, task.classes) == ((28, 30, 1), 7)
    assert task.weights == tmp_path / "bundle" / "weights.safetensors"
    task = arch_task(str(tmp_path / "bundle"), 32, 3, 5)
    assert (task.input_shape, task.classes) == ((32, 32, 3), 5)
    task = arch_task(STRINGS, None, None, None)
    assert (task.input_shape, task.classes, task.weights) == ((224, 224, 3), 1000, None)


def test_a_published_name_takes_nothing_from_a_folder_of_that_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_bundle(tmp_path / "mnasnet_a1")
    monkeypatch.chdir(tmp_path)
    task = arch_task("mnasnet_a1", None, None, None)
    assert (task.input_shape, task.classes, task.weights) == ((224, 224, 3), 1000, None)


def test_block_strings_may_be_longer_than_any_file_name() -> None:
    text = ",".join(["ir_r1_k3_s1_e6_c24_se0.25_nhs_noskip"] * 12)
    assert len(text) > 255
    assert str(arch_task(text, None, None, None).arch) == text.replace(
        "_noskip_nhs", "_nhs_noskip"
    )
