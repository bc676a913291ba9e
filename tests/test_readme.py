"""Every command and example of README.md is run, in its order, as a newcomer would."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text()
MAKE = ("make search", "make test")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.M | re.S)


def commands() -> list[str]:
    lines = [line for block in blocks("sh") for line in block.splitlines()]
    return [line.split("  #")[0].strip() for line in lines]


def test_the_readmes_first_search_is_what_make_search_runs() -> None:
    makefile = (ROOT / "Makefile").read_text()
    (line,) = re.findall(r"^search:.*\n\t\$\(BIN\)/(.*)$", makefile, re.M)
    assert f"{line} --out runs/first" in commands()
    assert "make search" in commands()
    assert re.search(r"^test:", makefile, re.M)


def test_every_linked_file_is_there() -> None:
    links = re.findall(r"\]\(([^)]+)\)", README)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_every_command_of_the_readme_works(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    scripts = Path(sys.executable).parent
    environment = {**os.environ, "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}"}
    outputs = {}
    for command in commands():
        if command in MAKE:
            continue
        result = subprocess.run(
            command,
            shell=True,
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        unstable = command.startswith("pocketnas benchmark") and "UNSTABLE" in result.stdout
        assert result.returncode == 0 or unstable, f"{command}\n{result.stdout}\n{result.stderr}"
        outputs[command] = result.stdout
    shown = [line for line in README.splitlines() if line.startswith("mnasnet_a1 at 224")]
    assert shown[0] in outputs["pocketnas describe mnasnet_a1"].splitlines()
    bundles = list((tmp_path / "shipped").iterdir())
    assert bundles
    assert all(re.fullmatch(r"digits_host_[\d.e-]+ms_\d+\.\d(-\d+)?", b.name) for b in bundles)
    (example,) = blocks("python")
    result = subprocess.run(
        [sys.executable, "-c", example],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert " ms stem_c8_s1," in result.stdout
