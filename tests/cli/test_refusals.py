"""Bad input gets one clear sentence and exit code 1 or 2, and never a traceback."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click
import pytest

from pocketnas.cli import command

SEARCH = ("search", "--epochs", "1", "--trials", "1")
NO_ARCH = """
input_resolution = 8
base = ["stem_c8_s1", "ds_r1_k3_s1_c8", "head_c32"]
[choices]
layers = [-1]
"""


def pocketnas(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "from pocketnas.cli import main; main()", *arguments],
        capture_output=True,
        text=True,
        cwd=cwd,
        check=False,
    )


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("describe", "xx_r1_k3_s1_c8"), 2, "xx"),
        (("describe", "ir_r1_k3_s1_e6_c24_d2"), 2, "unknown token 'd2'"),
        (("describe", "no/such/arch.json"), 2, "no/such/arch.json"),
        (("describe", "mnasnet_a1", "--resolution", "0"), 2, "--resolution"),
        ((*SEARCH, "--target-ms", "0"), 2, "target_ms must be a positive number but got 0.0"),
        ((*SEARCH, "--target-ms", "-1"), 2, "target_ms must be a positive number but got -1.0"),
        ((*SEARCH, "--target-ms", "nan"), 2, "target_ms must be a positive number but got nan"),
        (("search", "--trials", "0"), 2, "at least 1 trial but got 0"),
        ((*SEARCH, "--space", "resnet"), 2, "resnet"),
        ((*SEARCH, "--space", "missing.toml"), 2, "missing.toml"),
        ((*SEARCH, "--space", "no_arch.toml"), 2, "b1.layers"),
        ((*SEARCH, "--data", "cifar-7"), 1, "there is no data set 'cifar-7'"),
        ((*SEARCH, "--sampler", "oracle"), 2, "unknown sampler 'oracle': choose one of ppo"),
        ((*SEARCH, "--device", "toaster"), 2, "unknown device 'toaster'"),
        ((*SEARCH, "--threads", "999"), 2, "999"),
        ((*SEARCH, "--learning-rate", "0"), 2, "learning_rate must be a positive number"),
        ((*SEARCH, "--nonsense"), 2, "No such option"),
        (("search", "--resume", "nowhere"), 1, "'nowhere' is not a run"),
        (("search", "--resume", "nowhere", "--seed", "1"), 2, "leave out --seed"),
        (("front", "nowhere"), 1, "'nowhere' is not a run"),
        (("front", "nowhere", "--csv", "--json"), 2, "choose one of"),
        (("export", "nowhere"), 2, "'nowhere' is no arch"),
        (("benchmark", "missing.tflite"), 1, "missing.tflite"),
        (("benchmark", "no_arch.toml"), 2, "no_arch.toml"),
        (("benchmark", "model.onnx", "--runtime", "litert"), 2, "runs in onnx, not in litert"),
        (("benchmark", "model.onnx", "--classes", "3"), 2, "has its own input shape"),
        (("benchmark", "garbage.tflite"), 1, "garbage.tflite"),
    ],
)
def test_bad_input_is_a_sentence(
    tmp_path: Path, arguments: tuple[str, ...], code: int, words: str
) -> None:
    (tmp_path / "no_arch.toml").write_text(NO_ARCH)
    (tmp_path / "garbage.tflite").write_bytes(b"not a model" * 100)
    result = pocketnas(*arguments, cwd=tmp_path)
    assert result.returncode == code, result.stderr
    assert words in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout == ""
    assert not (tmp_path / "runs").exists()


def test_help_explains_every_option() -> None:
    for name, subcommand in command.commands.items():
        assert subcommand.help, name
        for parameter in subcommand.params:
            if isinstance(parameter, click.Option):
                assert parameter.help, f"{name} {parameter.opts}"


def test_help_and_version_are_quick_to_import() -> None:
    code = (
        "import sys, pocketnas, pocketnas.cli\n"
        "heavy = {'torch', 'optuna', 'onnx', 'pandas', 'sklearn'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
