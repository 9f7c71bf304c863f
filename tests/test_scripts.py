"""The scripts, as commands."""

import json
import subprocess
import sys

import numpy as np
import pytest
from conftest import ROOT, TINY, tiny_arguments
from PIL import Image

from jaxmarl_lite.training import runner


def script(name, *arguments):
    command = [sys.executable, str(ROOT / "scripts" / name), *map(str, arguments)]
    return subprocess.run(command, text=True, capture_output=True, timeout=180)


@pytest.fixture(scope="module")
def run_folder(baseline, tmp_path_factory):
    folder = tmp_path_factory.mktemp("scripts") / "run"
    runner.run(baseline.make_train, TINY | {"NUM_SEEDS": 2}, "ippo_ff_mpe", folder)
    return folder


def test_replay_draws_whole_episodes(run_folder, tmp_path):
    done = script("replay.py", run_folder, "--seed", 1, "--episodes", 2, "--output", tmp_path / "replay.gif")
    assert done.returncode == 0, done.stderr
    assert "2 episodes, team returns -" in done.stdout
    with Image.open(tmp_path / "replay.gif") as image:
        assert image.n_frames == 2 * 26  # the first picture of an episode, and one for each of 25 steps


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--seed", 2], "seed must be in 0..1, got 2"),
        (["--episodes", 0], "--episodes must be at least 1, got 0"),
        (["--output", "x.mp4"], "must end in .gif"),
    ],
)
def test_replay_refuses(run_folder, arguments, words):
    done = script("replay.py", run_folder, *arguments)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_replay_needs_a_run_folder_and_overwrites_nothing(run_folder, tmp_path):
    assert "is no run folder" in script("replay.py", tmp_path).stderr
    (tmp_path / "replay.gif").write_text("precious")
    done = script("replay.py", run_folder, "--output", tmp_path / "replay.gif")
    assert "exists and is not overwritten" in done.stderr
    assert (tmp_path / "replay.gif").read_text() == "precious"


def test_benchmark_counts_matrix_products(tmp_path):
    output = tmp_path / "figures.json"
    arguments = ["--output", output, "train", "--group", "none", "--rounds", 2, "--updates", 1, *tiny_arguments()]
    done = script("benchmark_speed.py", *arguments)
    assert done.returncode == 0, done.stderr
    figures = json.loads(output.read_text())
    # Two networks of (4, 8) and (8, 5) or (8, 1); one agent; two epochs, forward and twice that backward.
    assert figures["matrix_flops_per_env_step"] == (2 * 4 * 8 + 8 * 5 + 8 * 1) * (2 + 6 * 2)
    ratio = figures["env_steps_per_second"] * figures["matrix_flops_per_env_step"]
    np.testing.assert_allclose(figures["matrix_gflops_per_second"], ratio / 1e9, atol=0.06)
    assert 0 < figures["utilisation"] < 1


def test_benchmark_names_what_is_wrong():
    assert "NUM_ENVS" in script("benchmark_speed.py", "train", "NUM_ENV=3").stderr
    assert "invalid choice: 'nope'" in script("benchmark_speed.py", "train", "--group", "nope").stderr
    assert "No config for baseline 'nope'" in script("benchmark_speed.py", "--baseline", "nope", "startup").stderr


def test_return_anchors_agree_with_mpe2():
    done = script("return_anchors.py", "--episodes", 100)
    assert done.returncode == 0, done.stderr
    returns = {tuple(line.split()[:2]): float(line.split()[2]) for line in done.stdout.splitlines()}
    assert len(returns) == 4
    for package in ("jaxmarl_lite", "mpe2"):
        assert -86 < returns[package, "random"] < -70
        assert -31 < returns[package, "scripted"] < -23
