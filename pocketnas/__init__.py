"""PocketNAS: hardware-aware neural architecture search with the phone in the loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pocketnas.lazy import lazily

if TYPE_CHECKING:
    from pocketnas.bundle import export_arch, export_run
    from pocketnas.devices import MeasureSettings, open_device
    from pocketnas.export import export_network
    from pocketnas.nas.config import SearchConfig
    from pocketnas.nas.recipe import TrainSettings
    from pocketnas.nas.reward import Reward
    from pocketnas.nas.sampler import PPOSampler
    from pocketnas.nas.search import resume, search
    from pocketnas.reports import read_run
    from pocketnas.searchspace import build_network, count, load_space, resolve_arch

__version__ = "0.1.0"

_MODULES = {
    "MeasureSettings": "devices",
    "PPOSampler": "nas.sampler",
    "Reward": "nas.reward",
    "SearchConfig": "nas.config",
    "TrainSettings": "nas.recipe",
    "build_network": "searchspace",
    "count": "searchspace",
    "export_arch": "bundle",
    "export_network": "export",
    "export_run": "bundle",
    "load_space": "searchspace",
    "open_device": "devices",
    "read_run": "reports",
    "resolve_arch": "searchspace",
    "resume": "nas.search",
    "search": "nas.search",
}

__all__ = [
    "MeasureSettings",
    "PPOSampler",
    "Reward",
    "SearchConfig",
    "TrainSettings",
    "build_network",
    "count",
    "export_arch",
    "export_network",
    "export_run",
    "load_space",
    "open_device",
    "read_run",
    "resolve_arch",
    "resume",
    "search",
]

__getattr__ = lazily(__name__, _MODULES)
