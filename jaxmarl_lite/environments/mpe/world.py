"""Particle physics of the multi-agent particle environments, as pure functions.

Source: Lowe et al. 2017 (https://arxiv.org/abs/1706.02275); the reference is mpe2 1.1.1. Units are the
world's own: positions span about [-1, 1], one step lasts `dt`.

The code works on components (x and y apart, one scalar per entity) and unrolls the pairs of few
entities: under `jax.vmap` each scalar becomes one contiguous row over the batch, which is what the
vector units want. Above `UNROLL_LIMIT` pairs it works on matrices, to keep compilation short.
"""

from dataclasses import dataclass
from functools import cached_property

import jax
import jax.numpy as jnp
import numpy as np

UNROLL_LIMIT = 64
DEFAULT_ACCELERATION = 5.0
NUM_MOVES = 5  # stay, left, right, down, up

Components = list[jax.Array]  # one scalar per entity


@dataclass(frozen=True)
class World:
    """What does not change during an episode. Tuples run over agents first, then landmarks.

    Every tuple may be left out (`None`): sizes 0.05, masses 1, agents movable and landmarks not,
    everything collides, no top speed, acceleration 5, no noise, agents silent.
    """

    num_agents: int
    num_landmarks: int
    size: tuple[float, ...] | None = None  # radius of each entity
    mass: tuple[float, ...] | None = None
    movable: tuple[bool, ...] | None = None
    collide: tuple[bool, ...] | None = None
    max_speed: tuple[float | None, ...] | None = None  # None: no limit
    accel: tuple[float | None, ...] | None = None  # per agent: force of a full action; None: 5
    silent: tuple[bool, ...] | None = None  # per agent: cannot send messages
    u_noise: tuple[float, ...] | None = None  # per agent: standard deviation of the motor noise
    c_noise: tuple[float, ...] | None = None  # per agent: standard deviation of the communication noise
    dim_c: int = 0  # numbers in a message
    dt: float = 0.1
    damping: float = 0.25  # share of the velocity lost in a step
    contact_force: float = 100.0
    contact_margin: float = 1e-3  # softness of a contact

    def __post_init__(self):
        agents, entities = self.num_agents, self.num_entities
        defaults = {
            "size": (0.05,) * entities,
            "mass": (1.0,) * entities,
            "movable": (True,) * agents + (False,) * self.num_landmarks,
            "collide": (True,) * entities,
            "max_speed": (None,) * entities,
            "accel": (None,) * agents,
            "silent": (True,) * agents,
            "u_noise": (0.0,) * agents,
            "c_noise": (0.0,) * agents,
        }
        for field, default in defaults.items():
            value = default if getattr(self, field) is None else tuple(getattr(self, field))
            if len(value) != len(default):
                raise ValueError(f"{field} must have {len(default)} entries, got {len(value)}: {value}.")
            object.__setattr__(self, field, value)

    @property
    def num_entities(self) -> int:
        """Agents and landmarks."""
        return self.num_agents + self.num_landmarks

    @cached_property
    def colliding_pairs(self) -> tuple[tuple[int, int], ...]:
        """The pairs (a, b), a < b, that can push each other."""
        rows = [i for i in range(self.num_entities) if self.collide[i]]
        pairs = [(a, b) for a in rows for b in rows if a < b]
        return tuple((a, b) for a, b in pairs if self.movable[a] or self.movable[b])


def components(rows: jax.Array) -> tuple[Components, Components]:
    """Split (n, 2) rows into n x and n y scalars."""
    return [rows[i, 0] for i in range(rows.shape[0])], [rows[i, 1] for i in range(rows.shape[0])]


def rows(x: Components, y: Components) -> jax.Array:
    """The inverse of `components`: (n, 2)."""
    return jnp.stack([scalar for pair in zip(x, y, strict=True) for scalar in pair]).reshape(-1, 2)


def move_force(world: World, agent: int, action: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The force (x, y) of an agent's action.

    Args:
        action: int32 scalar, one of the `NUM_MOVES` moves, or (5,) float strengths of the moves in [0, 1].
    """
    strength = DEFAULT_ACCELERATION if world.accel[agent] is None else world.accel[agent]
    if jnp.ndim(action) == 0:
        right, left, up, down = ((action == move).astype(jnp.float32) for move in (2, 1, 4, 3))
    else:
        right, left, up, down = (action[move] for move in (2, 1, 4, 3))
    return strength * (right - left), strength * (up - down)


def decode_action(world: World, agent: int, action: jax.Array) -> tuple[tuple[jax.Array, jax.Array], jax.Array]:
    """Split an agent's action into its force (x, y) and its message (dim_c,).

    A discrete action of an agent that moves and speaks is `move + 5 * word`; a continuous one is the five
    strengths followed by the message. Continuous entries are clipped to [0, 1].
    """
    discrete = jnp.ndim(action) == 0
    movable, speaks = world.movable[agent], not world.silent[agent]
    if not discrete:
        action = jnp.clip(action, 0.0, 1.0).astype(jnp.float32)
    force, message = (jnp.float32(0), jnp.float32(0)), jnp.zeros(world.dim_c, jnp.float32)
    if movable:
        force = move_force(world, agent, action % NUM_MOVES if discrete and speaks else action)
    if speaks and discrete:
        word = action // NUM_MOVES if movable else action
        message = (jnp.arange(world.dim_c) == word).astype(jnp.float32)
    elif speaks:
        message = action[NUM_MOVES:] if movable else action
    return force, message


def contact(world: World, dx: jax.Array, dy: jax.Array, dist_min: float | np.ndarray) -> tuple[jax.Array, jax.Array]:
    """The force (x, y) on the first of two bodies at offset (dx, dy) whose radii add up to `dist_min`.

    Two bodies on the same spot have no direction to be pushed in, and get none (mpe2 gives NaN).
    """
    dist = jnp.sqrt(dx * dx + dy * dy)
    penetration = jax.nn.softplus((dist_min - dist) / world.contact_margin) * world.contact_margin
    scale = world.contact_force * penetration / jnp.where(dist > 0, dist, 1.0)
    return scale * dx, scale * dy


def collision_forces(world: World, x: Components, y: Components) -> tuple[Components, Components]:
    """The sum of the contact forces on each entity."""
    n = world.num_entities
    if len(world.colliding_pairs) > UNROLL_LIMIT:
        touching = np.zeros((n, n), bool)
        for a, b in world.colliding_pairs:
            touching[a, b] = touching[b, a] = True
        size = np.asarray(world.size, np.float32)
        x_all, y_all = jnp.stack(x), jnp.stack(y)
        dx, dy = x_all[:, None] - x_all, y_all[:, None] - y_all
        fx, fy = (jnp.where(touching, f, 0.0).sum(1) for f in contact(world, dx, dy, size[:, None] + size))
        return list(fx), list(fy)
    force_x: Components = [jnp.float32(0)] * n
    force_y: Components = [jnp.float32(0)] * n
    for a, b in world.colliding_pairs:
        fx, fy = contact(world, x[a] - x[b], y[a] - y[b], world.size[a] + world.size[b])
        force_x[a], force_y[a] = force_x[a] + fx, force_y[a] + fy
        force_x[b], force_y[b] = force_x[b] - fx, force_y[b] - fy
    return force_x, force_y


def step(
    world: World,
    key: jax.Array,
    p_pos: jax.Array,  # (num_entities, 2)
    p_vel: jax.Array,  # (num_entities, 2)
    actions: list[jax.Array],  # one per agent
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Advance the world by `dt`. Returns p_pos, p_vel (num_entities, 2) and the messages c (num_agents, dim_c)."""
    x, y = components(p_pos)
    vx, vy = components(p_vel)
    force_x, force_y = collision_forces(world, x, y)
    key_motor, key_message = jax.random.split(key)
    motor_noise = jax.random.normal(key_motor, (world.num_agents, 2), jnp.float32) if any(world.u_noise) else None
    messages = []
    for i, action in enumerate(actions):
        (fx, fy), message = decode_action(world, i, action)
        if world.u_noise[i] and world.movable[i]:
            fx, fy = fx + world.u_noise[i] * motor_noise[i, 0], fy + world.u_noise[i] * motor_noise[i, 1]
        force_x[i], force_y[i] = force_x[i] + fx, force_y[i] + fy
        messages.append(message)
    for i in range(world.num_entities):
        if not world.movable[i]:
            continue
        # As in the reference, positions move with the velocity from before this step's forces.
        x[i], y[i] = x[i] + vx[i] * world.dt, y[i] + vy[i] * world.dt
        gain = world.dt / world.mass[i]
        vx[i] = vx[i] * (1 - world.damping) + force_x[i] * gain
        vy[i] = vy[i] * (1 - world.damping) + force_y[i] * gain
        if world.max_speed[i] is not None:
            speed = jnp.sqrt(vx[i] * vx[i] + vy[i] * vy[i])
            slow_down = jnp.where(
                speed > world.max_speed[i], world.max_speed[i] / jnp.where(speed > 0, speed, 1.0), 1.0
            )
            vx[i], vy[i] = vx[i] * slow_down, vy[i] * slow_down
    c = jnp.stack(messages)
    if any(world.c_noise):
        scale = np.where(world.silent, 0.0, world.c_noise).astype(np.float32)
        c = c + scale[:, None] * jax.random.normal(key_message, c.shape, jnp.float32)
    return rows(x, y), rows(vx, vy), c


def squared_distances(p_a: jax.Array, p_b: jax.Array) -> jax.Array | list[list[jax.Array]]:
    """Squared distances between the rows of p_a (m, 2) and p_b (n, 2), indexed [m][n].

    Few pairs come as nested lists of scalars, many as one (m, n) array; `smallest` reads both.
    """
    if p_a.shape[0] * p_b.shape[0] > UNROLL_LIMIT:
        return jnp.square(p_a[:, None] - p_b).sum(-1)
    (ax, ay), (bx, by) = components(p_a), components(p_b)
    return [
        [jnp.square(ax[i] - bx[j]) + jnp.square(ay[i] - by[j]) for j in range(p_b.shape[0])]
        for i in range(p_a.shape[0])
    ]


def nearest(offsets: jax.Array, k: int, *features: jax.Array) -> tuple[jax.Array, ...]:
    """The k nearest of the rows of `offsets` (n, 2), nearest first, and the same rows of `features` (n, ...).

    Where k exceeds n, the rows beyond are zeros.
    """
    order = jnp.argsort(jnp.square(offsets).sum(-1))[:k]
    missing = max(0, k - offsets.shape[0])
    return tuple(jnp.pad(f[order], ((0, missing), (0, 0))) for f in (offsets, *features))


def pick(rows: jax.Array, index: jax.Array) -> jax.Array:
    """Row `index` (an int scalar) of a few `rows` (n, ...), by selects: a gather is slow under `jax.vmap`."""
    chosen = rows[0]
    for i in range(1, rows.shape[0]):
        chosen = jnp.where(index == i, rows[i], chosen)
    return chosen


def others_offsets(p_pos: jax.Array, i: int, num_agents: int) -> jax.Array:
    """Offsets (num_agents - 1, 2) from agent `i` to the other agents, in order."""
    offsets = p_pos[:num_agents] - p_pos[i]
    return jnp.concatenate([offsets[:i], offsets[i + 1 :]])


def distance(a: jax.Array, b: jax.Array) -> jax.Array:
    """Euclidean distance of two points (2,)."""
    return jnp.sqrt(jnp.square(a[0] - b[0]) + jnp.square(a[1] - b[1]))
