"""The command line in rough surroundings: closed, full and narrow outputs, hostile names."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pocketnas.cli.export import _folder_name
from pocketnas.nas.storage import read_study
from tests.cli.test_killed import ROOT

TINY = "stem_c8_s1,ir_r1_k3_s1_e3_c16,head_c32"
MAIN = "from pocketnas.cli import main; main()"


def shell(script: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a shell script in which `$PN` is the command line."""
    environment = {**os.environ, "PN": f"{sys.executable} -c '{MAIN}'", "PYTHONPATH": str(ROOT)}
    script = script.replace("$PN", environment["PN"])
    return subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, cwd=cwd, env=environment
    )


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs Linux's /dev/full")
@pytest.mark.parametrize("option", ["", "--json"])
def test_a_full_output_is_a_sentence(tmp_path: Path, option: str) -> None:
    result = shell(f"$PN describe {TINY} {option} >/dev/full", tmp_path)
    assert result.returncode == 1
    assert result.stderr == (
        "error: cannot read or write standard output: No space left on device\n"
    )


def test_a_reader_that_goes_is_no_error_worth_words(tmp_path: Path) -> None:
    result = shell(f"$PN describe {TINY} --json | head -1", tmp_path)
    assert (result.stdout, result.stderr) == ("{\n", "")


@pytest.mark.parametrize("closed", ["2>&-", "<&- >&- 2>&-"])
def test_what_a_closed_stream_was_to_get_lands_in_no_file(tmp_path: Path, closed: str) -> None:
    script = (
        f"{sys.executable} -m tests.steady search --trials 1 --epochs 1 --train-images 100 "
        f"--out {tmp_path}/run {closed}"
    )
    result = shell(f"cd {ROOT} && {script}", tmp_path)
    assert result.returncode == 0, result.stderr
    assert len(read_study(tmp_path / "run" / "study.db")[1]) == 1
    files = [path for path in (tmp_path / "run").rglob("*") if path.is_file()]
    assert not [path for path in files if b"XNNPACK delegate for CPU" in path.read_bytes()]


def test_a_name_from_a_file_does_not_lead_out_of_the_folder(tmp_path: Path) -> None:
    arch = {"format": 1, "arch": TINY.split(","), "input_shape": [8, 8, 1], "classes": 3}
    (tmp_path / "arch.json").write_text(json.dumps({**arch, "name": "../../../stolen"}))
    (tmp_path / "in" / "side").mkdir(parents=True)
    result = shell("$PN export ../../arch.json --json", tmp_path / "in" / "side")
    assert json.loads(result.stdout)["out"] == "models/-..-..-stolen", result.stderr
    assert _folder_name("/etc/passwd") == "-etc-passwd"
    assert _folder_name("mnasnet_a1@0.75") == "mnasnet_a1@0.75"
    assert _folder_name("..") == _folder_name(None) == ""


def test_a_narrow_terminal_loses_no_number(tmp_path: Path) -> None:
    code = (
        "import os, pty, sys\n"
        "os.environ['COLUMNS'] = '40'\n"
        f"sys.exit(pty.spawn([sys.executable, '-c', {MAIN!r}, 'describe', {TINY!r}]))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert "params" in result.stdout
    assert "…" not in result.stdout


def test_a_second_ctrl_c_while_the_first_ends_the_process_is_no_traceback() -> None:
    """The second comes as Python exits, where torch and others still clean up."""
    code = (
        "import atexit, os, signal, pocketnas.cli as cli\n"
        "def interrupt(*_, **__): os.kill(os.getpid(), signal.SIGINT)\n"
        "atexit.register(interrupt)\n"
        "cli.command.main = interrupt\n"
        "cli.main()"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert (result.returncode, result.stderr) == (130, "interrupted\n")
