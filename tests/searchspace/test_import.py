"""Nothing heavy is imported before it is needed."""

from __future__ import annotations

import subprocess
import sys

import pytest

import pocketnas.searchspace

PROGRAM = """
import sys
from pocketnas.searchspace import count, load_space, resolve_arch
space = load_space("mnasnet-mini")
count(resolve_arch("mnasnet_a1"), (224, 224, 3), 1000)
space.decode(space.encode(space.base))
print(sorted({"torch", "optuna", "numpy", "onnx"} & set(sys.modules)))
"""


def test_describing_and_counting_import_no_torch() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"


def test_every_public_name_is_there_and_no_other() -> None:
    for name in pocketnas.searchspace.__all__:
        assert getattr(pocketnas.searchspace, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = pocketnas.searchspace.nothing
