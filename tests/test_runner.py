"""Whole runs: what they print, what they leave, how they end."""

import csv
import json
import os
import signal
import subprocess
import sys
import time

import jax
import numpy as np
import pytest
from conftest import BASELINE, ROOT, TINY, tiny_arguments
from omegaconf import OmegaConf
from PIL import Image

from jaxmarl_lite.training import cli, runner
from jaxmarl_lite.training.checkpoint import load_params, save_params
from jaxmarl_lite.training.config import ConfigError, load_config


def start(*arguments, cwd, **environment):
    return subprocess.Popen(
        [sys.executable, str(BASELINE), *arguments],
        cwd=cwd,
        env=os.environ | environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def finish(process, seconds=180):
    output, _ = process.communicate(timeout=seconds)
    return process.returncode, output


def rows_of(folder):
    with (folder / "metrics.csv").open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def tiny_run(baseline, tmp_path_factory):
    """A run of three seeds: its folder and its summary."""
    folder = tmp_path_factory.mktemp("run") / "folder"
    summary = runner.run(baseline.make_train, TINY | {"NUM_SEEDS": 3, "TOTAL_TIMESTEPS": 600}, "ippo_ff_mpe", folder)
    return folder, summary


def test_the_run_folder_is_complete(tiny_run):
    folder, summary = tiny_run
    files = {path.name for path in folder.iterdir()}
    assert files == {"config.yaml", "metrics.csv", "curve.png", "params.safetensors", "summary.json"}
    config = OmegaConf.load(folder / "config.yaml")
    assert config.BASELINE == "ippo_ff_mpe"
    assert config.NUM_SEEDS == 3
    assert config.HIDDEN_SIZES == [8]
    assert json.loads((folder / "summary.json").read_text()) == summary
    assert Image.open(folder / "curve.png").size[0] > 300


def test_metrics_have_one_row_per_update_and_seed(tiny_run):
    folder, summary = tiny_run
    rows = rows_of(folder)
    expected = [(str(u), str(s), str(u * 120)) for u in range(1, 6) for s in range(3)]
    assert [(row["update"], row["seed"], row["env_step"]) for row in rows] == expected
    for name in ("return", "total_loss", "actor_loss", "value_loss", "entropy", "approx_kl", "clip_frac"):
        assert all(np.isfinite(float(row[name])) for row in rows)
    assert all(float(row["episode_length"]) == 25 for row in rows)
    assert summary["updates"] == 5
    assert summary["env_steps"] == 600


def test_the_summary_follows_from_the_metrics(tiny_run):
    folder, summary = tiny_run
    rows = rows_of(folder)
    per_seed = []
    for seed in range(3):
        mine = [row for row in rows if row["seed"] == str(seed)]
        weights = [float(row["episodes"]) for row in mine]
        per_seed.append(np.average([float(row["return"]) for row in mine], weights=weights))
    np.testing.assert_allclose(summary["return_per_seed"], per_seed, atol=1e-3)
    np.testing.assert_allclose(summary["return"], np.mean(per_seed), atol=1e-4)
    # t of 0.975 with two degrees of freedom
    np.testing.assert_allclose(summary["return_ci95"], 4.302653 * np.std(per_seed, ddof=1) / np.sqrt(3), rtol=1e-4)


def test_the_run_equals_the_pure_function(baseline, tiny_run):
    folder, _ = tiny_run
    train = baseline.make_train(TINY | {"TOTAL_TIMESTEPS": 600})
    out = jax.jit(jax.vmap(train))(runner.seed_keys(0, 3))
    assert out["metrics"]["return"].shape == (3, 5)
    logged = np.array([float(row["total_loss"]) for row in rows_of(folder)]).reshape(5, 3).T
    np.testing.assert_allclose(out["metrics"]["total_loss"], logged, rtol=1e-4, atol=1e-5)
    saved, metadata = load_params(folder / "params.safetensors")
    assert metadata["baseline"] == "ippo_ff_mpe"
    params = out["runner_state"].train_state.params
    assert jax.tree.structure(saved) == jax.tree.structure(params)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-4), saved, jax.device_get(params))


def test_updates_are_chunked_without_a_trace(baseline, tmp_path, monkeypatch):
    config = TINY | {"TOTAL_TIMESTEPS": 120 * 7}
    folders = []
    for seconds in (0.0, 1e9):  # one update a call; as many as a call can take
        monkeypatch.setattr(runner, "CHUNK_SECONDS", seconds)
        folders.append(tmp_path / f"{seconds}")
        runner.run(baseline.make_train, config, "ippo_ff_mpe", folders[-1])
    assert (folders[0] / "metrics.csv").read_text() == (folders[1] / "metrics.csv").read_text()
    assert (folders[0] / "params.safetensors").read_bytes() == (folders[1] / "params.safetensors").read_bytes()


def test_a_rollout_shorter_than_an_episode_logs_no_return(baseline, tmp_path):
    config = TINY | {"NUM_STEPS": 10, "TOTAL_TIMESTEPS": 160}
    summary = runner.run(baseline.make_train, config, "ippo_ff_mpe", tmp_path / "run")
    rows = rows_of(tmp_path / "run")
    assert [row["return"] == "" for row in rows] == [True, True, False, True]  # episodes end at step 25
    assert [float(row["episodes"]) for row in rows] == [0, 0, 4, 0]
    np.testing.assert_allclose(summary["return"], float(rows[2]["return"]), rtol=1e-6)


def test_a_run_without_a_finished_episode_says_so(baseline, tmp_path, capsys):
    config = TINY | {"NUM_STEPS": 10, "TOTAL_TIMESTEPS": 40}
    summary = runner.run(baseline.make_train, config, "ippo_ff_mpe", tmp_path / "run")
    assert summary["return"] is None
    assert "no episode finished" in capsys.readouterr().out


def test_a_folder_that_holds_files_is_refused(baseline, tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "compile_programs", lambda *_: pytest.fail("compiled"))
    (tmp_path / "file").write_text("precious")
    with pytest.raises(ConfigError, match="RUN_DIR must be a new or empty folder"):
        runner.run(baseline.make_train, TINY, "ippo_ff_mpe", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_params_are_never_overwritten_and_damage_is_named(tmp_path):
    path = tmp_path / "params.safetensors"
    params = {"params": {"layer": {"kernel": np.arange(6.0).reshape(2, 3)}}}
    save_params(path, params, {"env": "x"})
    with pytest.raises(FileExistsError, match="not overwritten"):
        save_params(path, params, {})
    loaded, metadata = load_params(path)
    assert metadata == {"env": "x"}
    np.testing.assert_array_equal(loaded["params"]["layer"]["kernel"], params["params"]["layer"]["kernel"])
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(ValueError, match=r"params\.safetensors is damaged"):
        load_params(path)
    with pytest.raises(FileNotFoundError, match="does not exist"):
        load_params(tmp_path / "none")


@pytest.fixture
def cache_settings():
    """Leave JAX's settings as they were."""
    before = jax.config.jax_compilation_cache_dir
    jax.config.update("jax_compilation_cache_dir", None)
    yield
    jax.config.update("jax_compilation_cache_dir", before)


def test_without_a_writable_cache_folder_the_run_goes_on(baseline, tmp_path, monkeypatch, capsys, cache_settings):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    runner.run(baseline.make_train, TINY, "ippo_ff_mpe", tmp_path / "run")
    assert f"Compile cache off: {tmp_path}/file/jaxmarl_lite/xla cannot be written" in capsys.readouterr().out
    assert (tmp_path / "run" / "summary.json").exists()


def test_the_cache_can_be_turned_off(baseline, tmp_path, monkeypatch, cache_settings):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    runner.run(baseline.make_train, TINY | {"COMPILE_CACHE": False}, "ippo_ff_mpe", tmp_path / "run")
    assert jax.config.jax_compilation_cache_dir is None
    assert not (tmp_path / "cache").exists()


def test_a_users_own_cache_is_kept(tmp_path, monkeypatch, cache_settings):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    jax.config.update("jax_compilation_cache_dir", str(tmp_path / "own"))
    assert runner.enable_compile_cache() is None
    assert jax.config.jax_compilation_cache_dir == str(tmp_path / "own")
    assert not (tmp_path / "jaxmarl_lite").exists()
    jax.config.update("jax_compilation_cache_dir", None)
    assert runner.enable_compile_cache() is None
    assert jax.config.jax_compilation_cache_dir == str(tmp_path / "jaxmarl_lite" / "xla")


def test_a_second_start_takes_the_compiled_programs_from_the_cache(tmp_path):
    seconds = []
    for name in ("first", "second"):
        arguments = [f"RUN_DIR={name}", *tiny_arguments()]
        code, output = finish(start(*arguments, cwd=tmp_path, XDG_CACHE_HOME=str(tmp_path / "cache")))
        assert code == 0, output
        seconds.append(json.loads((tmp_path / name / "summary.json").read_text())["seconds"]["compile"])
    assert list((tmp_path / "cache" / "jaxmarl_lite" / "xla").iterdir())
    assert seconds[1] < 0.7 * seconds[0], seconds
    assert (tmp_path / "first" / "params.safetensors").read_bytes() == (
        tmp_path / "second" / "params.safetensors"
    ).read_bytes()


def test_the_output_tells_what_runs(tmp_path):
    code, output = finish(start(*tiny_arguments(NUM_SEEDS=2), "RUN_DIR=run", cwd=tmp_path))
    assert code == 0, output
    for words in ("cpu", "MPE_simple_v3: 1 agents", "240 environment steps, 2 seeds", "compiled", "100 %", "steps/s"):
        assert words in output, output
    assert "95 % interval over 2 seeds" in output


@pytest.mark.parametrize("name", ["it's", "trail\\", "a\\'b", "[red]x[/b]", "sp ace=1"])
def test_folders_with_odd_names(baseline, tmp_path, monkeypatch, capsys, name):
    monkeypatch.chdir(tmp_path)
    quoted = cli._quoted(name)
    monkeypatch.setattr(sys, "argv", ["ippo_ff_mpe.py", f"RUN_DIR={quoted}", *tiny_arguments()])
    runner.main(baseline.make_train, "ippo_ff_mpe")
    assert (tmp_path / name / "summary.json").exists()
    assert name in capsys.readouterr().out


def test_keywords_as_a_mapping_and_64_bits(tmp_path):
    arguments = ["RUN_DIR=run", "ENV_KWARGS={action_type: Continuous, max_steps: 10}", *tiny_arguments()]
    code, output = finish(start(*arguments, cwd=tmp_path, JAX_ENABLE_X64="1"))
    assert code == 0, output
    assert OmegaConf.load(tmp_path / "run" / "config.yaml").ENV_KWARGS.max_steps == 10
    arrays, _ = load_params(tmp_path / "run" / "params.safetensors")
    assert {x.dtype for x in jax.tree.leaves(arrays)} == {np.dtype(np.float32)}


def test_a_reader_that_goes_away_does_not_end_the_run(tmp_path):
    process = start("RUN_DIR=run", *tiny_arguments(), cwd=tmp_path)
    process.stdout.readline()
    process.stdout.close()
    process.wait(timeout=120)
    assert (tmp_path / "run" / "summary.json").exists()


def test_a_run_that_diverges_is_named(baseline, tmp_path, capsys):
    summary = runner.run(baseline.make_train, TINY | {"LR": 1e30}, "ippo_ff_mpe", tmp_path / "run")
    assert summary["diverged_seeds"] == [0]
    assert "they diverged" in capsys.readouterr().out
    assert rows_of(tmp_path / "run")[-1]["total_loss"] == "nan"


def test_a_sweep_gives_each_job_its_folder(tmp_path):
    code, output = finish(start("-m", "SEED=3,4", "RUN_DIR=sweep", "+env=simple", *tiny_arguments(), cwd=tmp_path))
    assert code == 0, output
    seeds = [OmegaConf.load(tmp_path / "sweep" / job / "config.yaml").SEED for job in ("0", "1")]
    assert seeds == [3, 4]
    assert all((tmp_path / "sweep" / job / "summary.json").exists() for job in ("0", "1"))


def test_the_default_folder_is_under_runs(tmp_path):
    code, output = finish(start(*tiny_arguments(), cwd=tmp_path))
    assert code == 0, output
    (folder,) = (tmp_path / "runs" / "ippo_ff_mpe").iterdir()
    assert (folder / "summary.json").exists()


def start_long_run(folder, *arguments):
    """A run that would take hours, after its first updates."""
    process = start(*tiny_arguments(TOTAL_TIMESTEPS=10**9), "RUN_DIR=run", *arguments, cwd=folder)
    metrics, deadline = folder / "run" / "metrics.csv", time.monotonic() + 120
    while not (metrics.exists() and metrics.read_text().count("\n") > 3):
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.1)
    return process


def test_a_killed_run_leaves_its_config_and_metrics(tmp_path):
    process = start_long_run(tmp_path)
    process.kill()
    finish(process)
    assert OmegaConf.load(tmp_path / "run" / "config.yaml").NUM_ENVS == 4
    assert all(np.isfinite(float(row["return"])) for row in rows_of(tmp_path / "run")[:3])


def test_ctrl_c_ends_a_run_with_what_was_reached(tmp_path):
    process = start_long_run(tmp_path)
    process.send_signal(signal.SIGINT)
    code, output = finish(process, 60)
    assert code == cli.INTERRUPTED, output
    assert "Traceback" not in output
    assert "stopped early by Ctrl-C" in output
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["interrupted"]
    rows = rows_of(tmp_path / "run")
    assert int(rows[-1]["update"]) == summary["updates"] == len(rows)
    for name in ("params.safetensors", "curve.png"):
        assert (tmp_path / "run" / name).exists()


@pytest.mark.parametrize("seeds", [1, 2, 7, 32, 128])
def test_any_number_of_seeds_starts_and_ends(tmp_path, seeds):
    # LAPACK's QR under vmap over many seeds would hang here.
    process = start(*tiny_arguments(NUM_SEEDS=seeds, HIDDEN_SIZES=[64, 64]), "RUN_DIR=run", cwd=tmp_path)
    try:
        code, output = finish(process, 120)
    finally:
        process.kill()
    assert code == 0, output
    assert len(rows_of(tmp_path / "run")) == 2 * seeds


def test_many_vmapped_seeds_start_and_end(tmp_path):
    script = (
        "import sys, jax; sys.path.insert(0, 'baselines/ippo'); import ippo_ff_mpe\n"
        f"train = ippo_ff_mpe.make_train({TINY | {'HIDDEN_SIZES': [64, 64]}!r})\n"
        "out = jax.jit(jax.vmap(train))(jax.random.split(jax.random.key(0), 32))\n"
        "print(out['metrics']['return'].shape)"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, timeout=120, text=True, capture_output=True)
    assert done.stdout.strip() == "(32, 2)", done.stderr


def test_importing_a_config_default_needs_no_hydra_job():
    assert load_config("ippo_ff_mpe")["NUM_ENVS"] == 64


def test_import_adds_little_to_jax():
    script = (
        "import time, jax; t = time.perf_counter(); import jaxmarl_lite; print(time.perf_counter() - t);"
        "import sys; print([m for m in ('flax', 'distrax', 'hydra', 'wandb', 'matplotlib') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, timeout=120, text=True, capture_output=True)
    seconds, modules = done.stdout.splitlines()
    assert float(seconds) < 0.3
    assert modules == "[]"
