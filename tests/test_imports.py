"""Imports point one way, as CONTRIBUTING.md says."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "pocketnas"
COMMON = {"pocketnas", "pocketnas.errors", "pocketnas.files", "pocketnas.lazy"}

ALLOWED = {
    "searchspace": {*COMMON, "pocketnas.searchspace"},
    "export": {*COMMON, "pocketnas.threads", "pocketnas.export", "pocketnas.searchspace"},
    "devices": {"pocketnas", "pocketnas.errors", "pocketnas.lazy", "pocketnas.devices"},
    "nas": {
        *COMMON,
        "pocketnas.threads",
        "pocketnas.nas",
        "pocketnas.searchspace",
        "pocketnas.export",
        "pocketnas.devices",
    },
}


def imports(path: Path) -> set[str]:
    """All modules that a file imports, wherever in it, and if only for their types."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import: spell it out"
            found.add(str(node.module))
            if node.module == "pocketnas":  # from pocketnas import nas
                found |= {
                    f"pocketnas.{alias.name}"
                    for alias in node.names
                    if not alias.name.startswith("__")
                }
    return found


def files_of(package: str) -> list[Path]:
    files = sorted((PACKAGE / package).rglob("*.py"))
    assert files
    return files


@pytest.mark.parametrize("package", ALLOWED)
def test_a_package_imports_only_from_those_below_it(package: str) -> None:
    for path in files_of(package):
        for name in imports(path):
            if name.split(".")[0] == "pocketnas":
                own = ".".join(name.split(".")[:2])
                assert own in ALLOWED[package], f"{path.relative_to(ROOT)} imports {name}"


def test_devices_and_reports_import_no_torch() -> None:
    for path in (*files_of("devices"), *files_of("reports")):
        roots = {name.split(".")[0] for name in imports(path)}
        assert "torch" not in roots, f"{path.relative_to(ROOT)} imports torch"


def test_importing_all_of_devices_and_reports_loads_no_torch() -> None:
    modules = [
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for path in (*files_of("devices"), *files_of("reports"))
        if path.name != "host_worker.py"  # a program
    ]
    program = f"import sys, {', '.join(modules)}; print('torch' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.strip() == "False"


def test_the_checks_above_see_every_kind_of_import(tmp_path: Path) -> None:
    path = tmp_path / "some.py"
    path.write_text(
        "from pocketnas import nas, __version__\n"
        "def later():\n    import torch.nn\n    from pocketnas.cli import main\n"
    )
    assert imports(path) == {"pocketnas", "pocketnas.nas", "torch.nn", "pocketnas.cli"}
