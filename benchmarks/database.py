"""What a trial costs beside its evaluation: sampler, study and controller state.

    python benchmarks/database.py [--trials 5000] [--folder FOLDER]

Searches the 42 decisions of space `mnasnet` with the PPO controller on the default storage, on a
table instead of training, as `pocketnas search` does it: ask, attributes, tell, save the
controller. The search runs in a child process that kills itself (SIGKILL) right after its last
trial; plain Optuna then must read every trial. For comparison, a few trials on Optuna's storages.

Exits with 1 if a trial near number 100 takes more than 20 ms on average, if one at the end takes
more than 1.5 times the CPU time, or if a trial was lost.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import signal
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import optuna
import torch
from optuna.trial import FrozenTrial

from pocketnas.nas.reward import Reward
from pocketnas.nas.sampler import PPOSampler
from pocketnas.nas.storage import open_study
from pocketnas.searchspace import load_space

LIMIT_MS = 20.0
LIMIT_GROWTH = 1.5
PARTS = ("ask", "attributes", "tell", "save")
CPU = len(PARTS)
"""The column after the parts: what the process itself computed in all of them."""
REWARD = Reward.soft(75.0)


def reward_of(trial: FrozenTrial) -> float | None:
    return trial.user_attrs["reward"]


class Table:
    """Made-up accuracies and latencies: a sum over the choices, drawn once."""

    def __init__(self) -> None:
        self.space = load_space("mnasnet")
        rng = np.random.default_rng(0)
        choices = [len(decision.choices) for decision in self.space.decisions]
        self.accuracies = [rng.normal(0, 0.01, n) for n in choices]
        self.latencies = [rng.uniform(0, 3, n) for n in choices]

    def evaluate(self, params: dict[str, object]) -> tuple[float, float]:
        """Accuracy and latency in ms of a trial's params."""
        tokens = self.space.params_to_tokens(params)
        accuracy = 0.7 + sum(a[t] for a, t in zip(self.accuracies, tokens, strict=True))
        latency_ms = 20 + sum(ms[t] for ms, t in zip(self.latencies, tokens, strict=True))
        return float(np.clip(accuracy, 0, 1)), float(latency_ms)


def search(study: optuna.Study, table: Table, trials: int, state: Path | None) -> np.ndarray:
    """Run trials, without timing the table: (trials, parts and CPU) milliseconds."""
    distributions = table.space.distributions()
    milliseconds = np.zeros((trials, len(PARTS) + 1))
    for row in milliseconds:
        cpu = time.process_time()
        times = [time.perf_counter()]
        trial = study.ask(fixed_distributions=distributions)
        times.append(time.perf_counter())
        evaluation = time.process_time()
        accuracy, latency_ms = table.evaluate(trial.params)
        attributes = {
            "arch": str(table.space.decode(table.space.params_to_tokens(trial.params))),
            "key": f"{trial.number:016x}",
            "verdict": "finished",
            "reward": REWARD(accuracy, latency_ms),
            "accuracy": accuracy,
            "latency_ms": latency_ms,
            "latency_ci95_ms": [latency_ms * 0.99, latency_ms * 1.01],
            "params": 3_504_872,
            "madds": 300_774_272,
            "peak_activation_bytes": 4_816_896,
            "reading": {"latency_samples_ms": [latency_ms] * 200},
            "seconds": {"export": 0.1, "time": 2.5, "train": 30.0},
        }
        skipped = time.perf_counter() - times[-1]
        cpu += time.process_time() - evaluation
        for name, value in attributes.items():
            trial.set_user_attr(name, value)
        times.append(time.perf_counter() - skipped)
        study.tell(trial, [accuracy, latency_ms])
        times.append(time.perf_counter() - skipped)
        if state is not None:
            study.sampler.save(state)
        times.append(time.perf_counter() - skipped)
        row[:] = np.array([*np.diff(times), time.process_time() - cpu]) * 1000
    return milliseconds


def search_and_die(folder: Path, trials: int) -> None:
    """In the child: search, leave the times, and be killed with no chance to tidy up."""
    torch.set_num_threads(1)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = open_study(
        folder / "study.db",
        directions=["maximize", "minimize"],
        sampler=PPOSampler(reward=reward_of, seed=0),
        study_name="table",
    )
    milliseconds = search(study, Table(), trials, folder / "controller.safetensors")
    (folder / "milliseconds.json").write_text(json.dumps(milliseconds.tolist()))
    os.kill(os.getpid(), signal.SIGKILL)


def compare(folder: Path) -> list[tuple[str, float]]:
    """Mean milliseconds a trial on Optuna's own storages, with its random sampler."""
    journal = optuna.storages.journal.JournalFileBackend(str(folder / "journal.log"))
    storages = {
        "Optuna, in memory": optuna.storages.InMemoryStorage(),
        "Optuna, journal file": optuna.storages.JournalStorage(journal),
        "Optuna, SQLite": f"sqlite:///{folder / 'plain.db'}",
    }
    rows = []
    for name, storage in storages.items():
        study = optuna.create_study(
            storage=storage,
            directions=["maximize", "minimize"],
            sampler=optuna.samplers.RandomSampler(seed=0),
        )
        rows.append((name, search(study, Table(), 5, None)[1:, :CPU].sum(1).mean()))
    return rows


def run(folder: Path, trials: int) -> bool:
    child = multiprocessing.get_context("spawn").Process(
        target=search_and_die, args=(folder, trials)
    )
    child.start()
    child.join()
    if child.exitcode != -signal.SIGKILL:
        raise SystemExit(f"the search ended with exit code {child.exitcode}")
    milliseconds = np.array(json.loads((folder / "milliseconds.json").read_text()))

    print(
        f"PPO controller, 42 decisions, default storage: ms a trial (mean of 100), {trials} trials"
    )
    print(f"{'trial':>8}" + "".join(f"{name:>12}" for name in (*PARTS, "all", "median", "CPU")))
    ends = sorted({end for end in (150, 500, 1000, 2000, 3000, 4000) if end < trials} | {trials})
    windows = [milliseconds[end - 100 : end] for end in ends]
    for end, window in zip(ends, windows, strict=True):
        whole = window[:, :CPU].sum(1)
        columns = (*window[:, :CPU].mean(0), whole.mean(), np.median(whole), window[:, CPU].mean())
        print(f"{end - 50:>8}" + "".join(f"{value:>12.2f}" for value in columns))
    first, last = windows[0].mean(0), windows[-1].mean(0)
    near_100, growth = first[:CPU].sum(), last[CPU] / first[CPU]
    print(
        f"near trial 100: {near_100:.1f} ms; at the end {growth:.2f} times the CPU time and "
        f"{last[:CPU].sum() / near_100:.2f} times the time, which varies with what else runs"
    )

    begin = time.perf_counter()
    study = optuna.load_study(study_name=None, storage=f"sqlite:///{folder / 'study.db'}")
    read = len(study.get_trials(deepcopy=False))
    plain_s = time.perf_counter() - begin
    begin = time.perf_counter()
    sampler = PPOSampler(reward=reward_of, seed=0)
    study = open_study(
        folder / "study.db",
        directions=["maximize", "minimize"],
        sampler=sampler,
        study_name="table",
    )
    sampler.load(folder / "controller.safetensors")
    sampler.recover(study)
    print(
        f"killed (SIGKILL) after trial {trials}: {read} trials read by Optuna in {plain_s:.1f} s, "
        f"reopened with its controller in {time.perf_counter() - begin:.1f} s; "
        f"study.db {(folder / 'study.db').stat().st_size / 1e6:.1f} MB"
    )
    print("\nfor comparison, ms a trial")
    for name, mean in compare(folder):
        print(f"  {name:<22}{mean:>8.1f}")
    return bool(near_100 <= LIMIT_MS and growth <= LIMIT_GROWTH and read == trials)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--trials", type=int, default=5000, help="at least 150 (default: 5000)")
    parser.add_argument("--folder", type=Path, help="where to write (default: a temporary one)")
    arguments = parser.parse_args()
    if arguments.trials < 150:
        parser.error(f"--trials must be at least 150 but got {arguments.trials}")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        passed = run(Path(folder), arguments.trials)
    print(
        f"\n{'within' if passed else 'OVER'} the limits: {LIMIT_MS:.0f} ms, {LIMIT_GROWTH} times"
    )
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
