"""The kinds of devices, and opening one by name. A new kind is one file, and one line here."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass

from pocketnas.devices.device import Device
from pocketnas.devices.host import HostDevice
from pocketnas.errors import NoDeviceError, UsageError


@dataclass(frozen=True)
class DeviceKind:
    """One kind of device.

    Attributes:
        name: the part of a `--device` value before any colon, e.g. `host`.
        open: takes the part behind the colon (empty where there is none) and why this device is
            taken, and returns the device. Raises `NoDeviceError` where there is none.
        takes_address: whether anything may stand behind a colon.
    """

    name: str
    open: Callable[[str, str], Device]
    takes_address: bool = False


def _open_host(address: str, reason: str) -> Device:
    return HostDevice(reason)


# In the order of preference of `auto`: real phones come before emulated ones, the host is last.
KINDS: tuple[DeviceKind, ...] = (DeviceKind("host", _open_host),)


def open_device(spec: str = "auto", kinds: tuple[DeviceKind, ...] = KINDS) -> Device:
    """Open a device by name.

    Args:
        spec: `auto` (the first kind that has a usable device) or a kind, for some with an
            address: `KIND:ADDRESS`.
        kinds: the kinds there are, most preferred first.

    Raises:
        UsageError: an unknown kind, or an address where there can be none.
        NoDeviceError: no usable device of that kind.
    """
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
