"""What a person sees of a run."""

import contextlib
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import jax
import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

T = TypeVar("T")
LINES = 10  # progress lines of a run whose output is not a terminal


class _Lasting:
    """A stream whose reader may go away (`| head`) without ending the run."""

    def __init__(self, stream: Any):
        self._stream = stream

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class Display:
    """Header, progress and summary of one run, on the standard output."""

    def __init__(self, train: Any, config: Mapping[str, Any], baseline: str, folder: Path):
        # Text is printed as it is: a folder's name may look like markup.
        self.console = Console(file=_Lasting(sys.stdout), highlight=False, soft_wrap=True)
        self._num_updates, self._num_seeds = train.num_updates, config["NUM_SEEDS"]
        self._steps_per_update = config["NUM_ENVS"] * config["NUM_STEPS"]
        self._return = float("nan")
        env, device = train.env, jax.devices()[0]
        actions = f"{env.num_actions} actions" if env.num_actions else f"{env.action_size} action values"
        lines = {
            "baseline": baseline,
            "environment": f"{config['ENV_NAME']}: {env.num_agents} agents, observation {env.obs_shape}, {actions}",
            "device": f"{device.device_kind} ({device.platform}, {jax.device_count()} in use)",
            "sizes": f"{config['NUM_ENVS']} environments x {config['NUM_STEPS']} steps x {train.num_updates:,} updates"
            f" = {self._steps_per_update * train.num_updates:,} environment steps,"
            f" {self._num_seeds} seed{'s' * (self._num_seeds > 1)}",
            "run folder": str(folder),
        }
        for name, text in lines.items():
            self.console.print(f"[bold]{name:>12}[/bold]  {escape(text)}")

    def messages(self, *messages: str | None) -> None:
        """Print each message that is not None."""
        for message in messages:
            if message is not None:
                self.console.print(f"[yellow]{'note':>12}[/yellow]  {escape(message)}")

    def compiling(self, compile_programs: Callable[[], T]) -> tuple[T, float]:
        """Compile, and say how long it took. Returns the programs and the seconds."""
        began = time.perf_counter()
        with self.console.status("compiling ..."):
            programs = compile_programs()
        seconds = time.perf_counter() - began
        self.console.print(f"[bold]{'compiled':>12}[/bold]  in {seconds:.1f} s")
        return programs, seconds

    @contextmanager
    def progress(self) -> Iterator[None]:
        """Show the progress while the body runs."""
        self._began, self._lines = time.perf_counter(), 0
        columns = (
            TextColumn("[bold]    training"),
            BarColumn(bar_width=30),
            TextColumn("{task.percentage:>3.0f} %  {task.fields[speed]}  return {task.fields[ret]}  left"),
            TimeRemainingColumn(),
        )
        self._bar = Progress(*columns, console=self.console, disable=not self.console.is_terminal)
        with self._bar:
            self._task = self._bar.add_task("", total=self._num_updates, speed="", ret="-")
            yield

    def advance(self, update: int, metrics: dict[str, np.ndarray]) -> None:
        """Show that so many updates are done. metrics: name to (S, U) values of the latest ones."""
        finite = metrics["return"][np.isfinite(metrics["return"])]
        if finite.size:
            self._return = float(finite.mean())
        elapsed = time.perf_counter() - self._began
        speed = f"{update * self._steps_per_update * self._num_seeds / max(elapsed, 1e-9):,.0f} steps/s"
        self._bar.update(self._task, completed=update, speed=speed, ret=f"{self._return:.1f}")
        if not self.console.is_terminal and (self._lines == 0 or update * LINES >= self._lines * self._num_updates):
            self._lines = int(update * LINES // self._num_updates) + 1
            left = elapsed / update * (self._num_updates - update)
            share = 100 * update / self._num_updates
            self.console.print(f"    training  {share:3.0f} %  {speed}  return {self._return:.1f}  {left:.0f} s left")

    def finish(self, summary: Mapping[str, Any]) -> None:
        """Print the summary table."""
        table = Table(title="stopped early by Ctrl-C" if summary["interrupted"] else None, show_header=False)
        table.add_column(style="bold", justify="right")
        table.add_column()
        value, interval, score = summary["return"], summary["return_ci95"], summary["normalised_score"]
        text = "no episode finished" if value is None else f"{value:.2f}"
        if interval is not None:
            text += f" ± {interval:.2f} (95 % interval over {summary['seeds']} seeds)"
        table.add_row("return", text)
        if score is not None:
            table.add_row("normalised score", f"{score:.3f} (0: random play, 1: scripted controller)")
        table.add_row("environment steps", f"{summary['env_steps']:,} per seed")
        table.add_row("steps/s", f"{summary['steps_per_second']:,.0f}, all seeds together")
        seconds = summary["seconds"]
        table.add_row("wall time", f"{seconds['total']:.1f} s, {seconds['compile']:.1f} s of it compiling")
        self.console.print(table)
        if summary["diverged_seeds"]:
            self.messages(f"the loss of seeds {summary['diverged_seeds']} is not a finite number: they diverged.")
