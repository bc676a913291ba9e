"""The run's study: in memory for speed, and every finished trial at once in a SQLite file."""

from __future__ import annotations

import copy
import json
import os
import sqlite3
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

import optuna
from optuna.exceptions import StorageInternalError
from optuna.pruners import NopPruner
from optuna.storages import InMemoryStorage, RDBStorage
from optuna.storages._rdb import models
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState, create_trial
from sqlalchemy import create_engine, select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import QueuePool

from pocketnas.errors import RunError
from pocketnas.nas.study_rows import fail_unfinished, load_trials, write_trial


def open_study(
    path: Path,
    *,
    directions: Sequence[Literal["minimize", "maximize"]],
    sampler: optuna.samplers.BaseSampler,
    study_name: str,
) -> optuna.Study:
    """The study in a SQLite file; made if the file does not hold one yet.

    The file is an ordinary Optuna database, also while it is written: `optuna.load_study`,
    optuna-dashboard and Optuna's command line read it.

    Args:
        path: the file, in a folder that exists.
        directions: `maximize` or `minimize`, one for each objective.
        sampler: what proposes the trials.
        study_name: the name of a new study; one that is there keeps its own, so that a folder
            can be renamed.

    Raises:
        RunError: the file cannot be read or written, or holds a study with other directions or
            more than one.
    """
    storage = RunStorage(path)
    studies = storage.get_all_studies()
    if len(studies) > 1:
        names = ", ".join(study.study_name for study in studies)
        raise RunError(f"'{path}' holds more than one study ({names}): a run has one")
    if not studies:
        return optuna.create_study(
            storage=storage,
            sampler=sampler,
            pruner=NopPruner(),
            study_name=study_name,
            directions=directions,
        )
    study = optuna.load_study(
        storage=storage, sampler=sampler, pruner=NopPruner(), study_name=studies[0].study_name
    )
    there = [direction.name.lower() for direction in study.directions]
    if there != list(directions):
        raise RunError(
            f"'{path}' holds a study that is to {' and '.join(there)}, "
            f"not to {' and '.join(directions)}"
        )
    return study


def read_study(path: Path) -> tuple[dict[str, Any], list[FrozenTrial]]:
    """The user attributes and the trials of a study, also while a search writes it.

    Nothing is written, and it is much faster than `optuna.load_study`.

    Raises:
        RunError: the file is missing, cannot be read, or does not hold one study.
    """
    engine = create_engine("sqlite://", creator=lambda: _open_existing(path))
    try:
        with engine.connect() as connection:
            studies = connection.execute(select(models.StudyModel.study_id)).scalars().all()
            if len(studies) != 1:
                raise RunError(f"'{path}' holds {len(studies)} studies: a run has one")
            attributes = connection.execute(select(models.StudyUserAttributeModel.__table__)).all()
        trials = load_trials(engine, studies[0])
    except (SQLAlchemyError, sqlite3.Error) as error:
        raise RunError(f"cannot read the study '{path}': {_cause(error)}") from error
    finally:
        engine.dispose()
    return {row.key: json.loads(row.value_json) for row in attributes}, trials


def require_attributes(path: Path, trials: Sequence[FrozenTrial], names: Sequence[str]) -> None:
    """Refuse trials that something else than this search has put into its study.

    Raises:
        RunError: a complete or pruned trial lacks one of the user attributes.
    """
    for trial in trials:
        missing = [name for name in names if name not in trial.user_attrs]
        if missing and trial.state in (TrialState.COMPLETE, TrialState.PRUNED):
            raise RunError(
                f"trial {trial.number} of '{path}' has no {', '.join(missing)}: "
                "the study is damaged, or not that of a search"
            )


def _open_existing(path: Path) -> sqlite3.Connection:
    """A connection that never makes a file.

    SQLite keeps its write-ahead log's index in the folder. Where that cannot be written (a run on
    a read-only disk) and there is no log, it needs to be told that nobody else writes either.
    """
    mode = "rw"
    if not os.access(path.parent, os.W_OK):
        log = path.with_name(f"{path.name}-wal")
        mode = "ro" if log.exists() else "ro&immutable=1"
    uri = f"file:{quote(str(path))}?mode={mode}"
    return sqlite3.connect(uri, uri=True, check_same_thread=False)


class RunStorage(InMemoryStorage):
    """Optuna's in-memory storage, written through to a file with every trial that finishes.

    Optuna's own SQLite storage spends a transaction on each parameter, and so near a second on a
    trial of 42 decisions. Here a trial lives in memory until it finishes; then all of it goes to
    the file in one transaction, before it counts as finished. A process killed at any moment
    loses no trial it was told of: SQLite's write-ahead log without a sync for each transaction
    outlives the process. (Only a power failure may take the last few trials; it cannot harm the
    file.)

    Trials that were running, or enqueued and not begun, are not in the file. If they lie between
    finished ones, which takes parallel trials, they are waiting trials when the file is opened
    again, and so are done again under their numbers.

    Args:
        path: the SQLite file; made if it does not exist, in a folder that does.

    Raises:
        RunError: the file cannot be read or written, or is not a study.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        with self._file():
            try:
                self._database = RDBStorage(
                    "sqlite:///study.db",  # only names the dialect: `_connect` opens the file
                    engine_kwargs={"creator": partial(_connect, path), "poolclass": QueuePool},
                )
            except RuntimeError as error:
                # What Optuna says of a file that another version of it has written.
                raise RunError(f"cannot read the study '{path}': {error}") from error
            # The last connection to close folds the write-ahead log into the file.
            weakref.finalize(self, self._database.engine.dispose)
            for study in self._database.get_all_studies():
                self._take_over(study._study_id)

    @contextmanager
    def _file(self) -> Iterator[None]:
        """Turn a failure of the database into a sentence; what failed is rolled back."""
        try:
            yield
        except (SQLAlchemyError, StorageInternalError, sqlite3.Error) as error:
            cause = _cause(error)
            advice = ""
            if isinstance(cause, sqlite3.OperationalError):
                advice = (
                    "; the trials in it are unharmed: free some space, mend the permissions or "
                    "end what else writes there, then resume"
                )
            raise RunError(
                f"cannot read or write the study '{self._path}': {cause}{advice}"
            ) from error

    def _take_over(self, study_id: int) -> None:
        """Bring a study of the file into memory, under the same id."""
        database = self._database
        self._max_study_id = study_id - 1
        super().create_new_study(
            database.get_study_directions(study_id), database.get_study_name_from_id(study_id)
        )
        study = self._studies[study_id]
        study.user_attrs = database.get_study_user_attrs(study_id)
        study.system_attrs = database.get_study_system_attrs(study_id)
        fail_unfinished(database.engine, study_id)
        for trial in load_trials(database.engine, study_id):
            while len(study.trials) < trial.number:
                self._append(study_id, create_trial(state=TrialState.WAITING))
            self._append(study_id, trial)
            study.param_distribution.update(trial.distributions)

    def _append(self, study_id: int, trial: FrozenTrial) -> None:
        """Add a trial in memory (`super().create_new_trial` would copy all of it)."""
        self._max_trial_id += 1
        trials = self._studies[study_id].trials
        trial.number, trial._trial_id = len(trials), self._max_trial_id
        self._trial_id_to_study_id_and_number[trial._trial_id] = (study_id, trial.number)
        trials.append(trial)
        self._update_cache(trial._trial_id, study_id)

    def create_new_study(
        self, directions: Sequence[StudyDirection], study_name: str | None = None
    ) -> int:
        """Make a study, in the file and in memory."""
        with self._lock, self._file():
            study_id = self._database.create_new_study(directions, study_name)
            self._take_over(study_id)
            return study_id

    def delete_study(self, study_id: int) -> None:
        """Delete a study, in the file and in memory."""
        with self._lock, self._file():
            self._check_study_id(study_id)
            self._database.delete_study(study_id)
            super().delete_study(study_id)

    def set_study_user_attr(self, study_id: int, key: str, value: Any) -> None:
        """Set a user attribute, in the file and in memory."""
        with self._lock, self._file():
            self._check_study_id(study_id)
            self._database.set_study_user_attr(study_id, key, value)
            super().set_study_user_attr(study_id, key, value)

    def set_study_system_attr(self, study_id: int, key: str, value: Any) -> None:
        """Set a system attribute, in the file and in memory."""
        with self._lock, self._file():
            self._check_study_id(study_id)
            self._database.set_study_system_attr(study_id, key, value)
            super().set_study_system_attr(study_id, key, value)

    def create_new_trial(self, study_id: int, template_trial: FrozenTrial | None = None) -> int:
        """Make a trial in memory; one that is finished already goes to the file, too."""
        with self._lock, self._file():
            self._check_study_id(study_id)
            if template_trial is not None and template_trial.state.is_finished():
                number = len(self._studies[study_id].trials)
                write_trial(self._database.engine, study_id, number, template_trial)
            return super().create_new_trial(study_id, template_trial)

    def set_trial_state_values(
        self, trial_id: int, state: TrialState, values: Sequence[float] | None = None
    ) -> bool:
        """Change a trial's state; a trial that finishes is in the file before it is in memory."""
        if not state.is_finished():
            return super().set_trial_state_values(trial_id, state, values)
        with self._lock, self._file():
            trial = self.get_trial(trial_id)
            self.check_trial_is_updatable(trial_id, trial.state)
            study_id, number = self._trial_id_to_study_id_and_number[trial_id]
            finished = _finished(trial, state, values)
            write_trial(self._database.engine, study_id, number, finished)
            changed = super().set_trial_state_values(trial_id, state, values)
            self.get_trial(trial_id).datetime_complete = finished.datetime_complete
            return changed


def _connect(path: Path) -> sqlite3.Connection:
    """A connection to the file, for whatever its path may contain."""
    connection = sqlite3.connect(path, check_same_thread=False)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=NORMAL")
    return connection


def _finished(
    trial: FrozenTrial, state: TrialState, values: Sequence[float] | None
) -> FrozenTrial:
    """A copy of a trial as it is once it has finished, now."""
    finished = copy.copy(trial)
    finished.state = state
    finished.values = values
    finished.datetime_complete = datetime.now()
    return finished


def _cause(error: BaseException) -> BaseException:
    """What SQLite itself said, without the statement and parameters around it."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error
