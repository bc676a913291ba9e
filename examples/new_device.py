"""A device of your own: this machine, but several measurements and the slowest counts.

    python examples/new_device.py

Registered by a name, it takes part in a search as `SearchConfig(device="cautious:3", ...)`. To
build it into PocketNAS, the class would move to a file in `pocketnas/devices/`, and its kind to a
place among the others in `registry.py` there. A device that is not this machine implements the
seven methods of `pocketnas.devices.Device` itself; see `pocketnas/devices/host.py`.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import torch

from pocketnas.devices import (
    DeviceInfo,
    DeviceKind,
    HostDevice,
    MeasureSettings,
    Reading,
    open_device,
    register_device,
)
from pocketnas.errors import UsageError
from pocketnas.export import export_network
from pocketnas.searchspace import build_network, parse_arch


class CautiousHost(HostDevice):
    """Times a model several times on this machine, and believes the slowest stable reading."""

    name = "cautious"

    def __init__(self, reason: str, times: int) -> None:
        self.times = times
        super().__init__(reason)
        self.reason = f"the slowest of {times} on {self.reason}"

    def describe(self) -> DeviceInfo:
        """This machine, by another identity: the host's readings are unlike these."""
        info = super().describe()
        identity = f"{info.identity}, slowest of {self.times}"
        return replace(info, kind=self.name, identity=identity)

    def measure(self, model_path: Path, settings: MeasureSettings) -> Reading:
        """The slowest of the stable readings; of all, if none was stable, and marked as such."""
        readings = []
        for _ in range(self.times):
            readings.append(super().measure(model_path, settings))
        slowest = max(readings, key=lambda reading: (reading.stable, reading.latency_ms))
        conditions = {**slowest.conditions, "slowest_of": self.times}
        return replace(slowest, device=self.name, conditions=conditions)


def open_cautious(address: str, reason: str) -> CautiousHost:
    """`cautious` measures twice, `cautious:N` N times."""
    if address and not (address.isdecimal() and 1 <= int(address) <= 10):
        raise UsageError(f"'cautious:{address}' must end with a number from 1 to 10")
    return CautiousHost(reason, int(address or 2))


register_device(DeviceKind("cautious", open_cautious, takes_address=True))


def main() -> None:
    torch.manual_seed(0)
    arch = parse_arch("stem_c8_s2,ir_r2_k3_s2_e3_c16,head_c64")
    exported = export_network(build_network(arch, (32, 32, 3), 10), (32, 32, 3))
    with tempfile.TemporaryDirectory() as folder, open_device("cautious:3") as device:
        model, _ = exported.write(Path(folder))
        print(device.reason)
        print(device.measure(model, MeasureSettings(limit_s=3.0, attempts=1)))


if __name__ == "__main__":
    main()
