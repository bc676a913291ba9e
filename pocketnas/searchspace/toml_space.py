"""Search spaces by name, or from a TOML file of the user's own (see docs/spaces.md)."""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pocketnas.errors import ArchError, SpaceError
from pocketnas.searchspace.arch import parse_arch
from pocketnas.searchspace.builtin import BUILTIN_SPACES, builtin_space
from pocketnas.searchspace.choices import FIELDS, MAX_FACTOR, BlockChoices
from pocketnas.searchspace.notation import is_name, shown
from pocketnas.searchspace.space import SearchSpace

MAX_FILE_BYTES = 1_000_000
_KEYS = ("name", "input_resolution", "base", "choices", "blocks")


def load_space(name_or_path: str | Path) -> SearchSpace:
    """A built-in space by its name, or a user's own from its TOML file.

    Raises:
        SpaceError: There is no such space, or its file is malformed; the error names the place.
    """
    text = str(name_or_path)
    if text in BUILTIN_SPACES:
        return builtin_space(text)
    if not text or not os.path.exists(text):
        near = difflib.get_close_matches(text[:80], BUILTIN_SPACES, n=1)
        hint = f"did you mean '{near[0]}'? " if near else ""
        raise SpaceError(
            f"there is no search space {shown(text)}: {hint}give {', '.join(BUILTIN_SPACES)}, "
            "or the path of a space's TOML file"
        )
    path = Path(text)
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise SpaceError(
            f"the space file {shown(text)} cannot be read: {error.strerror}"
        ) from None
    if len(content) > MAX_FILE_BYTES:
        raise SpaceError(f"{shown(text)} is too large to be a space file")
    try:
        document = tomllib.loads(content.decode())
    except (ValueError, RecursionError) as error:  # broken TOML, broken UTF-8, absurd nesting
        raise SpaceError(f"the space file {shown(text)} is not TOML: {error}") from None
    try:
        return space_from_dict({"name": path.stem, **document})
    except SpaceError as error:
        raise SpaceError(f"the space file {shown(text)} is malformed: {error}") from None


def space_from_dict(document: Mapping[str, Any]) -> SearchSpace:
    """A space from the content of its TOML file; `SearchSpace.to_dict` gives such a content back.

    Raises:
        SpaceError: A key is unknown or missing, or a value is not possible.
    """
    _refuse_unknown("the space", document, _KEYS)
    for key in ("name", "input_resolution", "base"):
        if key not in document:
            raise SpaceError(f"the space has no '{key}': add it")
    if not is_name(document["name"]):
        raise SpaceError(
            f"the space's name must be a line of text but is {shown(document['name'])}"
        )
    if not isinstance(document["base"], list):
        raise SpaceError(f"the base must be a list of strings but is {shown(document['base'])}")
    try:
        base = parse_arch(document["base"], f"{document['name']} base")
    except ArchError as error:
        raise SpaceError(f"the base is no arch: {error}") from None
    shared = _read_choices("choices", document.get("choices", {}), BlockChoices())
    overrides = document.get("blocks", {})
    names = [f"b{number}" for number in range(1, len(base.blocks) + 1)]
    _refuse_unknown("[blocks]", overrides, names)
    choices = tuple(
        _read_choices(f"blocks.{name}", overrides.get(name, {}), shared.fitted(block))
        for name, block in zip(names, base.blocks, strict=True)
    )
    return SearchSpace(document["name"], base, choices, document["input_resolution"])


def _read_choices(place: str, table: object, default: BlockChoices) -> BlockChoices:
    """`default` with what the table `[place]` says instead."""
    fields = _refuse_unknown(f"[{place}]", table, FIELDS)
    read: dict[str, tuple[Any, ...]] = {}
    for field, choices in fields.items():
        if not isinstance(choices, list) or not choices:
            raise SpaceError(
                f"[{place}] {field} must be a list of choices, and not empty, "
                f"but is {shown(choices)}"
            )
        read[field] = tuple(_read_choice(place, field, choice) for choice in choices)
    return replace(default, **read)


def _read_choice(place: str, field: str, choice: object) -> object:
    """A choice of the type that its field has; TOML tells 0 from 0.0, we do not."""
    real = field in ("se", "filters")
    if real and type(choice) is int and abs(choice) <= MAX_FACTOR:
        choice = float(choice)
    wanted = float if real else int if field in ("kernel", "layers") else str
    if type(choice) is not wanted:
        word = {float: "sensible number", int: "whole number", str: "text"}[wanted]
        raise SpaceError(f"[{place}] {field} has the choice {shown(choice)}, which is no {word}")
    return choice


def _refuse_unknown(place: str, table: object, known: Any) -> Mapping[str, Any]:
    if not isinstance(table, Mapping):
        raise SpaceError(f"{place} must be a table but is {shown(table)}")
    for key in table:
        if key not in known:
            raise SpaceError(f"{place} has an unknown key {shown(key)}: use {', '.join(known)}")
    return table
