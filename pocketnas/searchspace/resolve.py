"""What an ARCH argument of the command line means."""

from __future__ import annotations

import difflib
import json
import os
from dataclasses import dataclass
from pathlib import Path

from pocketnas.errors import ArchError
from pocketnas.searchspace.arch import Arch, arch_from_dict, parse_arch
from pocketnas.searchspace.notation import shown
from pocketnas.searchspace.ops import op_names
from pocketnas.searchspace.published import PUBLISHED, published

MAX_FILE_BYTES = 1_000_000


@dataclass(frozen=True)
class DescribedArch:
    """An arch, and what its file says beside it; all of that is None where there is no file.

    Attributes:
        arch: The arch.
        file: Where it was read from.
        input_shape: (H, W, C), where the file says it.
        classes: Number of classes, where the file says it.
    """

    arch: Arch
    file: Path | None = None
    input_shape: tuple[int, int, int] | None = None
    classes: int | None = None


def resolve_arch(argument: str) -> Arch:
    """The arch that an ARCH argument stands for (see `describe_arch`).

    Raises:
        ArchError: It stands for none.
    """
    return describe_arch(argument).arch


def describe_arch(argument: str) -> DescribedArch:
    """What a published name, a path or block strings stand for, tried in that order.

    Args:
        argument: `mnasnet_a1@0.75`; the path of an `arch.json` or of a folder that holds one,
            such as a bundle; or block strings separated by commas.

    Raises:
        ArchError: It is none of these, or one of them with something wrong inside.
    """
    argument = argument.strip()
    if argument.partition("@")[0] in PUBLISHED:
        return DescribedArch(published(argument))
    if argument and os.path.exists(argument):
        return _read_file(Path(argument))
    if argument.split("_", 1)[0] in (*op_names(), "stem", "head"):
        return DescribedArch(parse_arch(argument))
    if argument.endswith(".json") or os.sep in argument:
        raise ArchError(f"there is no arch file or bundle at {shown(argument)}")
    near = difflib.get_close_matches(argument.partition("@")[0][:80], PUBLISHED, n=1)
    hint = f"did you mean '{near[0]}'? " if near else ""
    raise ArchError(
        f"{shown(argument)} is no arch: {hint}give a published name ({', '.join(PUBLISHED)}, with "
        "a width such as mnasnet_a1@0.75), the path of an arch.json or a bundle, or block strings "
        "separated by commas"
    )


def _read_file(path: Path) -> DescribedArch:
    if path.is_dir():
        path = path / "arch.json"
        if not path.exists():
            raise ArchError(f"the folder {shown(str(path.parent))} holds no arch.json")
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise ArchError(
            f"the arch file {shown(str(path))} cannot be read: {error.strerror}"
        ) from None
    if len(content) > MAX_FILE_BYTES:
        raise ArchError(f"{shown(str(path))} is too large to be an arch file")
    try:
        document = json.loads(content)
        arch = arch_from_dict(document)
    except (ValueError, RecursionError):  # broken JSON, broken UTF-8, absurd nesting
        raise ArchError(f"the arch file {shown(str(path))} is not JSON") from None
    except ArchError as error:
        raise ArchError(f"the arch file {shown(str(path))} is malformed: {error}") from None
    shape = document.get("input_shape")
    return DescribedArch(arch, path, tuple(shape) if shape else None, document.get("classes"))
