"""What an ARCH argument of the command line means."""

from __future__ import annotations

import difflib
import json
import os
from pathlib import Path

from pocketnas.errors import ArchError
from pocketnas.searchspace.arch import Arch, arch_from_dict, parse_arch
from pocketnas.searchspace.notation import shown
from pocketnas.searchspace.ops import op_names
from pocketnas.searchspace.published import PUBLISHED, published

MAX_FILE_BYTES = 1_000_000


def resolve_arch(argument: str) -> Arch:
    """The arch that a published name, a path or block strings stand for, tried in that order.

    Args:
        argument: `mnasnet_a1@0.75`; the path of an `arch.json` or of a folder that holds one,
            such as a bundle; or block strings separated by commas.

    Raises:
        ArchError: It is none of these, or one of them with something wrong inside.
    """
    argument = argument.strip()
    if argument.partition("@")[0] in PUBLISHED:
        return published(argument)
    if argument and os.path.exists(argument):
        return _read_file(Path(argument))
    if argument.split("_", 1)[0] in (*op_names(), "stem", "head"):
        return parse_arch(argument)
    if argument.endswith(".json") or os.sep in argument:
        raise ArchError(f"there is no arch file or bundle at {shown(argument)}")
    near = difflib.get_close_matches(argument.partition("@")[0][:80], PUBLISHED, n=1)
    hint = f"did you mean '{near[0]}'? " if near else ""
    raise ArchError(
        f"{shown(argument)} is no arch: {hint}give a published name ({', '.join(PUBLISHED)}, with "
        "a width such as mnasnet_a1@0.75), the path of an arch.json or a bundle, or block strings "
        "separated by commas"
    )


def _read_file(path: Path) -> Arch:
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
        return arch_from_dict(json.loads(content))
    except (ValueError, RecursionError):  # broken JSON, broken UTF-8, absurd nesting
        raise ArchError(f"the arch file {shown(str(path))} is not JSON") from None
    except ArchError as error:
        raise ArchError(f"the arch file {shown(str(path))} is malformed: {error}") from None
