"""What docs/measuring.md says is so, and the benchmark runs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from pocketnas.devices import Reading
from tests.devices.models import tflite_model
from tests.devices.test_reading import READING

ROOT = Path(__file__).parents[2]
DOCS = (ROOT / "docs" / "measuring.md").read_text()


def test_the_python_example_runs(tmp_path: Path) -> None:
    (tmp_path / "model.tflite").write_bytes(tflite_model(width=512))
    program = "\n".join(re.findall(r"```python\n(.*?)```", DOCS, re.DOTALL))
    done = subprocess.run(
        [sys.executable, "-c", program + "print(type(reading).__name__)"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == "Reading"


def test_every_key_of_a_reading_is_explained() -> None:
    section = DOCS.split("## A reading as JSON")[1].split("## ")[0]
    assert set(re.findall(r"`(\w+)`", section)) == set(READING.to_dict())


def test_the_line_shown_is_the_line_of_a_reading() -> None:
    shown = next(line for line in DOCS.splitlines() if " ms (95 % " in line)
    form = re.compile(
        r"[\d.]+ ms \(95 % [\d.]+ to [\d.]+\): host, LiteRT .*, 1 thread on CPU \d, float32"
    )
    assert form.fullmatch(shown)
    assert form.fullmatch(str(Reading.from_dict(READING.to_dict())))


def test_the_benchmark_prints_its_table(tmp_path: Path) -> None:
    (tmp_path / "model.tflite").write_bytes(tflite_model(width=512))
    done = subprocess.run(
        [
            sys.executable,
            ROOT / "benchmarks" / "host_timing.py",
            tmp_path / "model.tflite",
            "--times",
            "2",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert re.search(r"model\.tflite .*/2", done.stdout)
