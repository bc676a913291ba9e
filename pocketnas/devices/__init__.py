"""Where a model is timed: devices, the measuring protocol, readings. Imports no torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pocketnas.lazy import lazily

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

__getattr__ = lazily(__name__, _MODULES)
