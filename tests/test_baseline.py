"""The baseline: its contract, what it learns, and mistakes that a return alone would not show."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import TINY

import jaxmarl_lite
from jaxmarl_lite import registration
from jaxmarl_lite.environments import MultiAgentEnv, State
from jaxmarl_lite.environments.spaces import Box, Discrete
from jaxmarl_lite.training import runner
from jaxmarl_lite.training.config import ConfigError


class ConstantReward(MultiAgentEnv):
    """Reward 1 for ten steps, whatever one does; the end is a time limit or a termination. Sees the clock."""

    max_steps = 10

    def __init__(self, terminates):
        self.terminates = terminates
        self.agents = ["agent_0", "agent_1"]
        self.observation_spaces = {a: Box(0, 1, (2,)) for a in self.agents}
        self.action_spaces = {a: Discrete(2) for a in self.agents}

    def get_obs(self, state):
        return {a: jnp.array([state.step / self.max_steps, 1.0]) for a in self.agents}

    def reset(self, key):
        state = State(step=jnp.int32(0), done=jnp.array(False))
        return self.get_obs(state), state

    def step_env(self, key, state, actions):
        state = State(step=state.step + 1, done=state.step + 1 >= self.max_steps)
        reward = {a: jnp.float32(1) for a in self.agents}
        done = {a: state.done for a in [*self.agents, "__all__"]}
        info = {"terminated": state.done & self.terminates, "truncated": state.done & (not self.terminates)}
        return self.get_obs(state), state, reward, done, info


class UnequalActions(ConstantReward):
    def __init__(self):
        super().__init__(True)
        self.action_spaces["agent_1"] = Discrete(3)


@pytest.fixture(scope="module", autouse=True)
def _probes():
    """Registered for this module only: other tests loop over what is registered."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registration, "_TABLE", dict(registration._TABLE))
        jaxmarl_lite.register("probe_constant", "test_baseline:ConstantReward")
        jaxmarl_lite.register("probe_unequal", "test_baseline:UnequalActions")
        yield


PROBE = {
    "ENV_NAME": "probe_constant",
    "NUM_ENVS": 16,
    "NUM_STEPS": 20,
    "TOTAL_TIMESTEPS": 16 * 20 * 300,
    "NUM_MINIBATCHES": 2,
    "HIDDEN_SIZES": [16],
    "GAMMA": 0.9,
    "LR": 1.0e-2,
}


@pytest.mark.parametrize(
    ("terminates", "bootstrap", "expected"),
    [(False, True, 10.0), (False, False, 6.513), (True, True, 6.513)],
)
def test_the_value_of_a_constant_reward(baseline, terminates, bootstrap, expected):
    changes = {"ENV_KWARGS": {"terminates": terminates}, "BOOTSTRAP_TRUNCATED": bootstrap}
    out = jax.jit(baseline.make_train(PROBE | changes))(jax.random.key(0))
    network = baseline.ActorCritic(2, None, (16,), "relu")
    params = out["runner_state"].train_state.params
    value = network.apply(params, jnp.array([[0.0, 1.0], [0.9, 1.0]]), method="value")
    last = 10.0 if expected == 10.0 else 1.0
    np.testing.assert_allclose(value, [expected, last], atol=0.35)
    assert float(out["metrics"]["return"][-1]) == 20.0


def test_a_missing_keyword_is_named(baseline):
    with pytest.raises(ValueError, match="Missing keyword 'terminates' for probe_constant"):
        baseline.make_train({"ENV_NAME": "probe_constant"})


def test_unequal_actions_are_refused(baseline):
    with pytest.raises(ConfigError, match="equal action spaces, got probe_unequal"):
        baseline.make_train({"ENV_NAME": "probe_unequal"})


@pytest.mark.parametrize("num_steps", [7, 16])
@pytest.mark.parametrize("action_type", ["Discrete", "Continuous"])
def test_the_ratio_is_one_before_the_first_gradient(baseline, num_steps, action_type):
    config = {
        "ENV_NAME": "MPE_simple_spread_v3",
        "ENV_KWARGS": {"action_type": action_type},
        "NUM_ENVS": 8,
        "NUM_STEPS": num_steps,
        "TOTAL_TIMESTEPS": 8 * num_steps * 5,
        "UPDATE_EPOCHS": 1,
        "NUM_MINIBATCHES": 1,
        "LR": 0.05,  # so that the policy is another one at each update
    }
    metrics = jax.jit(baseline.make_train(config))(jax.random.key(0))["metrics"]
    np.testing.assert_allclose(metrics["approx_kl"], 0, atol=1e-6)
    np.testing.assert_array_equal(metrics["clip_frac"], 0)
    assert np.ptp(metrics["entropy"]) > 1e-4


@pytest.mark.parametrize("action_type", ["Discrete", "Continuous"])
def test_every_parameter_is_trained(baseline, action_type):
    config = TINY | {"ENV_NAME": "MPE_simple_spread_v3", "ENV_KWARGS": {"action_type": action_type}}
    train = baseline.make_train(config)
    before = jax.jit(train.init)(jax.random.key(0))
    after, _ = jax.jit(train.update)(before)
    old, new = before.train_state.params, after.train_state.params
    changed = jax.tree.map(lambda a, b: bool(jnp.any(a != b)), old, new)
    assert all(jax.tree.leaves(changed)), changed
    assert int(after.update_step) == 1


def test_the_learning_rate_falls_to_zero(baseline):
    train = baseline.make_train(TINY)
    state = jax.jit(train.init)(jax.random.key(0))
    update = jax.jit(train.update)
    for _ in range(train.num_updates):
        state, _ = update(state)
    beyond, _ = update(state)
    jax.tree.map(np.testing.assert_array_equal, state.train_state.params, beyond.train_state.params)


TWENTY_UPDATES = {
    "NUM_ENVS": 4,
    "NUM_STEPS": 32,
    "TOTAL_TIMESTEPS": 20 * 4 * 32,
    "NUM_MINIBATCHES": 2,
    "UPDATE_EPOCHS": 2,
    "HIDDEN_SIZES": [16, 16],
}


def test_a_seed_does_not_depend_on_the_others(baseline):
    train = baseline.make_train(TWENTY_UPDATES)
    keys = runner.seed_keys(0, 5)
    together = jax.jit(jax.vmap(train))(keys)
    alone = jax.jit(train)(keys[3])
    assert together["metrics"]["return"].shape == (5, 20)
    params = jax.tree.map(lambda x: x[3], together["runner_state"].train_state.params)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), params, alone["runner_state"].train_state.params
    )
    np.testing.assert_allclose(together["metrics"]["return"][3], alone["metrics"]["return"], rtol=1e-5)
    # The seeds are different runs.
    assert len(set(np.asarray(together["metrics"]["total_loss"][:, 0]).tolist())) == 5


def test_the_runners_seeds_have_the_same_bits_alone_and_together(baseline, tmp_path):
    files = []
    for seeds in (1, 3):
        folder = tmp_path / str(seeds)
        runner.run(baseline.make_train, TWENTY_UPDATES | {"NUM_SEEDS": seeds}, "ippo_ff_mpe", folder)
        lines = (folder / "metrics.csv").read_text().splitlines()[1:]
        files.append([line for line in lines if line.split(",")[1] == "0"])
    assert files[0] == files[1]
    assert len(files[0]) == 20


def test_the_same_key_gives_the_same_bits_and_compiles_once(baseline):
    train = jax.jit(jax.vmap(baseline.make_train(TINY)))
    first = train(runner.seed_keys(0, 2))
    second = train(runner.seed_keys(0, 2))
    other = train(runner.seed_keys(1, 2))
    assert train._cache_size() == 1
    jax.tree.map(np.testing.assert_array_equal, first["runner_state"].train_state, second["runner_state"].train_state)
    assert not np.array_equal(first["metrics"]["total_loss"], other["metrics"]["total_loss"])


def final_return(baseline, config, seeds=2):
    out = jax.jit(jax.vmap(baseline.make_train(config)))(runner.seed_keys(0, seeds))
    return float(out["metrics"]["return"][:, -5:].mean())


@pytest.mark.parametrize("action_type", ["Discrete", "Continuous"])
def test_it_learns_simple(baseline, action_type):
    # Random play reaches about -34, standing still about -33.
    config = {"ENV_NAME": "MPE_simple_v3", "TOTAL_TIMESTEPS": 400_000, "ENV_KWARGS": {"action_type": action_type}}
    assert final_return(baseline, config) > -9


def test_it_learns_spread(baseline):
    # Random play reaches -78, and the peer's defaults -64 after 10 M steps.
    assert final_return(baseline, {"TOTAL_TIMESTEPS": 500_000}, seeds=1) > -60


@pytest.mark.slow
def test_the_default_run_makes_a_team(baseline, tmp_path):
    summary = runner.run(baseline.make_train, {}, "ippo_ff_mpe", tmp_path / "run")
    assert summary["return"] > -37
    assert summary["seconds"]["total"] < 600
