"""Finished trials as rows of Optuna's own database schema, in bulk."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from optuna.distributions import BaseDistribution, distribution_to_json, json_to_distribution
from optuna.storages._rdb import models
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy import Connection, Engine, Table, insert, select, update

_TRIALS: Table = models.TrialModel.__table__
_PARAMS: Table = models.TrialParamModel.__table__
_VALUES: Table = models.TrialValueModel.__table__
_USER_ATTRIBUTES: Table = models.TrialUserAttributeModel.__table__
_SYSTEM_ATTRIBUTES: Table = models.TrialSystemAttributeModel.__table__
_INTERMEDIATE: Table = models.TrialIntermediateValueModel.__table__

_UNFINISHED = (TrialState.RUNNING, TrialState.WAITING)


def write_trial(engine: Engine, study_id: int, number: int, trial: FrozenTrial) -> None:
    """Write a finished trial: all of it, or, if anything fails, nothing.

    Args:
        engine: of the database.
        study_id: the study's id there.
        number: the trial's number.
        trial: all else that there is to write.

    Raises:
        SQLAlchemyError: the database does not take it.
    """
    with engine.begin() as connection:
        row = {
            "number": number,
            "study_id": study_id,
            "state": trial.state,
            "datetime_start": _to_utc(trial.datetime_start),
            "datetime_complete": _to_utc(trial.datetime_complete),
        }
        trial_id = connection.execute(insert(_TRIALS).values(row)).lastrowid
        for table, rows in _rows_of(trial):
            if rows:
                connection.execute(insert(table), [{"trial_id": trial_id, **r} for r in rows])


def _rows_of(trial: FrozenTrial) -> Iterator[tuple[Table, list[dict[str, Any]]]]:
    """The rows that belong to a trial, by their table."""
    yield (
        _PARAMS,
        [
            {
                "param_name": name,
                "param_value": trial.distributions[name].to_internal_repr(value),
                "distribution_json": distribution_to_json(trial.distributions[name]),
            }
            for name, value in trial.params.items()
        ],
    )
    values = []
    for objective, value in enumerate(trial.values or ()):
        stored, kind = models.TrialValueModel.value_to_stored_repr(value)
        values.append({"objective": objective, "value": stored, "value_type": kind})
    yield _VALUES, values
    to_stored = models.TrialIntermediateValueModel.intermediate_value_to_stored_repr
    reported = []
    for step, value in trial.intermediate_values.items():
        number, sort = to_stored(value)
        reported.append(
            {"step": step, "intermediate_value": number, "intermediate_value_type": sort}
        )
    yield _INTERMEDIATE, reported
    for table, attributes in (
        (_USER_ATTRIBUTES, trial.user_attrs),
        (_SYSTEM_ATTRIBUTES, trial.system_attrs),
    ):
        yield table, [{"key": k, "value_json": json.dumps(v)} for k, v in attributes.items()]


def fail_unfinished(engine: Engine, study_id: int) -> None:
    """Mark the unfinished trials of a study as failed, as Optuna does with stale ones.

    Only another program can have left them: `write_trial` writes finished trials.
    """
    unfinished = (_TRIALS.c.study_id == study_id) & _TRIALS.c.state.in_(_UNFINISHED)
    with engine.begin() as connection:
        if connection.execute(select(_TRIALS.c.trial_id).where(unfinished)).first():
            connection.execute(update(_TRIALS).where(unfinished).values(state=TrialState.FAIL))


def load_trials(engine: Engine, study_id: int) -> list[FrozenTrial]:
    """All trials of a study, by number: a table at a time, where Optuna makes an object a row.

    Raises:
        SQLAlchemyError: the database cannot be read.
    """
    query = select(_TRIALS).where(_TRIALS.c.study_id == study_id).order_by(_TRIALS.c.number)
    with engine.connect() as connection:
        # First: a search that is going on may write a trial between two of these queries, and of
        # a trial that is there now, all else is there, too.
        rows = connection.execute(query).all()
        params = _by_trial(connection, _PARAMS, study_id)
        values = _by_trial(connection, _VALUES, study_id)
        reported = _by_trial(connection, _INTERMEDIATE, study_id)
        user_attributes = _by_trial(connection, _USER_ATTRIBUTES, study_id)
        system_attributes = _by_trial(connection, _SYSTEM_ATTRIBUTES, study_id)
    known: dict[str, BaseDistribution] = {}
    trials = []
    for row in rows:
        of_params = params[row.trial_id]
        for param in of_params:
            if param.distribution_json not in known:
                known[param.distribution_json] = json_to_distribution(param.distribution_json)
        distributions = {p.param_name: known[p.distribution_json] for p in of_params}
        of_values = sorted(values[row.trial_id], key=lambda value: int(value.objective))
        trials.append(
            FrozenTrial(
                number=row.number,
                trial_id=row.trial_id,
                state=row.state,
                value=None,
                values=[
                    models.TrialValueModel.stored_repr_to_value(v.value, v.value_type)
                    for v in of_values
                ]
                or None,
                datetime_start=_to_local(row.datetime_start),
                datetime_complete=_to_local(row.datetime_complete),
                params={
                    p.param_name: distributions[p.param_name].to_external_repr(p.param_value)
                    for p in of_params
                },
                distributions=distributions,
                user_attrs={
                    a.key: json.loads(a.value_json) for a in user_attributes[row.trial_id]
                },
                system_attrs={
                    a.key: json.loads(a.value_json) for a in system_attributes[row.trial_id]
                },
                intermediate_values={
                    r.step: models.TrialIntermediateValueModel.stored_repr_to_intermediate_value(
                        r.intermediate_value, r.intermediate_value_type
                    )
                    for r in reported[row.trial_id]
                },
            )
        )
    return trials


def _by_trial(connection: Connection, table: Table, study_id: int) -> dict[int, list[Any]]:
    """The rows of a table that belong to a study's trials, in the order they were written."""
    (key,) = table.primary_key.columns
    query = (
        select(table)
        .join(_TRIALS, _TRIALS.c.trial_id == table.c.trial_id)
        .where(_TRIALS.c.study_id == study_id)
        .order_by(key)
    )
    rows: dict[int, list[Any]] = defaultdict(list)
    for row in connection.execute(query):
        rows[row.trial_id].append(row)
    return rows


def _to_utc(time: datetime | None) -> datetime | None:
    """Optuna's trials have naive local times, its database naive UTC."""
    return time.astimezone(UTC).replace(tzinfo=None) if time else None


def _to_local(time: datetime | None) -> datetime | None:
    """The way back of `_to_utc`."""
    return time.replace(tzinfo=UTC).astimezone().replace(tzinfo=None) if time else None
