"""A run: the folder that holds all of one search, and its lock."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any

from filelock import FileLock, Timeout

from pocketnas.errors import RunError
from pocketnas.files import write_atomic, writing
from pocketnas.nas.config import SearchConfig
from pocketnas.nas.data import DATA_NAMES, Dataset, load_data
from pocketnas.searchspace import BUILTIN_SPACES, SearchSpace


class Run:
    """One search's folder, held by this process while it is open.

    Layout: `config.toml` (what was asked), `space.toml` (a user's own space, copied),
    `study.db` (finished trials), `controller.safetensors` (weights, optimizer and RNG state),
    `candidates/KEY/` (arch, reading, exported file, weights, training log), `log.jsonl`
    (what happened, a line each).
    """

    def __init__(self, folder: Path, config: SearchConfig, lock: FileLock) -> None:
        self.folder = folder
        self.config = config
        self._lock = lock

    @classmethod
    def create(cls, folder: Path, config: SearchConfig) -> Run:
        """Make a new run folder and hold it.

        Raises:
            RunError: the folder already holds a run, or cannot be written.
        """
        advice = "choose another folder with --out"
        if config.data not in DATA_NAMES:
            # A run is resumed from any folder.
            config = replace(config, data=str(Path(config.data).expanduser().resolve()))
        with writing(folder, advice):
            folder.mkdir(parents=True, exist_ok=True)
        lock = _hold(folder, advice)
        try:
            # Not before the folder is held: another process might be making its run there.
            if (folder / "config.toml").exists():
                raise RunError(
                    f"'{folder}' already holds a run: continue it with --resume {folder}, "
                    f"or {advice}"
                )
            with writing(folder, advice):
                if config.space not in BUILTIN_SPACES:
                    shutil.copyfile(config.space, folder / "space.toml")
                (folder / "candidates").mkdir(exist_ok=True)
                write_atomic(folder / "config.toml", config.to_toml())
        except BaseException:
            lock.release()
            raise
        return cls(folder, config, lock)

    @classmethod
    def open(cls, folder: Path) -> Run:
        """Hold an existing run.

        Raises:
            RunError: there is no run, another process holds it, or it cannot be written.
        """
        config = SearchConfig.load(folder / "config.toml")
        return cls(folder, config, _hold(folder, "free some space or mend the permissions"))

    def __enter__(self) -> Run:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._lock.release()

    @property
    def space_argument(self) -> str:
        """The space to load: the run's own copy where it has one."""
        return run_space(self.folder, self.config)

    @property
    def study_path(self) -> Path:
        """The study's SQLite file."""
        return self.folder / "study.db"

    @property
    def controller_path(self) -> Path:
        """The controller's state."""
        return self.folder / "controller.safetensors"

    def candidate(self, key: str) -> Path:
        """The folder of one candidate, made if it is not there."""
        folder = self.folder / "candidates" / key
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def extend(self, trials: int) -> None:
        """Change how many trials the run shall have in all."""
        self.config = replace(self.config, trials=trials)
        with writing(self.folder, "free some space or mend the permissions"):
            write_atomic(self.folder / "config.toml", self.config.to_toml())

    def log(self, event: str, **values: Any) -> None:
        """Append one line to `log.jsonl`."""
        line = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), "event": event}
        with (self.folder / "log.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(line | values, allow_nan=False) + "\n")


def run_space(folder: Path, config: SearchConfig) -> str:
    """The space of a run as an argument for `load_space`."""
    return config.space if config.space in BUILTIN_SPACES else str(folder / "space.toml")


def load_run_data(config: SearchConfig, space: SearchSpace) -> Dataset:
    """The run's data: at its own resolution, but at most that which the space is meant for."""
    return load_data(
        config.data,
        seed=config.seed,
        resolution=config.resolution,
        largest=space.input_resolution,
    )


def default_folder(config: SearchConfig, now: datetime | None = None) -> Path:
    """`runs/DATA-SPACE-DATE-TIME`, a folder that does not exist yet."""
    stamp = (now or datetime.now()).strftime("%Y%m%d-%H%M%S")
    name = f"{Path(config.data).stem}-{Path(config.space).stem}-{stamp}"
    folder, count = Path("runs") / name, 1
    while folder.exists():
        count += 1
        folder = Path("runs") / f"{name}-{count}"
    return folder


def _hold(folder: Path, advice: str) -> FileLock:
    """Take the folder's lock; the kernel gives it back when this process ends, however it ends."""
    lock = FileLock(folder / ".lock")
    with writing(folder, advice):
        try:
            lock.acquire(timeout=0)
        except Timeout:
            raise RunError(
                f"'{folder}' is in use by another process: wait until it has ended, or stop it"
            ) from None
    if not os.access(folder, os.W_OK):
        lock.release()
        raise RunError(f"cannot write '{folder}': permission denied; {advice}")
    return lock
