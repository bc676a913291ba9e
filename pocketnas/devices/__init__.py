"""Where a model is timed: devices, the measuring protocol, readings. Imports no torch."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pocketnas.devices.device import Device, DeviceInfo, MeasureSettings
    from pocketnas.devices.host import HostDevice
    from pocketnas.devices.reading import Reading
    from pocketnas.devices.registry import DeviceKind, open_device, register_device

_MODULES = {
    "Device": "device",
    "DeviceInfo": "device",
    "DeviceKind": "registry",
    "HostDevice": "host",
    "MeasureSettings": "device",
    "Reading": "reading",
    "open_device": "registry",
    "register_device": "registry",
}

__all__ = [
    "Device",
    "DeviceInfo",
    "DeviceKind",
    "HostDevice",
    "MeasureSettings",
    "Reading",
    "open_device",
    "register_device",
]


def __getattr__(name: str) -> Any:
    """Import a public name's module when the name is first used."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value
