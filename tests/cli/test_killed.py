"""`kill -9` and Ctrl-C at any moment, in real processes: nothing finished is lost."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pocketnas.nas.storage import read_study

TRIALS = 26  # past the controller's first update, at 20
SEARCH = ["--trials", str(TRIALS), "--epochs", "1", "--train-images", "100", "--seed", "3"]
ROOT = Path(__file__).resolve().parent.parent.parent


def start(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.steady", *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def outcome(run: Path) -> list[tuple[object, ...]]:
    """What a run came to: choices, values and rewards."""
    _, trials = read_study(run / "study.db")
    return [(t.number, t.state, t.params, t.values, t.user_attrs["reward"]) for t in trials]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_search_killed_again_and_again_ends_like_one_left_alone(tmp_path: Path) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    process = start("search", *SEARCH, "--out", str(whole))
    assert process.communicate()[1].count("%") >= TRIALS - 1
    assert process.returncode == 0

    rng = random.Random(0)
    kills = 0
    arguments = ["search", *SEARCH, "--out", str(killed)]
    while True:
        process = start(*arguments)
        if kills < 5:
            # Wait for some trials to be finished by this process, then kill it a moment later.
            assert process.stderr is not None
            for _ in range(rng.randrange(5, 8)):
                process.stderr.readline()
            time.sleep(rng.uniform(0, 0.3))
            process.kill()
            process.communicate()
            assert process.returncode in (-signal.SIGKILL, 0)
            before = outcome(killed)
            assert before == outcome(whole)[: len(before)]
            kills += 1
        else:
            process.communicate()
            assert process.returncode == 0
            break
        arguments = ["search", "--resume", str(killed)]
    assert outcome(killed) == outcome(whole)
    mine, other = (run / "controller.safetensors" for run in (killed, whole))
    assert mine.read_bytes() == other.read_bytes()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_ends_tidily_and_says_how_to_go_on(tmp_path: Path, number: signal.Signals) -> None:
    run = tmp_path / "run"
    process = start("search", *SEARCH, "--out", str(run))
    assert process.stderr is not None
    lines = []
    while "2/26]" not in (line := process.stderr.readline()):
        lines.append(line)
        assert line, "".join(lines)
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert f"pocketnas search --resume {run}" in err
    finished = len(outcome(run))
    assert f"stopped after {finished} trials" in err
    assert finished >= 2
    assert out == ""

    process = start("search", "--resume", str(run), "--trials", str(finished + 1))
    process.communicate()
    assert process.returncode == 0
    assert len(outcome(run)) == finished + 1
