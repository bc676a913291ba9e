"""An ARCH argument with its task: input shape and classes from options, file or defaults."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pocketnas.errors import ArchError

if TYPE_CHECKING:
    from pocketnas.searchspace import Arch

RESOLUTION, CHANNELS, CLASSES = 224, 3, 1000


@dataclass(frozen=True)
class ArchTask:
    """An arch with the input shape and the classes to build it for.

    Attributes:
        folder: the bundle or candidate folder it came from, None for a name or block strings.
    """

    arch: Arch
    input_shape: tuple[int, int, int]
    classes: int
    folder: Path | None

    @property
    def weights(self) -> Path | None:
        """The weights that lie beside the arch file, where they fit this task."""
        path = self.folder / "weights.safetensors" if self.folder else None
        return path if path is not None and path.exists() else None


def arch_task(
    argument: str, resolution: int | None, channels: int | None, classes: int | None
) -> ArchTask:
    """Resolve an ARCH argument; options go before what its file says, then come defaults."""
    from pocketnas.searchspace import resolve_arch

    arch = resolve_arch(argument)
    file = Path(argument)
    if file.is_dir():
        file = file / "arch.json"
    described = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    height, width, file_channels = _shape(described, file)
    return ArchTask(
        arch,
        (resolution or height, resolution or width, channels or file_channels),
        classes or _positive(described.get("classes", CLASSES), "classes", file),
        file.parent if described else None,
    )


def _shape(described: dict[str, Any], file: Path) -> tuple[int, int, int]:
    """The input shape that an arch file states, else the default."""
    shape = described.get("input_shape", [RESOLUTION, RESOLUTION, CHANNELS])
    if not isinstance(shape, list) or len(shape) != 3:
        raise ArchError(f"'{file}': input_shape must be [height, width, channels], got {shape!r}")
    height, width, channels = (_positive(side, "input_shape", file) for side in shape)
    return height, width, channels


def _positive(value: Any, name: str, file: Path) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value <= 1_000_000:
        raise ArchError(f"'{file}': {name} must be positive whole numbers, got {value!r}")
    return value
