"""Loading a file leaves the terminal as it was."""

from __future__ import annotations

import os

import pytest

from pocketnas.export import export_network
from pocketnas.export.runtimes import _without_notes, load
from pocketnas.searchspace import parse_arch
from tests.export.networks import built


def test_litert_writes_no_note_into_the_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    network = built(parse_arch("stem_c8_s2,ds_r1_k3_s1_c8,head_c16"), (8, 8, 1), 3)
    load(export_network(network, (8, 8, 1)).tflite)
    assert capfd.readouterr() == ("", "")


def test_only_notes_are_kept_back(capfd: pytest.CaptureFixture[str]) -> None:
    def breaks() -> None:
        with _without_notes():
            os.write(2, b"INFO: a note\nERROR: what matters\n")
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        breaks()
    os.write(2, b"after\n")
    assert capfd.readouterr().err == "ERROR: what matters\nafter\n"
