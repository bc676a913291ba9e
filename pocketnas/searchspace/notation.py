"""Reading and writing the tokens of block strings, such as the `k5` of `ir_r3_k5_s2_e3_c40`."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Any

from pocketnas.errors import ArchError

ACTIVATIONS = {"relu": "nre", "relu6": "nr6", "hswish": "nhs"}
SKIPS = {"none": "noskip", "pool": "pool"}
"""Skips that are written; a block string without one means the identity."""

_NUMBERS = {"r": "repeats", "k": "kernel", "s": "stride", "e": "expansion", "c": "channels"}
_WORDS = {
    **{token: ("activation", name) for name, token in ACTIVATIONS.items()},
    **{token: ("skip", name) for name, token in SKIPS.items()},
}
_NUMBER = re.compile(r"([rksec])([1-9][0-9]{0,8})")
_RATIO = re.compile(r"se([01](?:\.[0-9]{1,20})?)")


def shown(text: object, limit: int = 80) -> str:
    """`text` as it appears in an error: quoted, printable, and never longer than a line."""
    quoted = ascii(text)
    return quoted if len(quoted) <= limit else f"{quoted[: limit - 4]}...{quoted[-1]}"


def is_name(value: object) -> bool:
    """Whether a name from a file can be shown in a terminal: printable, and not too long."""
    return isinstance(value, str) and 0 < len(value) <= 80 and value.isprintable()


def read_tokens(text: str, allowed: Collection[str]) -> dict[str, Any]:
    """The fields that the tokens after the first `_` set, by name.

    Args:
        text: A whole block string; used in errors, and split at its underscores.
        allowed: The fields that this kind of string knows.

    Raises:
        ArchError: A token is unknown, out of place, or sets a field a second time.
    """
    fields: dict[str, Any] = {}
    for token in text.split("_")[1:]:
        field, value = _read(token)
        if field is None or field not in allowed:
            raise ArchError(
                f"block string {shown(text)} has an unknown token {shown(token)}: "
                f"use {', '.join(_spellings(allowed))}"
            )
        if field in fields:
            raise ArchError(
                f"block string {shown(text)} gives its {field} a second time with {shown(token)}: "
                "write it once"
            )
        fields[field] = value
    return fields


def require_fields(text: str, fields: dict[str, Any], required: Iterable[str]) -> None:
    """Refuse a block string that leaves out something it cannot do without.

    Raises:
        ArchError: A required field is missing.
    """
    for field in required:
        if field not in fields:
            letter = next(token for token, name in _NUMBERS.items() if name == field)
            raise ArchError(
                f"block string {shown(text)} gives no {field}: add a token such as '{letter}1'"
            )


def write_ratio(ratio: float) -> str:
    """The shortest decimal that reads back as exactly `ratio`."""
    return repr(float(ratio)).removesuffix(".0")


def _read(token: str) -> tuple[str | None, Any]:
    """The field that a token sets, and the value; (None, None) where it is no token at all."""
    if token in _WORDS:
        return _WORDS[token]
    if number := _NUMBER.fullmatch(token):
        return _NUMBERS[number[1]], int(number[2])
    if ratio := _RATIO.fullmatch(token):
        return "se", float(ratio[1])
    return None, None


def _spellings(allowed: Collection[str]) -> list[str]:
    spellings = [f"{letter}N" for letter, field in _NUMBERS.items() if field in allowed]
    if "se" in allowed:
        spellings.append("seRATIO")
    return spellings + [token for token, (field, _) in _WORDS.items() if field in allowed]
