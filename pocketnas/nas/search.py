"""The search: ask the sampler, evaluate the candidate, tell the study, lose nothing."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from optuna.samplers import BaseSampler
from optuna.trial import FrozenTrial, Trial, TrialState

from pocketnas.devices import Device, open_device
from pocketnas.errors import DeviceError, ExportError, NoDeviceError, RunError, UsageError
from pocketnas.files import writing
from pocketnas.nas.config import SearchConfig
from pocketnas.nas.data import Dataset
from pocketnas.nas.evaluate import Evaluation, Evaluator
from pocketnas.nas.events import OnEvent, Stage, Started, TrialDone
from pocketnas.nas.interrupt import uninterrupted
from pocketnas.nas.reward import Reward
from pocketnas.nas.run import Run, default_folder, load_run_data
from pocketnas.nas.sampler import PPOSampler
from pocketnas.nas.samplers import independent_proposals, make_sampler
from pocketnas.nas.storage import open_study, read_study, require_attributes
from pocketnas.searchspace import Arch, SearchSpace, count, load_space

# After so many device failures in a row the device is taken to be gone, and the search stops
# (resumable) instead of using up its trials.
FAILURES_IN_A_ROW = 5
STATES = {
    "finished": TrialState.COMPLETE,
    "infeasible": TrialState.PRUNED,
    "failed": TrialState.FAIL,
}


def search(config: SearchConfig, out: Path | None = None, on_event: OnEvent | None = None) -> Path:
    """Run a new search to its end.

    Args:
        config: what to search, on which data and device, and for how many trials.
        out: the run folder to make; by default a new one under `runs/`.
        on_event: called with every `Started`, `Stage` and `TrialDone`.

    Returns:
        The run folder.

    Raises:
        UsageError, SpaceError, DataError: something asked for does not exist or cannot be.
        NoDeviceError, DeviceError: there is no device, or it stopped working.
        RunError: the folder is taken, in use, or cannot be written.
    """
    space = load_space(config.space)
    _make_sampler(config)  # refuses an unknown name before a run is made
    dataset = load_run_data(config, space)
    with open_device(config.device) as device:
        device.check(config.runtime, config.threads)
        with Run.create(out or default_folder(config), config) as run:
            _Search(run, space, dataset, device, on_event).go()
            return run.folder


def resume(folder: Path, trials: int | None = None, on_event: OnEvent | None = None) -> Path:
    """Continue a search where it ended: finished, interrupted or killed.

    Args:
        folder: the run.
        trials: a new number of trials in all; by default the one it began with.
        on_event: as for `search`.

    Raises:
        RunError: there is no such run, it is in use, or space, data or device differ from those
            it began with.
        UsageError: it has more trials than `trials` already.
    """
    with Run.open(folder) as run:
        if trials is not None:
            if run.study_path.exists():
                _, finished = read_study(run.study_path)
                if trials < len(finished):
                    raise UsageError(
                        f"'{folder}' has {len(finished)} trials already, so it cannot have "
                        f"{trials} in all: give more, or leave --trials out"
                    )
            run.extend(trials)
        space = load_space(run.space_argument)
        dataset = load_run_data(run.config, space)
        with open_device(run.config.device) as device:
            _Search(run, space, dataset, device, on_event).go()
    return folder


@dataclass(frozen=True)
class _Asked:
    """A trial that has begun, and the candidate it is about."""

    trial: Trial
    arch: Arch
    key: str


class _Search:
    """The state of one running search."""

    def __init__(
        self,
        run: Run,
        space: SearchSpace,
        dataset: Dataset,
        device: Device,
        on_event: OnEvent | None,
    ) -> None:
        self.run = run
        self.space = space
        self.device = device
        self.dataset = dataset
        self.evaluator = Evaluator(run, dataset, device)
        self.emit: OnEvent = on_event or (lambda event: None)
        self.sampler = _make_sampler(run.config)
        advice = f"free some space or mend the permissions, then run --resume {run.folder}"
        with writing(run.folder, advice):
            self.study = open_study(
                run.study_path,
                directions=["maximize", "minimize"],
                sampler=self.sampler,
                study_name=run.folder.name,
            )
        self.advice = advice
        self.updates_saved = 0
        # Trials that have begun; all but the first of them only so far as to be timed.
        self.asked: deque[_Asked] = deque()

    def go(self) -> None:
        """Evaluate candidates until the run has all its trials."""
        with writing(self.run.folder, self.advice), self.evaluator:
            self._check_identity()
            self._restore_sampler()
            reward, measured = self._reward()
            trials = self.study.get_trials(deepcopy=False)
            require_attributes(self.run.study_path, trials, ("key", "reward", "repeat_of"))
            seen = {
                trial.user_attrs["key"]: trial
                for trial in trials
                if trial.state in (TrialState.COMPLETE, TrialState.PRUNED)
                and trial.user_attrs["repeat_of"] is None
            }
            rewards = [r for trial in trials if (r := _reward_of_trial(trial)) is not None]
            best = max(rewards, default=None)
            self.emit(
                Started(
                    folder=self.run.folder,
                    space=self.study.user_attrs["space"],
                    space_size=self.space.size,
                    data=self.dataset.name,
                    device=self.device.reason,
                    target_ms=reward.target_ms,
                    target_measured=measured,
                    trials=self.run.config.trials,
                    finished=len(trials),
                )
            )
            failures = 0
            for finished in range(len(trials), self.run.config.trials):
                try:
                    done = self._trial(reward, best, seen, finished)
                except NoDeviceError as error:
                    raise NoDeviceError(
                        f"{error}; when the device is well, run --resume {self.run.folder}"
                    ) from None
                best = done.best_reward
                failures = failures + 1 if done.verdict == "failed" else 0
                if failures == FAILURES_IN_A_ROW:
                    raise DeviceError(
                        f"stopped after {failures} failures in a row, the last: {done.reason}; "
                        f"when the device is well, run --resume {self.run.folder}"
                    )
            if isinstance(self.sampler, PPOSampler):
                self._save_controller(self.sampler)

    def _trial(
        self,
        reward: Reward,
        best: float | None,
        seen: dict[str, FrozenTrial],
        finished: int,
    ) -> TrialDone:
        """Ask, evaluate (or remember) and tell one candidate."""
        started = time.perf_counter()
        asked = self._next(seen)
        trial, arch, key = asked.trial, asked.arch, asked.key
        known = seen.get(key)
        if known is not None:
            attributes = {**known.user_attrs, "repeat_of": known.number, "seconds": {}}
        else:
            on_stage = self._on_stage(trial.number, arch)
            evaluation = self.evaluator.evaluate(arch, reward, best, on_stage)
            attributes = self._attributes(arch, key, evaluation)
        with uninterrupted():
            frozen = self._tell(trial, attributes)
            if frozen.state != TrialState.FAIL and known is None:
                seen[key] = frozen
            self.run.log("trial", number=trial.number, **attributes)
        if attributes["reward"] is not None:
            best = attributes["reward"] if best is None else max(best, attributes["reward"])
        done = TrialDone(
            trial=trial.number,
            arch=arch,
            verdict=attributes["verdict"],
            reason=attributes["reason"],
            accuracy=attributes["accuracy"],
            latency_ms=attributes["latency_ms"],
            reward=attributes["reward"],
            repeat_of=attributes["repeat_of"],
            best_reward=best,
            finished=finished + 1,
            trials=self.run.config.trials,
            seconds=time.perf_counter() - started,
        )
        self.emit(done)
        return done

    def _next(self, seen: dict[str, FrozenTrial]) -> _Asked:
        """The next trial in order; those behind it begin to be timed where a device can.

        No more are begun than the sampler would propose without knowing the end of any of them, so
        that a search goes the same way with one device, with many, and resumed.
        """
        last = self.run.config.trials
        ahead = min(independent_proposals(self.sampler), 1 + 2 * self.evaluator.beside)
        while not self.asked or (
            len(self.asked) < ahead and self.asked[-1].trial.number + 1 < last
        ):
            trial = self.study.ask(fixed_distributions=self.space.distributions())
            arch = self.space.decode(self.space.params_to_tokens(trial.params))
            self.asked.append(_Asked(trial, arch, self.evaluator.key(arch)))
            if self.asked[-1].key not in seen:
                self.evaluator.measure_ahead(arch)
        return self.asked.popleft()

    def _tell(self, trial: Trial, attributes: dict[str, Any]) -> FrozenTrial:
        """Write a trial to the study, then the controller's state."""
        for name, value in attributes.items():
            trial.set_user_attr(name, value)
        state = STATES[attributes["verdict"]]
        values = None
        if state == TrialState.COMPLETE:
            values = [attributes["accuracy"], attributes["latency_ms"]]
        frozen = self.study.tell(trial, values, state=state)
        # Trials told since the last update need no saving: `recover` takes them from the study.
        if isinstance(self.sampler, PPOSampler) and self.sampler.updates > self.updates_saved:
            self._save_controller(self.sampler)
        return frozen

    def _save_controller(self, sampler: PPOSampler) -> None:
        sampler.save(self.run.controller_path)
        self.updates_saved = sampler.updates

    def _on_stage(self, trial: int | None, arch: Arch) -> Callable[[str, str], None]:
        return lambda stage, detail: self.emit(Stage(trial, arch, stage, detail))

    def _attributes(self, arch: Arch, key: str, evaluation: Evaluation) -> dict[str, Any]:
        """What the study keeps of a trial beside its choices and values."""
        reading = evaluation.reading
        cost = count(arch, self.dataset.input_shape, self.dataset.classes)
        return {
            "arch": str(arch),
            "key": key,
            "verdict": evaluation.verdict,
            "reason": evaluation.reason,
            "reward": evaluation.reward,
            "accuracy": evaluation.accuracy,
            "latency_ms": reading.latency_ms if reading else None,
            "latency_ci95_ms": list(reading.latency_ci95_ms) if reading else None,
            "params": cost.params,
            "madds": cost.madds,
            "peak_activation_bytes": cost.peak_activation_bytes,
            "repeat_of": None,
            "seconds": evaluation.seconds,
        }

    def _check_identity(self) -> None:
        """A run goes on with the space, the data and the device that it began with."""
        info = self.device.describe()
        # What it is called may change: the run's own copy of a space has another file name.
        names = {"space": self.space.name, "data": self.dataset.name}
        now = {
            "space_fingerprint": self.space.fingerprint,
            "data_fingerprint": self.dataset.fingerprint,
            "device": self.device.name,
            "device_identity": info.identity,
            "emulated": info.emulated,
            "runtime": self.run.config.runtime,
            "threads": self.run.config.threads,
            "precision": "float32",
        }
        before = self.study.user_attrs
        for name in set(names) - set(before):
            self.study.set_user_attr(name, names[name])
        for name, value in now.items():
            if name not in before:
                self.study.set_user_attr(name, value)
            elif before[name] != value:
                raise RunError(
                    f"'{self.run.folder}' was searched with {name} {before[name]!r}, but here it "
                    f"is {value!r}: unlike results never share a front"
                )

    def _restore_sampler(self) -> None:
        """Bring the controller to where the finished trials left it."""
        if isinstance(self.sampler, PPOSampler):
            if self.run.controller_path.exists():
                self.sampler.load(self.run.controller_path)
            self.sampler.recover(self.study)
            self._save_controller(self.sampler)

    def _reward(self) -> tuple[Reward, bool]:
        """The reward of this run, and whether its target was measured here.

        Without `--target-ms` the target is the latency of the space's own base network on this
        device; once measured, it stays the run's target.
        """
        config, base = self.run.config, self.space.base
        target_ms = config.target_ms or self.study.user_attrs.get("target_ms")
        if target_ms is None:
            try:
                target_ms = self.evaluator.measure(base, self._on_stage(None, base)).latency_ms
            except ExportError as error:
                raise RunError(
                    f"the latency of the space's base network cannot be the target: {error}; "
                    "give one with --target-ms"
                ) from None
        self.study.set_user_attr("target_ms", target_ms)
        make = Reward.soft if config.reward == "soft" else Reward.hard
        exponents = {"alpha": config.alpha, "beta": config.beta}
        given = {name: value for name, value in exponents.items() if value is not None}
        reward = replace(make(target_ms), **given)
        self.study.set_user_attr("reward", {"alpha": reward.alpha, "beta": reward.beta})
        return reward, config.target_ms is None


def _make_sampler(config: SearchConfig) -> BaseSampler:
    """The run's sampler, which knows nothing yet."""
    return make_sampler(config.sampler, seed=config.seed, reward=_reward_of_trial)


def _reward_of_trial(trial: FrozenTrial) -> float | None:
    """The reward that the search gave a trial; None where it has none."""
    return trial.user_attrs.get("reward")
