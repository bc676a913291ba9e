import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pytest

from pocketnas.errors import RunError
from pocketnas.nas.config import SearchConfig
from pocketnas.nas.run import Run, default_folder

CONFIG = SearchConfig(space="mnasnet-mini", data="digits")


def test_a_run_is_made_held_and_opened_again(tmp_path: Path) -> None:
    with Run.create(tmp_path / "run", CONFIG) as run:
        run.log("hello", value=1)
    with Run.open(tmp_path / "run") as run:
        assert run.config == CONFIG
        run.extend(7)
    with Run.open(tmp_path / "run") as run:
        assert run.config.trials == 7


def test_a_run_is_never_overwritten(tmp_path: Path) -> None:
    Run.create(tmp_path, CONFIG).__exit__(None, None, None)
    with pytest.raises(RunError, match="already holds a run: continue it with --resume"):
        Run.create(tmp_path, CONFIG)


def test_a_run_held_by_another_process_is_refused_until_that_process_dies(tmp_path: Path) -> None:
    Run.create(tmp_path, CONFIG).__exit__(None, None, None)
    code = (
        "import sys, pathlib; from pocketnas.nas.run import Run\n"
        f"run = Run.open(pathlib.Path({str(tmp_path)!r})); print('held', flush=True)\n"
        "sys.stdin.read()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(RunError, match="in use by another process"):
            Run.open(tmp_path)
    finally:
        holder.kill()
        holder.communicate()
    with Run.open(tmp_path) as run:
        assert run.config == CONFIG


def test_a_folder_that_cannot_be_made_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(RunError, match=r"cannot write .*choose another folder with --out"):
        Run.create(tmp_path / "file" / "run", CONFIG)


@pytest.mark.parametrize("name", ["mine.toml", "mine"])
def test_a_users_own_space_is_copied_into_the_run(tmp_path: Path, name: str) -> None:
    space = tmp_path / name
    space.write_text("# a space")
    config = SearchConfig(space=str(space), data="digits")
    with Run.create(tmp_path / "run", config) as run:
        space.unlink()
        assert Path(run.space_argument).read_text() == "# a space"


def test_default_folders_do_not_collide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    now = datetime(2026, 1, 2, 3, 4, 5)
    first = default_folder(CONFIG, now)
    assert first == Path("runs/digits-mnasnet-mini-20260102-030405")
    first.mkdir(parents=True)
    assert default_folder(CONFIG, now) == Path("runs/digits-mnasnet-mini-20260102-030405-2")
