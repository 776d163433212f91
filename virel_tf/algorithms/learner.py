"""The only update there is: batch -> losses -> gradients -> apply -> target, many times in one compiled call."""

from __future__ import annotations

import math
from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf

from virel_tf.algorithms.critics import Critics, Evidence, network_seed
from virel_tf.algorithms.m_steps import Given, make_m_step, watching
from virel_tf.algorithms.recipe import Recipe, find_part
from virel_tf.algorithms.temperature import TEMPERATURES, Known
from virel_tf.config import Config
from virel_tf.networks.adam import FusedAdam
from virel_tf.networks.policies import Policy, Sample, log_prob_of, sample
from virel_tf.networks.target import copy_weights, polyak_update
from virel_tf.objective.e_step import (
    E_STEPS,
    EStep,
    EStepInputs,
    curvature_around,
    expected_q,
    expected_squashed_entropy,
    regulariser,
)
from virel_tf.objective.targets import minimum
from virel_tf.replay.ring import ReplayRing
from virel_tf.types import Transition, check_transition

# What an update reports, in this order; docs/metrics.md gives each its equation.
METRICS = ("q_loss", "v_loss", "policy_loss", "entropy", "epsilon", "running_epsilon", "lambda", "temperature",
           "q", "v", "q_gap", "soft_reward_scale")

# Streams of random numbers, each keyed by (seed, stream) and then by the count of updates.
BATCH, ACTION, RESIDUAL, NEXT_ACTION = range(4)

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
        self.config, self.recipe, self.replay = config, recipe, replay
        e_step = find_part(recipe.e_step, E_STEPS)
        self.e_step = e_step if isinstance(e_step, EStep) else EStep(e_step)
        self.temperature = find_part(recipe.temperature, TEMPERATURES)(config, action_size)
        self.critics = Critics(config, recipe, observation_size, action_size)

        def policy(name: str) -> Policy:
            return Policy(observation_size, action_size, config.hidden, config.layers, network_seed(config, 50),
                          config.activation, recipe.policy == "deterministic", name, config.initial_weights)

        self.policy = policy("policy")
        self.target_policy = policy("target_policy") if recipe.bootstrap == "target_q" else None
        self.old_policy = policy("old_policy") if recipe.prior == "old_policy" else None
        # Which variables each loss trains.
        self.q_variables, self.v_variables, self.policy_variables = (
            [variable.value for model in models for variable in model.trainable_variables]
            for models in (self.critics.qs, self.critics.vs, [self.policy]))
        self.m_step = make_m_step(recipe.m_step, config, self.critics, self.q_variables)
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
        policies = [model for model in (self.policy, self.target_policy, self.old_policy) if model]
        named = {f"{model.name}/{i}/{variable.path}": variable.value for model in [*self.critics.models, *policies]
                 for i, variable in enumerate(model.variables)}
        for name, owner in (("adam/q", self.q_optimiser), ("adam/v", self.v_optimiser),
                            ("adam/policy", self.policy_optimiser), ("temperature", self.temperature),
                            ("critics", self.critics), ("m_step", self.m_step)):
            named |= {f"{name}/{i}": variable for i, variable in enumerate(owner.variables)}
        return named

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
        """One M-step of the critics and one E-step of the policy on one batch (Algorithms 1 and 2)."""
        config, critics = self.config, self.critics

        def draw(size: int, stream: int, n_step: int = 1) -> Transition:
            seed = stream_seed(config.seed, stream, done)
            return self.prepare(self.replay.sample(first, count, size, seed, n_step, config.discount))

        batch = draw(config.batch_size, BATCH, config.n_step)
        check_transition(batch)
        reading = self.temperature.read(Known(self._fresh_td_error(draw, done), seen, mean_abs_reward))
        temperature = reading.temperature
        given = self._given(batch, temperature, reading.running_epsilon, done)

        # M-step of Q: J^Q(omega).
        parts, evidence, q_loss, q_gradients = self.m_step(given)
        qs = evidence.predictions
        # epsilon is that of the one-step operator, whatever Q is regressed on: the same draw again, one step long.
        online = config.epsilon_value == "online"
        if online or config.n_step > 1:
            one_step = draw(config.batch_size, BATCH) if config.n_step > 1 else batch
            evidence = evidence._replace(targets=self.m_step.targets(
                self._given(one_step, temperature, reading.running_epsilon, done), online))
        td_error = critics.td_error(evidence)

        # E-step: J^pi(theta), on the same Q.
        with watching(self.policy_variables) as policy_tape:
            drawn = sample(self.policy, batch.observation, stream_seed(config.seed, ACTION, done),
                           held=self.e_step.holds_action)
            qs_of_policy = critics.of_action(parts, drawn.action)
            policy_loss = (self.e_step.loss(self._e_step_inputs(batch, parts, drawn, qs_of_policy, temperature))
                           + regulariser(drawn.loc, drawn.log_scale, config.policy_regulariser))

        # M-step of V: J^V(phi), on Q at the policy's action. Without a V, its value is Q's.
        values = critics.values(qs_of_policy, drawn, temperature)
        with watching(self.v_variables) as v_tape:
            vs = [v(batch.observation) for v in critics.vs] or values
            v_loss = sum(self.m_step.loss(v, tf.stop_gradient(value)) for v, value in zip(vs, values, strict=True))

        # All gradients are of the parameters as they were, as in the authors' code; only then do these move.
        steps = [(self.q_optimiser, q_gradients), *(
            (optimiser, tape.gradient(loss, optimiser.parameters)) for optimiser, tape, loss in (
                (self.v_optimiser, v_tape, v_loss), (self.policy_optimiser, policy_tape, policy_loss))
            if optimiser.parameters)]
        for optimiser, gradients in steps:
            optimiser.apply(gradients)
        self._move_followers(done)
        self.temperature.learn(td_error, drawn.log_prob, seen)
        soft_reward_scale = tf.identity(critics.soft_reward_scale())
        critics.follow_means(batch, drawn, temperature)
        mean_q = [tf.reduce_mean(q) for q in qs]
        return tf.stack([q_loss / len(qs), v_loss / len(vs), policy_loss, -tf.reduce_mean(drawn.log_prob),
                         reading.epsilon, reading.running_epsilon, reading.lambda_, temperature,
                         tf.add_n(mean_q) / len(qs), tf.reduce_mean(vs[0]), mean_q[0] - mean_q[-1],
                         soft_reward_scale])

    def prepare(self, batch: Transition) -> Transition:
        """Scales the rewards and, where asked for, the observations."""
        batch = batch._replace(reward=batch.reward * self.config.reward_scale)
        if not self.config.normalise_observations:
            return batch
        return batch._replace(observation=self.policy.normaliser(batch.observation),
                              next_observation=self.policy.normaliser(batch.next_observation))

    def _next_sample(self, batch: Transition, done: tf.Tensor, count: int = 1) -> Sample:
        """`count` actions at each s', of the policy or, where there is one, of its slow copy."""
        observation = batch.next_observation if count == 1 else tf.repeat(batch.next_observation, count, axis=0)
        return sample(self.target_policy or self.policy, observation, stream_seed(self.config.seed, NEXT_ACTION, done))

    def _e_step_inputs(self, batch: Transition, parts: list[tf.Tensor], drawn: Sample, qs: list[tf.Tensor],
                       temperature: tf.Tensor) -> EStepInputs:
        zeros = tf.zeros_like(drawn.log_prob)
        if self.e_step.in_expectation:
            def q_of(x: tf.Tensor) -> tf.Tensor:
                times = x.shape[0] // drawn.loc.shape[0]
                return minimum(self.critics.of_action([tf.tile(part, [times, 1]) for part in parts], tf.tanh(x)))

            scale = tf.exp(drawn.log_scale)
            q = expected_q(q_of(drawn.loc), curvature_around(q_of, drawn.loc, scale), scale)
            entropy = expected_squashed_entropy(drawn.loc, drawn.log_scale)
            return EStepInputs(q, -entropy, zeros, zeros, temperature)
        has_baseline = self.critics.vs and self.e_step.has_baseline
        baseline = self.critics.slow[0](batch.observation) if has_baseline else zeros
        log_prior = log_prob_of(self.old_policy, batch.observation, drawn.before_tanh) if self.old_policy else zeros
        return EStepInputs(minimum(qs), drawn.log_prob, log_prior, baseline, temperature)

    def _given(self, batch: Transition, temperature: tf.Tensor, epsilon: tf.Tensor, done: tf.Tensor) -> Given:
        return Given(
            batch, temperature, epsilon,
            draw_here=lambda: sample(self.policy, batch.observation, stream_seed(self.config.seed, ACTION, done)),
            draw_next=lambda count: self._next_sample(batch, done, count))

    def _fresh_td_error(self, draw: Callable[[int, int], Transition],
                        done: tf.Tensor) -> Callable[[int, tf.Tensor, tf.Tensor], tf.Tensor]:
        """T Q - Q on transitions of its own, for the paper's estimator of epsilon."""
        def td_error(size: int, temperature: tf.Tensor, running_epsilon: tf.Tensor) -> tf.Tensor:
            batch, critics = draw(size, RESIDUAL), self.critics
            given = self._given(batch, temperature, running_epsilon, done)
            qs = critics.of_action(critics.observation_parts(batch.observation), batch.action)
            return critics.td_error(Evidence(qs, self.m_step.targets(given, self.config.epsilon_value == "online")))
        return td_error

    def _move_followers(self, done: tf.Tensor) -> None:
        """What follows the networks that learn: slow critics, DDPG's slow policy, MPO's old one."""
        self.critics.move_slow()
        if self.target_policy:
            polyak_update(self.policy, self.target_policy, self.config.tau)
        if self.old_policy:
            tf.cond((done + 1) % self.config.prior_period == 0,
                    lambda: copy_weights(self.policy, self.old_policy), lambda: None)
