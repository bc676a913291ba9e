"""How a network is trained, and what came of it: plain descriptions that need no torch."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from pocketnas.errors import PocketNASError, UsageError

AUGMENTATIONS = ("none", "light", "mirror")


class TrainingDiverged(PocketNASError):
    """A training whose loss or logits ceased to be finite numbers."""


@dataclass(frozen=True)
class TrainSettings:
    """A training recipe: SGD with Nesterov momentum, warm-up, then a cosine down to zero.

    The defaults are for proxy training (MnasNet, section 4.2: five epochs from scratch, the
    schedule shortened to fit); `docs/data.md` shows how they were chosen.

    Attributes:
        epochs: Passes over the training images.
        batch_size: Images a step; the last few of an epoch join its other batches.
        learning_rate: The peak, after warm-up.
        momentum: Of SGD.
        weight_decay: L2 penalty on the weights of convolutions and linear layers only.
        warmup_epochs: Epochs in which the learning rate rises to its peak; may be a fraction.
        label_smoothing: Share of each target spread over all classes (Szegedy et al. 2016,
            section 7).
        augment: `none`; `light`: shifts by up to an eighth of the image; `mirror`: those, and half
            of the images mirrored left to right.
        dropout: Fraction dropped before the classifier; for whoever builds the network, since a
            dropout layer is part of it.
        train_images: Learn from so many of the training images only, a stratified and seeded
            choice; None: from all.
        threads: Of the CPU. On a machine with other work, two threads that wait for each other
            have been seen to train 2 to 50 times slower than one. Another number gives other
            last bits.
    """

    epochs: int = 5
    batch_size: int = 32
    learning_rate: float = 0.05
    momentum: float = 0.9
    weight_decay: float = 1e-4
    warmup_epochs: float = 0.5
    label_smoothing: float = 0.0
    augment: str = "none"
    dropout: float = 0.0
    train_images: int | None = None
    threads: int = 1

    def __post_init__(self) -> None:
        """Refuse what cannot train."""
        least_values = {"epochs": 1, "batch_size": 2, "train_images": 2, "threads": 1}
        for name, least in least_values.items():
            value = getattr(self, name)
            if value is not None and value < least:
                raise UsageError(f"{name} must be at least {least} but got {value}")
        if not (math.isfinite(self.learning_rate) and self.learning_rate > 0):
            raise UsageError(
                f"learning_rate must be a positive number but got {self.learning_rate}"
            )
        if not (math.isfinite(self.weight_decay) and self.weight_decay >= 0):
            raise UsageError(f"weight_decay cannot be negative but got {self.weight_decay}")
        for name in ("momentum", "label_smoothing", "dropout"):
            value = getattr(self, name)
            if not 0 <= value < 1:
                raise UsageError(f"{name} must be from 0 to below 1 but got {value}")
        if not 0 <= self.warmup_epochs < self.epochs:
            raise UsageError(
                f"warmup_epochs must be from 0 to below the {self.epochs} epochs but got "
                f"{self.warmup_epochs}"
            )
        if self.augment not in AUGMENTATIONS:
            raise UsageError(
                f"unknown augmentation '{self.augment}': choose one of {', '.join(AUGMENTATIONS)}"
            )


@dataclass(frozen=True)
class EpochLog:
    """What is known at the end of an epoch.

    The training accuracy is that of the batches while they were learned from. There is no
    validation accuracy: before the learning rate has come down, it says little about an arch.

    Attributes:
        epoch: Counted from 1.
        loss: Mean over the epoch's images.
        train_accuracy: A fraction.
        learning_rate: That of the epoch's last step.
        seconds: What the epoch took.
    """

    epoch: int
    loss: float
    train_accuracy: float
    learning_rate: float
    seconds: float


@dataclass(frozen=True)
class TrainResult:
    """What came of a training.

    Attributes:
        accuracy: On the validation split at the very end, a fraction.
        epochs: One log for each.
        seconds: In all, with validation.
        images: How many images an epoch had.
        seed: Of the order of images, augmentation and dropout.
        device: What it ran on, in torch's words, e.g. `cpu`.
        settings: The recipe.
    """

    accuracy: float
    epochs: tuple[EpochLog, ...]
    seconds: float
    images: int
    seed: int
    device: str
    settings: TrainSettings

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def learning_rate_at(settings: TrainSettings, step: int, steps_per_epoch: int) -> float:
    """The learning rate of a step.

    It rises linearly over the warm-up, then falls along half a cosine (Loshchilov and Hutter 2017,
    section 3, without restarts) that reaches zero right after the last step.

    Args:
        settings: The recipe.
        step: Counted from 0, over all epochs.
        steps_per_epoch: Number of batches of an epoch.
    """
    warmup = round(settings.warmup_epochs * steps_per_epoch)
    if step < warmup:
        return settings.learning_rate * (step + 1) / warmup
    progress = (step - warmup) / (settings.epochs * steps_per_epoch - warmup)
    return settings.learning_rate * (1 + math.cos(math.pi * progress)) / 2
