"""Spaces: sampling, membership, equality and printing."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxmarl_lite.environments.spaces import Box, Discrete, MultiDiscrete

INF = np.inf
SPACES = [
    Discrete(1),
    Discrete(5),
    MultiDiscrete([2, 1, 7]),
    Box(-1.0, 2.0, (3,)),
    Box(0.0, 1.0, (0,)),
    Box(-INF, INF, (4,)),
    Box([0.0, -INF, -INF, -3.0], [INF, 0.0, INF, 3.0], (4,)),
    Box(np.array([[1.0], [2.0]]), 5.0, (2, 3)),
]


@pytest.mark.parametrize("space", SPACES, ids=repr)
def test_samples_are_elements_and_jit_and_vmap_agree(space):
    keys = jax.random.split(jax.random.key(0), 200)
    batch = jax.jit(jax.vmap(space.sample))(keys)
    assert batch.shape == (200, *space.shape)
    assert batch.dtype == space.dtype
    assert jax.jit(jax.vmap(space.contains))(batch).all()
    one = space.sample(keys[7])
    assert one.dtype == space.dtype
    np.testing.assert_allclose(one, batch[7], rtol=1e-6)


def test_discrete_samples_are_uniform():
    x = jax.vmap(Discrete(4).sample)(jax.random.split(jax.random.key(1), 4000))
    np.testing.assert_allclose(np.bincount(x) / 4000, 0.25, atol=0.035)


def test_multi_discrete_samples_each_entry_within_its_own_range():
    x = np.asarray(jax.vmap(MultiDiscrete([3, 1, 2]).sample)(jax.random.split(jax.random.key(2), 3000)))
    assert [sorted(set(column.tolist())) for column in x.T] == [[0, 1, 2], [0], [0, 1]]
    np.testing.assert_allclose(x.mean(0), [1.0, 0.0, 0.5], atol=0.08)
    assert abs(np.corrcoef(x[:, 0], x[:, 2])[0, 1]) < 0.1


def test_box_samples_follow_their_bounds():
    """Uniform between two bounds, exponential from one, normal without: compared by their means and deviations."""
    box = Box([-1.0, 2.0, -INF, -INF], [3.0, INF, 5.0, INF], (4,))
    x = np.asarray(jax.vmap(box.sample)(jax.random.split(jax.random.key(3), 4000)))
    np.testing.assert_allclose(x.mean(0), [1.0, 3.0, 4.0, 0.0], atol=0.1)
    np.testing.assert_allclose(x.std(0), [4 / np.sqrt(12), 1.0, 1.0, 1.0], atol=0.15)
    assert x[:, 0].min() < -0.95
    assert x[:, 0].max() > 2.95


def test_different_keys_give_different_samples():
    box = Box(-INF, INF, (3,))
    assert not np.array_equal(box.sample(jax.random.key(0)), box.sample(jax.random.key(1)))


@pytest.mark.parametrize(
    ("space", "inside", "outside"),
    [
        (Discrete(3), [0, 2, np.int64(1), jnp.int32(2)], [-1, 3, 1.0, [1], np.array([0, 1]), True]),
        (MultiDiscrete([2, 3]), [[0, 0], np.array([1, 2])], [[2, 0], [0, 3], [-1, 0], [0.0, 0.0], [0], 0, [0, 0, 0]]),
        (Box(-1, 1, (2,)), [[-1.0, 1.0], np.zeros(2)], [[-1.1, 0.0], [0.0, 1.1], [0.0], 0.0, [0, 0], [np.nan, 0.0]]),
        (Box(0.0, INF, (1,)), [[0.0], [1e30]], [[-1e-6], [np.nan]]),
        (Box(-INF, INF, (1,)), [[-1e30], [1e30]], [[np.nan], [0]]),
    ],
    ids=repr,
)
def test_contains(space, inside, outside):
    for x in inside:
        assert space.contains(x), x
    for x in outside:
        assert not space.contains(x), x


def test_spaces_are_equal_if_they_hold_the_same_elements():
    groups = [
        [Discrete(3), Discrete(np.int64(3))],
        [Discrete(4)],
        [MultiDiscrete([3]), MultiDiscrete((3,))],
        [MultiDiscrete([3, 2])],
        [MultiDiscrete([2, 3])],
        [Box(0, 1, (2,)), Box(np.zeros(2), [1.0, 1.0], (2,))],
        [Box(0, 1, (3,))],
        [Box(0, 2, (2,))],
        [Box(-1, 1, (2,))],
        [Box(0, 1, (2,), np.float16)],
        [Box(0, 1, (2, 1))],
        [Box(-INF, INF, (2,)), Box(-INF, INF, (2,))],
    ]
    for i, group in enumerate(groups):
        for other in group:
            assert other == group[0]
            assert hash(other) == hash(group[0])
        for different in groups[i + 1 :]:
            assert group[0] != different[0]
    assert Discrete(3) != 3
    assert len({space for group in groups for space in group}) == len(groups)


@pytest.mark.parametrize(
    ("space", "text"),
    [
        (Discrete(5), "Discrete(5)"),
        (MultiDiscrete([2, 3]), "MultiDiscrete([2, 3])"),
        (Box(0.0, 1.0, (5,)), "Box(0.0, 1.0, (5,), float32)"),
        (Box(-INF, INF, (2, 3)), "Box(-inf, inf, (2, 3), float32)"),
        (Box([0.0, -1.0], INF, (2,), np.float16), "Box([0.0, -1.0], inf, (2,), float16)"),
    ],
)
def test_repr(space, text):
    assert repr(space) == text


@pytest.mark.parametrize("n", [0, -1, 2.0, True, "3", None])
def test_discrete_refuses_what_is_not_a_positive_integer(n):
    with pytest.raises(ValueError, match=f"n must be a positive integer, got {n!r}"):
        Discrete(n)


@pytest.mark.parametrize("num_categories", [[], [2, 0], [-1], [2.5], ["a"]])
def test_multi_discrete_refuses_empty_ranges(num_categories):
    with pytest.raises(ValueError, match="num_categories must be positive integers, got"):
        MultiDiscrete(num_categories)


def test_box_refuses_low_above_high():
    with pytest.raises(ValueError, match=r"low must not exceed high, got low=2\.0, high=1\.0"):
        Box(2.0, 1.0, (3,))
