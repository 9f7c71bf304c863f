"""Where the metrics of a run go: a CSV file and, if asked for, Weights & Biases."""

import csv
import importlib
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

EPISODE_MEANS = ("return", "episode_length")  # NaN where no episode finished: left empty


class CsvLogger:
    """`metrics.csv`: one row per update and seed, empty where no episode finished."""

    def __init__(self, path: Path):
        self._file = path.open("x", newline="")
        self._writer = csv.writer(self._file)
        self._columns: list[str] | None = None

    def log(self, updates: np.ndarray, env_steps: np.ndarray, metrics: dict[str, np.ndarray]) -> None:
        """Append rows.

        Args:
            updates: (U,) number of each update, from 1.
            env_steps: (U,) environment steps after it, of one seed.
            metrics: name to (S, U) values.
        """
        if self._columns is None:
            self._columns = list(metrics)
            self._writer.writerow(["update", "seed", "env_step", *self._columns])
        num_seeds = next(iter(metrics.values())).shape[0]
        for u, (update, env_step) in enumerate(zip(updates, env_steps, strict=True)):
            for seed in range(num_seeds):
                values = [metrics[name][seed, u] for name in self._columns]
                cells = (
                    "" if math.isnan(v) and name in EPISODE_MEANS else v
                    for name, v in zip(self._columns, values, strict=True)
                )
                self._writer.writerow([update, seed, env_step, *cells])
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class WandbLogger:
    """Metrics of each update to W&B, with `env_step` as the x-axis.

    The mean over seeds stands under each metric's name; with WANDB_LOG_ALL_SEEDS each seed's own value stands under
    `seed_<i>/<name>`.

    Args:
        config: a checked config; its WANDB_ keys say where to log, all of it is stored.
        folder: where W&B keeps its files.
        baseline: the default name's first part.

    `message` is None, or one line that says why the run is logged offline instead of online, or not at all.
    """

    def __init__(self, config: Mapping[str, Any], folder: Path, baseline: str):
        self._run, self.message = None, None
        self._all_seeds = config["WANDB_LOG_ALL_SEEDS"]
        mode = config["WANDB_MODE"]
        if mode == "disabled":
            return
        wandb = importlib.import_module("wandb")  # takes a second: only when it is used
        if mode == "online" and not _logged_in(wandb):
            mode, self.message = "offline", "W&B: no login found (run `wandb login`), logging offline instead."
        try:
            self._run = self._init(wandb, mode, config, folder, baseline)
        except Exception as error:
            self.message = f"W&B: {mode} logging failed ({_reason(error)}), "
            if mode == "offline":
                self.message += "going on without it."
                return
            try:
                self._run = self._init(wandb, "offline", config, folder, baseline)
            except Exception as second_error:
                self.message += f"and so did offline logging ({_reason(second_error)}), going on without it."
                return
            self.message += "logging offline instead."
        self._run.define_metric("env_step")
        self._run.define_metric("*", step_metric="env_step")

    @staticmethod
    def _init(wandb: Any, mode: str, config: Mapping[str, Any], folder: Path, baseline: str) -> Any:
        return wandb.init(
            mode=mode,
            project=config["WANDB_PROJECT"],
            entity=config["WANDB_ENTITY"],
            group=config["WANDB_GROUP"],
            name=config["WANDB_NAME"] or f"{baseline}_{config['ENV_NAME']}",
            tags=list(config["WANDB_TAGS"]),
            config={"BASELINE": baseline, **config},
            dir=str(folder),
            settings=wandb.Settings(silent=True, console="off", init_timeout=30),
        )

    @property
    def folder(self) -> str | None:
        """The folder of W&B's files, or None when nothing is logged."""
        return None if self._run is None else self._run.dir

    def log(self, updates: np.ndarray, env_steps: np.ndarray, metrics: dict[str, np.ndarray]) -> None:
        """Log each update. Shapes as in `CsvLogger.log`; what is NaN for all seeds is left out."""
        if self._run is None:
            return
        for u, (update, env_step) in enumerate(zip(updates, env_steps, strict=True)):
            row = {"env_step": int(env_step), "update": int(update)}
            for name, values in metrics.items():
                finite = values[:, u][~np.isnan(values[:, u])]
                if finite.size:
                    row[name] = float(finite.mean())
                if self._all_seeds:
                    row |= {f"seed_{i}/{name}": float(v) for i, v in enumerate(values[:, u]) if not math.isnan(v)}
            self._run.log(row)

    def close(self, summary: Mapping[str, Any]) -> None:
        """Store the summary and end the W&B run."""
        if self._run is not None:
            self._run.summary.update({k: v for k, v in summary.items() if isinstance(v, (int, float, str, bool))})
            self._run.finish()


def _reason(error: Exception) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__


def _logged_in(wandb: Any) -> bool:
    try:
        return bool(os.environ.get("WANDB_API_KEY") or wandb.api.api_key)
    except Exception:  # a broken netrc is no login
        return False
