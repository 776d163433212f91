"""The only update there is: batch -> losses -> gradients -> apply -> target, many times in one compiled call."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator

import keras
import numpy as np
import tensorflow as tf

from virel_tf.algorithms.recipe import Recipe
from virel_tf.config import Config
from virel_tf.networks.adam import FusedAdam
from virel_tf.networks.critics import QNetwork, ValueNetwork
from virel_tf.networks.policies import TanhGaussianPolicy, squashed_gaussian
from virel_tf.networks.target import copy_weights, polyak_update
from virel_tf.objective.e_step import regulariser
from virel_tf.replay.ring import ReplayRing
from virel_tf.types import Transition, check_transition

# What an update reports, in this order; docs/metrics.md gives each its equation.
METRICS = ("q_loss", "v_loss", "policy_loss", "entropy", "epsilon", "running_epsilon", "lambda", "temperature",
           "q", "v")

# Streams of random numbers, each keyed by (seed, stream) and then by the count of updates.
BATCH, ACTION, RESIDUAL = range(3)


# Updates per turn of the compiled loop. Turns wait for each other; within one, an update's M-step starts while the
# E-step before it is still at work, which keeps more cores busy.
MOST_TOGETHER = 5


def stream_seed(seed: int, stream: int, count: tf.Tensor) -> tf.Tensor:
    """A stateless seed [2]: the same for the same (seed, stream, count), whatever happened before."""
    return tf.stack([tf.constant(4 * seed + stream), count])


class Learner:
    """Networks, optimisers and temperature of one recipe, and `update`, which trains them from a replay."""

    def __init__(self, config: Config, recipe: Recipe, replay: ReplayRing, observation_size: int,
                 action_size: int) -> None:
        keras.config.set_dtype_policy(config.precision)
        sizes = dict(hidden=config.hidden, layers=config.layers)
        self.config, self.recipe, self.replay = config, recipe, replay
        self.q = QNetwork(observation_size, action_size, seed=100 * config.seed, **sizes)
        self.v = ValueNetwork(observation_size, seed=100 * config.seed + 25, **sizes)
        self.target_v = ValueNetwork(observation_size, seed=0, name="target_v", **sizes)
        self.policy = TanhGaussianPolicy(observation_size, action_size, seed=100 * config.seed + 50, **sizes)
        copy_weights(self.v, self.target_v)
        self.temperature = recipe.temperature(config)
        # Which variables each loss trains.
        self.q_variables, self.v_variables, self.policy_variables = (
            [variable.value for variable in model.trainable_variables] for model in (self.q, self.v, self.policy))
        self.q_optimiser = FusedAdam(self.q_variables, config.value_learning_rate)
        self.v_optimiser = FusedAdam(self.v_variables, config.value_learning_rate)
        self.policy_optimiser = FusedAdam(self.policy_variables, config.policy_learning_rate)

        observation = tf.TensorSpec([None, observation_size])
        lane = tf.TensorSpec([replay.lanes], tf.int32)
        count = tf.TensorSpec([], tf.int32)
        self.update = tf.function(self._update, jit_compile=config.xla, input_signature=[
            lane, lane, count, count, tf.TensorSpec([])])
        self.update_statistics = tf.function(self.policy.normaliser.update, input_signature=[observation])

    def state(self) -> dict[str, tf.Variable]:
        """Every variable of the learner by name: what a checkpoint holds."""
        named = {}
        for model in (self.q, self.v, self.target_v, self.policy):
            named |= {variable.path: variable.value for variable in model.variables}
        for name, optimiser in (("q", self.q_optimiser), ("v", self.v_optimiser), ("policy", self.policy_optimiser)):
            named |= {f"adam/{name}/{i}": variable for i, variable in enumerate(optimiser.variables)}
        return named | {f"temperature/{i}": variable for i, variable in enumerate(self.temperature.variables)}

    def load_state(self, arrays: dict[str, np.ndarray]) -> None:
        """Takes every variable's value from `arrays`, as `state` named them."""
        for name, variable in self.state().items():
            variable.assign(arrays[name])

    def _update(self, first: tf.Tensor, count: tf.Tensor, done: tf.Tensor, seen: tf.Tensor,
                mean_abs_reward: tf.Tensor) -> tf.Tensor:
        """Runs one iteration's updates, after `done` earlier ones; returns their METRICS [U, len(METRICS)].

        first and count are the replay's `bounds`; seen and mean_abs_reward are of all transitions so far.
        """
        updates = self.config.steps_per_iteration * self.config.updates_per_step
        metrics = tf.TensorArray(tf.float32, updates, element_shape=[len(METRICS)])
        together = math.gcd(updates, MOST_TOGETHER)
        for turn in tf.range(updates // together):
            for i in range(together):
                i += turn * together
                metrics = metrics.write(i, self.update_once(first, count, done + i, seen, mean_abs_reward))
        return metrics.stack()

    def update_once(self, first: tf.Tensor, count: tf.Tensor, done: tf.Tensor, seen: tf.Tensor,
                    mean_abs_reward: tf.Tensor) -> tf.Tensor:
        """One M-step of Q and V and one E-step of the policy on one batch (Algorithms 1 and 2)."""
        config, recipe = self.config, self.recipe

        def draw(size: int, stream: int) -> Transition:
            return self._prepare(self.replay.sample(first, count, size, stream_seed(config.seed, stream, done)))

        batch = draw(config.batch_size, BATCH)
        check_transition(batch)

        # M-step of Q: J^Q(omega), on the target V.
        with watching(self.q_variables) as q_tape:
            observation_part = self.q.observation_layer(batch.observation)
            q = self.q.of_action(observation_part, batch.action)
            q_target = self._q_target(batch, self.target_v)
            q_loss = recipe.m_step(q, q_target)

        residual_target = q_target if config.epsilon_value == "target" else self._q_target(batch, self.v)
        reading = self.temperature.read(residual_target - q, self._fresh_td_error(draw), seen, mean_abs_reward)

        # E-step: J^pi(theta), on the same Q.
        with watching(self.policy_variables) as policy_tape:
            loc, log_scale = self.policy(batch.observation)
            policy_action, log_prob = self._act(loc, log_scale, stream_seed(config.seed, ACTION, done))
            q_of_policy = self.q.of_action(observation_part, policy_action)
            baseline = self.target_v(batch.observation) if config.e_step == "score" else tf.zeros_like(q)
            policy_loss = (recipe.e_steps[config.e_step](log_prob, q_of_policy, baseline, reading.temperature)
                           + regulariser(loc, log_scale, config.policy_regulariser))

        # M-step of V: J^V(phi), on Q at the policy's action.
        with watching(self.v_variables) as v_tape:
            v = self.v(batch.observation)
            v_loss = recipe.m_step(v, recipe.v_target(q_of_policy))

        gradients = (q_tape.gradient(q_loss, self.q_variables), v_tape.gradient(v_loss, self.v_variables),
                     policy_tape.gradient(policy_loss, self.policy_variables))
        # All three gradients are of the parameters as they were, as in the authors' code; only now do they move.
        for optimiser, group in zip((self.q_optimiser, self.v_optimiser, self.policy_optimiser), gradients,
                                    strict=True):
            optimiser.apply(group)
        polyak_update(self.v, self.target_v, config.tau)
        return tf.stack([q_loss, v_loss, policy_loss, -tf.reduce_mean(log_prob), reading.epsilon,
                         reading.running_epsilon, reading.lambda_, reading.temperature, tf.reduce_mean(q),
                         tf.reduce_mean(v)])

    def _prepare(self, batch: Transition) -> Transition:
        """Scales the rewards and, where asked for, the observations."""
        batch = batch._replace(reward=batch.reward * self.config.reward_scale)
        if not self.config.normalise_observations:
            return batch
        return batch._replace(observation=self.policy.normaliser(batch.observation),
                              next_observation=self.policy.normaliser(batch.next_observation))

    def _q_target(self, batch: Transition, value: ValueNetwork) -> tf.Tensor:
        return self.recipe.q_target(batch.reward, batch.terminated, value(batch.next_observation),
                                    self.config.discount)

    def _fresh_td_error(self, draw: Callable[[int, int], Transition]) -> Callable[[int], tf.Tensor]:
        """T Q - Q on transitions of its own, for the paper's estimator of epsilon."""
        def td_error(size: int) -> tf.Tensor:
            batch = draw(size, RESIDUAL)
            value = self.target_v if self.config.epsilon_value == "target" else self.v
            return self._q_target(batch, value) - self.q(batch.observation, batch.action)
        return td_error

    def _act(self, loc: tf.Tensor, log_scale: tf.Tensor, seed: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """a ~ pi_theta and log pi_theta(a|s); for the score function the action is held fixed."""
        distribution = squashed_gaussian(loc, log_scale)
        action, log_prob = distribution.experimental_sample_and_log_prob(seed=seed)
        if self.config.e_step == "score":
            action = tf.stop_gradient(action)
            log_prob = distribution.log_prob(tf.clip_by_value(action, -1 + 1e-6, 1 - 1e-6))
        return action, log_prob


@contextlib.contextmanager
def watching(variables: list[tf.Variable]) -> Iterator[tf.GradientTape]:
    """A tape that follows these variables and no others."""
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(variables)
        yield tape
