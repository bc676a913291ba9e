"""The kinds of devices, and opening one by name. A new kind is one file, and one line here."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass

from pocketnas.devices.device import Device
from pocketnas.devices.host import HostDevice
from pocketnas.devices.listing import Listed
from pocketnas.errors import NoDeviceError, UsageError


@dataclass(frozen=True)
class DeviceKind:
    """One kind of device.

    Attributes:
        name: the part of a `--device` value before any colon, e.g. `host`.
        open: takes the part behind the colon (empty where there is none) and why this device is
            taken, and returns the device. Raises `NoDeviceError` where there is none.
        takes_address: whether anything may stand behind a colon.
        listing: all devices of the kind, usable or not, for `pocketnas devices`.
    """

    name: str
    open: Callable[[str, str], Device]
    takes_address: bool = False
    listing: Callable[[], list[Listed]] = list


def _open_host(address: str, reason: str) -> Device:
    return HostDevice(reason)


# In the order of preference of `auto`: real phones come before emulated ones, the host is last.
_KINDS: dict[str, DeviceKind] = {kind.name: kind for kind in (DeviceKind("host", _open_host),)}


def device_kinds() -> tuple[DeviceKind, ...]:
    """The kinds there are, in the order in which `auto` looks for them."""
    return tuple(_KINDS.values())


def register_device(kind: DeviceKind) -> None:
    """Let `open_device`, and so a search in this process, know a kind of device.

    Args:
        kind: the kind. `auto` looks for it last: behind the host, which is always there.

    Raises:
        UsageError: another kind has its name, or no device can be asked for by it.
    """
    if kind.name in ("", "auto") or ":" in kind.name:
        raise UsageError(
            f"a kind of device cannot be called '{kind.name}': use a word without a colon, "
            "but not 'auto'"
        )
    if _KINDS.get(kind.name, kind) != kind:
        raise UsageError(f"there is a device '{kind.name}' already: choose another name")
    _KINDS[kind.name] = kind


def open_device(spec: str = "auto", kinds: tuple[DeviceKind, ...] | None = None) -> Device:
    """Open a device by name.

    Args:
        spec: `auto` (the first kind that has a usable device) or a kind, for some with an
            address: `KIND:ADDRESS`.
        kinds: those to choose from, most preferred first; by default all there are.

    Raises:
        UsageError: an unknown kind, or an address where there can be none.
        NoDeviceError: no usable device of that kind.
    """
    if kinds is None:
        kinds = device_kinds()
    if spec == "auto":
        return _open_first(kinds)
    name, colon, address = spec.partition(":")
    known = {kind.name: kind for kind in kinds}
    if name not in known:
        names = ["auto", *known]
        close = difflib.get_close_matches(name, names, n=1)
        advice = f"; did you mean '{close[0]}'?" if close else ""
        raise UsageError(f"unknown device '{spec}': choose one of {', '.join(names)}{advice}")
    if colon and not (known[name].takes_address and address):
        wanted = "needs an address behind" if known[name].takes_address else "takes no address, so"
        raise UsageError(f"unknown device '{spec}': '{name}' {wanted} the colon")
    return known[name].open(address, "as asked")


def _open_first(kinds: tuple[DeviceKind, ...]) -> Device:
    """The first kind with a usable device; its reason says why the kinds before it were passed."""
    passed: list[str] = []
    for kind in kinds:
        reason = "; ".join(passed) if passed else "the first choice of 'auto'"
        try:
            return kind.open("", reason)
        except NoDeviceError as error:
            passed.append(f"no {kind.name} ({error})")
    raise NoDeviceError(f"no usable device: {'; '.join(passed)}")
