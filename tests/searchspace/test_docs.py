"""What docs/spaces.md says is so."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from pocketnas.errors import ArchError, SpaceError
from pocketnas.searchspace import BUILTIN_SPACES, PUBLISHED, count, load_space, parse_block
from pocketnas.searchspace.published import published

DOCS = (Path(__file__).parents[2] / "docs" / "spaces.md").read_text()


def test_the_python_examples_run_and_print_what_they_say() -> None:
    program = "\n".join(re.findall(r"```python\n(.*?)```", DOCS, re.DOTALL))
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout
    for line in done.stdout.splitlines():
        assert f"# {line}" in DOCS


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_table_of_published_networks_is_right(name: str) -> None:
    cost = count(published(name), (224, 224, 3), 1000)
    assert f"| `{name}` | {cost.params:,} | {cost.madds:,} |" in DOCS


@pytest.mark.parametrize("name", BUILTIN_SPACES)
def test_the_table_of_spaces_is_right(name: str) -> None:
    space = load_space(name)
    row = re.search(rf"^\| `{name}` \| (\d+).*? \| (\d+) \| (\S+) \|", DOCS, re.MULTILINE)
    assert row is not None
    assert int(row[1]) == space.input_resolution
    assert int(row[2]) == len(space.decisions)
    assert float(row[3]) == pytest.approx(space.size, rel=0.05)


def test_the_errors_read_as_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ArchError) as block_error:
        parse_block("ir_r1_k3_s1_e6_c24_d2")
    monkeypatch.chdir(tmp_path)
    Path("mine.toml").write_text(
        "input_resolution = 32\nbase = ['ds_r1_k3_s1_c16']\n[blocks.b1]\nkernel = [3, 4]"
    )
    with pytest.raises(SpaceError) as space_error:
        load_space("mine.toml")
    assert f"\n{block_error.value}\n" in DOCS
    assert f"\n{space_error.value}\n" in DOCS
