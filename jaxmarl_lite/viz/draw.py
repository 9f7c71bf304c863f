"""Pictures of particle worlds."""

import re
from collections.abc import Sequence
from string import ascii_uppercase

import numpy as np
from PIL import Image, ImageDraw, ImageFont

VIEW = 1.3  # half the side of the square that the camera shows, world units
ZOOM_STEP = 0.25  # the camera zooms out in steps, so that an animation does not jitter
SUPERSAMPLING = 3
MIN_RADIUS_PX = 2.0  # smaller bodies would vanish
MIN_SIZE_PX = 32
CAPTION_PX = 18  # height of a line of captions
LABEL_PX = (9, 15)  # smallest and largest font of the labels

BACKGROUND = (250, 250, 252)
FLOOR = (255, 255, 255)
GRID = (236, 237, 242)
BORDER = (200, 203, 212)
INK = (45, 48, 58)
AGENT_ALPHA = 185  # of 255: a landmark under an agent stays visible
EDGE_SHADE = 0.8

Color = tuple[int, ...]


def camera(positions: np.ndarray, sizes: np.ndarray) -> float:
    """Half the side of the square around the origin that shows every body whole.

    Args:
        positions: (n, 2), world units.
        sizes: (n,) radii, world units.

    Returns:
        `VIEW` where that is enough, otherwise the next multiple of `ZOOM_STEP`.
    """
    reach = float((np.abs(positions).max(-1) + sizes).max(initial=0.0))
    return VIEW if reach <= VIEW else float(np.ceil(reach / ZOOM_STEP) * ZOOM_STEP)


def agent_labels(names: Sequence[str]) -> list[str]:
    """Short labels that tell agents apart.

    The numbers of the names where there is one role ("agent_2" gives "2"); otherwise as few letters of the
    role as distinguish it, and the number where a role has several agents ("adversary_0", "agent_0",
    "agent_1" give "ad", "ag0", "ag1").
    """
    roles, numbers = zip(*(re.fullmatch(r"(.*?)_?(\d*)", name).groups() for name in names), strict=True)
    distinct = set(roles)
    if len(distinct) == 1:
        return list(numbers) if all(numbers) else list(names)
    length = next(k for k in range(1, max(map(len, distinct)) + 1) if len({r[:k] for r in distinct}) == len(distinct))
    return [r[:length] + (n if roles.count(r) > 1 else "") for r, n in zip(roles, numbers, strict=True)]


def message_text(message: np.ndarray, continuous: bool) -> str:
    """A message (dim_c,) as short text: its word as a letter, its numbers if continuous, "-" if it is empty."""
    if not np.any(message):
        return "-"
    if continuous:
        return " ".join(f"{number:.1f}" for number in message)
    word = int(np.argmax(message))
    return ascii_uppercase[word] if word < len(ascii_uppercase) else str(word)


def draw_particles(
    positions: np.ndarray,
    sizes: Sequence[float] | np.ndarray,
    colors: Sequence[Sequence[float]] | np.ndarray,
    labels: Sequence[str],
    num_agents: int,
    captions: Sequence[str] = (),
    view: float | None = None,
    size_px: int = 400,
) -> np.ndarray:
    """A picture of bodies on a plane, y upwards: landmarks first, translucent agents over them.

    Args:
        positions: (n, 2), world units, agents first, then landmarks.
        sizes: (n,) radii, world units.
        colors: (n, 3) RGB in 0..1.
        labels: (n,) texts, written in a body where they fit and beside it otherwise; "" for none.
        num_agents: how many of the rows are agents.
        captions: lines of text under the picture, one below the other.
        view: half the side of the square that is shown, centred on the origin, world units. By default
            `VIEW`, or more where bodies lie outside; a given one stays, whatever it cuts off.
        size_px: side of the square in pixels.

    Returns:
        (size_px + CAPTION_PX * len(captions), size_px, 3) uint8.

    Raises:
        ValueError: for arguments whose shapes do not fit together, or values that cannot be drawn.
    """
    positions, sizes, colors = np.asarray(positions, float), np.asarray(sizes, float), np.asarray(colors, float)
    _check(positions, sizes, colors, labels, num_agents, view, size_px)
    n = len(positions)
    half = camera(positions, sizes) if view is None else float(view)
    side = size_px * SUPERSAMPLING
    scale = side / (2 * half)  # pixels per world unit
    image = Image.new("RGB", (side, side + CAPTION_PX * SUPERSAMPLING * len(captions)), BACKGROUND)
    draw = ImageDraw.Draw(image, "RGBA")  # in this mode, colours with alpha blend
    _draw_floor(draw, side, scale)
    centres = side / 2 + positions * (scale, -scale)
    radii = np.maximum(sizes * scale, MIN_RADIUS_PX * SUPERSAMPLING)
    fills = [tuple(int(v) for v in np.rint(np.clip(color, 0, 1) * 255)) for color in colors]
    for i in [*range(num_agents, n), *range(num_agents)]:
        (_draw_agent if i < num_agents else _draw_landmark)(draw, centres[i], radii[i], fills[i])
    # Labels last, so that no body hides one.
    for i, label in enumerate(labels):
        _draw_label(draw, side, centres[i], radii[i], fills[i], label)
    _draw_captions(draw, side, captions)
    return np.array(image.reduce(SUPERSAMPLING))


def _check(positions, sizes, colors, labels, num_agents, view, size_px) -> None:
    if positions.ndim != 2 or positions.shape[1] != 2:
        raise ValueError(f"positions must have shape (n, 2), one instance's, got {positions.shape}.")
    n = len(positions)
    for name, shape, allowed in (
        ("sizes", sizes.shape, (n,)),
        ("colors", colors.shape, (n, 3)),
        ("labels", (len(labels),), (n,)),
    ):
        if shape != allowed:
            raise ValueError(f"{name} must have shape {allowed}, as there are {n} positions, got {shape}.")
    if not 0 <= num_agents <= n:
        raise ValueError(f"num_agents must be in 0..{n}, the number of positions, got {num_agents!r}.")
    for name, array in (("positions", positions), ("sizes", sizes), ("colors", colors)):
        if not np.isfinite(array).all():
            raise ValueError(f"{name} must be finite, got {array.tolist()}.")
    if view is not None and not 0 < view < np.inf:
        raise ValueError(f"view must be a positive number or None, got {view!r}.")
    if size_px < MIN_SIZE_PX:
        raise ValueError(f"size_px must be at least {MIN_SIZE_PX}, got {size_px!r}.")


def _draw_floor(draw: ImageDraw.ImageDraw, side: int, scale: float) -> None:
    """The square [-1, 1]^2 with lines every half unit."""
    low, high = side / 2 - scale, side / 2 + scale
    draw.rectangle((low, low, high, high), fill=FLOOR)
    for at in (side / 2 - scale / 2, side / 2, side / 2 + scale / 2):
        draw.line((at, low, at, high), fill=GRID, width=SUPERSAMPLING)
        draw.line((low, at, high, at), fill=GRID, width=SUPERSAMPLING)
    draw.rectangle((low, low, high, high), outline=BORDER, width=SUPERSAMPLING)


def _disc(draw: ImageDraw.ImageDraw, centre: np.ndarray, radius: float, **how) -> None:
    x, y = centre
    draw.ellipse((x - radius, y - radius, x + radius, y + radius), **how)


def _draw_landmark(draw: ImageDraw.ImageDraw, centre: np.ndarray, radius: float, color: Color) -> None:
    """A disc inside a ring, which ends at the true radius."""
    ring = max(1, round(min(1.5 * SUPERSAMPLING, radius / 4)))
    gap = min(2 * SUPERSAMPLING, radius / 4)
    _disc(draw, centre, radius, fill=FLOOR, outline=color, width=ring)
    _disc(draw, centre, radius - ring - gap, fill=color)


def _draw_agent(draw: ImageDraw.ImageDraw, centre: np.ndarray, radius: float, color: Color) -> None:
    """A translucent disc with a darker edge, and a halo that sets it off what lies under it."""
    edge = max(1, round(min(1.5 * SUPERSAMPLING, radius / 4)))
    _disc(draw, centre, radius + SUPERSAMPLING, outline=FLOOR, width=SUPERSAMPLING)
    _disc(draw, centre, radius, fill=(*color, AGENT_ALPHA))
    _disc(draw, centre, radius, outline=tuple(int(v * EDGE_SHADE) for v in color), width=edge)


def _draw_label(
    draw: ImageDraw.ImageDraw, side: int, centre: np.ndarray, radius: float, color: Color, label: str
) -> None:
    """In the body where it fits, otherwise to the upper right of it, moved as far as the picture's edge asks."""
    if not label:
        return
    smallest, largest = (px * SUPERSAMPLING for px in LABEL_PX)
    font = ImageFont.load_default(float(np.clip(radius, smallest, largest)))
    width, height = draw.textlength(label, font), 0.7 * font.size
    if np.hypot(width, height) < 2 * radius:
        ink = INK if np.dot(color, (0.299, 0.587, 0.114)) > 150 else FLOOR  # by the brightness of the body
        draw.text(tuple(centre), label, fill=ink, font=font, anchor="mm")
    else:
        x, y = centre + 0.8 * radius * np.array([1, -1])
        draw.text((min(x, side - width - SUPERSAMPLING), max(y, height)), label, fill=INK, font=font, anchor="ls")


def _draw_captions(draw: ImageDraw.ImageDraw, side: int, captions: Sequence[str]) -> None:
    """Each line in a font that is small enough for the picture's width."""
    margin, height = 8 * SUPERSAMPLING, CAPTION_PX * SUPERSAMPLING
    for line, caption in enumerate(captions):
        size = 0.7 * height
        width = draw.textlength(caption, ImageFont.load_default(size))
        font = ImageFont.load_default(size * min(1.0, (side - 2 * margin) / max(width, 1)))
        draw.text((margin, side + (line + 0.4) * height), caption, fill=INK, font=font, anchor="lm")
