"""What tests share: optional parts of the machine, skipped with a reason where missing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FASHION_MNIST = Path("/usr/share/datasets/fashion-mnist")


def require(present: bool, missing: str) -> None:
    """Skip the test where something is missing; fail under POCKETNAS_REQUIRE_ALL=1."""
    if present:
        return
    if os.environ.get("POCKETNAS_REQUIRE_ALL") == "1":
        pytest.fail(f"{missing} is missing, and POCKETNAS_REQUIRE_ALL=1 forbids skipping")
    pytest.skip(f"{missing} is missing")


@pytest.fixture(scope="session")
def fashion_mnist() -> Path:
    """The folder of Debian's Fashion-MNIST."""
    require(FASHION_MNIST.is_dir(), "the Debian package dataset-fashion-mnist")
    return FASHION_MNIST


@pytest.fixture(scope="session")
def shared_benchmarks() -> Path:
    """The folder of benchmark tables that lies beside the checkout in the project's workplace."""
    folder = ROOT.parent / "shared" / "benchmarks"
    if not folder.is_dir():
        pytest.skip("the benchmark tables lie beside the checkout only in the project's workplace")
    return folder
