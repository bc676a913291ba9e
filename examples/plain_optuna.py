"""The controller alone, in a plain Optuna study: nothing of PocketNAS but its sampler.

    python examples/plain_optuna.py [TRIALS]

Tunes a forest on scikit-learn's digits for accuracy and size. Any parameters with a finite
number of values will do: categorical, integer, and float with a step.
"""

from __future__ import annotations

import sys

import optuna
from sklearn.datasets import load_digits
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.model_selection import train_test_split

from pocketnas.nas.sampler import PPOSampler

images, labels = load_digits(return_X_y=True)
train_x, valid_x, train_y, valid_y = train_test_split(images, labels, random_state=0)


def objective(trial: optuna.Trial) -> tuple[float, int]:
    """Validation accuracy, which should go up, and the number of nodes, which should go down."""
    forest = ExtraTreesClassifier(
        n_estimators=trial.suggest_int("trees", 2, 30, step=4),
        max_depth=trial.suggest_categorical("depth", [4, 6, 8, 12, None]),
        max_features=trial.suggest_float("features", 0.25, 1.0, step=0.25),
        criterion=trial.suggest_categorical("criterion", ["gini", "entropy"]),
        bootstrap=trial.suggest_categorical("bootstrap", [False, True]),
        min_samples_leaf=trial.suggest_int("leaf", 1, 8),
        random_state=0,
    )
    forest.fit(train_x, train_y)
    nodes = sum(tree.tree_.node_count for tree in forest.estimators_)
    return forest.score(valid_x, valid_y), nodes


def reward(trial: optuna.trial.FrozenTrial) -> float | None:
    """What the controller learns from, as there are two objectives: MnasNet's soft form."""
    if trial.values is None:
        return None
    accuracy, nodes = trial.values
    return accuracy * (nodes / 1000) ** -0.07


def main(trials: int) -> None:
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(
        directions=["maximize", "minimize"], sampler=PPOSampler(reward=reward, seed=0)
    )
    study.optimize(objective, n_trials=trials)

    rewards = [reward(trial) for trial in study.trials]
    tenth = max(1, trials // 10)
    print(f"mean reward of the first {tenth} trials: {sum(rewards[:tenth]) / tenth:.3f}")
    print(f"mean reward of the last {tenth} trials:  {sum(rewards[-tenth:]) / tenth:.3f}")
    print("\naccuracy  nodes  on the front of accuracy and size")
    for trial in sorted(study.best_trials, key=lambda trial: trial.values[1]):
        print(f"{trial.values[0]:8.3f}  {trial.values[1]:5.0f}  {trial.params}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 400)
