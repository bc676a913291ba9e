"""The benchmark of exports runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_the_benchmark_prints_a_row_for_each_step() -> None:
    script = Path(__file__).parents[2] / "benchmarks" / "export.py"
    arguments = ["stem_c8_s2,ds_r1_k3_s1_c8,head_c16", "--resolution", "16", "--classes", "10"]
    done = subprocess.run(
        [sys.executable, str(script), *arguments, "--rounds", "1"],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    for step in ("TFLite: trace, fuse, write", "check in both runtimes", "TorchScript"):
        assert step in done.stdout
