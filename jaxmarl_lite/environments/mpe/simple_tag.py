"""Simple tag: slow predators hunt fast prey among obstacles."""

import jax
import jax.numpy as jnp

from jaxmarl_lite.environments.mpe import world as physics
from jaxmarl_lite.environments.mpe.mpe import MPE, State, check_count, check_flags, check_neighbors, either
from jaxmarl_lite.environments.mpe.world import World

STAGE_SPEEDS = (0.5, 0.75, 1.0)  # of the curriculum: the prey's share of its full speed and force
CAUGHT = 10.0  # what a contact gains the predators and costs the prey


def bounds_cost(x: jax.Array) -> jax.Array:
    """What prey pays for a coordinate outside the field: 0 below 0.9, then rising, at most 10."""
    x = jnp.abs(x)
    outside = jnp.minimum(jnp.exp(2 * x - 2), 10.0)
    return jnp.where(x < 0.9, 0.0, jnp.where(x < 1.0, (x - 0.9) * 10, outside))


class SimpleTagMPE(MPE):
    """`MPE_simple_tag_v3`, equal to mpe2 1.1.1's `simple_tag_v3`.

    Every contact of a predator with a prey gains each predator 10 and costs that prey 10; prey pays for leaving the
    field too. Observation: own velocity, own position, offsets to the obstacles, offsets to the other agents,
    velocities of the other prey.

    Args:
        num_good_agents: number of prey, 1 by default; mpe2's `num_good` works too.
        num_adversaries: number of predators.
        num_obs: number of obstacles, 2 by default; mpe2's `num_obstacles` works too.
        terminate_on_success: end the episode once every prey touches a predator.
        curriculum: whether prey is slowed down to 50, 75 or 100 % in stage 0, 1 or 2.
        curriculum_stage: 0, 1 or 2.
        num_agent_neighbors: observe only so many other agents, the nearest, nearest first, missing ones as zeros;
            velocities then have a slot for each of them, zeros for predators.
        num_landmark_neighbors: the same for obstacles.
        action_type: "Discrete" or "Continuous"; mpe2's `continuous_actions` works too.
        max_steps: length of an episode, 25 by default; mpe2's `max_cycles` works too.

    Raises:
        ValueError: for a value that is not allowed.
    """

    def __init__(
        self,
        num_good_agents: int | None = None,
        num_adversaries: int = 3,
        num_obs: int | None = None,
        terminate_on_success: bool = False,
        curriculum: bool = False,
        curriculum_stage: int = 0,
        num_agent_neighbors: int | None = None,
        num_landmark_neighbors: int | None = None,
        action_type: str | None = None,
        max_steps: int | None = None,
        continuous_actions: bool | None = None,
        max_cycles: int | None = None,
        num_good: int | None = None,
        num_obstacles: int | None = None,
    ):
        prey = check_count(*either("num_good_agents", num_good_agents, "num_good", num_good, 1))
        hunters = check_count("num_adversaries", num_adversaries)
        obstacles = check_count(*either("num_obs", num_obs, "num_obstacles", num_obstacles, 2), minimum=0)
        check_flags(terminate_on_success=terminate_on_success, curriculum=curriculum)
        if check_count("curriculum_stage", curriculum_stage, 0) >= len(STAGE_SPEEDS):
            raise ValueError(f"curriculum_stage must be 0, 1 or 2, got {curriculum_stage!r}.")
        check_neighbors(num_agent_neighbors=num_agent_neighbors, num_landmark_neighbors=num_landmark_neighbors)
        self.num_prey, self.num_hunters = prey, hunters
        self.terminate_on_success = terminate_on_success
        self.num_agent_neighbors, self.num_landmark_neighbors = num_agent_neighbors, num_landmark_neighbors
        speed = STAGE_SPEEDS[curriculum_stage] if curriculum else 1.0
        world = World(
            num_agents=hunters + prey,
            num_landmarks=obstacles,
            size=(0.075,) * hunters + (0.05,) * prey + (0.2,) * obstacles,
            accel=(3.0,) * hunters + (4.0 * speed,) * prey,
            max_speed=(1.0,) * hunters + (1.3 * speed,) * prey + (None,) * obstacles,
            dim_c=2,
        )
        agents = [f"adversary_{i}" for i in range(hunters)] + [f"agent_{i}" for i in range(prey)]
        fixed = 4 + 2 * (obstacles if num_landmark_neighbors is None else num_landmark_neighbors)
        if num_agent_neighbors is None:
            offsets = fixed + 2 * (hunters + prey - 1)
            sizes = [offsets + 2 * prey] * hunters + [offsets + 2 * (prey - 1)] * prey
        else:
            sizes = [fixed + 4 * num_agent_neighbors] * (hunters + prey)
        colors = [(0.85, 0.35, 0.35)] * hunters + [(0.35, 0.85, 0.35)] * prey + [(0.25, 0.25, 0.25)] * obstacles
        super().__init__(world, agents, sizes, action_type, continuous_actions, max_steps, max_cycles, colors)

    @property
    def agent_classes(self) -> dict[str, list[str]]:
        return {"adversary": self.agents[: self.num_hunters], "agent": self.agents[self.num_hunters :]}

    def _start(self, key: jax.Array) -> State:
        """As in every scenario, with obstacles in [-0.9, 0.9]^2."""
        state = super()._start(key)
        p_pos = jnp.concatenate([state.p_pos[: self.num_agents], 0.9 * state.p_pos[self.num_agents :]])
        return state.replace(p_pos=p_pos)

    def get_obs(self, state: State) -> dict[str, jax.Array]:
        n, p_pos, p_vel = self.num_agents, state.p_pos, state.p_vel
        obs = {}
        for i, agent in enumerate(self.agents):
            landmarks, others = p_pos[n:] - p_pos[i], physics.others_offsets(p_pos, i, n)
            prey = [j for j in range(self.num_hunters, n) if j != i]
            if self.num_agent_neighbors is None:
                velocities = [p_vel[j] for j in prey]
            else:
                rest = jnp.stack([p_vel[j] if j in prey else jnp.zeros(2) for j in range(n) if j != i])
                others, rest = physics.nearest(others, self.num_agent_neighbors, rest)
                velocities = [rest.ravel()]
            if self.num_landmark_neighbors is not None:
                (landmarks,) = physics.nearest(landmarks, self.num_landmark_neighbors)
            obs[agent] = jnp.concatenate([p_vel[i], p_pos[i], landmarks.ravel(), others.ravel(), *velocities])
        return obs

    def _contacts(self, state: State) -> list[list[jax.Array]]:
        """For each prey, whether it touches each predator."""
        hunters, n, reach = self.num_hunters, self.num_agents, 0.075 + 0.05
        squared = physics.squared_distances(state.p_pos[hunters:n], state.p_pos[:hunters])
        return [[squared[i][j] < reach**2 for j in range(hunters)] for i in range(self.num_prey)]

    def rewards(self, state: State) -> dict[str, jax.Array]:
        touches = [sum(touch.astype(jnp.float32) for touch in row) for row in self._contacts(state)]
        rewards = {agent: CAUGHT * sum(touches) for agent in self.agents[: self.num_hunters]}
        for i, agent in enumerate(self.agents[self.num_hunters :]):
            x, y = state.p_pos[self.num_hunters + i]
            rewards[agent] = -CAUGHT * touches[i] - bounds_cost(x) - bounds_cost(y)
        return rewards

    def is_terminal(self, state: State) -> jax.Array:
        if not self.terminate_on_success:
            return jnp.array(False)
        return jnp.stack([jnp.stack(row).any() for row in self._contacts(state)]).all()
