"""What a search was asked to do: one frozen description, kept as `config.toml` in the run."""

from __future__ import annotations

import math
import tomllib
from dataclasses import MISSING, asdict, dataclass, field, fields
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

import tomli_w

from pocketnas.errors import RunError, UsageError
from pocketnas.nas.recipe import TrainSettings

if TYPE_CHECKING:
    from pocketnas.devices import MeasureSettings

REWARDS = ("soft", "hard")


@dataclass(frozen=True)
class SearchConfig:
    """Everything that decides how a search goes.

    Attributes:
        space: name of a built-in search space, or a path to a TOML file.
        data: name of a data set, or a path (see `pocketnas.nas.data.load_data`).
        device: `host` or `auto`.
        runtime: `litert` or `onnx`.
        threads: inference threads of the runtime.
        target_ms: latency target T in ms; None measures the space's base network first.
        reward: `soft` or `hard` (MnasNet, section 3).
        alpha, beta: exponents below and above the target; None takes those of `reward`.
        trials: how many trials the run shall have in all.
        seed: decides weights, data order, validation split and the sampler's choices.
        sampler: `ppo`, or the name of one of Optuna's samplers.
        resolution: image height and width in pixels; None takes the data's own, at most the
            space's.
        max_size_mb: a candidate whose exported file is larger is infeasible; None: no limit.
        measure_limit_s: seconds that one measuring attempt may take at most.
        proxy: how candidates are trained (five epochs from scratch by default).
    """

    space: str
    data: str
    device: str = "auto"
    runtime: str = "litert"
    threads: int = 1
    target_ms: float | None = None
    reward: str = "soft"
    alpha: float | None = None
    beta: float | None = None
    trials: int = 100
    seed: int = 0
    sampler: str = "ppo"
    resolution: int | None = None
    max_size_mb: float | None = None
    measure_limit_s: float = 10.0
    proxy: TrainSettings = field(default_factory=TrainSettings)

    def __post_init__(self) -> None:
        """Refuse what no search could do, before anything is loaded or written."""
        if self.trials < 1:
            raise UsageError(f"a search needs at least 1 trial but got {self.trials}")
        if self.threads < 1:
            raise UsageError(f"threads must be at least 1 but got {self.threads}")
        if self.reward not in REWARDS:
            raise UsageError(f"unknown reward '{self.reward}': choose one of {', '.join(REWARDS)}")
        if not 0 <= self.seed < 2**32:
            raise UsageError(f"a seed is a number from 0 to 2^32 - 1 but got {self.seed}")
        for name in ("target_ms", "max_size_mb", "measure_limit_s"):
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and value > 0):
                raise UsageError(f"{name} must be a positive number but got {value}")
        for name in ("alpha", "beta"):
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and value <= 0):
                raise UsageError(f"{name} must be zero or negative but got {value}")

    @property
    def measure_settings(self) -> MeasureSettings:
        """How the run's models are timed."""
        from pocketnas.devices import MeasureSettings

        return MeasureSettings(
            runtime=self.runtime, threads=self.threads, limit_s=self.measure_limit_s
        )

    def to_toml(self) -> str:
        """The text of `config.toml`; what is None is left out."""
        return tomli_w.dumps(_without_none(asdict(self)))

    @classmethod
    def load(cls, path: Path) -> SearchConfig:
        """Read a `config.toml`.

        Raises:
            RunError: the file is missing, is not TOML, or has unknown or mistyped entries.
        """
        try:
            table = tomllib.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise RunError(f"'{path.parent}' is not a run: it has no {path.name}") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise RunError(f"'{path}' cannot be read as TOML: {error}") from None
        except OSError as error:
            raise RunError(f"'{path}' cannot be read: {error.strerror}") from None
        proxy = table.pop("proxy", {})
        if not isinstance(proxy, dict):
            raise RunError(f"'{path}' is not a search configuration: proxy must be a table")
        unknown = [
            *(set(table) - {f.name for f in fields(cls)}),
            *(set(proxy) - {f.name for f in fields(TrainSettings)}),
        ]
        if unknown:
            raise RunError(f"'{path}' has unknown entries: {', '.join(sorted(unknown))}")
        try:
            _require_entries(cls, table)
            _require_entries(TrainSettings, proxy)
            return cls(**table, proxy=TrainSettings(**proxy))
        except UsageError as error:
            raise RunError(f"'{path}' is not a search configuration: {error}") from None


def _require_entries(owner: type[SearchConfig | TrainSettings], table: dict[str, Any]) -> None:
    """Refuse entries of the wrong type, and missing ones that have no default."""
    types = get_type_hints(owner)
    for item in fields(owner):
        kinds = get_args(types[item.name]) or (types[item.name],)
        if item.name not in table:
            if item.default is MISSING and item.default_factory is MISSING:
                raise UsageError(f"it lacks {item.name}")
            continue
        value = table[item.name]
        if type(value) not in kinds and not (float in kinds and type(value) is int):
            names = " or ".join(kind.__name__ for kind in kinds if kind is not NoneType)
            raise UsageError(f"{item.name} must be of type {names} but is {value!r}")


def _without_none(table: dict[str, Any]) -> dict[str, Any]:
    """Drop None values (TOML has no null), also in nested tables."""
    return {
        key: _without_none(value) if isinstance(value, dict) else value
        for key, value in table.items()
        if value is not None
    }
