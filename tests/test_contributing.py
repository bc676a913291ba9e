"""CONTRIBUTING.md names what is there, and leaves no package out."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
QUOTED = re.findall(r"`([^`\n]+)`", TEXT)


def test_every_file_and_folder_that_it_names_exists() -> None:
    paths = [word for word in QUOTED if re.fullmatch(r"[\w./-]+(/|\.(py|md|toml))", word)]
    assert len(paths) > 25
    for path in paths:
        if path != "__init__.py":
            assert (ROOT / path).exists(), f"CONTRIBUTING.md names {path}, which is not there"


def test_the_map_has_every_package() -> None:
    for init in (ROOT / "pocketnas").glob("*/__init__.py"):
        assert f"| `pocketnas/{init.parent.name}/` |" in TEXT


def test_the_registries_that_it_names_are_there() -> None:
    listed = re.findall(r"`(_?[A-Z]+)` in `([\w/]+)\.py`", TEXT)
    assert len(listed) == 4
    for name, path in listed:
        module = import_module(path.replace("/", ".").removesuffix(".__init__"))
        assert hasattr(module, name), f"{path}.py has no {name}"
    for module_name, name in (
        ("pocketnas.searchspace", "register_op"),
        ("pocketnas.searchspace", "load_space"),
        ("pocketnas.nas.samplers", "register_sampler"),
        ("pocketnas.devices", "register_device"),
        ("pocketnas.nas.search", "search"),
        ("pocketnas.nas.search", "resume"),
    ):
        assert name in TEXT
        assert callable(getattr(import_module(module_name), name))


def test_the_make_targets_that_it_names_are_there() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"make\s+(test|lint|format|search)", TEXT))
    assert targets >= {"test", "lint", "format"}
    for target in targets:
        assert f"\n{target}:" in makefile
