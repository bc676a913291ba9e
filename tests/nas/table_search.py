"""A search on a table, in a process of its own that tests may kill at any moment.

python table_search.py FOLDER SAMPLER TRIALS
"""

from __future__ import annotations

import sys
from pathlib import Path

import optuna
from optuna.distributions import CategoricalDistribution
from optuna.trial import FrozenTrial, TrialState

from pocketnas.nas.storage import open_study

SPACE = {f"d{i}": CategoricalDistribution(("a", "b", "c")) for i in range(42)}


def reward(trial: FrozenTrial) -> float | None:
    return trial.user_attrs["reward"]


def accuracy_of(params: dict[str, str]) -> float:
    return sum(choice == "a" for choice in params.values()) / len(params)


def search(folder: Path, name: str, trials: int) -> optuna.Study:
    """Go on up to so many trials, and note each in `told` once the study was told of it."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    if name == "plain":  # spares the child the import of torch
        sampler = optuna.samplers.RandomSampler()
    else:
        from pocketnas.nas.samplers import make_sampler

        sampler = make_sampler(name, seed=0, reward=reward)
    study = open_study(
        folder / "study.db",
        directions=["maximize", "minimize"],
        sampler=sampler,
        study_name="table",
    )
    state = folder / "controller.safetensors"
    if name == "ppo":
        if state.exists():
            sampler.load(state)
        sampler.recover(study)
    with (folder / "told").open("ab", buffering=0) as told:
        while len(study.get_trials(deepcopy=False)) < trials:
            trial = study.ask(fixed_distributions=SPACE)
            accuracy = accuracy_of(trial.params)
            trial.set_user_attr("reward", None if trial.number % 5 == 4 else accuracy)
            trial.set_user_attr("reading", {"latency_samples_ms": [0.1 * i for i in range(200)]})
            if trial.number % 5 == 4:
                study.tell(trial, state=TrialState.PRUNED)
            else:
                study.tell(trial, [accuracy, 1.5])
            told.write(f"{trial.number} {accuracy}\n".encode())
            if name == "ppo":
                sampler.save(state)
    return study


if __name__ == "__main__":
    search(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
