"""MPE step by step against its reference, mpe2 1.1.1: from random states, over whole episodes, keyword by keyword.

Both sides start from the same float32 numbers; the reference then computes in float64.
"""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from mpe2 import (
    simple_adversary_v3,
    simple_crypto_v3,
    simple_push_v3,
    simple_reference_v3,
    simple_speaker_listener_v4,
    simple_spread_v3,
    simple_tag_v3,
    simple_v3,
)
from mpe2._mpe_utils import core
from mpe2._mpe_utils.scenario import BaseScenario
from mpe2._mpe_utils.simple_env import SimpleEnv, make_env
from pettingzoo.utils.conversions import parallel_wrapper_fn
from pettingzoo.utils.env_logger import EnvLogger

import jaxmarl_lite
from jaxmarl_lite.environments.mpe import world as physics
from jaxmarl_lite.environments.mpe.mpe import MPE
from jaxmarl_lite.environments.mpe.simple_spread import SimpleSpreadMPE

REFERENCES = {
    "MPE_simple_v3": simple_v3,
    "MPE_simple_adversary_v3": simple_adversary_v3,
    "MPE_simple_crypto_v3": simple_crypto_v3,
    "MPE_simple_push_v3": simple_push_v3,
    "MPE_simple_reference_v3": simple_reference_v3,
    "MPE_simple_speaker_listener_v4": simple_speaker_listener_v4,
    "MPE_simple_spread_v3": simple_spread_v3,
    "MPE_simple_tag_v3": simple_tag_v3,
}
CROWDED = ("MPE_simple_push_v3", "MPE_simple_spread_v3", "MPE_simple_tag_v3")  # where agents collide
TAG, ADVERSARY = "MPE_simple_tag_v3", "MPE_simple_adversary_v3"
SPREAD = "MPE_simple_spread_v3"
ATOL = 1e-5
COUNT = 500  # states of a check; one number for most, so that the same array shapes come back
INSIDE, OUTSIDE = (0.0, 1.0), (-1.0, 2.0)  # continuous actions; the reference clips those outside [0, 1]


@pytest.fixture(autouse=True)
def no_clipping_warnings():
    EnvLogger.suppress_output()
    yield
    EnvLogger.unsuppress_output()


def make_both(env_id, stage=None, **kwargs):
    """Our environment and the reference, from the reference's keywords and the curriculum's stage."""
    reference = REFERENCES[env_id].parallel_env(**kwargs)
    reference.reset(seed=0)
    if stage is not None:
        reference.unwrapped.set_curriculum_stage(stage)
        kwargs["curriculum_stage"] = stage
    return jaxmarl_lite.make(env_id, **kwargs), reference


EXTRA_FIELDS = ("goal", "private_key")


def load_goals(raw, state):
    """Give the reference's world the goals of one of our states."""
    world, landmarks = raw.world, raw.world.landmarks
    name = raw.metadata["name"]
    if name == "simple_reference_v3":
        for agent, goal in zip(world.agents, state.goal, strict=True):
            agent.goal_b = landmarks[goal]
        return
    goal = landmarks[int(state.goal)]
    if name == "simple_speaker_listener_v4":
        world.agents[0].goal_b = goal
        return
    for agent in world.agents:
        agent.goal_a = goal
    if name == "simple_push_v3":
        color = np.array([0.25, 0.25, 0.25])
        color[goal.index + 1] += 0.5
        world.agents[1].color = color
    if name == "simple_crypto_v3":
        world.agents[2].key = landmarks[int(state.private_key)].color


def random_states(rng, env, count, max_steps=None):
    """A batch of states, a third each: scattered over the field, crowded, and almost on one spot."""
    bodies = env.world.num_entities
    reach = np.resize([1.0, 0.3, 0.01], count)[:, None, None]
    movable = np.array(env.world.movable)[:, None]
    keys = jax.random.split(jax.random.key(int(rng.integers(2**31))), count)
    _, start = jax.jit(jax.vmap(env.reset))(keys)
    return jax.tree.map(np.asarray, start).replace(
        step=rng.integers(0, max_steps or env.max_steps, count).astype(np.int32),
        done=np.zeros(count, bool),
        p_pos=(reach * rng.uniform(-1, 1, (count, bodies, 2))).astype(np.float32),
        p_vel=(movable * rng.normal(0, 0.7, (count, bodies, 2))).astype(np.float32),
        c=rng.normal(size=(count, env.num_agents, env.world.dim_c)).astype(np.float32),
    )


def states_near_success(rng, env, count, max_steps=None):
    """Each landmark has an agent at a distance around the success radius of 0.1."""
    states = random_states(rng, env, count, max_steps)
    n = env.num_agents
    angle, radius = rng.uniform(0, 2 * np.pi, (count, n)), rng.uniform(0.0, 0.15, (count, n))
    offset = radius[..., None] * np.stack([np.cos(angle), np.sin(angle)], -1)
    landmarks = rng.uniform(-1, 1, (count, n, 2))
    p_pos = np.concatenate([landmarks + offset, landmarks], 1).astype(np.float32)
    return states.replace(p_pos=p_pos, p_vel=np.zeros_like(p_pos))


def random_actions(rng, env, count, bounds=INSIDE):
    """A batch of actions, one array per agent."""
    spaces = env.action_spaces
    if env.action_type == "Discrete":
        return {a: rng.integers(0, spaces[a].n, count) for a in env.agents}
    return {a: rng.uniform(*bounds, (count, *spaces[a].shape)).astype(np.float32) for a in env.agents}


def load(reference, states, i):
    """Put the reference into state i of our batch."""
    state = jax.tree.map(lambda x: np.asarray(x[i]), states)
    reference.reset()
    raw = reference.unwrapped
    raw.steps = int(state.step)
    for body, p_pos, p_vel in zip(raw.world.entities, state.p_pos, state.p_vel, strict=True):
        body.state.p_pos, body.state.p_vel = p_pos.astype(np.float64), p_vel.astype(np.float64)
    for agent, c in zip(raw.world.agents, state.c, strict=True):
        agent.state.c = c.astype(np.float64)
    if hasattr(state, "goal"):
        load_goals(raw, state)


def take_turns(reference, actions):
    """The agents' turns of one step. `reference.step` does the same, but observes everything after each turn."""
    raw = reference.unwrapped
    for a in reference.possible_agents:
        reference.aec_env.step(actions[a])
    return {a: raw.observe(a) for a in actions}, raw.rewards, raw.terminations, raw.truncations


def result_of(reference, obs, reward, terminated, truncated):
    """What a step of the reference leads to, under the names of `ours`."""
    world = reference.unwrapped.world
    result = {
        "p_pos": np.stack([body.state.p_pos for body in world.entities]),
        "p_vel": np.stack([body.state.p_vel for body in world.entities]),
        "c": np.stack([agent.state.c for agent in world.agents]),
    }
    for a in reference.possible_agents:
        result |= {f"obs {a}": obs[a], f"reward {a}": reward[a]}
        result |= {f"terminated {a}": terminated[a], f"truncated {a}": truncated[a]}
    return result


def theirs(reference, states, actions):
    """The reference's step from each state of a batch."""
    results = []
    for i in range(len(states.step)):
        load(reference, states, i)
        results.append(result_of(reference, *take_turns(reference, {a: action[i] for a, action in actions.items()})))
    return {name: np.stack([result[name] for result in results]) for name in results[0]}


def ours(env, states, actions, jit=False):
    """Our step from each state of a batch. Compiling takes longer than running, so most checks do without."""
    keys = jax.random.split(jax.random.key(0), len(states.step))
    step = jax.vmap(env.step_env)
    obs, state, reward, done, info = (jax.jit(step) if jit else step)(keys, states, actions)
    ended = info["terminated"] | info["truncated"]
    assert all(np.array_equal(done[a], ended) for a in [*env.agents, "__all__"])
    result = {"p_pos": state.p_pos, "p_vel": state.p_vel, "c": state.c}
    for a in env.agents:
        result |= {f"obs {a}": obs[a], f"reward {a}": reward[a]}
        result |= {f"terminated {a}": info["terminated"], f"truncated {a}": info["truncated"]}
    return result


def assert_same(actual, expected, atol=ATOL):
    assert actual.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(actual[name], value, rtol=0, atol=atol, err_msg=name)


def check_steps(env, reference, states, actions, jit=False):
    """Compare one step from each state; returns the reference's results."""
    expected = theirs(reference, states, actions)
    assert_same(ours(env, states, actions, jit), expected)
    return expected


def touching_pairs(env, p_pos):
    """How many pairs of agents overlap in each state."""
    agents = p_pos[:, : env.num_agents]
    dist = np.linalg.norm(agents[:, :, None] - agents[:, None], axis=-1)
    return (np.triu(dist < 2 * env.world.size[0], 1)).sum((1, 2))


@pytest.mark.parametrize("env_id", REFERENCES)
@pytest.mark.parametrize("continuous", [False, True])
def test_steps_from_random_states(env_id, continuous):
    env, reference = make_both(env_id, continuous_actions=continuous)
    rng = np.random.default_rng(0)
    states, actions = random_states(rng, env, 2000), random_actions(rng, env, 2000)
    expected = check_steps(env, reference, states, actions, jit=True)
    # The states reach what there is to compare: time limits, and contacts of one pair and of several.
    assert 0.01 < expected[f"truncated {env.agents[0]}"].mean() < 0.1
    if env_id in CROWDED:
        pairs = np.bincount(touching_pairs(env, states.p_pos))
        assert (pairs[:4] > 30).all()
    if hasattr(states, "goal"):
        assert len(np.unique(states.goal)) == env.world.num_landmarks


@pytest.mark.parametrize("env_id", REFERENCES)
@pytest.mark.parametrize("continuous", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_whole_episodes(env_id, continuous):
    """25 steps on both sides without correction, so rounding adds up.

    A contact is a stiff spring that multiplies a difference by up to 1.7 a step while it lasts, hence the wider
    tolerance.
    """
    episodes, length = 24, 25
    env, reference = make_both(env_id, continuous_actions=continuous)
    rng = np.random.default_rng(1)
    keys = jax.random.split(jax.random.key(1), episodes)
    start = jax.jit(jax.vmap(env.reset))(keys)[1]
    # Half of the episodes begin in a crowd, so that agents collide.
    start = start.replace(p_pos=start.p_pos.at[::2].multiply(0.2))
    actions = [random_actions(rng, env, episodes) for _ in range(length)]
    expected = []
    for i in range(episodes):
        load(reference, start, i)
        steps = []
        while reference.agents:
            step = reference.step({a: action[i] for a, action in actions[len(steps)].items()})
            steps.append(result_of(reference, *step[:4]))
        assert len(steps) == length
        expected.append(steps)

    step = jax.jit(jax.vmap(env.step_env))
    state = start
    for t in range(length):
        obs, state, reward, done, info = step(keys, state, actions[t])
        actual = {"p_pos": state.p_pos, "p_vel": state.p_vel}
        for a in env.agents:
            actual |= {f"obs {a}": obs[a], f"reward {a}": reward[a]}
            actual |= {f"terminated {a}": info["terminated"], f"truncated {a}": info["truncated"]}
        wanted = {name: np.stack([steps[t][name] for steps in expected]) for name in actual}
        assert_same(actual, wanted, atol=1e-4)
        assert (np.asarray(done["__all__"]) == (t == length - 1)).all()


@pytest.mark.parametrize("env_id", REFERENCES)
def test_actions_out_of_bounds_are_clipped(env_id):
    env, reference = make_both(env_id, continuous_actions=True)
    rng = np.random.default_rng(11)
    check_steps(env, reference, random_states(rng, env, COUNT), random_actions(rng, env, COUNT, OUTSIDE))


OTHER_VARIANTS = [
    pytest.param(ADVERSARY, {"N": 1}, marks=pytest.mark.slow),
    (ADVERSARY, {"N": 4}),
    pytest.param(ADVERSARY, {"max_cycles": 3}, marks=pytest.mark.slow),
    pytest.param(ADVERSARY, {"num_agent_neighbors": 1}, marks=pytest.mark.slow),
    pytest.param(ADVERSARY, {"num_landmark_neighbors": 1}, marks=pytest.mark.slow),
    (ADVERSARY, {"num_agent_neighbors": 4, "num_landmark_neighbors": 3}),
    pytest.param("MPE_simple_reference_v3", {"local_ratio": 0.0}, marks=pytest.mark.slow),
    ("MPE_simple_reference_v3", {"local_ratio": 0.2}),
    (TAG, {"num_good": 2, "num_adversaries": 2, "num_obstacles": 3}),
    (TAG, {"num_obstacles": 0}),
    pytest.param(TAG, {"num_adversaries": 12, "num_good": 3}, marks=pytest.mark.slow),
    pytest.param(TAG, {"terminate_on_success": True}, marks=pytest.mark.slow),
    (TAG, {"terminate_on_success": True, "num_good": 2}),
    pytest.param(TAG, {"num_agent_neighbors": 1}, marks=pytest.mark.slow),
    pytest.param(TAG, {"num_landmark_neighbors": 1}, marks=pytest.mark.slow),
    (TAG, {"num_agent_neighbors": 5, "num_landmark_neighbors": 3, "num_good": 2}),
    pytest.param(TAG, {"curriculum": True, "stage": 0}, marks=pytest.mark.slow),
    (TAG, {"curriculum": True, "stage": 1}),
    pytest.param(TAG, {"curriculum": True, "stage": 2}, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("env_id", "kwargs"), OTHER_VARIANTS, ids=str)
def test_keywords_of_the_other_scenarios(env_id, kwargs, monkeypatch):
    monkeypatch.delattr(BaseScenario, "curriculum_stage", raising=False)  # as for spread below
    env, reference = make_both(env_id, **kwargs)
    for a in env.agents:
        assert env.observation_space(a).shape == reference.observation_space(a).shape
    rng = np.random.default_rng(14)
    expected = check_steps(env, reference, random_states(rng, env, COUNT), random_actions(rng, env, COUNT), jit=True)
    if "terminate_on_success" in kwargs:
        assert 0.05 < expected["terminated agent_0"].mean() < 0.95


def test_secrets_are_only_in_the_observations_of_those_who_know():
    """Who does not know the goal sees the same whichever landmark it is; who knows it does not."""
    for env_id, knowing in {
        ADVERSARY: {"agent_0", "agent_1"},
        "MPE_simple_push_v3": {"agent_0"},
        "MPE_simple_speaker_listener_v4": {"speaker_0"},
        "MPE_simple_crypto_v3": {"alice_0"},
    }.items():
        env = jaxmarl_lite.make(env_id)
        _, state = env.reset(jax.random.key(0))
        first, second = (env.get_obs(state.replace(goal=jnp.int32(goal))) for goal in (0, 1))
        assert {a for a in env.agents if not np.array_equal(first[a], second[a])} == knowing


SPREAD_VARIANTS = [
    {"N": 1},
    {"N": 2},
    {"N": 5},
    {"N": 12},  # so many pairs that the physics works on matrices
    {"local_ratio": 0.0},
    {"local_ratio": 0.3},
    {"local_ratio": 1.0},
    {"max_cycles": 3},
    {"curriculum": True, "stage": 0},
    {"curriculum": True, "stage": 1},
    {"num_agent_neighbors": 1},
    {"num_landmark_neighbors": 1},
    {"num_agent_neighbors": 4, "num_landmark_neighbors": 6},
    {"N": 1, "num_agent_neighbors": 2, "num_landmark_neighbors": 2},
    {"N": 5, "num_agent_neighbors": 2, "num_landmark_neighbors": 4},
]


@pytest.mark.parametrize("kwargs", SPREAD_VARIANTS, ids=str)
def test_keywords_of_spread(kwargs, monkeypatch):
    # A setter there ignores every change of stage, so that 1.1.1 stays in stage 0; without it the documented rule acts.
    monkeypatch.delattr(BaseScenario, "curriculum_stage", raising=False)
    env, reference = make_both(SPREAD, **kwargs)
    rng = np.random.default_rng(2)
    # So many operations as 12 agents need are faster compiled.
    check_steps(env, reference, random_states(rng, env, COUNT), random_actions(rng, env, COUNT), env.num_agents > 5)


@pytest.mark.parametrize("num_agent_neighbors", [None, 1, 4])
def test_messages_in_observations(num_agent_neighbors):
    """A step zeroes the messages, so their order shows only in the observation of a state that holds some."""
    env, reference = make_both(SPREAD, num_agent_neighbors=num_agent_neighbors)
    states = random_states(np.random.default_rng(13), env, COUNT)
    world_state = jax.vmap(env.world_state)(states)
    for i in range(100):
        load(reference, states, i)
        np.testing.assert_allclose(world_state[i], reference.unwrapped.state(), rtol=0, atol=ATOL)


def test_twelve_agents_take_the_matrix_path():
    five, twelve = (jaxmarl_lite.make(SPREAD, num_agents=n).world.colliding_pairs for n in (5, 12))
    assert len(five) <= physics.UNROLL_LIMIT < len(twelve)


@pytest.mark.parametrize("num_landmarks", [1, 4])
def test_other_numbers_of_landmarks(num_landmarks):
    """The reference has no keyword for it, but its rules work for any number in its world."""
    env = jaxmarl_lite.make(SPREAD, num_landmarks=num_landmarks)
    _, reference = make_both(SPREAD)
    reference.unwrapped.world.landmarks = [core.Landmark() for _ in range(num_landmarks)]
    for landmark in reference.unwrapped.world.landmarks:
        landmark.collide = False
    rng = np.random.default_rng(3)
    check_steps(env, reference, random_states(rng, env, COUNT), random_actions(rng, env, COUNT))


def test_termination_on_success():
    env, reference = make_both(SPREAD, terminate_on_success=True)
    rng = np.random.default_rng(4)
    states = states_near_success(rng, env, COUNT)
    last = np.arange(COUNT) < 100
    states = states.replace(step=np.where(last, env.max_steps - 1, states.step).astype(np.int32))
    expected = check_steps(env, reference, states, random_actions(rng, env, COUNT))
    terminated, truncated = expected["terminated agent_0"], expected["truncated agent_0"]
    assert 0.1 < terminated.mean() < 0.9
    # In an episode's last step, success or not, the time limit is what ended it.
    assert truncated[last].all()
    assert not terminated[last].any()


def test_success_does_not_end_an_episode_by_default():
    env, reference = make_both(SPREAD)
    rng = np.random.default_rng(5)
    expected = check_steps(env, reference, states_near_success(rng, env, COUNT), random_actions(rng, env, COUNT))
    assert not expected["terminated agent_0"].any()


@pytest.mark.parametrize("continuous", [False, True])
@pytest.mark.parametrize(
    ("env_id", "kwargs"),
    [
        ("MPE_simple_v3", {}),
        (SPREAD, {}),
        (SPREAD, {"N": 5}),
        (SPREAD, {"num_agent_neighbors": 1, "num_landmark_neighbors": 5}),
    ],
)
def test_names_and_spaces(env_id, kwargs, continuous):
    env, reference = make_both(env_id, continuous_actions=continuous, **kwargs)
    assert env.agents == reference.possible_agents
    for a in env.agents:
        ours_seen, theirs_seen = env.observation_space(a), reference.observation_space(a)
        assert (ours_seen.shape, ours_seen.dtype) == (theirs_seen.shape, theirs_seen.dtype)
        assert_same_action_space(env.action_space(a), reference.action_space(a))


def assert_same_action_space(actual, expected):
    if hasattr(expected, "n"):
        assert actual.n == expected.n
    else:
        assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype)
        assert (actual.low == expected.low).all()
        assert (actual.high == expected.high).all()


@pytest.mark.parametrize("env_id", REFERENCES)
def test_initial_states_have_the_references_distribution(env_id):
    count = 2000
    env, reference = make_both(env_id)
    obs, state = jax.jit(jax.vmap(env.reset))(jax.random.split(jax.random.key(0), count))
    bodies = reference.unwrapped.world.entities
    p_pos = []
    for _ in range(count):
        reference.reset()
        p_pos.append([body.state.p_pos for body in bodies])
        assert not any(body.state.p_vel.any() for body in bodies)
    actual, expected = np.asarray(state.p_pos).reshape(count, -1), np.array(p_pos).reshape(count, -1)
    # The tolerances are about five standard errors of a uniform variable's moments and quantiles.
    for summary in (np.min, np.max):
        np.testing.assert_allclose(summary(actual, 0), summary(expected, 0), atol=0.01)
    np.testing.assert_allclose(actual.mean(0), expected.mean(0), atol=0.09)
    np.testing.assert_allclose(actual.std(0), expected.std(0), atol=0.04)
    deciles = np.linspace(0.1, 0.9, 9)
    np.testing.assert_allclose(np.quantile(actual, deciles, 0), np.quantile(expected, deciles, 0), atol=0.16)
    # No coordinate tells anything about another.
    assert np.abs(np.corrcoef(actual.T) - np.eye(actual.shape[1])).max() < 0.12
    for field in (state.p_vel, state.c, state.step, state.done):
        assert not field.any()
    for name in EXTRA_FIELDS:  # uniform over the landmarks, and independent of each other
        if hasattr(state, name):
            drawn = np.asarray(getattr(state, name)).reshape(count, -1)
            shares = np.bincount(drawn.ravel(), minlength=env.world.num_landmarks) / drawn.size
            np.testing.assert_allclose(shares, 1 / env.world.num_landmarks, atol=0.05)
            together = np.concatenate([drawn, actual], 1)
            assert np.abs(np.corrcoef(together.T) - np.eye(together.shape[1])).max() < 0.12
    if hasattr(state, "private_key"):
        assert abs(np.corrcoef(state.private_key, state.goal)[0, 1]) < 0.12
    for i in range(20):
        load(reference, state, i)
        for a in env.agents:
            np.testing.assert_allclose(obs[a][i], reference.unwrapped.observe(a), rtol=0, atol=ATOL)


# keyword -> (other keywords, value): with it something must differ from without it.
COMMON_KEYWORDS = {
    "action_type": ({}, "Continuous"),
    "continuous_actions": ({}, True),
    "max_steps": ({}, 24),
    "max_cycles": ({}, 24),
}
KEYWORDS = {
    "MPE_simple_v3": COMMON_KEYWORDS,
    "MPE_simple_crypto_v3": COMMON_KEYWORDS,
    "MPE_simple_push_v3": COMMON_KEYWORDS,
    "MPE_simple_speaker_listener_v4": COMMON_KEYWORDS,
    "MPE_simple_reference_v3": COMMON_KEYWORDS | {"local_ratio": ({}, 0.2)},
    ADVERSARY: COMMON_KEYWORDS
    | {
        "num_good_agents": ({}, 3),
        "N": ({}, 3),
        "num_agent_neighbors": ({}, 1),
        "num_landmark_neighbors": ({}, 1),
    },
    TAG: COMMON_KEYWORDS
    | {
        "num_good_agents": ({}, 2),
        "num_good": ({}, 2),
        "num_adversaries": ({}, 2),
        "num_obs": ({}, 1),
        "num_obstacles": ({}, 1),
        "terminate_on_success": ({}, True),
        "curriculum": ({}, True),
        "curriculum_stage": ({"curriculum": True}, 1),
        "num_agent_neighbors": ({}, 1),
        "num_landmark_neighbors": ({}, 1),
    },
    SPREAD: {
        "num_agents": ({}, 2),
        "N": ({}, 2),
        "num_landmarks": ({}, 2),
        "local_ratio": ({}, 0.2),
        "max_steps": ({}, 24),
        "max_cycles": ({}, 24),
        "action_type": ({}, "Continuous"),
        "continuous_actions": ({}, True),
        "terminate_on_success": ({}, True),
        "curriculum": ({}, True),
        "curriculum_stage": ({"curriculum": True}, 1),
        "num_agent_neighbors": ({}, 1),
        "num_landmark_neighbors": ({}, 1),
    },
}


def outputs(env):
    """What comes out of one step from states with contacts, successes and time limits."""
    rng = np.random.default_rng(6)
    near = isinstance(env, SimpleSpreadMPE) and env.num_agents == env.world.num_landmarks
    make_states = states_near_success if near else random_states
    states = make_states(rng, env, COUNT, max_steps=25)
    return ours(env, states, random_actions(rng, env, COUNT))


@pytest.mark.parametrize(
    ("env_id", "keyword"),
    [
        # What all scenarios share is shown in CI by spread.
        pytest.param(env_id, k, marks=[pytest.mark.slow] if k in COMMON_KEYWORDS and env_id != SPREAD else [])
        for env_id in KEYWORDS
        for k in KEYWORDS[env_id]
    ],
)
def test_each_keyword_changes_some_output(env_id, keyword):
    others, value = KEYWORDS[env_id][keyword]
    without, given = (outputs(jaxmarl_lite.make(env_id, **others, **more)) for more in ({}, {keyword: value}))
    assert without.keys() != given.keys() or any(not np.array_equal(without[k], given[k]) for k in given)


@pytest.mark.parametrize("env_id", KEYWORDS)
def test_no_keyword_is_forgotten(env_id):
    assert set(inspect.signature(type(jaxmarl_lite.make(env_id))).parameters) == set(KEYWORDS[env_id])


# The physics itself, on worlds that no scenario above builds.


class Bodies(BaseScenario):
    """A reference scenario with the bodies of one of our worlds, without a task."""

    def __init__(self, world):
        self.ours = world

    def make_world(self):
        spec, world = self.ours, core.World()
        for name in ("dim_c", "dt", "damping", "contact_force", "contact_margin"):
            setattr(world, name, getattr(spec, name))
        world.agents = [core.Agent() for _ in range(spec.num_agents)]
        world.landmarks = [core.Landmark() for _ in range(spec.num_landmarks)]
        for i, body in enumerate(world.entities):
            body.name = f"agent_{i}"
            body.initial_mass = spec.mass[i]
            for name in ("size", "movable", "collide", "max_speed"):
                setattr(body, name, getattr(spec, name)[i])
        for i, agent in enumerate(world.agents):
            for name in ("accel", "silent", "u_noise", "c_noise"):
                setattr(agent, name, getattr(spec, name)[i])
        return world

    def reset_world(self, world, np_random):
        for body in world.entities:
            body.state.p_pos, body.state.p_vel = np.zeros(2), np.zeros(2)
        for agent in world.agents:
            agent.state.c = np.zeros(world.dim_c)

    def observation(self, agent, world):
        return agent.state.p_vel

    def reward(self, agent, world):
        return 0.0


class Probe(MPE):
    """The same for ours."""

    def __init__(self, world, action_type):
        names = [f"agent_{i}" for i in range(world.num_agents)]
        super().__init__(world, names, [2] * len(names), action_type, None, None, None, [])

    def get_obs(self, state):
        return {a: state.p_vel[i] for i, a in enumerate(self.agents)}

    def rewards(self, state):
        return {a: jnp.float32(0) for a in self.agents}


def both_worlds(world, action_type):
    """Our probe of a world, and the reference's."""

    def reference(**kwargs):
        scenario = Bodies(world)
        return SimpleEnv(scenario, scenario.make_world(), max_cycles=25, **kwargs)

    env = parallel_wrapper_fn(make_env(reference))(continuous_actions=action_type == "Continuous")
    env.reset(seed=0)
    return Probe(world, action_type), env


def mixed_world(rng, **kwargs):
    """Each kind of agent (movable or not, speaking or not) and of landmark, with random numbers."""
    agents, landmarks = 4, 3
    bodies = agents + landmarks
    return physics.World(
        num_agents=agents,
        num_landmarks=landmarks,
        movable=(True, True, False, False, True, False, True),
        silent=(True, False, True, False),
        collide=(True, True, True, bool(rng.integers(2)), True, True, False),
        size=rng.uniform(0.05, 0.4, bodies).tolist(),
        mass=rng.uniform(0.4, 3.0, bodies).tolist(),
        max_speed=[None if rng.integers(2) else top for top in rng.uniform(0.2, 1.2, bodies).tolist()],
        accel=[None if rng.integers(2) else force for force in rng.uniform(1, 7, agents).tolist()],
        dim_c=3,
        **kwargs,
    )


@pytest.mark.parametrize("action_type", ["Discrete", "Continuous"])
@pytest.mark.parametrize("seed", range(3))
def test_mixed_worlds(seed, action_type):
    rng = np.random.default_rng(seed)
    constants = {} if seed == 0 else {"dt": 0.07, "damping": 0.1, "contact_force": 40.0, "contact_margin": 0.02}
    env, reference = both_worlds(mixed_world(rng, **constants), action_type)
    for a in env.agents:
        assert_same_action_space(env.action_space(a), reference.action_space(a))
    expected = check_steps(env, reference, random_states(rng, env, COUNT), random_actions(rng, env, COUNT, OUTSIDE))
    speaks = ~np.array(env.world.silent)
    assert np.array_equal(expected["c"].any((0, 2)), speaks)


def test_mixed_world_on_matrices(monkeypatch):
    monkeypatch.setattr(physics, "UNROLL_LIMIT", 2)
    rng = np.random.default_rng(7)
    env, reference = both_worlds(mixed_world(rng), "Discrete")
    check_steps(env, reference, random_states(rng, env, COUNT), random_actions(rng, env, COUNT))


def test_top_speed_holds_and_zero_means_standing_still():
    world = physics.World(num_agents=3, num_landmarks=0, max_speed=(0.0, 0.5, None), collide=(False,) * 3)
    env, reference = both_worlds(world, "Discrete")
    rng = np.random.default_rng(8)
    expected = check_steps(env, reference, random_states(rng, env, COUNT), random_actions(rng, env, COUNT))
    speed = np.linalg.norm(expected["p_vel"], axis=-1).max(0)
    assert speed[0] == 0
    assert speed[1] == pytest.approx(0.5)
    assert speed[2] > 0.6


def test_noise_has_the_references_moments():
    """The two draw from different generators, so the deviations from the noiseless step are compared as samples."""
    bodies = {
        "num_agents": 4,
        "num_landmarks": 0,
        "mass": (2.0, 0.5, 1.0, 1.0),
        "movable": (True, True, True, False),
        "collide": (False,) * 4,
        "silent": (False, False, True, False),
        "dim_c": 2,
    }
    noise = {"u_noise": (0.5, 0.0, 0.3, 0.2), "c_noise": (0.2, 0.0, 0.4, 0.1)}
    count = 2000
    env, reference = both_worlds(physics.World(**bodies, **noise), "Continuous")
    quiet = Probe(physics.World(**bodies), "Continuous")
    rng = np.random.default_rng(9)
    one = jax.tree.map(lambda x: np.repeat(x[:1], count, 0), random_states(rng, env, 1))
    actions = {a: np.repeat(x, count, 0) for a, x in random_actions(rng, env, 1).items()}
    without, noisy = (ours(e, one, actions, jit=True) for e in (quiet, env))
    np.random.seed(10)  # the reference's noise comes from the global generator
    deviations = [
        {name: result[name] - without[name] for name in ("p_pos", "p_vel", "c")}
        for result in (noisy, theirs(reference, one, actions))
    ]
    wanted = {
        "p_pos": np.zeros((4, 2)),
        "p_vel": np.array([0.5 * 0.1 / 2.0, 0.0, 0.3 * 0.1, 0.0])[:, None] * np.ones(2),
        "c": np.array([0.2, 0.0, 0.0, 0.1])[:, None] * np.ones(2),
    }
    for deviation in deviations:
        for name, std in wanted.items():
            # Five standard errors.
            np.testing.assert_allclose(deviation[name].std(0), std, rtol=0.08, atol=ATOL, err_msg=name)
            assert (np.abs(deviation[name].mean(0)) <= 5 * std / np.sqrt(count) + ATOL).all()
    # A silent agent's message stays exactly zero, and no two noises are the same numbers.
    assert not noisy["c"][:, 2].any()
    moving = np.concatenate([deviations[0][name].reshape(count, -1) for name in ("p_vel", "c")], 1)
    moving = moving[:, np.concatenate([wanted["p_vel"].ravel(), wanted["c"].ravel()]) > 0]
    assert np.abs(np.corrcoef(moving.T) - np.eye(moving.shape[1])).max() < 0.12


def test_bodies_on_one_spot_stay_finite():
    """The one deliberate difference: the reference divides zero by zero here."""
    env = jaxmarl_lite.make(SPREAD)
    states = random_states(np.random.default_rng(12), env, COUNT)
    states = jax.tree.map(np.zeros_like, states)
    result = ours(env, states, {a: np.zeros(COUNT, int) for a in env.agents})
    assert not result["p_vel"].any()
    assert all((result[f"reward {a}"] == -1).all() and jnp.isfinite(result[f"obs {a}"]).all() for a in env.agents)


@pytest.mark.parametrize(
    ("field", "entries"), [("size", 3), ("mass", 3), ("max_speed", 3), ("accel", 2), ("silent", 2)]
)
def test_a_world_of_wrong_lengths_is_refused(field, entries):
    with pytest.raises(ValueError, match=f"{field} must have {entries} entries, got 7"):
        physics.World(num_agents=2, num_landmarks=1, **{field: (1,) * 7})
