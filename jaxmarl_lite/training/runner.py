"""Runs a baseline: seeds, chunks of updates, progress, logging, and the run folder."""

import contextlib
import dataclasses
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from omegaconf import OmegaConf

import jaxmarl_lite
from jaxmarl_lite.training.checkpoint import save_params
from jaxmarl_lite.training.config import ConfigError, check_config
from jaxmarl_lite.training.logging import CsvLogger, WandbLogger
from jaxmarl_lite.training.progress import Display
from jaxmarl_lite.viz.curves import mean_and_interval, plot_curve

CHUNK_CAPACITY = 64  # updates in one call of the compiled program, at the most
CHUNK_SECONDS = 0.5  # how long one call should take, so that the progress bar moves
FINAL_UPDATES = 10  # the return "at the end" is the mean over the episodes of so many last updates


@dataclasses.dataclass(frozen=True)
class Train:
    """A training run as a pure function: `jax.jit(jax.vmap(train))(keys)`.

    `train(key)` is `state = train.init(key)` followed by `num_updates` times `state, metrics = train.update(state)`;
    it returns `{"runner_state": state, "metrics": {name: (num_updates,)}}`.
    """

    init: Callable[[jax.Array], Any]
    update: Callable[[Any], tuple[Any, dict[str, jax.Array]]]
    num_updates: int
    env: Any  # the BatchWrapper
    policy: Callable[[Any, jax.Array], Any]  # (params, obs (N, D)) -> distribution of the actions

    def __call__(self, key: jax.Array) -> dict[str, Any]:
        """Train from `key` to the end."""
        runner_state, metrics = jax.lax.scan(
            lambda state, _: self.update(state), self.init(key), None, self.num_updates
        )
        return {"runner_state": runner_state, "metrics": metrics}


class Programs(NamedTuple):
    """The two compiled functions of a run."""

    init: Callable[[jax.Array], Any]  # keys (S,) -> states
    chunk: Callable[[Any, int], tuple[Any, dict[str, jax.Array]]]  # states, n -> states, metrics (S, CHUNK_CAPACITY)


def seed_keys(seed: int, num_seeds: int) -> jax.Array:
    """(num_seeds,) keys; the i-th does not depend on how many there are."""
    fold = jax.jit(jax.vmap(jax.random.fold_in, in_axes=(None, 0)))
    return fold(jax.random.key(seed), np.arange(num_seeds, dtype=np.uint32))


def over_seeds(function: Callable) -> Callable:
    """Map a function over the leading axis of its argument, for all seeds.

    On a CPU one seed fills the cores, so the seeds take turns inside one program: as fast as `jax.vmap`, and a
    seed's numbers are the same bits however many seeds run. On an accelerator they run side by side.
    """
    if jax.default_backend() == "cpu":
        return lambda xs: jax.lax.map(function, xs)
    return jax.vmap(function)


def compile_programs(train: Train, keys: jax.Array) -> Programs:
    """Compile the start and the chunk of updates, for any number of updates up to CHUNK_CAPACITY."""
    init, update = jax.jit(train.init), jax.jit(train.update)  # jitted, so that each is traced only once
    # The start runs once: on a CPU, optimising it would take longer than it saves.
    cheaply = {"xla_backend_optimization_level": 1} if jax.default_backend() == "cpu" else None
    start = jax.jit(over_seeds(init)).lower(keys)
    with ThreadPoolExecutor(1) as background:  # compiles the start while the updates are traced
        compiled_start = background.submit(start.compile, cheaply)
        metric_shapes = jax.eval_shape(lambda key: update(init(key))[1], keys[0])
        empty = {name: jnp.full(CHUNK_CAPACITY, jnp.nan) for name in metric_shapes}

        def chunk(states: Any, n: jax.Array) -> tuple[Any, dict[str, jax.Array]]:
            def body(i: jax.Array, carry: tuple) -> tuple:
                state, metrics = update(carry[0])
                return state, {name: carry[1][name].at[i].set(value) for name, value in metrics.items()}

            return over_seeds(lambda state: jax.lax.fori_loop(0, n, body, (state, empty)))(states)

        states = jax.eval_shape(over_seeds(init), keys)
        return Programs(chunk=jax.jit(chunk, donate_argnums=0).lower(states, 0).compile(), init=compiled_start.result())


def enable_compile_cache() -> str | None:
    """Keep compiled programs in a user cache folder. Returns why not, in one line, if the folder cannot be written.

    A folder set by the user (JAX_COMPILATION_CACHE_DIR) is left as it is.
    """
    if jax.config.jax_compilation_cache_dir:
        return None
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "jaxmarl_lite" / "xla"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".probe_{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        return f"Compile cache off: {folder} cannot be written ({error.strerror})."
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    return None


@contextmanager
def stop_on_interrupt() -> Iterator[Callable[[], bool]]:
    """Yields a function that says whether Ctrl-C was pressed. A second Ctrl-C interrupts at once."""
    pressed = False

    def handler(*_: Any) -> None:
        nonlocal pressed
        if pressed:
            raise KeyboardInterrupt
        pressed = True
        with contextlib.suppress(OSError):
            os.write(2, b"\nstopping; press Ctrl-C again to stop at once and lose the parameters\n")

    try:
        before = signal.signal(signal.SIGINT, handler)
    except ValueError:  # not in the main thread, where Python delivers no signals
        yield lambda: False
        return
    try:
        yield lambda: pressed
    finally:
        signal.signal(signal.SIGINT, before)


def open_folder(folder: Path) -> None:
    """Create the run folder. ConfigError if it already holds something."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        occupied = any(folder.iterdir())
    except OSError as error:
        raise ConfigError(f"RUN_DIR must be a folder that can be written, got {folder}: {error.strerror}.") from error
    if occupied:
        raise ConfigError(f"RUN_DIR must be a new or empty folder, got {folder}, which holds files: not overwritten.")


def run(
    make_train: Callable[[Mapping[str, Any]], Train], config: Mapping[str, Any], baseline: str, folder: Path
) -> dict:
    """Train all seeds of a config and leave everything in `folder`.

    Args:
        make_train: the baseline's function.
        config: any of the baseline's keys.
        baseline: the baseline's name.
        folder: new or empty; gets config.yaml, metrics.csv, curve.png, params.safetensors and summary.json.

    Returns:
        The summary.

    Raises:
        ConfigError: before anything is compiled or written, if the config cannot be run.
    """
    started = time.perf_counter()
    config = check_config(config, baseline)
    cache_message = enable_compile_cache() if config["COMPILE_CACHE"] else None
    try:
        train = make_train(config)
    except ValueError as error:  # the environment's refusals too
        raise ConfigError(str(error)) from error
    open_folder(folder)
    OmegaConf.save(_listed({"BASELINE": baseline, **config}), folder / "config.yaml")
    display = Display(train, config, baseline, folder)
    csv_logger = CsvLogger(folder / "metrics.csv")
    wandb_logger = WandbLogger(config, folder, baseline)
    display.messages(cache_message, wandb_logger.message)

    keys = seed_keys(config["SEED"], config["NUM_SEEDS"])
    with stop_on_interrupt() as interrupted:
        programs, compile_seconds = display.compiling(lambda: compile_programs(train, keys))
        began = time.perf_counter()
        states, history = _train(train, config, programs, keys, display, [csv_logger, wandb_logger], interrupted)
        run_seconds = time.perf_counter() - began
        was_interrupted = interrupted() and history["update"].size < train.num_updates
        summary = _summary(train, config, baseline, history)
        summary |= {
            "steps_per_second": round(summary["env_steps"] * config["NUM_SEEDS"] / run_seconds, 1),
            "seconds": {
                "compile": round(compile_seconds, 2),
                "train": round(run_seconds, 2),
                "total": round(time.perf_counter() - started, 2),
            },
            "interrupted": was_interrupted,
        }
        csv_logger.close()
        _write_results(train, states, history, summary, config, baseline, folder)
        wandb_logger.close(summary)
        display.finish(summary)
    return summary


def _train(
    train: Train,
    config: Mapping[str, Any],
    programs: Programs,
    keys: jax.Array,
    display: Display,
    loggers: list,
    interrupted: Callable[[], bool],
) -> tuple[Any, dict[str, np.ndarray]]:
    """All updates, in chunks; the next chunk is computed while the last one is logged."""
    steps_per_update = config["NUM_ENVS"] * config["NUM_STEPS"]
    states = programs.init(keys)
    history: list[dict[str, np.ndarray]] = []
    pending, begun, done, size = None, time.perf_counter(), 0, 1
    with display.progress():
        while pending is not None or (done < train.num_updates and not interrupted()):
            following = None
            if done < train.num_updates and not interrupted():
                n = min(size, train.num_updates - done)
                states, metrics = programs.chunk(states, n)
                following = (done, n, metrics)
                done += n
            if pending is not None:
                first, n, metrics = pending
                metrics = {name: np.asarray(x)[:, :n] for name, x in metrics.items()}  # waits for the chunk
                now = time.perf_counter()
                size = int(np.clip(CHUNK_SECONDS / max(now - begun, 1e-9) * n, 1, CHUNK_CAPACITY))
                begun = now
                updates = first + 1 + np.arange(n)
                for logger in loggers:
                    logger.log(updates, updates * steps_per_update, metrics)
                history.append({"update": updates, **metrics})
                display.advance(updates[-1], metrics)
            pending = following
    jax.block_until_ready(states)
    empty = {"update": np.zeros(0, int), "return": np.zeros((len(keys), 0)), "episodes": np.zeros((len(keys), 0))}
    parts = history or [empty]
    return states, {name: np.concatenate([part[name] for part in parts], axis=-1) for name in parts[0]}


def _summary(train: Train, config: Mapping[str, Any], baseline: str, history: dict[str, np.ndarray]) -> dict[str, Any]:
    returns, episodes = history["return"][:, -FINAL_UPDATES:], history["episodes"][:, -FINAL_UPDATES:]
    counted = np.where(episodes > 0, returns * episodes, 0.0).sum(1)
    with np.errstate(invalid="ignore", divide="ignore"):
        per_seed = counted / episodes.sum(1)
    finite = np.where(np.isfinite(per_seed), per_seed, np.nan)
    mean, interval = (None if np.isnan(x[0]) else float(x[0]) for x in mean_and_interval(finite[:, None]))
    losses = history.get("total_loss", np.zeros((0, 0)))
    anchors = train.env.env.return_anchors
    score = None if anchors is None or mean is None else (mean - anchors[0]) / (anchors[1] - anchors[0])
    device = jax.devices()[0]
    return {
        "baseline": baseline,
        "env": config["ENV_NAME"],
        "seeds": config["NUM_SEEDS"],
        "updates": int(history["update"].size),
        "env_steps": int(history["update"].size) * config["NUM_ENVS"] * config["NUM_STEPS"],
        "return": mean,
        "return_ci95": interval,
        "return_per_seed": [None if np.isnan(x) else round(float(x), 3) for x in per_seed],
        "diverged_seeds": [] if losses.size == 0 else np.flatnonzero(~np.isfinite(losses[:, -1])).tolist(),
        "normalised_score": None if score is None else round(score, 4),
        "device": f"{device.device_kind} ({device.platform})",
        "versions": {"jaxmarl_lite": jaxmarl_lite.__version__, "jax": jax.__version__},
    }


def _listed(config: Mapping[str, Any]) -> Any:
    return OmegaConf.create({k: list(v) if isinstance(v, tuple) else v for k, v in config.items()})


def _write_results(
    train: Train,
    states: Any,
    history: dict[str, np.ndarray],
    summary: dict[str, Any],
    config: Mapping[str, Any],
    baseline: str,
    folder: Path,
) -> None:
    params = jax.device_get(states.train_state.params)
    metadata = {"baseline": baseline, "env": config["ENV_NAME"], "seeds": str(config["NUM_SEEDS"])}
    save_params(folder / "params.safetensors", params, metadata)
    (folder / "summary.json").write_text(json.dumps(summary, indent=2) + "\n")
    if history["update"].size == 0:
        return
    anchors = train.env.env.return_anchors
    plot_curve(
        history["update"] * config["NUM_ENVS"] * config["NUM_STEPS"],
        history["return"],
        folder / "curve.png",
        title=f"{baseline} on {config['ENV_NAME']}, {config['NUM_SEEDS']} seed{'s' * (config['NUM_SEEDS'] > 1)}",
        ylabel="episode return, summed over agents",
        hlines=None if anchors is None else {"random play": anchors[0], "scripted": anchors[1]},
    )


def main(make_train: Callable[[Mapping[str, Any]], Train], baseline: str) -> None:
    """The command line of a baseline: Hydra overrides, sweeps with `-m`, `+env=...`, `--help`."""
    from jaxmarl_lite.training.cli import INTERRUPTED, run_cli

    def job(config: Any, folder: Path) -> None:
        if run(make_train, config, baseline, folder)["interrupted"]:
            sys.exit(INTERRUPTED)

    run_cli(job, baseline)
