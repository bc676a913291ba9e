from pathlib import Path

import pytest

from pocketnas.errors import RunError, UsageError
from pocketnas.nas.config import SearchConfig
from pocketnas.nas.recipe import TrainSettings


def test_config_survives_its_toml_file(tmp_path: Path) -> None:
    config = SearchConfig(
        space="mnasnet",
        data="a folder/with spaces",
        target_ms=0.25,
        reward="hard",
        alpha=-0.01,
        trials=7,
        proxy=TrainSettings(epochs=2, label_smoothing=0.1),
    )
    path = tmp_path / "config.toml"
    path.write_text(config.to_toml())
    assert SearchConfig.load(path) == config


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"trials": 0}, "at least 1 trial but got 0"),
        ({"trials": -3}, "at least 1 trial but got -3"),
        ({"threads": 0}, "threads must be at least 1"),
        ({"target_ms": 0.0}, "target_ms must be a positive number but got 0.0"),
        ({"target_ms": -1.0}, "target_ms must be a positive number but got -1.0"),
        ({"target_ms": float("nan")}, "target_ms must be a positive number but got nan"),
        ({"target_ms": float("inf")}, "target_ms must be a positive number but got inf"),
        ({"reward": "squishy"}, "unknown reward 'squishy'"),
        ({"beta": 0.5}, "beta must be zero or negative"),
        ({"seed": -1}, "a seed is a number from 0"),
        ({"max_size_mb": 0.0}, "max_size_mb must be a positive number"),
    ],
)
def test_impossible_settings_are_refused_with_their_value(change: dict, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        SearchConfig(space="mnasnet-mini", data="digits", **change)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("space = 'a'\ndata = 'b'\ncolour = 1\n", "unknown entries: colour"),
        ("space = 'a'\n", "is not a search configuration"),
        ("space = ", "cannot be read as TOML"),
        ("space = 'a'\ndata = 'b'\ntrials = 0\n", "at least 1 trial"),
        ("space = 'a'\ndata = 'b'\n[proxy]\nepoch = 1\n", "unknown entries: epoch"),
        ("space = 'a'\ndata = 'b'\nproxy = 3\n", "is not a search configuration"),
        ("space = 'a'\ndata = 'b'\ntrials = 'many'\n", "is not a search configuration"),
    ],
)
def test_a_damaged_config_is_a_sentence(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "config.toml"
    path.write_text(text)
    with pytest.raises(RunError, match=words):
        SearchConfig.load(path)


def test_a_folder_without_config_is_not_a_run(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="is not a run"):
        SearchConfig.load(tmp_path / "config.toml")
