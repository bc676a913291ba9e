"""A run as its reader sees it: trials, conditions and the front, read from the run folder."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pocketnas.errors import RunError
from pocketnas.nas.config import SearchConfig


@dataclass(frozen=True)
class Model:
    """A finished candidate.

    Attributes:
        accuracy: on the validation split after proxy training, a fraction.
        latency_ms, latency_ci95_ms: median and its 95 % interval.
    """

    trial: int
    key: str
    arch: str
    accuracy: float
    latency_ms: float
    latency_ci95_ms: tuple[float, float]
    reward: float
    params: int
    madds: int
    peak_activation_bytes: int


@dataclass(frozen=True)
class RunSummary:
    """What a run has found so far.

    Attributes:
        conditions: what every reading and accuracy of the run has in common (space, data, device,
            runtime, threads, precision).
        data_fingerprint: hash of the data's content; None before it is known.
        models: finished candidates in the order in which they were found, repeats left out.
        trials_finished: trials of any outcome; the next three are counted in it.
    """

    folder: Path
    config: SearchConfig
    conditions: Mapping[str, Any]
    data_fingerprint: str | None
    target_ms: float | None
    models: tuple[Model, ...]
    trials_finished: int
    trials_infeasible: int
    trials_failed: int
    trials_repeated: int

    @property
    def front(self) -> tuple[Model, ...]:
        """The Pareto-optimal models, fastest first."""
        return pareto_front(self.models)

    @property
    def best(self) -> Model | None:
        """The model with the highest reward."""
        return max(self.models, key=lambda model: model.reward, default=None)

    def to_dict(self) -> dict[str, Any]:
        """What `--json` prints."""
        return {
            "run": str(self.folder),
            **self.conditions,
            "target_ms": self.target_ms,
            "trials": self.config.trials,
            "trials_finished": self.trials_finished,
            "trials_infeasible": self.trials_infeasible,
            "trials_failed": self.trials_failed,
            "trials_repeated": self.trials_repeated,
            "accuracy_split": "validation",
            "best": model_to_dict(self.best) if self.best else None,
            "front": [model_to_dict(model) for model in self.front],
        }


CONDITIONS = ("space", "data", "device", "emulated", "runtime", "threads", "precision")
TRIAL_ATTRIBUTES = (
    "key",
    "arch",
    "accuracy",
    "latency_ms",
    "latency_ci95_ms",
    "reward",
    "params",
    "madds",
    "peak_activation_bytes",
    "repeat_of",
)


def read_run(folder: Path) -> RunSummary:
    """Read a run, also while its search goes on.

    Raises:
        RunError: there is no run, or its study cannot be read.
    """
    from optuna.trial import TrialState

    from pocketnas.nas.storage import read_study, require_attributes

    config = SearchConfig.load(folder / "config.toml")
    if not (folder / "study.db").exists():
        raise RunError(f"'{folder}' has no study yet: its search has not begun")
    attributes, trials = read_study(folder / "study.db")
    require_attributes(folder / "study.db", trials, TRIAL_ATTRIBUTES)
    complete = [trial for trial in trials if trial.state == TrialState.COMPLETE]
    return RunSummary(
        folder=folder,
        config=config,
        conditions={name: attributes.get(name) for name in CONDITIONS},
        data_fingerprint=attributes.get("data_fingerprint"),
        target_ms=attributes.get("target_ms"),
        models=tuple(
            _model(trial.number, trial.user_attrs)
            for trial in complete
            if trial.user_attrs["repeat_of"] is None
        ),
        trials_finished=len(trials),
        trials_infeasible=sum(trial.state == TrialState.PRUNED for trial in trials),
        trials_failed=sum(trial.state == TrialState.FAIL for trial in trials),
        trials_repeated=sum(trial.user_attrs.get("repeat_of") is not None for trial in trials),
    )


def pareto_front(models: Iterable[Model]) -> tuple[Model, ...]:
    """The models that no other beats in accuracy and latency at once, fastest first.

    Of models equal in both, the one found first stays.
    """
    front: list[Model] = []
    for model in sorted(models, key=lambda m: (m.latency_ms, -m.accuracy, m.trial)):
        if not front or model.accuracy > front[-1].accuracy:
            front.append(model)
    return tuple(front)


def model_to_dict(model: Model) -> dict[str, Any]:
    """A model as JSON has it; the arch as a list of block strings."""
    return {
        "trial": model.trial,
        "key": model.key,
        "accuracy": model.accuracy,
        "latency_ms": model.latency_ms,
        "latency_ci95_ms": list(model.latency_ci95_ms),
        "reward": model.reward,
        "params": model.params,
        "madds": model.madds,
        "peak_activation_bytes": model.peak_activation_bytes,
        "arch": model.arch.split(","),
    }


def _model(number: int, attributes: Mapping[str, Any]) -> Model:
    """A finished trial's user attributes as a model."""
    low, high = attributes["latency_ci95_ms"]
    return Model(
        trial=number,
        key=attributes["key"],
        arch=attributes["arch"],
        accuracy=attributes["accuracy"],
        latency_ms=attributes["latency_ms"],
        latency_ci95_ms=(low, high),
        reward=attributes["reward"],
        params=attributes["params"],
        madds=attributes["madds"],
        peak_activation_bytes=attributes["peak_activation_bytes"],
    )
