"""What docs/data.md says is so."""

import dataclasses
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pocketnas.nas.recipe import TrainSettings

DOCS = (Path(__file__).parents[2] / "docs" / "data.md").read_text(encoding="utf-8")
PROGRAMS = re.findall(r"```python\n(.*?)```", DOCS, re.DOTALL)


@pytest.mark.parametrize("program", PROGRAMS, ids=["data", "training"])
def test_python_examples_run_and_print_what_they_say(program):
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    printed, claimed = done.stdout.splitlines(), re.findall(r"print\(.*\)  # (.*)", program)
    if claimed:
        assert printed == claimed
    else:
        assert all(float(value) > 0.9 for value in printed[0].split())


def test_table_of_settings_has_every_default():
    table = dict(re.findall(r"^\| `(\w+)` \| `?([\w.]+)`? \|", DOCS, re.MULTILINE))
    defaults = {field.name: field.default for field in dataclasses.fields(TrainSettings)}
    assert table.keys() == defaults.keys()
    for name, default in defaults.items():
        if isinstance(default, int | float):
            assert float(table[name]) == default
        else:
            assert table[name] == (default or "all")
