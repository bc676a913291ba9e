from __future__ import annotations

import pytest

from pocketnas.nas import search as search_module
from tests.steady import FakeSteadyDevice


@pytest.fixture
def steady(monkeypatch: pytest.MonkeyPatch) -> FakeSteadyDevice:
    """A fake device in the place of all others."""
    device = FakeSteadyDevice()
    monkeypatch.setattr(search_module, "open_device", lambda spec: device)
    return device
