"""Training a network on data in memory, and reading predictions off it.

The same seed and settings give the same weights and accuracies bit for bit on the same machine.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from pocketnas.errors import UsageError
from pocketnas.nas.batches import Batches, Normalizer, in_order
from pocketnas.nas.data import Dataset, Split
from pocketnas.nas.data.split import stratified_subset
from pocketnas.nas.memory import keep_freed_memory
from pocketnas.nas.recipe import (
    AUGMENTATIONS,
    EpochLog,
    TrainingDiverged,
    TrainResult,
    TrainSettings,
    learning_rate_at,
)
from pocketnas.threads import torch_threads

__all__ = [
    "AUGMENTATIONS",
    "EpochLog",
    "TrainResult",
    "TrainSettings",
    "TrainingDiverged",
    "measure_accuracy",
    "predict",
    "train",
]

_PREDICT_BATCH = 256


def train(
    network: nn.Module,
    dataset: Dataset,
    settings: TrainSettings | None = None,
    *,
    seed: int = 0,
    device: str = "auto",
    on_epoch: Callable[[EpochLog], None] | None = None,
) -> TrainResult:
    """Train a network in place, and measure its accuracy on the validation split.

    Afterwards the network is where it was before, in evaluation mode, also when training ends in
    an error. Torch's own random generators and its number of threads are left as they were.

    Args:
        network: From (N, C, H, W) normalized images to (N, classes) logits. Its present weights
            are the start.
        dataset: Learned from its training split; the test split is not touched.
        settings: The recipe; None takes the defaults.
        seed: Decides the order of images, augmentation and dropout.
        device: `auto` takes a CUDA GPU if there is one, else the CPU; or torch's name of one.
        on_epoch: Called at the end of each epoch.

    Raises:
        TrainingDiverged: The loss or the logits ceased to be finite.
        UsageError: There is no such device.
    """
    settings = settings or TrainSettings()
    started = time.perf_counter()
    keep_freed_memory()
    target = choose_device(device)
    split = dataset.train
    if settings.train_images is not None:
        split = stratified_subset(split, settings.train_images, seed)
    generator = torch.Generator().manual_seed(seed)
    normalizer = Normalizer(dataset.mean, dataset.std, target)
    batches = Batches(split, normalizer, settings.batch_size, settings.augment, generator)
    with torch_threads(settings.threads), _placed(network, target), _repeatable(target, seed):
        logs = _epochs(network, batches, settings, on_epoch)
        network.eval()
        logits = predict(network, dataset.validation.images, dataset)
    if not np.isfinite(logits).all():
        raise TrainingDiverged(
            "training diverged: the trained network gives logits that are not finite"
        )
    return TrainResult(
        accuracy=_accuracy(logits, dataset.validation.labels),
        epochs=tuple(logs),
        seconds=time.perf_counter() - started,
        images=len(split),
        seed=seed,
        device=str(target),
        settings=settings,
    )


def predict(
    network: nn.Module, images: NDArray[np.uint8], dataset: Dataset
) -> NDArray[np.float32]:
    """Logits of images, computed in evaluation mode where the network is.

    Args:
        network: From (N, C, H, W) normalized images to (N, classes) logits; left in the mode that
            it was in.
        images: (N, H, W, C) uint8, at least one.
        dataset: Whose normalization applies.

    Returns:
        (N, classes) float32.
    """
    first = next(network.parameters(), None)
    device = torch.device("cpu") if first is None else first.device
    normalizer = Normalizer(dataset.mean, dataset.std, device)
    was_training = network.training
    network.eval()
    try:
        with torch.inference_mode():
            logits = [
                network(batch).float().cpu()
                for batch in in_order(images, normalizer, _PREDICT_BATCH)
            ]
    finally:
        network.train(was_training)
    return torch.cat(logits).numpy()


def measure_accuracy(network: nn.Module, split: Split, dataset: Dataset) -> float:
    """Share of a split's images that the network classifies rightly.

    Args:
        network: As for `predict`.
        split: Usually one of the data set's.
        dataset: Whose normalization applies.
    """
    return _accuracy(predict(network, split.images, dataset), split.labels)


def choose_device(device: str) -> torch.device:
    """The torch device for `auto` or a name.

    Raises:
        UsageError: There is no such device.
    """
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        chosen = torch.device(device)
        torch.empty(1, device=chosen)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).splitlines()[0]
        raise UsageError(f"cannot train on device '{device}': {reason}") from None
    return chosen


def _epochs(
    network: nn.Module,
    batches: Batches,
    settings: TrainSettings,
    on_epoch: Callable[[EpochLog], None] | None,
) -> list[EpochLog]:
    """The training itself."""
    optimizer = _optimizer(network, settings)
    logs: list[EpochLog] = []
    step = 0
    for epoch in range(1, settings.epochs + 1):
        started = time.perf_counter()
        loss_sum, right, seen = 0.0, 0, 0
        network.train()
        for images, labels in batches:
            rate = learning_rate_at(settings, step, len(batches))
            for group in optimizer.param_groups:
                group["lr"] = rate
            logits = network(images)
            loss = functional.cross_entropy(
                logits, labels, label_smoothing=settings.label_smoothing
            )
            value = loss.item()
            if not np.isfinite(value):
                raise TrainingDiverged(
                    f"training diverged in epoch {epoch}: the loss is {value} at a learning rate "
                    f"of {rate:.3g}"
                )
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            step += 1
            seen += len(labels)
            loss_sum += value * len(labels)
            right += int((logits.detach().argmax(1) == labels).sum())
        logs.append(
            EpochLog(epoch, loss_sum / seen, right / seen, rate, time.perf_counter() - started)
        )
        if on_epoch:
            on_epoch(logs[-1])
    optimizer.zero_grad()
    return logs


def _optimizer(network: nn.Module, settings: TrainSettings) -> torch.optim.SGD:
    """SGD; biases and batch norms, which have one dimension, are not decayed."""
    parameters = [p for p in network.parameters() if p.requires_grad]
    groups: list[dict[str, Any]] = [
        {"params": [p for p in parameters if p.ndim > 1]},
        {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.SGD(
        groups,
        lr=settings.learning_rate,
        momentum=settings.momentum,
        weight_decay=settings.weight_decay,
        nesterov=settings.momentum > 0,
    )


@contextmanager
def _placed(network: nn.Module, device: torch.device) -> Iterator[None]:
    """Have the network on a device in the channels_last format, then back as it was."""
    home = next(network.parameters()).device
    network.to(device=device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    try:
        yield
    finally:
        network.eval()
        network.to(device=home, memory_format=torch.contiguous_format)  # type: ignore[call-overload]


@contextmanager
def _repeatable(device: torch.device, seed: int) -> Iterator[None]:
    """Seed torch's generators for dropout, and keep to kernels that give the same bits again."""
    if device.type != "cuda":
        # Kernels on the CPU repeat as they are.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            yield
        return
    # cuBLAS reads it when it is first used, and is not repeatable without it.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    enabled = torch.are_deterministic_algorithms_enabled()
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    with (
        torch.random.fork_rng(devices=[device]),
        torch.backends.cudnn.flags(deterministic=True, benchmark=False),
    ):
        torch.manual_seed(seed)
        torch.use_deterministic_algorithms(True, warn_only=True)
        try:
            yield
        finally:
            torch.use_deterministic_algorithms(enabled, warn_only=warn_only)


def _accuracy(logits: NDArray[np.float32], labels: NDArray[np.int64]) -> float:
    """Share of logits whose greatest is the label's."""
    return float((logits.argmax(1) == labels).mean())
