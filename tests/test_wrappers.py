"""LogWrapper and BatchWrapper, on small environments whose numbers are known, and on simple spread."""

import copy
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import struct

import jaxmarl_lite
from jaxmarl_lite.environments import MultiAgentEnv, State
from jaxmarl_lite.environments.spaces import Box, Discrete, MultiDiscrete
from jaxmarl_lite.wrappers import BatchWrapper, LogWrapper
from jaxmarl_lite.wrappers.batch import cond_any


@struct.dataclass
class TagState(State):
    tag: jax.Array  # () float32, tells instances and episodes apart
    length: jax.Array  # () int32, steps of this episode


class Tagged(MultiAgentEnv):
    """Agent a sees `10 * tag + a` once per entry, and is paid `tag + a + action`; episodes last 2 to 5 steps."""

    def __init__(self, observation_sizes=(1, 1), action_sizes=(3, 3), continuous=False):
        self.agents = [f"agent_{i}" for i in range(len(observation_sizes))]
        self.max_steps = 5
        self.observation_spaces = {
            a: Box(-np.inf, np.inf, (n,)) for a, n in zip(self.agents, observation_sizes, strict=True)
        }
        self.action_spaces = {
            a: Box(0.0, 1.0, (n,)) if continuous else Discrete(n)
            for a, n in zip(self.agents, action_sizes, strict=True)
        }

    def reset(self, key):
        u = jax.random.uniform(key, (2,))
        tag = jax.lax.cbrt(u[0])  # appears nowhere else, so it shows where a program computes resets
        length = 2 + jnp.int32(4 * u[1])
        state = TagState(step=jnp.int32(0), done=jnp.array(False), tag=tag, length=length)
        return self.get_obs(state), state

    def get_obs(self, state):
        return {a: jnp.full(self.observation_spaces[a].shape, 10.0 * state.tag + i) for i, a in enumerate(self.agents)}

    def step_env(self, key, state, actions):
        self.check_actions(actions)
        step = state.step + 1
        done = step >= state.length
        reward = {a: state.tag + i + jnp.sum(actions[a]) for i, a in enumerate(self.agents)}
        state = state.replace(step=step, done=done)
        info = {"terminated": done, "truncated": jnp.array(False)}
        return self.get_obs(state), state, reward, dict.fromkeys([*self.agents, "__all__"], done), info

    def get_avail_actions(self, state):
        return {a: jnp.arange(s.n) <= state.step for a, s in self.action_spaces.items()}

    def world_state(self, state):
        return jnp.stack([state.tag, state.step.astype(jnp.float32)])


def assert_equal(actual, expected, atol=1e-5):
    assert jax.tree.structure(actual) == jax.tree.structure(expected)
    for x, y in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-6, atol=atol)


def row(tree, i):
    return jax.tree.map(lambda x: np.asarray(x)[i], tree)


def tagged_states(lengths, steps):
    """Instance e has tag e."""
    n = len(lengths)
    return TagState(
        step=jnp.array(steps, jnp.int32),
        done=jnp.zeros(n, bool),
        tag=jnp.arange(n, dtype=jnp.float32),
        length=jnp.array(lengths, jnp.int32),
    )


# LogWrapper.


@pytest.mark.parametrize(
    "make_env", [Tagged, lambda: jaxmarl_lite.make("MPE_simple_spread_v3", num_agents=2, max_steps=4)]
)
def test_log_wrapper_sums_what_a_python_loop_sums(make_env):
    env = LogWrapper(make_env())
    key = jax.random.key(0)
    _, state = env.reset(key)
    returns, length, episodes = np.zeros(env.num_agents), 0, []
    while len(episodes) < 4:
        key, key_step, key_action = jax.random.split(key, 3)
        actions = {a: env.action_space(a).sample(key_action) for a in env.agents}
        _, state, reward, done, info = env.step(key_step, state, actions)
        returns += [reward[a] for a in env.agents]
        length += 1
        ended = bool(done["__all__"])
        assert info["returned_episode"] == ended
        if ended:
            np.testing.assert_allclose(info["returned_episode_returns"], returns, rtol=1e-5)
            assert info["returned_episode_lengths"] == length
            episodes.append(length)
            returns, length = np.zeros(env.num_agents), 0
        else:
            assert not info["returned_episode_returns"].any()
            assert info["returned_episode_lengths"] == 0
            np.testing.assert_allclose(state.episode_returns, returns, rtol=1e-5)
            assert state.episode_lengths == length


def test_log_wrapper_counts_each_row_of_a_batch_apart():
    batch = BatchWrapper(LogWrapper(Tagged()), 3)
    step = jax.jit(batch.step)
    _, state = batch.reset(jax.random.key(1))
    state = state.replace(env_state=tagged_states(lengths=[2, 3, 5], steps=[0, 0, 0]))
    actions = jnp.array([[0, 1], [1, 1], [2, 0]])
    per_step = np.arange(3)[:, None] + np.arange(2) + np.asarray(actions)
    for t, ending in ((1, []), (2, [0]), (3, [1])):
        _, state, reward, done, info = step(jax.random.key(t), state, actions)
        # Row 0 is in its second episode, with another tag, from t = 3 on.
        np.testing.assert_allclose(reward[1:], per_step[1:])
        assert np.flatnonzero(done).tolist() == ending
        assert np.flatnonzero(info["returned_episode"]).tolist() == ending
        expected = np.where(np.isin(np.arange(3), ending)[:, None], per_step * t, 0)
        np.testing.assert_allclose(info["returned_episode_returns"], expected, rtol=1e-6)
        np.testing.assert_array_equal(info["returned_episode_lengths"], np.where(expected.any(1), t, 0))
    np.testing.assert_array_equal(state.episode_lengths, [1, 0, 3])


def test_log_wrapper_counts_anew_after_an_end_that_nothing_resets():
    env = LogWrapper(Tagged())
    _, state = env.reset(jax.random.key(3))
    state = state.replace(env_state=row(tagged_states(lengths=[2], steps=[0]), 0))
    for length, counted in ((1, 1), (2, 0)):
        _, state, reward, done, info = env.step_env(jax.random.key(4), state, dict.fromkeys(env.agents, 1))
        np.testing.assert_array_equal(state.episode_returns, counted * np.array([reward[a] for a in env.agents]))
        assert state.episode_lengths == counted
        assert info["returned_episode"] == done["__all__"] == (length == 2)


def test_log_wrapper_is_otherwise_the_environment():
    inner = jaxmarl_lite.make("MPE_simple_spread_v3", num_agents=2, max_steps=2)
    env = LogWrapper(inner)
    for name in ("agents", "num_agents", "name", "max_steps", "action_type", "world"):
        assert getattr(env, name) == getattr(inner, name)
    for a in env.agents:
        assert env.observation_space(a) == inner.observation_space(a)
        assert env.action_space(a) == inner.action_space(a)
    key = jax.random.key(2)
    obs, state = env.reset(key)
    assert_equal((obs, state.env_state), inner.reset(key))
    assert (state.step, state.done) == (0, False)
    assert_equal(env.get_obs(state), obs)
    assert_equal(env.world_state(state), inner.world_state(state.env_state))
    assert_equal(env.get_avail_actions(state), inner.get_avail_actions(state.env_state))
    assert np.array_equal(env.render(state), inner.render(state.env_state))
    actions = dict.fromkeys(env.agents, 1)
    for _ in range(2):
        obs, next_state, reward, done, info = env.step(key, state, actions)
        expected = inner.step(key, state.env_state, actions)
        assert_equal((obs, next_state.env_state, reward, done), expected[:4])
        assert_equal({name: info[name] for name in expected[4]}, expected[4])
        state = next_state
    with pytest.raises(AttributeError, match="no_such_name"):
        env.no_such_name  # noqa: B018
    for clone in (copy.deepcopy(env), pickle.loads(pickle.dumps(env))):
        assert clone.agents == env.agents


def test_log_wrapper_shows_what_an_environment_overrides():
    class Custom(Tagged):
        name = "Custom name"
        agent_classes = {"first": ["agent_0"], "second": ["agent_1"]}  # noqa: RUF012
        return_anchors = (-2.0, 3.0)

    env = LogWrapper(Custom())
    for name in ("name", "agent_classes", "return_anchors"):
        assert getattr(env, name) == getattr(Custom, name)


# BatchWrapper.


def test_rows_of_all_arrays_belong_together():
    """Three environments, two agents: obs = 10 * env + agent, world state = env."""
    batch = BatchWrapper(Tagged(), 3)
    state = tagged_states(lengths=[5, 1, 5], steps=[0, 0, 1])
    actions = jnp.array([[0, 1], [2, 0], [1, 2]])
    obs, next_state, reward, done, info = jax.jit(batch.step)(jax.random.key(0), state, actions)
    expected = 10.0 * np.arange(3)[:, None] + np.arange(2)
    np.testing.assert_array_equal(info["final_obs"][..., 0], expected)
    np.testing.assert_array_equal(obs[[0, 2], :, 0], expected[[0, 2]])
    np.testing.assert_array_equal(reward, np.arange(3)[:, None] + np.arange(2) + np.asarray(actions))
    np.testing.assert_array_equal(done, [False, True, False])
    np.testing.assert_array_equal(info["terminated"], done)
    np.testing.assert_array_equal(batch.world_state(state), [[0, 0], [1, 0], [2, 1]])
    assert obs.shape == (3, 2, *batch.obs_shape) == (3, 2, 1)
    assert obs.dtype == reward.dtype == jnp.float32
    assert next_state.step.tolist() == [1, 0, 2]


def test_to_dict_and_to_array_are_inverses():
    batch = BatchWrapper(Tagged(), 3)
    for shape in ((3, 2), (3, 2, 4), (3, 2, 4, 5)):
        x = jnp.arange(np.prod(shape)).reshape(shape)
        assert np.array_equal(batch.to_array(batch.to_dict(x)), x)
        by_agent = batch.to_dict(x)
        assert list(by_agent) == batch.agents
        assert np.array_equal(by_agent["agent_1"], x[:, 1])
        assert_equal(batch.to_dict(batch.to_array(by_agent)), by_agent)


def test_only_finished_rows_start_anew():
    batch = BatchWrapper(Tagged(), 6)
    lengths, steps = [5, 2, 5, 2, 5, 2], [0, 1, 1, 1, 2, 1]
    state = tagged_states(lengths, steps)
    actions = jnp.zeros((6, 2), jnp.int32)
    obs, next_state, _, done, info = jax.jit(batch.step)(jax.random.key(3), state, actions)
    ended = np.array([False, True] * 3)
    np.testing.assert_array_equal(done, ended)
    # Rows that go on: as the environment left them. The others: at a start that is theirs alone.
    np.testing.assert_array_equal(next_state.tag[~ended], state.tag[~ended])
    np.testing.assert_array_equal(next_state.step, np.where(ended, 0, np.array(steps) + 1))
    np.testing.assert_array_equal(next_state.length[~ended], state.length[~ended])
    assert not next_state.done.any()
    assert len({*next_state.tag[ended].tolist(), *state.tag.tolist()}) == 9
    np.testing.assert_array_equal(obs[~ended], info["final_obs"][~ended])
    np.testing.assert_allclose(obs[:, 0, 0], 10 * next_state.tag, rtol=1e-6)
    np.testing.assert_array_equal(info["final_obs"][:, 0, 0], 10 * state.tag)
    # Another key leads to other starts.
    _, other, *_ = jax.jit(batch.step)(jax.random.key(4), state, actions)
    assert (other.tag != next_state.tag)[ended].all()


def test_instances_and_steps_draw_different_noise():
    class Noisy(Tagged):
        def step_env(self, key, state, actions):
            obs, state, reward, done, info = super().step_env(key, state, actions)
            return obs, state, {a: jax.random.uniform(key) for a in reward}, done, info

    batch = BatchWrapper(LogWrapper(Noisy()), 4)
    _, state = batch.reset(jax.random.key(0))
    step = jax.jit(batch.step)
    draws = [step(jax.random.key(seed), state, jnp.zeros((4, 2), jnp.int32))[2][:, 0] for seed in (1, 1, 2)]
    assert np.array_equal(draws[0], draws[1])
    assert len(set(np.concatenate([draws[0], draws[2]]).tolist())) == 8


def test_a_batch_equals_instances_one_by_one():
    env = jaxmarl_lite.make("MPE_simple_spread_v3", num_agents=2, max_steps=4)
    batch, num_envs = BatchWrapper(env, 5), 5
    step, step_env, get_obs = jax.jit(batch.step), jax.jit(env.step_env), jax.jit(jax.vmap(env.get_obs))
    obs, state = batch.reset(jax.random.key(5))
    state = state.replace(step=jnp.arange(num_envs, dtype=jnp.int32) % 3)
    episodes = 0
    for t in range(6):
        key_step, key_action = jax.random.split(jax.random.key(6 + t))
        keys = jax.random.split(key_action, (num_envs, env.num_agents))
        actions = jax.vmap(jax.vmap(env.action_space("agent_0").sample))(keys)
        obs, next_state, reward, done, info = step(key_step, state, actions)
        actions = np.asarray(actions)
        for e in range(num_envs):
            one = step_env(key_step, row(state, e), {a: actions[e, i] for i, a in enumerate(env.agents)})
            for i, a in enumerate(env.agents):
                np.testing.assert_allclose(info["final_obs"][e, i], one[0][a], rtol=1e-6, atol=1e-5)
                np.testing.assert_allclose(reward[e, i], one[2][a], rtol=1e-6, atol=1e-5)
            assert done[e] == one[3]["__all__"]
            assert info["truncated"][e] == one[4]["truncated"]
            if done[e]:
                assert next_state.step[e] == 0
                assert not next_state.p_vel[e].any()
                assert not np.allclose(next_state.p_pos[e], one[1].p_pos)
                episodes += 1
            else:
                assert_equal(row(next_state, e), one[1])
        assert_equal(obs, batch.to_array(get_obs(next_state)))
        state = next_state
    assert episodes >= num_envs


def test_unequal_observations_are_padded_and_agent_ids_appended():
    env = Tagged(observation_sizes=(1, 3), action_sizes=(2, 4))
    state = tagged_states(lengths=[5, 5], steps=[0, 0])
    actions = jnp.zeros((2, 2), jnp.int32)
    plain, ids = BatchWrapper(env, 2), BatchWrapper(env, 2, agent_ids=True)
    assert (plain.obs_shape, ids.obs_shape) == ((3,), (5,))
    obs, _, _, _, info = plain.step(jax.random.key(0), state, actions)
    expected = np.array([[[0, 0, 0], [1, 1, 1]], [[10, 0, 0], [11, 11, 11]]])
    np.testing.assert_array_equal(obs, expected)
    np.testing.assert_array_equal(info["final_obs"], expected)
    obs, _, _, _, info = ids.step(jax.random.key(0), state, actions)
    with_ids = np.concatenate([expected, np.broadcast_to(np.eye(2), (2, 2, 2))], -1)
    np.testing.assert_array_equal(obs, with_ids)
    np.testing.assert_array_equal(info["final_obs"], with_ids)
    np.testing.assert_array_equal(ids.reset(jax.random.key(0))[0][..., 3:], np.broadcast_to(np.eye(2), (2, 2, 2)))


def test_unequal_action_counts_are_masked():
    batch = BatchWrapper(Tagged(action_sizes=(2, 4)), 3)
    assert (batch.num_actions, batch.action_size) == (4, None)
    avail = batch.get_avail_actions(tagged_states(lengths=[9] * 3, steps=[0, 2, 5]))
    assert avail.dtype == bool
    expected = [[[1, 0, 0, 0], [1, 0, 0, 0]], [[1, 1, 0, 0], [1, 1, 1, 0]], [[1, 1, 0, 0], [1, 1, 1, 1]]]
    np.testing.assert_array_equal(avail, np.array(expected, bool))


def test_unequal_continuous_actions_are_cut_to_each_agents_length():
    batch = BatchWrapper(Tagged(action_sizes=(1, 3), continuous=True), 2)
    assert (batch.num_actions, batch.action_size) == (None, 3)
    actions = jnp.array([[[0.5, 9, 9], [0.1, 0.2, 0.3]], [[0.25, 9, 9], [1, 1, 1]]])
    _, _, reward, _, _ = batch.step(jax.random.key(0), tagged_states([5, 5], [0, 0]), actions)
    np.testing.assert_allclose(reward, [[0.5, 1 + 0.6], [1.25, 2 + 3]], rtol=1e-6)
    with pytest.raises(ValueError, match="get_avail_actions needs Discrete action spaces, got Box"):
        batch.get_avail_actions(tagged_states([5, 5], [0, 0]))


def test_images_pass_unpadded():
    env = Tagged()
    env.observation_spaces = dict.fromkeys(env.agents, Box(-np.inf, np.inf, (4, 3)))
    batch = BatchWrapper(env, 2)
    obs, _ = batch.reset(jax.random.key(0))
    assert obs.shape == (2, 2, *batch.obs_shape) == (2, 2, 4, 3)
    with pytest.raises(ValueError, match="Observations must be vectors to be padded or given agent ids, got shapes"):
        BatchWrapper(env, 2, agent_ids=True)


def test_seeds_under_vmap_equal_a_loop_over_seeds():
    """Their episodes end at different steps, so that in some steps one seed resets and another does not."""
    batch = BatchWrapper(LogWrapper(Tagged()), 2)

    def rollout(key):
        key_reset, key_actions, key_steps = jax.random.split(key, 3)
        actions = jax.random.randint(key_actions, (7, 2, batch.num_agents), 0, batch.num_actions)

        def step(state, inputs):
            obs, state, *results = batch.step(inputs[0], state, inputs[1])
            return state, (obs, *results)

        return jax.lax.scan(step, batch.reset(key_reset)[1], (jax.random.split(key_steps, 7), actions))

    keys = jax.random.split(jax.random.key(7), 3)
    together = jax.jit(jax.vmap(rollout))(keys)
    done = np.asarray(together[1][2])  # (seeds, T, E)
    resets = done.any(-1)
    assert (resets.any(0) & ~resets.all(0)).any()
    alone = jax.jit(rollout)
    for i in range(3):
        assert_equal(row(together, i), alone(keys[i]))


def primitives(jaxpr, inside_cond=False):
    """(name, equation, whether inside a cond) of each operation, however deep."""
    for equation in jaxpr.eqns:
        yield equation.primitive.name, equation, inside_cond
        for value in equation.params.values():
            for item in value if isinstance(value, (tuple, list)) else [value]:
                inner = getattr(item, "jaxpr", item)
                if hasattr(inner, "eqns"):
                    yield from primitives(inner, inside_cond or equation.primitive.name == "cond")


@pytest.mark.parametrize("over_seeds", [0, 1, 2])
def test_resets_stay_behind_one_scalar_condition_under_vmap(over_seeds):
    """A plain `lax.cond` would become a select, which computes the resets in every step."""
    batch = BatchWrapper(LogWrapper(Tagged()), 4)
    step = batch.step
    _, state = batch.reset(jax.random.key(0))
    args = (jax.random.key(1), state, jnp.zeros((4, 2), jnp.int32))
    for n in range(over_seeds):
        step = jax.vmap(step)
        args = jax.tree.map(lambda x, n=n: jnp.stack([x] * (n + 2)), args)
    found = list(primitives(jax.make_jaxpr(step)(*args).jaxpr))
    conditions = [equation for name, equation, _ in found if name == "cond"]
    assert len(conditions) == 1
    assert conditions[0].invars[0].aval.shape == ()
    assert [inside for name, _, inside in found if name == "cbrt"] == [True]


def test_cond_any_takes_one_branch_for_the_whole_batch():
    def do(needed, x, offset):
        return {"y": jnp.where(needed, x + offset, x)}

    def skip(needed, x, offset):
        return {"y": x}

    def call(needed, x, offset):
        return cond_any(needed, do, skip, needed, x, offset)

    x = jnp.arange(3.0)
    for needed in ([False, False, False], [False, True, False], [True, True, True]):
        expected = x + 10 * np.array(needed)
        np.testing.assert_array_equal(call(jnp.array(needed), x, 10.0)["y"], expected)
        # Mapped over some operands only, and over the mask only.
        np.testing.assert_array_equal(
            jax.jit(jax.vmap(call, in_axes=(0, 0, None)))(jnp.array(needed), x, 10.0)["y"], expected
        )
        np.testing.assert_array_equal(
            jax.vmap(call, in_axes=(0, None, None))(jnp.array(needed), 1.0, 10.0)["y"], 1 + 10 * np.array(needed)
        )
        np.testing.assert_array_equal(
            jax.vmap(call, in_axes=(None, 0, None))(jnp.array(needed[1]), x, 10.0)["y"], x + 10 * needed[1]
        )


@pytest.mark.parametrize("num_envs", [0, -1, 1.5, True, "2", None])
def test_bad_numbers_of_environments(num_envs):
    with pytest.raises(ValueError, match=f"num_envs must be an integer >= 1, got {num_envs!r}"):
        BatchWrapper(Tagged(), num_envs)


@pytest.mark.parametrize("shape", [(3,), (3, 1), (2, 3), (4, 2), (3, 2, 1), ()])
def test_actions_of_the_wrong_shape(shape):
    batch = BatchWrapper(Tagged(), 3)
    with pytest.raises(ValueError, match=r"actions must have shape \(3, 2\), got") as error:
        batch.step(jax.random.key(0), tagged_states([5] * 3, [0] * 3), jnp.zeros(shape, jnp.int32))
    assert str(error.value).endswith(f"got {shape}.")


def test_continuous_actions_of_the_wrong_shape():
    batch = BatchWrapper(Tagged(continuous=True), 3)
    with pytest.raises(ValueError, match=r"actions must have shape \(3, 2, 3\), got \(3, 2\)"):
        batch.step(jax.random.key(0), tagged_states([5] * 3, [0] * 3), jnp.zeros((3, 2)))


@pytest.mark.parametrize("space", [MultiDiscrete([2, 2]), Box(0.0, 1.0, (2, 2)), Box(0.0, 1.0, (3,))], ids=repr)
def test_action_spaces_that_one_array_cannot_hold(space):
    env = Tagged()
    env.action_spaces["agent_1"] = space
    with pytest.raises(ValueError, match="Action spaces must be all Discrete or all one-dimensional Box, got"):
        BatchWrapper(env, 2)
