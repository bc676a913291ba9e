"""An ARCH argument with its task: input shape and classes from options, file or defaults."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pocketnas.searchspace import Arch

INPUT_SHAPE, CLASSES = (224, 224, 3), 1000


@dataclass(frozen=True)
class ArchTask:
    """An arch with the input shape and the classes to build it for.

    Attributes:
        input_shape: (height, width, channels).
        weights: the file of weights beside the arch's own file; None where there is none.
    """

    arch: Arch
    input_shape: tuple[int, int, int]
    classes: int
    weights: Path | None


def arch_task(
    argument: str, resolution: int | None, channels: int | None, classes: int | None
) -> ArchTask:
    """Resolve an ARCH argument; options go before what its file says, then come defaults."""
    from pocketnas.searchspace.resolve import describe_arch

    described = describe_arch(argument)
    height, width, file_channels = described.input_shape or INPUT_SHAPE
    weights = described.file.with_name("weights.safetensors") if described.file else None
    return ArchTask(
        described.arch,
        (resolution or height, resolution or width, channels or file_channels),
        classes or described.classes or CLASSES,
        weights if weights is not None and weights.exists() else None,
    )
