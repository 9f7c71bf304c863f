"""Animations of rendered states."""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from jaxmarl_lite.viz import write_picture

LAST_FRAME_MS = 1000  # long enough to see how an episode ended
MIN_FRAME_MS = 20  # viewers slow down frames that are shorter


def animate(frames: Sequence[np.ndarray], path: str | os.PathLike, fps: float = 10) -> Path:
    """Write frames as a GIF that repeats for ever and rests one second on its last frame.

    Frames that equal the one before are stored as a longer duration of that one.

    Args:
        frames: pictures (H, W, 3) uint8, all of one shape.
        path: where to, ending in ".gif". Missing folders are made.
        fps: frames per second. A GIF counts in 1/100 s, and at most 50 frames per second play as asked.

    Returns:
        The path written.

    Raises:
        ValueError: for another suffix, no frames, frames that are not of one shape and uint8, or fps <= 0.
        FileExistsError: if the file exists.
        OSError: if the file cannot be written there.
    """
    if not 0 < fps < np.inf:
        raise ValueError(f"fps must be a positive number, got {fps!r}.")
    frames = [np.asarray(frame) for frame in frames]
    if not frames:
        raise ValueError("frames must hold at least one picture, got none.")
    for i, frame in enumerate(frames):
        if frame.ndim != 3 or frame.shape[2] != 3 or frame.dtype != np.uint8:
            raise ValueError(f"frames[{i}] must be (H, W, 3) uint8, got {frame.shape} {frame.dtype}.")
        if frame.shape != frames[0].shape:
            raise ValueError(f"frames must have one shape, got {frames[0].shape} and, in frames[{i}], {frame.shape}.")

    def save(to: Path) -> None:
        frame_ms = max(MIN_FRAME_MS, 10 * round(100 / fps))
        durations = [frame_ms] * (len(frames) - 1) + [LAST_FRAME_MS]
        first, *others = _with_one_palette(frames)
        first.save(to, format="GIF", save_all=True, append_images=others, duration=durations, loop=0, optimize=False)

    return write_picture(path, ".gif", save, overwrite=False)


def _with_one_palette(frames: list[np.ndarray]) -> list[Image.Image]:
    """The frames as images of one palette of up to 256 colours.

    The palette is made of the list of colours rather than of the pixels, or else a large background would
    leave no entries for small bodies.
    """
    packed = [frame.astype(np.uint32) @ np.array([1 << 16, 1 << 8, 1], np.uint32) for frame in frames]
    colors = np.unique(np.concatenate([np.unique(frame) for frame in packed]))
    rgb = np.stack([colors >> 16, colors >> 8 & 255, colors & 255], -1).astype(np.uint8)
    table = Image.fromarray(rgb[None]).quantize(256, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    entry_of_color = np.asarray(table)[0]
    images = []
    for frame in packed:
        image = Image.fromarray(entry_of_color[np.searchsorted(colors, frame)])
        image.putpalette(table.getpalette())
        images.append(image)
    return images
