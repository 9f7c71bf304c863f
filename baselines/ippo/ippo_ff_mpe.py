"""IPPO with a feed-forward network and shared parameters.

PPO (Schulman et al. 2017, https://arxiv.org/abs/1707.06347) with generalised advantage estimation, run by
each agent on its own observations (de Witt et al. 2020, https://arxiv.org/abs/2011.09533).
Axes: T rollout length, E environments, A agents, N = E * A actors.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import distrax
import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from flax.training.train_state import TrainState

import jaxmarl_lite
from jaxmarl_lite.training import runner
from jaxmarl_lite.training.config import ConfigError, check_config, check_sizes
from jaxmarl_lite.training.metrics import episode_metrics
from jaxmarl_lite.training.minibatch import grad_in_halves, minibatch_orders
from jaxmarl_lite.training.networks import ACTIVATIONS, FeatureMajorDense, action_noise, columns, sample
from jaxmarl_lite.training.returns import gae
from jaxmarl_lite.wrappers import BatchWrapper, LogWrapper
from jaxmarl_lite.wrappers.batch import cond_any


class ActorCritic(nn.Module):
    """A policy and a value function, two networks of the same shape."""

    num_actions: int | None  # of a Discrete space, else None
    action_size: int | None  # of a Box space, else None
    hidden_sizes: tuple[int, ...]
    activation: str

    def setup(self):
        def layers(outputs: int, output_scale: float) -> list[FeatureMajorDense]:
            return [*(FeatureMajorDense(n) for n in self.hidden_sizes), FeatureMajorDense(outputs, output_scale)]

        self.actor = layers(self.num_actions or self.action_size, 0.01)
        self.critic = layers(1, 1.0)
        if self.num_actions is None:
            self.log_std = self.param("log_std", nn.initializers.constant(-0.5), (self.action_size,), jnp.float32)

    def __call__(self, obs: jax.Array) -> tuple[distrax.Distribution, jax.Array]:  # (N, D)
        return self.policy(obs), self.value(obs)

    def policy(self, obs: jax.Array) -> distrax.Distribution:
        out = self._forward(self.actor, obs)
        if self.num_actions is not None:
            return distrax.Categorical(logits=out)
        return distrax.MultivariateNormalDiag(out, jnp.broadcast_to(jnp.exp(self.log_std), out.shape))

    def value(self, obs: jax.Array) -> jax.Array:
        return self._forward(self.critic, obs)[:, 0]

    def _forward(self, layers: list[FeatureMajorDense], obs: jax.Array) -> jax.Array:
        x = columns(obs)
        for layer in layers[:-1]:
            x = ACTIVATIONS[self.activation](layer(x))
        return layers[-1](x).T


class Transition(NamedTuple):
    obs: jax.Array  # (N, D)
    action: jax.Array  # (N,) or (N, K)
    log_prob: jax.Array  # (N,)
    reward: jax.Array  # (N,)
    terminated: jax.Array  # (N,)
    truncated: jax.Array  # (N,)
    final_value: jax.Array  # (N,), value before the auto-reset where truncated


class RunnerState(NamedTuple):
    train_state: TrainState
    env_state: Any
    obs: jax.Array  # (N, D)
    key: jax.Array
    update_step: jax.Array


def make_train(config: Mapping[str, Any]) -> runner.Train:
    """Build the training run: `jax.jit(jax.vmap(make_train(config)))(keys)`. ValueError for a bad config."""
    config = check_config(config, "ippo_ff_mpe")
    env = jaxmarl_lite.make(config["ENV_NAME"], **config["ENV_KWARGS"])
    env = BatchWrapper(LogWrapper(env), config["NUM_ENVS"], config["AGENT_IDS"])
    num_actors = env.num_envs * env.num_agents
    check_sizes(config, env.num_agents)
    if env.unequal_actions or len(env.obs_shape) != 1:
        raise ConfigError(f"ENV_NAME must have vector observations and equal action spaces, got {config['ENV_NAME']}.")
    num_updates = config["TOTAL_TIMESTEPS"] // (config["NUM_STEPS"] * env.num_envs)
    num_gradients = num_updates * config["UPDATE_EPOCHS"] * config["NUM_MINIBATCHES"]
    learning_rate = optax.linear_schedule(config["LR"], 0.0, num_gradients) if config["ANNEAL_LR"] else config["LR"]
    # On one flat vector: a tree of small arrays costs more in calls than in arithmetic.
    optimizer = optax.flatten(
        optax.chain(optax.clip_by_global_norm(config["MAX_GRAD_NORM"]), optax.adam(learning_rate, eps=1e-5))
    )
    network = ActorCritic(env.num_actions, env.action_size, tuple(config["HIDDEN_SIZES"]), config["ACTIVATION"])

    def actors(x: jax.Array) -> jax.Array:  # (E, A, ...) -> (N, ...)
        return x.reshape(num_actors, *x.shape[2:])

    def per_actor(x: jax.Array) -> jax.Array:  # (E,) -> (N,)
        return jnp.repeat(x, env.num_agents)

    def init(key: jax.Array) -> RunnerState:
        key, key_params, key_env = jax.random.split(key, 3)
        obs, env_state = env.reset(key_env)
        params = network.init(key_params, actors(obs))
        train_state = TrainState.create(apply_fn=network.apply, params=params, tx=optimizer)
        return RunnerState(train_state, env_state, actors(obs), key, jnp.int32(0))

    def policy(params: Any, obs: jax.Array) -> distrax.Distribution:
        return network.apply(params, obs, method="policy")

    def value_of(params: Any, obs: jax.Array) -> jax.Array:
        return network.apply(params, obs, method="value")

    def final_value(truncated: jax.Array, params: Any, final_obs: jax.Array) -> jax.Array:
        return jnp.where(truncated, value_of(params, final_obs), 0.0)

    def env_step(runner_state: RunnerState, randomness: tuple) -> tuple[RunnerState, tuple[Transition, dict]]:
        noise, key_step = randomness
        params = runner_state.train_state.params
        pi = policy(params, runner_state.obs)
        action = sample(pi, noise)
        env_action = action.reshape(env.num_envs, env.num_agents, *action.shape[1:])
        obs, env_state, reward, done, info = env.step(key_step, runner_state.env_state, env_action)
        # An end counts as a truncation only if we bootstrap there; it is rare, so its value is computed only then.
        bootstrap = per_actor(info["truncated"] & config["BOOTSTRAP_TRUNCATED"])
        last = cond_any(
            bootstrap,
            final_value,
            lambda *_: jnp.zeros(num_actors, jnp.float32),
            bootstrap,
            params,
            actors(info["final_obs"]),
        )
        transition = Transition(
            runner_state.obs, action, pi.log_prob(action), actors(reward), per_actor(done) & ~bootstrap, bootstrap, last
        )
        runner_state = runner_state._replace(env_state=env_state, obs=actors(obs))
        logged = {k: v for k, v in info.items() if k.startswith("returned_episode")}
        return runner_state, (transition, logged)

    def loss_fn(params: Any, minibatch: tuple) -> tuple[jax.Array, dict[str, jax.Array]]:
        transition, old_value, advantages, targets = minibatch
        pi, value = network.apply(params, transition.obs)
        log_ratio = pi.log_prob(transition.action) - transition.log_prob
        ratio = jnp.exp(log_ratio)
        clip_eps = config["CLIP_EPS"]
        clipped_ratio = jnp.clip(ratio, 1.0 - clip_eps, 1.0 + clip_eps)
        actor_loss = -jnp.minimum(ratio * advantages, clipped_ratio * advantages).mean()
        clipped_value = old_value + jnp.clip(value - old_value, -clip_eps, clip_eps)
        value_loss = 0.5 * jnp.maximum(jnp.square(value - targets), jnp.square(clipped_value - targets)).mean()
        entropy = pi.entropy().mean()
        total_loss = actor_loss + config["VF_COEF"] * value_loss - config["ENT_COEF"] * entropy
        metrics = {
            "total_loss": total_loss,
            "actor_loss": actor_loss,
            "value_loss": value_loss,
            "entropy": entropy,
            "approx_kl": (ratio - 1.0 - log_ratio).mean(),
            "clip_frac": (jnp.abs(ratio - 1.0) > clip_eps).mean(),
        }
        return total_loss, metrics

    def update_minibatch(train_state: TrainState, minibatch: tuple) -> tuple[TrainState, dict]:
        transition, old_value, advantages, targets = minibatch
        advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        minibatch = (transition, old_value, advantages, targets)
        grads, metrics = grad_in_halves(loss_fn, train_state.params, minibatch)
        return train_state.apply_gradients(grads=grads), metrics

    def update(runner_state: RunnerState) -> tuple[RunnerState, dict[str, jax.Array]]:
        # All randomness of the update is drawn before the loops: a draw at every step would take longer than the step.
        key, key_noise, key_steps, key_epochs = jax.random.split(runner_state.key, 4)
        noise_shape = (config["NUM_STEPS"], num_actors, env.num_actions or env.action_size)
        noise = action_noise(key_noise, noise_shape, discrete=env.num_actions is not None)
        randomness = (noise, jax.random.split(key_steps, config["NUM_STEPS"]))
        runner_state, (trajectory, logged) = jax.lax.scan(env_step, runner_state, randomness)
        # The rollout needs no values: they are computed here for all its steps at once, and for the one after.
        obs = jnp.concatenate([trajectory.obs, runner_state.obs[None]])  # (T + 1, N, D)
        values = value_of(runner_state.train_state.params, obs.reshape(-1, obs.shape[-1])).reshape(-1, num_actors)
        advantages, targets = gae(
            trajectory.reward,
            values[:-1],
            values[-1],
            trajectory.terminated,
            trajectory.truncated,
            trajectory.final_value,
            config["GAMMA"],
            config["GAE_LAMBDA"],
        )
        batch = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), (trajectory, values[:-1], advantages, targets))

        def update_epoch(train_state: TrainState, order: jax.Array) -> tuple[TrainState, dict]:
            minibatches = jax.tree.map(lambda x: x[order], batch)
            return jax.lax.scan(update_minibatch, train_state, minibatches)

        orders = minibatch_orders(key_epochs, config["UPDATE_EPOCHS"], config["NUM_MINIBATCHES"], values[:-1].size)
        train_state, metrics = jax.lax.scan(update_epoch, runner_state.train_state, orders)
        metrics = jax.tree.map(jnp.mean, metrics) | episode_metrics(logged)
        update_step = runner_state.update_step + 1
        return RunnerState(train_state, runner_state.env_state, runner_state.obs, key, update_step), metrics

    return runner.Train(init, update, num_updates, env, policy)


if __name__ == "__main__":
    runner.main(make_train, "ippo_ff_mpe")
