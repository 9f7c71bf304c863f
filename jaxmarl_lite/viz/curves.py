"""Learning curves."""

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from jaxmarl_lite.viz import write_picture

CONFIDENCE = 0.95
MAX_SINGLE_SEEDS = 10  # more thin lines than this hide the mean
SMOOTH_ABOVE = 200  # updates; shorter runs are drawn as they are
DPI = 120


def mean_and_interval(returns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean over seeds and the half-width of its 95 % confidence interval, by Student's t.

    Args:
        returns: (S, U), NaN where there is no value.

    Returns:
        mean (U,), NaN where no seed has a value; half-width (U,), NaN where fewer than two have one.
    """
    from scipy.special import stdtrit

    valid = ~np.isnan(returns)
    count = valid.sum(0)
    mean = np.where(valid, returns, 0.0).sum(0) / np.where(count > 0, count, np.nan)
    squares = np.where(valid, np.square(returns - mean), 0.0).sum(0)
    freedom = np.where(count > 1, count - 1, np.nan)
    return mean, stdtrit(freedom, (1 + CONFIDENCE) / 2) * np.sqrt(squares / freedom / count)


def smooth(returns: np.ndarray, window: int) -> np.ndarray:
    """Mean over a centred window of updates, shorter at the ends.

    Args:
        returns: (S, U), NaN where there is no value.
        window: an odd number of updates.

    Returns:
        (S, U), NaN where `returns` is.
    """
    valid, ones = ~np.isnan(returns), np.ones(window)
    half = window // 2

    def window_sum(row: np.ndarray) -> np.ndarray:
        return np.convolve(row, ones)[half : half + row.size]

    sums = np.apply_along_axis(window_sum, 1, np.where(valid, returns, 0.0))
    counts = np.apply_along_axis(window_sum, 1, valid.astype(float))
    return np.where(valid, sums / np.maximum(counts, 1), np.nan)


def plot_curve(
    env_steps: np.ndarray,
    returns: np.ndarray,
    path: str | os.PathLike,
    title: str,
    ylabel: str,
    hlines: Mapping[str, float] | None = None,
) -> Path:
    """Draw the mean over seeds with its 95 % confidence interval (Student's t), and write it as a PNG.

    Up to 10 seeds are drawn one by one as well. Runs of more than 200 updates are smoothed, each seed by
    itself before the mean, over a centred window of about 1 % of the run; the legend says so. Where no
    episode finished there is no point, and the lines connect the points around it.

    Args:
        env_steps: (U,) environment steps taken until each update.
        returns: (S, U) return of each seed, NaN where no episode finished; infinities count as NaN.
        path: where to, ending in ".png". Missing folders are made, and a file that exists is replaced.
        title: of the picture.
        ylabel: name and unit of `returns`.
        hlines: label and height of horizontal lines for reference.

    Returns:
        The path written.

    Raises:
        ValueError: for another suffix, or shapes that do not fit together.
        OSError: if the file cannot be written there.
    """
    env_steps, returns = np.asarray(env_steps, float), np.asarray(returns, float)
    if returns.ndim != 2 or 0 in returns.shape:
        raise ValueError(f"returns must have shape (S, U), seeds and updates, got {returns.shape}.")
    if env_steps.shape != returns.shape[1:]:
        raise ValueError(f"env_steps must have shape {returns.shape[1:]}, as returns has, got {env_steps.shape}.")
    returns = np.where(np.isfinite(returns), returns, np.nan)

    def save(to: Path) -> None:
        # Not pyplot: it would keep the figure, and switch the caller's backend.
        from matplotlib.figure import Figure

        figure = Figure(figsize=(7, 4.2), dpi=DPI, layout="constrained")
        _fill_axes(figure.add_subplot(), env_steps, returns, hlines or {})
        figure.axes[0].set(title=title, ylabel=ylabel, xlabel="environment steps")
        figure.savefig(to, format="png")

    return write_picture(path, ".png", save, overwrite=True)


def _fill_axes(axes, env_steps: np.ndarray, returns: np.ndarray, hlines: Mapping[str, float]) -> None:
    from matplotlib.ticker import EngFormatter

    if np.isnan(returns).all():
        axes.text(0.5, 0.75, "no episode finished", transform=axes.transAxes, ha="center", color="0.4")
        axes.set_xlim(0, max(env_steps.max(), 1))
    else:
        _draw_returns(axes, env_steps, returns)
    for i, (name, y) in enumerate(hlines.items()):
        axes.axhline(y, color=f"C{1 + i % 9}", linewidth=1.2, linestyle=("--", "-.", ":")[i % 3], label=name)
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False, fontsize="small")


def _draw_returns(axes, env_steps: np.ndarray, returns: np.ndarray) -> None:
    num_seeds, num_updates = returns.shape
    label = f"mean of {num_seeds} seeds" if num_seeds > 1 else "one seed"
    if num_updates > SMOOTH_ABOVE:
        window = num_updates // 100 | 1  # odd, so that it has a centre
        returns = smooth(returns, window)
        label += f", over a window of {window} updates"

    def line(values: np.ndarray, **how) -> None:
        shown = ~np.isnan(values)
        axes.plot(env_steps[shown], values[shown], marker="o" if shown.sum() == 1 else None, **how)

    mean, interval = mean_and_interval(returns)
    if 1 < num_seeds <= MAX_SINGLE_SEEDS:
        for i, row in enumerate(returns):
            line(row, color="C0", alpha=0.35, linewidth=0.7, markersize=3, label="_" if i else "single seeds")
    known = ~np.isnan(interval)
    if known.any():
        x, low, high = env_steps[known], (mean - interval)[known], (mean + interval)[known]
        how = {"color": "C0", "alpha": 0.2, "label": f"{CONFIDENCE:.0%} confidence interval"}
        if len(x) > 1:
            axes.fill_between(x, low, high, linewidth=0, **how)
        else:
            axes.vlines(x, low, high, linewidth=8, **how)
    line(mean, color="C0", linewidth=1.8, markersize=5, label=label)
