"""Every example runs as it is, from any folder, and shows what it says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


def run(script: str, folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, EXAMPLES / script, *arguments],
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_example_is_run_by_a_test() -> None:
    tests = Path(__file__).parent
    texts = "".join(path.read_text() for path in tests.rglob("test_*.py"))
    for example in EXAMPLES.iterdir():
        if example.is_file():
            assert f'"{example.name}"' in texts, f"no test runs {example.name}"


def test_a_new_block_is_counted_built_exported_and_searched(tmp_path: Path) -> None:
    shown = run("new_block.py", tmp_path)
    madds = dict(re.findall(r"^(ir|er)_\S+: ([\d,]+) MAdds, TFLite file of", shown, re.MULTILINE))
    assert int(madds["er"].replace(",", "")) > int(madds["ir"].replace(",", ""))
    assert "candidates of the space 'fused or not': stem_c16_s1," in shown


def test_a_new_sampler_finds_more_than_random_search(tmp_path: Path) -> None:
    shown = run("new_sampler.py", tmp_path, "250")
    found = {name: int(n.replace(",", "")) for name, n in re.findall(r"(\w+): ([\d,]+)", shown)}
    assert found["evolution"] > 1.1 * found["random"]


def test_a_new_device_really_measures(tmp_path: Path) -> None:
    reason, reading = run("new_device.py", tmp_path).strip().splitlines()
    assert reason.startswith("the slowest of 3 on host (")
    median = re.match(r"([\d.]+) ms .*cautious, LiteRT", reading)
    assert median is not None
    assert float(median[1]) > 0
