"""What docs/export.md says is so."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import OrderedDict
from pathlib import Path

import pytest
from torch import nn

from pocketnas.errors import ExportError
from pocketnas.export import export_network, read_metadata
from pocketnas.export.lower import LOWERINGS, PASSED_OVER

DOCS = (Path(__file__).parents[2] / "docs" / "export.md").read_text(encoding="utf-8")


def test_the_python_example_runs_and_prints_what_it_says(tmp_path: Path) -> None:
    (program,) = re.findall(r"```python\n(.*?)```", DOCS, re.DOTALL)
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
        cwd=tmp_path,
    )
    assert done.stdout.splitlines() == re.findall(r"print\(.*\)  # (.*)", program)
    (quoted,) = re.findall(r"```json\n(.*?)\n```", DOCS, re.DOTALL)
    for path in (tmp_path / "my_model").iterdir():
        assert read_metadata(path).to_json() == quoted


def test_the_table_of_modules_is_whole() -> None:
    table = DOCS[DOCS.index("| module |") : DOCS.index("Modules may be nested")]
    rows = re.findall(r"^\| (`\w+`.*?) \|.*\|$", table, re.MULTILINE)
    named = re.findall(r"`(\w+)`", " ".join(rows))
    assert sorted(named) == sorted(kind.__name__ for kind in (*LOWERINGS, *PASSED_OVER))


def test_the_error_reads_as_quoted() -> None:
    features = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Identity(), nn.MaxPool2d(2))
    with pytest.raises(ExportError) as error:
        export_network(nn.Sequential(OrderedDict(features=features)), (8, 8, 1))
    assert f"\n{error.value}\n" in DOCS
