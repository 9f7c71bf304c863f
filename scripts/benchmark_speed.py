"""How fast it is.

    python scripts/benchmark_speed.py train [--baseline NAME] [--group spread_jaxmarl] [KEY=VALUE ...]
    python scripts/benchmark_speed.py startup

`train` runs a baseline's compiled updates turn about with a float32 matrix product of 2048^3, so that both see the
same machine, and reports environment steps per second and the utilisation: the share of the matrix product's
FLOP/s that the training's own matrix products reach. `startup` reports what importing the package adds to importing
JAX, and the seconds from typing the command to the first update, with an empty and with a filled compile cache.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from omegaconf import OmegaConf
from replay import BASELINES, load_baseline

from jaxmarl_lite.training import runner
from jaxmarl_lite.training.cli import config_groups
from jaxmarl_lite.training.config import CONFIG_DIR, check_config, config_path

PEAK_SIZE = 2048
PEAK_FLOPS = 2 * PEAK_SIZE**3


def flops_per_env_step(params: Any, num_agents: int, epochs: int) -> int:
    """FLOPs of the matrix products that training needs for one environment step.

    A layer of (in, out) costs 2 * in * out for each agent's sample forward and twice that backward. A sample goes
    forward once in the rollout, and forward and backward once in each epoch:
    `num_agents * (2 + 6 * epochs) * sum(in * out)`.
    """
    weights = sum(x.size for x in jax.tree.leaves(params) if x.ndim == 2)
    return num_agents * (2 + 6 * epochs) * weights


def benchmark_train(baseline: str, group: str, overrides: list[str], rounds: int, updates: int) -> dict[str, Any]:
    """Time updates of a baseline turn about with the matrix product."""
    config = OmegaConf.create() if group == "none" else OmegaConf.load(CONFIG_DIR / "env" / f"{group}.yaml")
    config = check_config(OmegaConf.merge(config, OmegaConf.from_dotlist(overrides)), baseline)
    train = load_baseline(baseline).make_train(config)
    keys = runner.seed_keys(config["SEED"], config["NUM_SEEDS"])
    began = time.perf_counter()
    programs = runner.compile_programs(train, keys)
    compile_seconds = time.perf_counter() - began
    square = jnp.ones((PEAK_SIZE, PEAK_SIZE))
    product = jax.jit(jnp.matmul).lower(square, square).compile()

    states, _ = programs.chunk(programs.init(keys), updates)
    jax.block_until_ready((states, product(square, square)))
    peak_seconds, update_seconds = [], []
    for _ in range(rounds):
        for _ in range(updates):
            began = time.perf_counter()
            product(square, square).block_until_ready()
            peak_seconds.append(time.perf_counter() - began)
        began = time.perf_counter()
        states, metrics = programs.chunk(states, updates)
        jax.block_until_ready((states, metrics))
        update_seconds.append((time.perf_counter() - began) / updates)

    steps = config["NUM_ENVS"] * config["NUM_STEPS"] * config["NUM_SEEDS"]
    params = jax.tree.map(lambda x: x[0], states.train_state.params)
    flops = flops_per_env_step(params, train.env.num_agents, config["UPDATE_EPOCHS"])
    speed, peak = steps / np.median(update_seconds), PEAK_FLOPS / np.median(peak_seconds)
    per_round = np.asarray(peak_seconds).reshape(rounds, updates).mean(1) / PEAK_FLOPS * steps * flops / update_seconds
    return {
        "baseline": baseline,
        "env": config["ENV_NAME"],
        "num_envs": config["NUM_ENVS"],
        "num_steps": config["NUM_STEPS"],
        "seeds": config["NUM_SEEDS"],
        "compile_seconds": round(compile_seconds, 2),
        "env_steps_per_second": round(float(speed)),
        "matrix_flops_per_env_step": flops,
        "matrix_gflops_per_second": round(float(speed) * flops / 1e9, 1),
        "peak_gflops_per_second": round(float(peak) / 1e9, 1),
        "utilisation": round(float(speed) * flops / float(peak), 3),
        "utilisation_per_round": [round(float(x), 3) for x in per_round],
    }


def first_update_seconds(baseline: str, cache: Path) -> float:
    """Seconds from starting the command to its first progress line."""
    path = next(BASELINES.glob(f"*/{config_path(baseline).stem}.py"))
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, str(path), f"RUN_DIR={folder}/run", "TOTAL_TIMESTEPS=100000"]
        environment = {k: v for k, v in os.environ.items() if k != "JAX_COMPILATION_CACHE_DIR"}
        environment |= {"XDG_CACHE_HOME": str(cache), "PYTHONUNBUFFERED": "1"}
        began = time.perf_counter()
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
            for line in process.stdout:
                if line.strip().startswith("training"):
                    seconds = time.perf_counter() - began
                    process.terminate()
                    return seconds
    raise RuntimeError(f"{' '.join(command)} ended without an update.")


def import_seconds() -> float:
    """Seconds that `import jaxmarl_lite` adds to `import jax`."""
    script = "import time, jax; t = time.perf_counter(); import jaxmarl_lite; print(time.perf_counter() - t)"
    return float(subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout)


def benchmark_startup(baseline: str, repeats: int) -> dict[str, Any]:
    """Time imports and first updates; medians of `repeats`."""
    cold, warm = [], []
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as cache:
            cold.append(first_update_seconds(baseline, Path(cache)))
            warm.append(first_update_seconds(baseline, Path(cache)))
    return {
        "baseline": baseline,
        "import_seconds": round(float(np.median([import_seconds() for _ in range(repeats)])), 4),
        "first_update_seconds_cold_cache": round(float(np.median(cold)), 2),
        "first_update_seconds_warm_cache": round(float(np.median(warm)), 2),
        "each_cold": [round(x, 2) for x in cold],
        "each_warm": [round(x, 2) for x in warm],
    }


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="How fast training and starting are.")
    parser.add_argument("--output", type=Path, help="write the figures to this new JSON file too")
    parser.add_argument("--baseline", default="ippo_ff_mpe")
    commands = parser.add_subparsers(dest="what", required=True)
    train = commands.add_parser("train", help="environment steps per second and utilisation of a baseline")
    groups = [*config_groups()["env"], "none"]
    train.add_argument("--group", default="spread_jaxmarl", choices=groups, help="a config of config/env")
    train.add_argument("--rounds", type=int, default=20)
    train.add_argument("--updates", type=int, default=4, help="updates a round")
    train.add_argument("overrides", nargs="*", metavar="KEY=VALUE")
    startup = commands.add_parser("startup", help="seconds until the first update")
    startup.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    if arguments.output is not None and arguments.output.exists():
        parser.error(f"--output {arguments.output} exists and is not overwritten")
    for name in ("rounds", "updates", "repeats"):
        if getattr(arguments, name, 1) < 1:
            parser.error(f"--{name} must be at least 1, got {getattr(arguments, name)}")
    try:
        if arguments.what == "train":
            figures = benchmark_train(
                arguments.baseline, arguments.group, arguments.overrides, arguments.rounds, arguments.updates
            )
        else:
            figures = benchmark_startup(arguments.baseline, arguments.repeats)
    except (OSError, ValueError) as error:
        parser.error(" ".join(str(error).split()))
    for name, value in figures.items():
        print(f"{name:>34}  {value}")
    if arguments.output is not None:
        arguments.output.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
