"""Pictures of states, animations and learning curves."""

import subprocess
import sys

import jax
import numpy as np
import pytest
from PIL import Image

import jaxmarl_lite
from jaxmarl_lite.viz import draw
from jaxmarl_lite.viz.animate import animate
from jaxmarl_lite.viz.curves import mean_and_interval, plot_curve, smooth
from jaxmarl_lite.viz.draw import agent_labels, draw_particles, message_text
from jaxmarl_lite.wrappers import LogWrapper

RED, GREEN, BLUE = (0.85, 0.2, 0.2), (0.2, 0.65, 0.2), (0.2, 0.2, 0.85)
SIZE = 400


def picture(positions, colors, num_agents, size=0.15, **how):
    n = len(positions)
    return draw_particles(np.array(positions), [size] * n, colors, [""] * n, num_agents, **how)


def pixel(image, x, y, half=draw.VIEW):
    column, row = (round((v / half + 1) * SIZE / 2) for v in (x, -y))
    return image[row, column].astype(int)


def as_rgb(color):
    return np.rint(np.array(color) * 255)


def centre_of(image, channel):
    """The mean (row, column) of the pixels in which one channel dominates."""
    others = np.delete(image.astype(int), channel, axis=2).max(2)
    return np.argwhere(image[..., channel].astype(int) - others > 60).mean(0)


def test_bodies_appear_in_their_colour_at_their_place():
    agent, landmark = (0.6, 0.8), (-0.5, -0.9)
    image = picture([agent, landmark], [RED, GREEN], num_agents=1)
    assert image.shape == (SIZE, SIZE, 3)
    assert image.dtype == np.uint8
    # An agent is translucent on white, a landmark is not.
    alpha = draw.AGENT_ALPHA / 255
    assert np.abs(pixel(image, *agent) - (alpha * as_rgb(RED) + (1 - alpha) * 255)).max() <= 2
    assert np.abs(pixel(image, *landmark) - as_rgb(GREEN)).max() <= 1
    assert pixel(image, 0.25, 0.25).min() > 225


def test_y_points_up_and_x_points_right():
    image = picture([(0.5, 0.5), (-0.5, -0.5)], [RED, BLUE], num_agents=2)
    (red_row, red_column), (blue_row, blue_column) = centre_of(image, 0), centre_of(image, 2)
    assert red_row < SIZE / 2 < blue_row
    assert blue_column < SIZE / 2 < red_column


def test_radius_is_to_scale():
    image = picture([(0.0, 0.0)], [RED], num_agents=0, size=0.3)
    row = image[SIZE // 2].astype(int)
    columns = np.flatnonzero(row[:, 0] - row[:, 1] > 60)
    assert columns[-1] - columns[0] + 1 == pytest.approx(2 * 0.3 * SIZE / (2 * draw.VIEW), abs=2)


def test_a_covered_landmark_stays_visible():
    at = (0.0, 0.0)
    image = draw_particles(np.array([at, at]), [0.2, 0.05], [BLUE, (0.1, 0.1, 0.1)], ["", ""], 1)
    covered, agent = pixel(image, *at), pixel(image, 0.12, 0.0)
    assert np.abs(covered - agent).max() > 40
    assert covered[2] > covered[0] + 40  # still blue: the agent is on top


@pytest.mark.parametrize("outside", [(0.0, 3.0), (-1.25, 0.0), (2.0, -7.0)])
def test_the_camera_zooms_out_for_a_body_outside(outside):
    image = picture([outside, (1.0, 0.0)], [RED, BLUE], num_agents=2)
    half = draw.camera(np.array([outside, (1.0, 0.0)]), np.array([0.15, 0.15]))
    assert half > draw.VIEW
    expected = [(1 - outside[1] / half) * SIZE / 2, (1 + outside[0] / half) * SIZE / 2]
    np.testing.assert_allclose(centre_of(image, 0), expected, atol=1.5)
    edge = np.concatenate([image[0], image[-1], image[:, 0], image[:, -1]])
    assert (edge == draw.BACKGROUND).all()  # nothing is cut off


def test_the_camera_stays_while_bodies_are_inside_and_where_it_was_put():
    positions, sizes = np.array([(1.1, -1.1)]), np.array([0.15])
    assert draw.camera(positions, sizes) == draw.VIEW
    assert draw.camera(np.zeros((0, 2)), np.zeros(0)) == draw.VIEW
    np.testing.assert_array_equal(
        picture([(0.5, 3.0), (0.5, 0.5)], [RED, BLUE], 2, view=1.3), picture([(0.5, 0.5)], [BLUE], 1)
    )


def test_labels_and_captions_are_drawn():
    positions, sizes, colors = np.zeros((1, 2)), [0.2], [BLUE]
    plain = draw_particles(positions, sizes, colors, [""], 1)
    numbered = draw_particles(positions, sizes, colors, ["3"], 1)
    assert (plain != numbered).any()
    captioned = draw_particles(positions, sizes, colors, [""], 1, captions=["step 3", "agent_0: B"])
    assert captioned.shape == (SIZE + 2 * draw.CAPTION_PX, SIZE, 3)
    np.testing.assert_array_equal(captioned[:SIZE], plain)
    for line in np.split(captioned[SIZE:], 2):
        assert line.min() < 120
    long = draw_particles(positions, sizes, colors, [""], 1, captions=["too long " * 30])
    assert (long[:, -4:] == plain[0, 0]).all()  # shrunk to the width


def test_a_label_that_does_not_fit_stays_in_the_picture():
    positions = np.array([(1.25, 1.25)])
    image = draw_particles(positions, [0.05], [(1.0, 1.0, 1.0)], ["longer"], 1)
    assert (image[:, :-60] > 190).all()
    assert (image[:, -60:].min(2) < 120).sum() > 20
    assert (image[:, -1] > 190).all()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"positions": np.zeros((4, 2, 2))}, "positions must have shape"),
        ({"positions": np.array([[0.0, np.nan], [0.0, 0.0]])}, "positions must be finite"),
        ({"sizes": [0.1]}, "sizes must have shape"),
        ({"colors": [RED]}, "colors must have shape"),
        ({"labels": ["0"]}, "labels must have shape"),
        ({"num_agents": 3}, "num_agents must be in"),
        ({"view": 0.0}, "view must be"),
        ({"size_px": 2}, "size_px must be"),
    ],
)
def test_drawing_rejects_bad_arguments(changed, message):
    good = {"positions": np.zeros((2, 2)), "sizes": [0.1] * 2, "colors": [RED] * 2, "labels": ["", ""], "num_agents": 1}
    with pytest.raises(ValueError, match=message):
        draw_particles(**{**good, **changed})


@pytest.mark.parametrize(
    ("names", "labels"),
    [
        (["agent_0", "agent_1", "agent_12"], ["0", "1", "12"]),
        (["adversary_0", "agent_0", "agent_1"], ["ad", "ag0", "ag1"]),
        (["speaker_0", "listener_0"], ["s", "l"]),
        (["red", "blue"], ["r", "b"]),
        (["walker"], ["walker"]),
    ],
)
def test_agent_labels(names, labels):
    assert agent_labels(names) == labels


def test_message_text():
    assert message_text(np.zeros(3), continuous=False) == "-"
    assert message_text(np.array([0.0, 0.0, 1.0]), continuous=False) == "C"
    assert message_text(np.eye(30)[27], continuous=False) == "27"
    assert message_text(np.array([0.25, 1.0]), continuous=True) == "0.2 1.0"


@pytest.mark.parametrize("name", ["MPE_simple_v3", "MPE_simple_spread_v3"])
def test_render(name):
    env = jaxmarl_lite.make(name)
    _, state = env.reset(jax.random.key(0))
    image = env.render(state)
    assert isinstance(image, np.ndarray)
    assert image.dtype == np.uint8
    assert image.shape == (SIZE + draw.CAPTION_PX, SIZE, 3)
    # Each body shows its colour, undisturbed by the others, at its place.
    apart = state.replace(p_pos=np.stack([np.linspace(-1, 1, len(env.colors)), np.linspace(-1, 1, len(env.colors))], 1))
    image = env.render(apart)
    for i, (x, y) in enumerate(np.asarray(apart.p_pos)):
        alpha = draw.AGENT_ALPHA / 255 if i < env.num_agents else 1.0
        beside_label = x - 0.6 * env.world.size[i] if i < env.num_agents else x
        expected = alpha * as_rgb(env.colors[i]) + (1 - alpha) * 255
        assert np.abs(pixel(image, beside_label, y) - expected).max() <= 40


def test_render_follows_the_state_and_the_log_wrapper():
    env = LogWrapper(jaxmarl_lite.make("MPE_simple_spread_v3", num_agents=2))
    _, state = env.reset(jax.random.key(0))
    _, later, *_ = env.step(jax.random.key(1), state, {"agent_0": np.int32(1), "agent_1": np.int32(0)})
    assert (env.render(state) != env.render(later)).any()


def test_render_writes_what_agents_say_that_are_not_silent():
    env = jaxmarl_lite.make("MPE_simple_spread_v3", num_agents=2)
    _, state = env.reset(jax.random.key(0))
    object.__setattr__(env.world, "silent", (False, True))
    says_a, says_b = (env.render(state.replace(c=np.array([word, [0, 0]]))) for word in ([1, 0], [0, 1]))
    assert says_a.shape == (SIZE + 2 * draw.CAPTION_PX, SIZE, 3)
    changed = np.argwhere((says_a != says_b).any(2))
    assert changed[:, 0].min() > SIZE + draw.CAPTION_PX


def test_render_of_a_batch_is_an_error():
    env = jaxmarl_lite.make("MPE_simple_v3")
    _, states = jax.vmap(env.reset)(jax.random.split(jax.random.key(0), 3))
    with pytest.raises(ValueError, match="one instance"):
        env.render(states)


def test_importing_the_package_loads_no_drawing_library():
    code = (
        "import sys, jaxmarl_lite; jaxmarl_lite.make('MPE_simple_v3');"
        "assert not {'PIL', 'matplotlib', 'jaxmarl_lite.viz'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.fixture
def frames():
    xs = np.linspace(-1, 1, 6)
    return [picture([(x, 0.0), (0.0, 0.5)], [BLUE, RED], 1, size_px=120) for x in xs]


def test_a_gif_reads_back_as_it_was_written(frames, tmp_path):
    path = animate(frames, tmp_path / "new" / "episode.gif", fps=20)
    assert path == tmp_path / "new" / "episode.gif"
    with Image.open(path) as gif:
        assert (gif.n_frames, gif.size, gif.info["loop"]) == (6, (120, 120), 0)
        durations = []
        for i, frame in enumerate(frames):
            gif.seek(i)
            durations.append(gif.info["duration"])
            assert np.abs(np.asarray(gif.convert("RGB")).astype(int) - frame).max() < 30
    assert durations == [50] * 5 + [1000]
    assert [p.name for p in path.parent.iterdir()] == ["episode.gif"]


def test_few_colours_are_kept_exactly(tmp_path):
    frames = [np.full((8, 10, 3), (i, 2 * i, 255 - i), np.uint8) for i in range(200)]
    frames[3][2, 3] = (1, 200, 7)
    with Image.open(animate(frames, tmp_path / "a.gif")) as gif:
        for i, frame in enumerate(frames):
            gif.seek(i)
            np.testing.assert_array_equal(np.asarray(gif.convert("RGB")), frame)


def test_one_frame_and_many_colours(tmp_path):
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)
    with Image.open(animate([noise], tmp_path / "a.gif")) as gif:
        assert (gif.n_frames, gif.size) == (1, (64, 64))


def test_a_repeated_frame_lengthens_the_one_before(frames, tmp_path):
    with Image.open(animate([frames[0], frames[0], frames[1]], tmp_path / "a.gif", fps=10)) as gif:
        assert (gif.n_frames, gif.info["duration"]) == (2, 200)


def test_animate_does_not_overwrite(frames, tmp_path):
    path = tmp_path / "a.gif"
    path.write_bytes(b"mine")
    with pytest.raises(FileExistsError, match=r"a\.gif exists already") as raised:
        animate(frames, path)
    assert "\n" not in str(raised.value)
    assert path.read_bytes() == b"mine"


@pytest.mark.parametrize("name", ["a.mp4", "a", "gif"])
def test_animate_wants_a_gif(frames, tmp_path, name):
    with pytest.raises(ValueError, match=rf"path must end in \.gif, got .*{name}"):
        animate(frames, tmp_path / name)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ([], "at least one"),
        ([np.zeros((4, 4, 3))], r"frames\[0\] must be \(H, W, 3\) uint8"),
        ([np.zeros((4, 4), np.uint8)], r"frames\[0\] must be"),
        ([np.zeros((4, 4, 3), np.uint8), np.zeros((4, 5, 3), np.uint8)], "one shape"),
    ],
)
def test_animate_rejects_bad_frames(bad, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        animate(bad, tmp_path / "a.gif")
    assert not list(tmp_path.iterdir())


def test_animate_rejects_a_bad_rate(frames, tmp_path):
    with pytest.raises(ValueError, match="fps must be"):
        animate(frames, tmp_path / "a.gif", fps=0)


@pytest.mark.parametrize("folder", ["a_file", "a_file/deeper"])
def test_a_folder_that_cannot_be_written_gives_one_line(frames, tmp_path, folder):
    (tmp_path / "a_file").write_text("")
    gif, png = tmp_path / folder / "a.gif", tmp_path / folder / "a.png"
    for write, path in (
        (lambda: animate(frames, gif), gif),
        (lambda: plot_curve(np.arange(3), np.zeros((1, 3)), png, "t", "y"), png),
    ):
        with pytest.raises(OSError, match=r"^Cannot write .*") as raised:
            write()
        assert str(path) in str(raised.value)
        assert "\n" not in str(raised.value)
        assert not isinstance(raised.value, FileExistsError)


def test_nothing_is_left_of_a_write_that_failed(frames, tmp_path, monkeypatch):
    def fail(self, to, **_):
        to.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Image.Image, "save", fail)
    with pytest.raises(OSError, match="No space left on device"):
        animate(frames, tmp_path / "a.gif")
    assert not list(tmp_path.iterdir())


def curve_data(num_seeds, num_updates):
    rng = np.random.default_rng(0)
    return np.arange(1, num_updates + 1) * 1000, rng.normal(-10, 1, (num_seeds, num_updates))


@pytest.mark.parametrize(("num_seeds", "num_updates"), [(1, 1), (3, 1), (1, 50), (5, 250), (12, 30)])
@pytest.mark.parametrize("missing", ["none", "some", "all"])
@pytest.mark.filterwarnings("error")
def test_a_curve_is_a_readable_png(num_seeds, num_updates, missing, tmp_path):
    env_steps, returns = curve_data(num_seeds, num_updates)
    if missing == "some":
        returns[:, ::2] = np.nan
        returns[0, -1] = np.nan
    elif missing == "all":
        returns[:] = np.nan
    path = plot_curve(env_steps, returns, tmp_path / "a.png", "title", "return", {"random": -20.0, "best": -5.0})
    with Image.open(path) as png:
        assert png.format == "PNG"
        assert np.asarray(png.convert("L")).std() > 1
    assert [p.name for p in tmp_path.iterdir()] == ["a.png"]


def test_a_curve_leaves_pyplot_alone_and_replaces_its_file(tmp_path):
    env_steps, returns = curve_data(2, 10)
    first = plot_curve(env_steps, returns, tmp_path / "a.png", "title", "return").read_bytes()
    assert plot_curve(env_steps, returns + env_steps, tmp_path / "a.png", "title", "return").read_bytes() != first
    code = (
        "import sys, numpy as np; from jaxmarl_lite.viz.curves import plot_curve;"
        f"plot_curve(np.arange(3), np.zeros((2, 3)), {str(tmp_path / 'b.png')!r}, 't', 'y');"
        "assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("env_steps", "returns", "name", "message"),
    [
        (np.arange(3), np.zeros((2, 3)), "a.pdf", r"path must end in \.png"),
        (np.arange(3), np.zeros(3), "a.png", "returns must have shape"),
        (np.arange(0), np.zeros((2, 0)), "a.png", "returns must have shape"),
        (np.arange(2), np.zeros((2, 3)), "a.png", "env_steps must have shape"),
    ],
)
def test_plot_curve_rejects_bad_arguments(env_steps, returns, name, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        plot_curve(env_steps, returns, tmp_path / name, "title", "return")


@pytest.mark.filterwarnings("error")
def test_mean_and_interval_skip_missing_seeds():
    nan = np.nan
    returns = np.array([[1.0, nan, 2.0, nan], [2.0, 4.0, nan, nan], [6.0, 8.0, nan, nan]])
    mean, interval = mean_and_interval(returns)
    np.testing.assert_allclose(mean, [3.0, 6.0, 2.0, nan])
    # Quantiles of Student's t at 97.5 % from the tables: 4.303 for 2 degrees of freedom, 12.706 for 1.
    np.testing.assert_allclose(interval, [4.303 * np.sqrt(7 / 3), 12.706 * 2.0, nan, nan], rtol=1e-3)


def test_smooth_is_centred_and_keeps_what_is_missing():
    nan = np.nan
    smoothed = smooth(np.array([[0.0, 3.0, 6.0, nan, 12.0], [nan] * 5]), window=3)
    np.testing.assert_allclose(smoothed, [[1.5, 3.0, 4.5, nan, 12.0], [nan] * 5])
    line = np.arange(20.0)[None]
    np.testing.assert_allclose(smooth(line, 5)[:, 2:-2], line[:, 2:-2])
