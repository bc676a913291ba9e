"""One candidate through the stages of DESIGN: export, time, train. Knows no sampler, no study."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Self

import torch
from safetensors.torch import save

from pocketnas.devices import Device, Reading
from pocketnas.errors import DeviceError, ExportError, NoDeviceError
from pocketnas.export import export_network
from pocketnas.export.exporter import MODEL_FILES
from pocketnas.files import write_atomic, write_json
from pocketnas.nas.data import Dataset
from pocketnas.nas.recipe import EpochLog, TrainingDiverged
from pocketnas.nas.reward import Reward
from pocketnas.nas.run import Run
from pocketnas.nas.trainer import train
from pocketnas.searchspace import Arch, arch_to_dict, build_network, candidate_key, count
from pocketnas.searchspace.cost import MAX_PARAMS

if TYPE_CHECKING:
    from pocketnas.searchspace.network import Network

# Building what is beyond any phone might end the process for want of memory.
MOST_ACTIVATION_BYTES = 2**31
OnStage = Callable[[str, str], None]


@dataclass
class Evaluation:
    """What became of one candidate.

    Attributes:
        verdict: `finished`; `infeasible` (the arch's own fault: never worth proposing again); or
            `failed` (not the arch's fault: an unplugged device, a reading that will not settle).
        reason: why it did not finish, as a sentence.
        accuracy: on the validation split, a fraction.
        reading: its latency, always a stable one; None where there is none.
        reward: accuracy x (latency / target)^w.
        seconds: time spent per stage.
    """

    verdict: str = "finished"
    reason: str | None = None
    accuracy: float | None = None
    reading: Reading | None = None
    reward: float | None = None
    seconds: dict[str, float] = field(default_factory=dict)


class UnstableReading(DeviceError):
    """A latency that would not settle; it is marked, and never becomes a reward."""


class OversizedModel(ExportError):
    """An exported file above the size limit of the search."""


@dataclass
class _Timing:
    """A reading that is being taken, and the seconds its stages take."""

    reading: Future[Reading]
    seconds: dict[str, float]


class Evaluator:
    """Takes candidates through the stages, keeping everything they leave in the run folder.

    Close it, or use it in a `with` block: devices that time beside training work in threads.
    """

    def __init__(self, run: Run, dataset: Dataset, device: Device) -> None:
        self.run = run
        self.dataset = dataset
        self.device = device
        self.beside = device.describe().beside
        self._threads = ThreadPoolExecutor(self.beside, "timing") if self.beside else None
        self._timings: dict[str, _Timing] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *unused: object) -> None:
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)

    def key(self, arch: Arch) -> str:
        """The candidate's key: the hash of the arch, the task and the input size."""
        return candidate_key(arch, self.dataset.fingerprint, self.dataset.input_shape)

    def evaluate(
        self, arch: Arch, reward: Reward, best_reward: float | None, on_stage: OnStage
    ) -> Evaluation:
        """Export, time and train a candidate; any stage can end it early.

        Args:
            arch: the candidate.
            reward: what accuracy and latency are worth.
            best_reward: the best of the study so far, to see what is hopeless.
            on_stage: told each stage's name as it begins, and each epoch's progress.

        Raises:
            NoDeviceError: no device is usable, which says nothing of the candidate.
        """
        evaluation = Evaluation()
        key = self.key(arch)
        try:
            evaluation.reading = self.measure(arch, on_stage, evaluation.seconds)
            latency_ms = evaluation.reading.latency_ms
            if reward.is_hopeless(latency_ms, best_reward):
                evaluation.verdict = "infeasible"
                evaluation.reason = (
                    f"hopeless: at {latency_ms:.3g} ms even a perfect accuracy could not reach "
                    f"the best reward so far, {best_reward:.4f}"
                )
                return evaluation
            on_stage("train", "")
            with _stopwatch(evaluation.seconds, "train"):
                evaluation.accuracy = self.train(arch, key, on_stage)
            evaluation.reward = reward(evaluation.accuracy, latency_ms)
        except (ExportError, TrainingDiverged) as error:
            evaluation.verdict, evaluation.reason = "infeasible", str(error)
        except NoDeviceError:
            raise
        except DeviceError as error:
            evaluation.verdict, evaluation.reason = "failed", str(error)
        return evaluation

    def measure(
        self, arch: Arch, on_stage: OnStage, seconds: dict[str, float] | None = None
    ) -> Reading:
        """The arch's latency with fresh weights; a stable reading of this run is used again.

        Raises:
            ExportError: it cannot be exported, or is over the size limit.
            DeviceError: the device failed, or the reading would not settle.
        """
        seconds = {} if seconds is None else seconds
        key = self.key(arch)
        stored = _stored_reading(self._reading_path(key))
        if stored is not None and stored.stable and key not in self._timings:
            return stored
        timing = self._timings.pop(key, None)
        if timing is None:
            on_stage("export", "")
            with _stopwatch(seconds, "export"):
                model = self._export(arch, self.run.candidate(key))
            on_stage("time", "")
            reading = self._time(key, model, seconds)
        else:
            on_stage("time", "")
            try:
                reading = timing.reading.result()
            finally:
                seconds |= timing.seconds
        if not reading.stable:
            low, high = reading.latency_ci95_ms
            raise UnstableReading(
                f"the latency would not settle on {reading.device}: {reading.latency_ms:.3g} ms "
                f"with a 95 % interval of {low:.3g} to {high:.3g} ms after "
                f"{reading.attempts} attempts"
            )
        return reading

    def measure_ahead(self, arch: Arch) -> None:
        """Begin to time a candidate beside what else is done; `measure` then waits for that.

        The file is exported here and now: exporting draws weights, which no other thread may do
        while one trains. Where the device cannot time beside training, nothing is done.
        """
        key = self.key(arch)
        if self._threads is None or key in self._timings:
            return
        stored = _stored_reading(self._reading_path(key))
        if stored is not None and stored.stable:
            return
        seconds: dict[str, float] = {}
        try:
            with _stopwatch(seconds, "export"):
                model = self._export(arch, self.run.candidate(key))
        except ExportError:
            return  # said, and recorded, when its turn comes
        reading = self._threads.submit(self._time, key, model, seconds)
        self._timings[key] = _Timing(reading, seconds)

    def _time(self, key: str, model: Path, seconds: dict[str, float]) -> Reading:
        """Time an exported file and keep the reading."""
        with _stopwatch(seconds, "time"):
            reading = self.device.measure(model, self.run.config.measure_settings)
        write_json(self._reading_path(key), reading.to_dict())
        return reading

    def _reading_path(self, key: str) -> Path:
        return self.run.candidate(key) / "reading.json"

    def train(self, arch: Arch, key: str, on_stage: OnStage) -> float:
        """Proxy training from scratch; weights and log go to the candidate's folder.

        Returns:
            Accuracy on the validation split, a fraction.
        """
        seed = candidate_seed(self.run.config.seed, key)
        network = fresh_network(
            arch,
            self.dataset.input_shape,
            self.dataset.classes,
            seed,
            self.run.config.proxy.dropout,
        )
        epochs = self.run.config.proxy.epochs

        def on_epoch(log: EpochLog) -> None:
            on_stage("train", f"epoch {log.epoch}/{epochs}")

        result = train(network, self.dataset, self.run.config.proxy, seed=seed, on_epoch=on_epoch)
        folder = self.run.candidate(key)
        save_weights(network, folder / "weights.safetensors")
        write_json(folder / "training.json", result.to_dict())
        return result.accuracy

    def _export(self, arch: Arch, folder: Path) -> Path:
        """Write the candidate's files and return the one that its runtime times."""
        seed = candidate_seed(self.run.config.seed, folder.name)
        network = fresh_network(arch, self.dataset.input_shape, self.dataset.classes, seed)
        write_json(
            folder / "arch.json",
            arch_to_dict(arch, input_shape=self.dataset.input_shape, classes=self.dataset.classes),
        )
        exported = export_network(
            network,
            self.dataset.input_shape,
            labels=self.dataset.labels,
            normalization=(self.dataset.mean, self.dataset.std),
        )
        exported.write(folder)
        model = folder / MODEL_FILES[self.run.config.runtime]
        limit = self.run.config.max_size_mb
        size_mb = model.stat().st_size / 1e6
        if limit is not None and size_mb > limit:
            raise OversizedModel(f"over the size limit: {size_mb:.2f} MB of {limit:g} MB")
        return model


def candidate_seed(seed: int, key: str) -> int:
    """A seed of a candidate's own, whatever the order in which candidates come."""
    return int.from_bytes(hashlib.sha256(f"{seed}:{key}".encode()).digest()[:4]) % 2**31


def fresh_network(
    arch: Arch, input_shape: tuple[int, int, int], classes: int, seed: int, dropout: float = 0.0
) -> Network:
    """A network with weights drawn from `seed`, leaving torch's own generator as it was.

    Raises:
        ExportError: it is too large to be built.
    """
    cost = count(arch, input_shape, classes)
    if cost.params > MAX_PARAMS or cost.peak_activation_bytes > MOST_ACTIVATION_BYTES:
        raise ExportError(
            f"the network is too large: {cost.params:,} params and {cost.peak_activation_bytes:,} "
            f"bytes of activations, where at most {MAX_PARAMS:,} and {MOST_ACTIVATION_BYTES:,} "
            "are built"
        )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return build_network(arch, input_shape, classes, dropout=dropout)


def save_weights(network: torch.nn.Module, path: Path) -> None:
    """Write a network's parameters and buffers as safetensors."""
    # safetensors' own `save_file` does not say as an OSError that the disk is full.
    write_atomic(path, save({k: v.contiguous() for k, v in network.state_dict().items()}))


def _stored_reading(path: Path) -> Reading | None:
    """A candidate's reading; None where it is missing or damaged, and has to be taken again."""
    try:
        return Reading.from_dict(json.loads(path.read_text(encoding="utf-8")))
    except (FileNotFoundError, ValueError, DeviceError):
        return None


@contextmanager
def _stopwatch(seconds: dict[str, float], stage: str) -> Iterator[None]:
    """Record how long a stage took, also when it fails."""
    started = time.perf_counter()
    try:
        yield
    finally:
        seconds[stage] = round(time.perf_counter() - started, 4)
