"""What every registered environment promises, and what happens with bad input."""

import functools
import inspect
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmarl_lite
from jaxmarl_lite import registration
from jaxmarl_lite.environments import MultiAgentEnv, State
from jaxmarl_lite.environments.spaces import Box, Discrete

SPREAD = "MPE_simple_spread_v3"
LIMIT = 3  # steps in an episode of most tests


def parameters_of(env_id):
    return inspect.signature(type(jaxmarl_lite.make(env_id))).parameters


def cases():
    """Each registered environment, with each kind of action where there is a choice."""
    for env_id in jaxmarl_lite.registered_envs():
        kinds = ("Discrete", "Continuous") if "action_type" in parameters_of(env_id) else (None,)
        for kind in kinds:
            # Continuous actions differ from discrete ones in the shared decoding only: two scenarios show it in CI.
            marks = [pytest.mark.slow] if kind == "Continuous" and env_id not in ("MPE_simple_v3", SPREAD) else []
            yield pytest.param(env_id, kind, id=f"{env_id}-{kind}", marks=marks)


every_env = pytest.mark.parametrize(("env_id", "action_type"), list(cases()))


@functools.cache  # one object per case, so that its compiled step is shared
def make(env_id, action_type, max_steps=LIMIT):
    wanted = {"action_type": action_type, "max_steps": max_steps}
    env = jaxmarl_lite.make(env_id, **{k: v for k, v in wanted.items() if v and k in parameters_of(env_id)})
    # Compiled once, for all tests; one operation after the other would take most of the suite's time.
    env.reset, env.get_obs, env.world_state = (jax.jit(f) for f in (env.reset, env.get_obs, env.world_state))
    return env


def sample_actions(env, key):
    keys = jax.random.split(key, env.num_agents)
    return {a: env.action_space(a).sample(k) for a, k in zip(env.agents, keys, strict=True)}


def assert_equal(actual, expected, atol=1e-6):
    """Same tree, same numbers up to what another fusion of the same operations rounds."""
    assert jax.tree.structure(actual) == jax.tree.structure(expected)
    for x, y in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-6, atol=atol)


def differ(x, y):
    return any(not np.array_equal(a, b) for a, b in zip(jax.tree.leaves(x), jax.tree.leaves(y), strict=True))


@every_env
def test_outputs_match_the_spaces(env_id, action_type):
    env = make(env_id, action_type)
    assert len(set(env.agents)) == env.num_agents == len(env.agents)
    key = jax.random.key(0)
    obs, state = env.reset(key)
    actions = sample_actions(env, key)
    next_obs, _, reward, done, info = env.step(key, state, actions)
    assert isinstance(state, State)
    assert set(reward) == set(env.agents)
    assert set(done) == {*env.agents, "__all__"}
    for a in env.agents:
        assert env.action_space(a).contains(actions[a])
        space = env.observation_space(a)
        for seen in (obs, next_obs, info["final_obs"], env.get_obs(state)):
            assert set(seen) == set(env.agents)
            assert seen[a].shape == space.shape
            assert seen[a].dtype == space.dtype == jnp.float32
            assert space.contains(seen[a])
        assert (reward[a].shape, reward[a].dtype) == ((), jnp.float32)
    for flag in [*done.values(), info["terminated"], info["truncated"]]:
        assert (flag.shape, flag.dtype) == ((), bool)


@every_env
def test_jit_changes_nothing(env_id, action_type):
    env = make(env_id, action_type)
    key = jax.random.key(1)
    obs, state = env.reset(key)
    actions = sample_actions(env, key)
    with jax.disable_jit():
        plain = env.step(key, state, actions)
    assert_equal(env.step(key, state, actions), plain)
    assert_equal(jax.jit(env.reset)(key), (obs, state))


@every_env
def test_vmap_equals_a_loop(env_id, action_type):
    env = make(env_id, action_type)
    keys = jax.random.split(jax.random.key(2), 4)
    obs, states = jax.jit(jax.vmap(env.reset))(keys)
    states = states.replace(step=jnp.array([0, 1, LIMIT - 1, LIMIT - 1], states.step.dtype))  # some episodes end
    actions = jax.vmap(functools.partial(sample_actions, env))(keys)
    batch = jax.vmap(env.step)(keys, states, actions)
    for i in range(4):
        one = functools.partial(jax.tree.map, lambda x, i=i: x[i])
        assert_equal(one(obs), env.reset(keys[i])[0])
        assert_equal(one(batch), env.step(keys[i], one(states), one(actions)))


@every_env
def test_episodes_start_anew_exactly_at_their_end(env_id, action_type):
    env = make(env_id, action_type)
    step_env = jax.jit(env.step_env)
    key = jax.random.key(3)
    obs, state = env.reset(key)
    starts = [(obs, state)]  # with the state: some scenarios' first observations take few values
    while len(starts) < 4:
        for t in range(1, env.max_steps + 1):
            assert state.step == t - 1
            assert not state.done
            key, key_step, key_action = jax.random.split(key, 3)
            actions = sample_actions(env, key_action)
            key_env, key_reset = jax.random.split(key_step)  # as `step` splits it
            final_obs, final_state, *results, final_info = step_env(key_env, state, actions)
            obs, state, reward, done, info = env.step(key_step, state, actions)
            assert_equal(info, final_info | {"final_obs": final_obs})
            assert_equal([reward, done], results)
            ended = bool(done["__all__"])
            assert ended == final_state.done == (info["terminated"] | info["truncated"])
            assert not (info["terminated"] & info["truncated"])
            assert info["truncated"] == (t == env.max_steps)
            if ended:
                break
            assert_equal((obs, state), (final_obs, final_state))
        assert ended
        assert_equal((obs, state), env.reset(key_reset))
        assert_equal(obs, env.get_obs(state))
        assert all(differ((obs, state), earlier) for earlier in [*starts, (final_obs, final_state)])
        starts.append((obs, state))


@every_env
def test_reset_state_is_where_an_ended_episode_goes(env_id, action_type):
    env = make(env_id, action_type)
    key = jax.random.key(4)
    _, state = env.reset(key)
    _, target = env.reset(jax.random.key(5))
    actions = sample_actions(env, key)
    running = env.step(key, state, actions, target)
    assert_equal(running, env.step(key, state, actions))
    last = state.replace(step=jnp.full_like(state.step, env.max_steps - 1))
    obs, next_state, reward, done, info = env.step(key, last, actions, target)
    assert done["__all__"]
    assert_equal((obs, next_state), (env.get_obs(target), target))
    _, _, *without = env.step(key, last, actions)
    assert_equal([reward, done, info], without)


@every_env
def test_states_keep_their_shapes_and_dtypes(env_id, action_type):
    env = make(env_id, action_type)
    key = jax.random.key(6)

    def types(tree):
        return jax.tree.map(lambda x: (x.shape, x.dtype, x.weak_type), tree)

    obs, state = jax.eval_shape(env.reset, key)
    actions = sample_actions(env, key)
    for step in (env.step, env.step_env):
        next_obs, next_state, *_ = jax.eval_shape(step, key, state, actions)
        assert types((next_obs, next_state)) == types((obs, state))
    assert (state.step.shape, state.step.dtype) == ((), jnp.int32)
    assert (state.done.shape, state.done.dtype) == ((), bool)


@every_env
def test_two_hundred_random_steps_stay_finite_and_inside_the_spaces(env_id, action_type):
    env = make(env_id, action_type, max_steps=None)

    def body(state, key):
        obs, state, reward, done, info = env.step(key, state, sample_actions(env, key))
        inside = [env.observation_space(a).contains(o) for o in (obs, info["final_obs"]) for a, o in o.items()]
        finite = [jnp.isfinite(x).all() for x in jax.tree.leaves((obs, info["final_obs"], reward, state))]
        return state, (jnp.all(jnp.stack(inside + finite)), done["__all__"])

    _, state = env.reset(jax.random.key(7))
    _, (good, done) = jax.jit(jax.lax.scan, static_argnums=0)(body, state, jax.random.split(jax.random.key(8), 200))
    assert good.all()
    assert done.sum() >= 200 // env.max_steps


@every_env
def test_the_order_of_the_action_dict_does_not_matter(env_id, action_type):
    env = make(env_id, action_type)
    key = jax.random.key(9)
    _, state = env.reset(key)
    actions = sample_actions(env, key)
    backwards = dict(reversed(actions.items()))
    assert_equal(env.step(key, state, backwards), env.step(key, state, actions))
    assert_equal(env.step_env(key, state, backwards), env.step_env(key, state, actions))


@every_env
def test_keys_decide_everything(env_id, action_type):
    env = make(env_id, action_type)
    first, again, other = (env.reset(jax.random.key(seed)) for seed in (10, 10, 11))
    assert not differ(first, again)
    assert differ(first, other)
    actions = sample_actions(env, jax.random.key(12))
    last = first[1].replace(step=jnp.full_like(first[1].step, env.max_steps - 1))
    one, same, different = (env.step(jax.random.key(seed), last, actions) for seed in (13, 13, 14))
    assert not differ(one, same)
    assert differ(one[:2], different[:2])  # of the next episode


@every_env
def test_action_masks_and_world_state(env_id, action_type):
    env = make(env_id, action_type)
    obs, state = env.reset(jax.random.key(15))
    avail = env.get_avail_actions(state)
    assert set(avail) == set(env.agents)
    for a in env.agents:
        space = env.action_space(a)
        assert avail[a].shape == (space.n if isinstance(space, Discrete) else 1,)
        assert avail[a].dtype == bool
        assert avail[a].any()
    world_state = env.world_state(state)
    assert world_state.ndim == 1
    assert jnp.isfinite(world_state).all()
    if type(env).world_state is MultiAgentEnv.world_state:
        assert_equal(world_state, jnp.concatenate([obs[a] for a in env.agents]))


@every_env
def test_classes_hold_each_agent_once_and_share_spaces(env_id, action_type):
    env = make(env_id, action_type)
    assert sorted(a for members in env.agent_classes.values() for a in members) == sorted(env.agents)
    for members in env.agent_classes.values():
        assert len({(env.observation_space(a), env.action_space(a)) for a in members}) == 1


@pytest.mark.parametrize("env_id", [e for e in jaxmarl_lite.registered_envs() if "num_agents" in parameters_of(e)])
def test_the_smallest_number_of_agents_works(env_id):
    for smallest in (1, 2):
        try:
            env = jaxmarl_lite.make(env_id, num_agents=smallest)
            break
        except ValueError:
            assert smallest == 1
    assert env.num_agents == smallest
    key = jax.random.key(16)
    obs, _, reward, _, _ = env.step(key, env.reset(key)[1], sample_actions(env, key))
    assert all(env.observation_space(a).contains(obs[a]) for a in env.agents)
    assert all(jnp.isfinite(r) for r in reward.values())


# Simple spread.


def test_five_agents_have_five_names_and_equal_spaces():
    env = jaxmarl_lite.make(SPREAD, num_agents=5, num_landmarks=5)
    obs, state = env.reset(jax.random.key(0))
    assert env.agents == list(obs) == [f"agent_{i}" for i in range(5)]
    assert state.p_pos.shape == (10, 2)
    assert {env.observation_space(a) for a in env.agents} == {Box(-np.inf, np.inf, (4 + 2 * 5 + 4 * 4,))}
    assert {env.action_space(a) for a in env.agents} == {Discrete(5)}


@pytest.mark.parametrize("local_ratio", [0.0, 0.25, 1.0])
def test_collisions_lower_the_rewards_of_those_who_touch(local_ratio):
    """Landmarks under agents 0 and 1 and under the middle of the field make the shared term known."""
    env = jaxmarl_lite.make(SPREAD, local_ratio=local_ratio)
    _, state = env.reset(jax.random.key(0))

    def rewards(agents):
        p_pos = jnp.array([*agents, (-0.5, 0.0), (-0.5, 0.0), (0.0, 0.5)])
        return np.array([env.rewards(state.replace(p_pos=p_pos))[a] for a in env.agents])

    shared = -(1 - local_ratio) * 0.5
    np.testing.assert_allclose(rewards([(-0.5, 0.0), (0.0, 0.0), (0.5, 0.0)]), shared, rtol=1e-6)
    # Agents 0 and 2 overlap, agent 1 does not.
    np.testing.assert_allclose(
        rewards([(-0.5, 0.0), (0.0, 0.0), (-0.4, 0.0)]), shared - local_ratio * np.array([1, 0, 1]), rtol=1e-6
    )
    # All three: two collisions each.
    np.testing.assert_allclose(
        rewards([(-0.5, 0.0), (-0.5, 0.1), (-0.4, 0.0)])[1] - rewards([(-0.5, 0.0), (-0.5, 0.1), (0.9, 0.0)])[1],
        -local_ratio,
        atol=1e-6,
    )


def test_agents_far_apart_have_a_collision_term_of_exactly_zero():
    env = jaxmarl_lite.make(SPREAD, local_ratio=1.0)
    _, state = env.reset(jax.random.key(0))
    agents = jnp.array([(-0.9, 0.0), (0.0, 0.0), (0.9, 0.0)])
    assert all(r == 0 for r in env.rewards(state.replace(p_pos=state.p_pos.at[:3].set(agents))).values())


# Bad input: the message names the argument, what was given and what is allowed.


@pytest.mark.parametrize(
    ("kwargs", "parts"),
    [
        ({"local_ratio": -0.1}, ["local_ratio", "-0.1", "[0, 1]"]),
        ({"local_ratio": 1.5}, ["local_ratio", "1.5", "[0, 1]"]),
        ({"local_ratio": "a"}, ["local_ratio", "'a'", "[0, 1]"]),
        ({"local_ratio": True}, ["local_ratio", "True", "[0, 1]"]),
        ({"local_ratio": float("nan")}, ["local_ratio", "nan", "[0, 1]"]),
        ({"num_agents": 0}, ["num_agents", "0", ">= 1"]),
        ({"num_agents": -1}, ["num_agents", "-1", ">= 1"]),
        ({"num_agents": 1.5}, ["num_agents", "1.5", "integer"]),
        ({"num_agents": True}, ["num_agents", "True", "integer"]),
        ({"N": 0}, ["N must", "0", ">= 1"]),
        ({"N": 3, "num_agents": 4}, ["N=3", "num_agents=4", "one"]),
        ({"num_landmarks": 0}, ["num_landmarks", "0", ">= 1"]),
        ({"max_steps": 0}, ["max_steps", "0", ">= 1"]),
        ({"max_cycles": 2.5}, ["max_cycles", "2.5", "integer"]),
        ({"max_cycles": 5, "max_steps": 6}, ["max_cycles=5", "max_steps=6", "one"]),
        ({"action_type": "foo"}, ["action_type", "'foo'", "'Discrete'", "'Continuous'"]),
        ({"continuous_actions": "yes"}, ["continuous_actions", "'yes'", "True", "False"]),
        (
            {"continuous_actions": True, "action_type": "Discrete"},
            ["continuous_actions=True", "action_type='Discrete'"],
        ),
        ({"terminate_on_success": 1}, ["terminate_on_success", "1", "True", "False"]),
        ({"curriculum": "on"}, ["curriculum", "'on'", "True", "False"]),
        ({"curriculum_stage": 2}, ["curriculum_stage", "2", "0 or 1"]),
        ({"curriculum_stage": -1}, ["curriculum_stage", "-1", ">= 0"]),
        ({"num_agent_neighbors": 0}, ["num_agent_neighbors", "0", ">= 1"]),
        ({"num_landmark_neighbors": 1.5}, ["num_landmark_neighbors", "1.5", "integer"]),
        ({"num_agent": 3}, ["'num_agent'", "Did you mean num_agents", "local_ratio"]),
    ],
    ids=str,
)
def test_bad_keywords(kwargs, parts):
    with pytest.raises(ValueError, match=r"\.$") as error:
        jaxmarl_lite.make(SPREAD, **kwargs)
    for part in parts:
        assert part in str(error.value)


def test_one_keyword_may_be_given_under_both_names_if_they_agree():
    env = jaxmarl_lite.make(
        SPREAD, N=2, num_agents=2, max_steps=7, max_cycles=7, action_type="Continuous", continuous_actions=True
    )
    assert (env.num_agents, env.max_steps, env.action_type) == (2, 7, "Continuous")


def test_an_unknown_id_lists_what_is_close_and_what_there_is():
    with pytest.raises(ValueError, match="'mpe_simple_spread'") as error:
        jaxmarl_lite.make("mpe_simple_spread")
    assert "Did you mean MPE_simple_spread_v3" in str(error.value)
    assert all(env_id in str(error.value) for env_id in jaxmarl_lite.registered_envs())
    with pytest.raises(ValueError, match="Unknown environment None"):
        jaxmarl_lite.make(None)


@every_env
@pytest.mark.parametrize("method", ["step", "step_env"])
def test_bad_actions(env_id, action_type, method):
    env = make(env_id, action_type)
    key = jax.random.key(17)
    _, state = env.reset(key)
    good = sample_actions(env, key)
    first = env.agents[0]
    space = env.action_space(first)
    wrong_shape = jnp.zeros((*space.shape, 2), space.dtype)
    bad = [
        (good | {first: wrong_shape}, [first, str(wrong_shape.shape), str(space.shape), repr(space)]),
        (good | {"nobody": good[first]}, ["nobody", *env.agents]),
        ({a: x for a, x in good.items() if a != first}, [first, "actions"]),
    ]
    if isinstance(space, Discrete):
        bad.append((good | {first: jnp.float32(1)}, [first, "float32", "integers", repr(space)]))
        bad.append((good | {first: jnp.array(True)}, [first, "bool", "integers", repr(space)]))
    for actions, parts in bad:
        with pytest.raises(ValueError, match=r"actions|Action of") as error:
            getattr(env, method)(key, state, actions)
        for part in parts:
            assert part in str(error.value)


@every_env
def test_unknown_agents_have_no_spaces(env_id, action_type):
    env = make(env_id, action_type)
    for space in (env.observation_space, env.action_space):
        with pytest.raises(ValueError, match="Unknown agent 'nobody'") as error:
            space("nobody")
        assert all(a in str(error.value) for a in env.agents)


# The registry.


class Own(MultiAgentEnv):
    """A class such as a user registers."""

    def __init__(self, num_agents=1, bonus=0.0):
        self.agents = [f"agent_{i}" for i in range(num_agents)]
        self.bonus = bonus


@pytest.fixture
def table(monkeypatch):
    """A copy of the table, so that nothing stays registered."""
    monkeypatch.setattr(registration, "_TABLE", dict(registration._TABLE))


@pytest.mark.usefixtures("table")
def test_register_your_own_class():
    jaxmarl_lite.register("own", f"{__name__}:Own", bonus=2.0, num_agents=4)
    assert "own" in jaxmarl_lite.registered_envs()
    env = jaxmarl_lite.make("own")
    assert isinstance(env, Own)
    assert (env.num_agents, env.bonus) == (4, 2.0)
    assert jaxmarl_lite.make("own", bonus=1.0).bonus == 1.0  # what is given wins over the default
    assert jaxmarl_lite.make("own").bonus == 2.0
    with pytest.raises(ValueError, match=r"Unknown keyword 'bonu' for own\. Did you mean bonus"):
        jaxmarl_lite.make("own", bonu=1.0)


@pytest.mark.usefixtures("table")
def test_register_refuses_ids_that_are_taken():
    before = jaxmarl_lite.registered_envs()
    with pytest.raises(ValueError, match=f"'{SPREAD}' is already registered, as 'jaxmarl_lite"):
        jaxmarl_lite.register(SPREAD, f"{__name__}:Own")
    assert jaxmarl_lite.registered_envs() == before


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize(
    "entry_point", ["", "module", "module:", ":Class", "a:b:c", "a b:C", ".a:C", "a.:C", Own, None]
)
def test_register_refuses_malformed_entry_points(entry_point):
    with pytest.raises(ValueError, match=r"entry_point must read 'package\.module:Class', got"):
        jaxmarl_lite.register("own", entry_point)
    assert "own" not in jaxmarl_lite.registered_envs()


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize("env_id", ["", None, 3])
def test_register_refuses_ids_that_are_no_names(env_id):
    with pytest.raises(ValueError, match="env_id must be a non-empty string, got"):
        jaxmarl_lite.register(env_id, f"{__name__}:Own")


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize("entry_point", ["no_such_module:Own", f"{__name__}:NoSuchClass"])
def test_entry_points_that_do_not_exist_are_named_by_make(entry_point):
    jaxmarl_lite.register("own", entry_point)
    with pytest.raises(ValueError, match=f"'{entry_point}' of 'own' cannot be imported"):
        jaxmarl_lite.make("own")


def test_importing_the_package_imports_no_environment_and_no_jax():
    code = "import sys, jaxmarl_lite; print(jaxmarl_lite.registered_envs(), *sorted(sys.modules), sep='\\n')"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    modules = run.stdout.split("\n")
    assert run.stderr == ""
    assert "jaxmarl_lite.registration" in modules
    assert not [m for m in modules if m.split(".")[0] in ("jax", "flax", "numpy") or "environments" in m]
