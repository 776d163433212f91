"""The update: Algorithms 1 and 2 on one batch, many times in one compiled call.

`Learner.update_once` is the whole of it; what it calls stands below it, in the same order.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from virel_tf.algorithms.averaged_policy import AveragedPolicy
from virel_tf.algorithms.critic_ensemble import Critics, network_seed
from virel_tf.algorithms.m_steps import MStepInputs, MStepResult, make_m_step
from virel_tf.algorithms.m_steps.base import watching
from virel_tf.algorithms.policy import make_policy
from virel_tf.algorithms.state_residual import StateResidual
from virel_tf.algorithms.temperature import TEMPERATURES, TemperatureReading
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
from virel_tf.objective.targets import clipped_noise
from virel_tf.recipe import Recipe, find_part
from virel_tf.replay.ring import ReplayRing, ReplayView
from virel_tf.transition import Transition, check_transition

# What an update reports; docs/metrics.md gives each its equation.
METRICS = (
    "q_loss",
    "v_loss",
    "policy_loss",
    "entropy",
    "epsilon",
    "running_epsilon",
    "lambda",
    "temperature",
    "q",
    "v",
    "q_gap",
    "soft_reward_scale",
)

# Streams of random numbers, each keyed by (seed, stream) and then by the count of updates.
BATCH, ACTION, RESIDUAL, NEXT_ACTION = range(4)
# Further streams, derived from that of the next action.
TARGET_NOISE, SUBSET = 1, 2

# Updates per turn of the compiled loop. Turns wait for each other; within one, an update's M-step
# starts while the E-step before it is still at work, which keeps more cores busy.
MOST_TOGETHER = 5


def stream_seed(seed: int, stream: int, count: tf.Tensor) -> tf.Tensor:
    """A stateless seed [2]: the same for the same arguments, whatever happened before."""
    return tf.stack([tf.constant(4 * seed + stream), count])


class EStepResult(NamedTuple):
    """What an E-step leaves for the rest of the update."""

    loss: tf.Tensor  # []
    entropy: tf.Tensor  # [], of the policy
    value: tf.Tensor  # [], the mean value of the policy's actions
    values: list[tf.Tensor]  # the targets of V [B], one for each kind of critic


class Learner:
    """Networks, optimisers and temperature of one recipe, and `update`, which trains them."""

    def __init__(
        self,
        config: Config,
        recipe: Recipe,
        replay: ReplayRing,
        observation_size: int,
        action_size: int,
    ) -> None:
        keras.config.set_dtype_policy(config.precision)
        if config.normalisation == "batch":
            # TensorFlow's remapper cannot read the graph of a batch-normalised update and prints
            # errors. What it would fuse makes no difference to the speed.
            tf.config.optimizer.set_experimental_options({"remapping": False})
        self.config = config
        self.recipe = recipe
        self.replay = replay
        e_step = find_part(recipe.e_step, E_STEPS)
        self.e_step = e_step if isinstance(e_step, EStep) else EStep(e_step)
        self.temperature = find_part(recipe.temperature, TEMPERATURES)(config, action_size)
        self.state_residual = None
        if self.temperature.per_state:
            seed = network_seed(config, 75)
            self.state_residual = StateResidual(config, observation_size, seed)
        self.critics = Critics(config, recipe, observation_size, action_size)

        sizes = observation_size, action_size
        policy_seed = network_seed(config, 50)
        self.policy = make_policy(config, recipe, *sizes, policy_seed)
        self.target_policy = None
        self.old_policy = None
        if recipe.bootstrap == "target_q":
            self.target_policy = make_policy(config, recipe, *sizes, policy_seed, "target_policy")
        self.averaged_policy = None
        if config.policy_averaging:
            mean = make_policy(config, recipe, *sizes, policy_seed, "averaged_policy")
            decay = max(0.0, 1.0 - config.steps_per_iteration / config.policy_averaging)
            self.averaged_policy = AveragedPolicy(mean, decay)
        if recipe.prior == "old_policy":
            self.old_policy = make_policy(config, recipe, *sizes, policy_seed, "old_policy")

        self.q_variables = trainable(self.critics.qs)
        self.v_variables = trainable(self.critics.vs)
        self.policy_variables = trainable([self.policy])
        self.m_step = make_m_step(recipe.m_step, config, self.critics, self.q_variables)
        betas = config.adam_beta_1, config.adam_beta_2
        self.q_optimiser = FusedAdam(self.q_variables, config.value_learning_rate, *betas)
        self.v_optimiser = FusedAdam(self.v_variables, config.value_learning_rate, *betas)
        self.policy_optimiser = FusedAdam(
            self.policy_variables, config.policy_learning_rate, *betas
        )
        # Loss, entropy and value of the newest E-step, for the updates without one.
        self.newest_e_step = tf.Variable(tf.zeros([3]), trainable=False)
        # What rewards are divided by: the deviation of the return (train/return_scale.py).
        self.reward_divisor = tf.Variable(1.0, trainable=False)

        number = tf.TensorSpec([], tf.int32)
        lane = tf.TensorSpec([replay.lanes], tf.int32)
        signature = [ReplayView(lane, lane), number, number, tf.TensorSpec([])]
        self.update = tf.function(self._update, jit_compile=config.xla, input_signature=signature)
        self.average_policy = tf.function(self._average_policy, input_signature=[])
        self.update_statistics = tf.function(
            self.policy.normaliser.update,
            input_signature=[tf.TensorSpec([None, observation_size])],
        )

    # ------------------------------------------------------------ the update

    def _update(
        self,
        view: ReplayView,
        updates_done: tf.Tensor,
        steps_seen: tf.Tensor,
        mean_abs_reward: tf.Tensor,
    ) -> tf.Tensor:
        """Runs one iteration's updates, after `updates_done` earlier ones.

        Returns their METRICS [U, len(METRICS)]. steps_seen and mean_abs_reward are of all
        transitions so far.
        """
        updates = self.config.steps_per_iteration * self.config.updates_per_step
        rows = tf.TensorArray(tf.float32, updates, element_shape=[len(METRICS)])
        together = math.gcd(updates, MOST_TOGETHER)
        for turn in tf.range(updates // together):
            for i in range(together):
                i += turn * together
                metrics = self.update_once(view, updates_done + i, steps_seen, mean_abs_reward)
                rows = rows.write(i, tf.stack([metrics[name] for name in METRICS]))
        return rows.stack()

    def update_once(
        self,
        view: ReplayView,
        update: tf.Tensor,
        steps_seen: tf.Tensor,
        mean_abs_reward: tf.Tensor,
    ) -> dict[str, tf.Tensor]:
        """One M-step of the critics and one E-step of the policy on one batch (Algorithms 1, 2)."""
        config, critics = self.config, self.critics
        batch = self._draw(view, BATCH, update, config.batch_size, config.n_step)
        check_transition(batch)

        # Temperature: alpha, learned, or lambda epsilon with the residual error epsilon.
        temperature = self._read_temperature(view, update, steps_seen, mean_abs_reward)

        # M-step of Q: J^Q(omega), on TD targets.
        m_step = self.m_step(self._m_step_inputs(batch, temperature, update))
        if config.n_step == 1:
            td_error = self._batch_td_error(batch, m_step, temperature, update)

        # E-step: J^pi(theta), on the same Q, every policy_period updates.
        e_step = self._e_step_if_due(view, batch, m_step, temperature, update, steps_seen)

        # M-step of V: J^V(phi), on Q at the policy's action, where the recipe has a V.
        v_loss, v, v_gradients = self._v_step(batch, e_step)

        # The gradients above are of Q and V as they were; only now do they move.
        self.q_optimiser.apply(m_step.gradients)
        if self.v_variables:
            self.v_optimiser.apply(v_gradients)
        self._move_target_networks(update)

        # What the next update's temperature is made of.
        if config.n_step == 1:
            self._follow_residual(batch.observation, td_error)
        soft_reward_scale = tf.identity(critics.soft_reward_scale())
        critics.follow_means(batch, e_step.entropy, temperature.temperature)

        qs = [tf.reduce_mean(q) for q in m_step.regression.predictions]
        return {
            "q_loss": m_step.loss / len(qs),
            "v_loss": v_loss,
            "policy_loss": e_step.loss,
            "entropy": e_step.entropy,
            "epsilon": temperature.epsilon,
            "running_epsilon": temperature.running_epsilon,
            "lambda": temperature.lambda_,
            "temperature": temperature.temperature,
            "q": tf.add_n(qs) / len(qs),
            "v": v,
            "q_gap": qs[0] - qs[-1],
            "soft_reward_scale": soft_reward_scale,
        }

    # ------------------------------------------------------------ its parts, in order

    def _draw(
        self, view: ReplayView, stream: int, update: tf.Tensor, size: int, n_step: int = 1
    ) -> Transition:
        seed = stream_seed(self.config.seed, stream, update)
        return self.prepare(self.replay.sample(view, size, seed, n_step, self.config.discount))

    def prepare(self, batch: Transition) -> Transition:
        """Scales the rewards and, where asked for, the observations."""
        reward = batch.reward * self.config.reward_scale
        if self.config.reward_scaling == "return":
            reward /= self.reward_divisor
        batch = batch._replace(reward=reward)
        if not self.config.normalise_observations:
            return batch
        return batch._replace(
            observation=self.policy.normaliser(batch.observation),
            next_observation=self.policy.normaliser(batch.next_observation),
        )

    def _read_temperature(
        self,
        view: ReplayView,
        update: tf.Tensor,
        steps_seen: tf.Tensor,
        mean_abs_reward: tf.Tensor,
    ) -> TemperatureReading:
        """The temperature of this update; for the paper's epsilon, from a batch of its own."""
        running = self.temperature.running(mean_abs_reward)
        fresh_td_error = None
        if self.temperature.draws_afresh:
            batch = self._draw(view, RESIDUAL, update, self.config.epsilon_samples)
            fresh_td_error = self._td_error(batch, running, update)
        return self.temperature.read(running, fresh_td_error, steps_seen)

    def _temperature_at(self, reading: TemperatureReading, observation: tf.Tensor) -> tf.Tensor:
        """[], or [B] where each state has its own."""
        if self.state_residual:
            return reading.temperature * self.state_residual.relative(observation)
        return reading.temperature

    def _m_step_inputs(
        self, batch: Transition, reading: TemperatureReading, update: tf.Tensor
    ) -> MStepInputs:
        next_seed = stream_seed(self.config.seed, NEXT_ACTION, update)
        next_sample = None
        if self.recipe.m_step != "direct" and not callable(self.recipe.m_step):
            next_sample = self._next_sample(batch, next_seed, self.m_step.next_actions)
        elif self.recipe.bootstrap != "v":
            next_sample = self._next_sample(batch, next_seed, 1)
        policy_sample = None
        if self.m_step.wants_policy_sample:
            seed = stream_seed(self.config.seed, ACTION, update)
            policy_sample = sample(self.policy, batch.observation, seed)
        return MStepInputs(
            batch,
            next_sample,
            policy_sample,
            self._temperature_at(reading, batch.next_observation),
            reading.running_epsilon,
            subset_seed=derived_seed(next_seed, SUBSET),
        )

    def _next_sample(self, batch: Transition, seed: tf.Tensor, count: int) -> Sample:
        """`count` actions at each s', of the policy or of its target network, if it has one."""
        observation = batch.next_observation
        if count > 1:
            observation = tf.repeat(observation, count, axis=0)
        drawn = sample(self.target_policy or self.policy, observation, seed)
        if self.recipe.target_noise == "none":
            return drawn
        noise = clipped_noise(
            tf.shape(drawn.action),
            self.recipe.target_noise_sigma,
            self.recipe.target_noise_clip,
            derived_seed(seed, TARGET_NOISE),
        )
        return drawn._replace(action=tf.clip_by_value(drawn.action + noise, -1.0, 1.0))

    def _batch_td_error(
        self,
        batch: Transition,
        m_step: MStepResult,
        reading: TemperatureReading,
        update: tf.Tensor,
    ) -> tf.Tensor:
        """T Q - Q of the M-step's own batch, whose targets are one-step targets."""
        if self.recipe.epsilon_value == "target":
            return self.critics.td_error(m_step.regression)
        return self._td_error(batch, reading, update)

    def _td_error(
        self, batch: Transition, reading: TemperatureReading, update: tf.Tensor
    ) -> tf.Tensor:
        """T Q - Q of a batch on which nothing is learned."""
        online = self.recipe.epsilon_value == "online"
        inputs = self._m_step_inputs(batch, reading, update)
        return self.critics.td_error(self.m_step.regression(inputs, online=online, track=False))

    def _follow_residual(self, observation: tf.Tensor, td_error: tf.Tensor) -> None:
        """Takes T Q - Q [N] into epsilon and, where states have their own, into epsilon(s)."""
        self.temperature.follow_residual(td_error)
        if self.state_residual:
            squared = tf.square(tf.reshape(td_error, [-1, observation.shape[0]]))
            self.state_residual.learn(observation, tf.reduce_mean(squared, axis=0))

    def _e_step_if_due(
        self,
        view: ReplayView,
        batch: Transition,
        m_step: MStepResult,
        reading: TemperatureReading,
        update: tf.Tensor,
        steps_seen: tf.Tensor,
    ) -> EStepResult:
        """The E-step every policy_period updates; between them, what the newest one left."""
        parts = m_step.observation_parts

        def due() -> EStepResult:
            if self.config.n_step > 1:
                # epsilon is of the one-step operator, whatever Q is regressed on. So its residual
                # is computed on one-step transitions, and only when the policy moves, since only
                # then the temperature matters.
                one_step = self._draw(view, BATCH, update, self.config.batch_size)
                td_error = self._td_error(one_step, reading, update)
                self._follow_residual(one_step.observation, td_error)
            return self._e_step(batch, parts, reading, update, steps_seen)

        if self.recipe.policy_period == 1:
            return due()

        def due_and_noted() -> tf.Tensor:
            result = due()
            return self.newest_e_step.assign([result.loss, result.entropy, result.value])

        newest = tf.cond(
            update % self.recipe.policy_period == 0,
            due_and_noted,
            lambda: tf.identity(self.newest_e_step),
        )
        loss, entropy, value = tf.unstack(newest)
        values = []
        if self.v_variables:  # V learns at every update
            if parts is None:
                parts = self.critics.observation_parts(batch.observation)
            seed = stream_seed(self.config.seed, ACTION, update)
            drawn = sample(self.policy, batch.observation, seed)
            qs = self.critics.of_action(parts, drawn.action)
            temperature = self._temperature_at(reading, batch.observation)
            values = self.critics.values(qs, drawn, temperature)
        return EStepResult(loss, entropy, value, values)

    def _e_step(
        self,
        batch: Transition,
        parts: list[tf.Tensor] | None,
        reading: TemperatureReading,
        update: tf.Tensor,
        steps_seen: tf.Tensor,
    ) -> EStepResult:
        """Moves the policy up Q and its entropy; the critics are in inference mode."""
        if parts is None:
            parts = self.critics.observation_parts(batch.observation)
        temperature = self._temperature_at(reading, batch.observation)
        seed = stream_seed(self.config.seed, ACTION, update)
        with watching(self.policy_variables) as tape:
            drawn = sample(
                self.policy,
                batch.observation,
                seed,
                held=self.e_step.holds_action,
                training=True,
            )
            qs = self.critics.of_action(parts, drawn.action)
            loss = self.e_step.loss(self._e_step_inputs(batch, parts, drawn, qs, temperature))
            loss += regulariser(drawn.loc, drawn.log_scale, self.config.policy_regulariser)
        values = self.critics.values(qs, drawn, temperature)
        self.policy_optimiser.apply(tape.gradient(loss, self.policy_variables))
        self.temperature.follow_entropy(drawn.log_prob, reading, steps_seen)
        entropy = -tf.reduce_mean(drawn.log_prob)
        return EStepResult(loss, entropy, tf.reduce_mean(values[0]), values)

    def _e_step_inputs(
        self,
        batch: Transition,
        parts: list[tf.Tensor],
        drawn: Sample,
        qs: list[tf.Tensor],
        temperature: tf.Tensor,
    ) -> EStepInputs:
        critics = self.critics
        zeros = tf.zeros_like(drawn.log_prob)
        if self.e_step.in_expectation:

            def q_of(x: tf.Tensor) -> tf.Tensor:
                times = x.shape[0] // drawn.loc.shape[0]
                tiled = [tf.tile(part, [times, 1]) for part in parts]
                return critics.for_policy(critics.of_action(tiled, tf.tanh(x)))

            scale = tf.exp(drawn.log_scale)
            q = expected_q(q_of(drawn.loc), curvature_around(q_of, drawn.loc, scale), scale)
            entropy = expected_squashed_entropy(drawn.loc, drawn.log_scale)
            return EStepInputs(q, -entropy, zeros, zeros, temperature)
        baseline = zeros
        if critics.target_vs and self.e_step.has_baseline:
            baseline = critics.target_vs[0](batch.observation)
        log_prior = zeros
        if self.old_policy:
            log_prior = log_prob_of(self.old_policy, batch.observation, drawn.before_tanh)
        return EStepInputs(critics.for_policy(qs), drawn.log_prob, log_prior, baseline, temperature)

    def _v_step(
        self, batch: Transition, e_step: EStepResult
    ) -> tuple[tf.Tensor, tf.Tensor, list[tf.Tensor]]:
        """(mean loss, mean of the first V, gradients); without a V, the value of Q in its place."""
        if not self.v_variables:
            return tf.constant(0.0), e_step.value, []
        with watching(self.v_variables) as tape:
            vs = self.critics.predicted_values(batch)
            losses = [
                self.m_step.loss(v, tf.stop_gradient(value))
                for v, value in zip(vs, e_step.values, strict=True)
            ]
            loss = sum(losses)
        gradients = tape.gradient(loss, self.v_variables)
        return loss / len(vs), tf.reduce_mean(vs[0]), gradients

    def _move_target_networks(self, update: tf.Tensor) -> None:
        """Target critics, DDPG's and TD3's target policy, MPO's old policy."""
        if self.target_policy is None:
            self.critics.move_targets()
        elif self.recipe.policy_period == 1:
            self._move_with_policy()
        else:  # TD3 moves the target networks when it moves the policy
            due = update % self.recipe.policy_period == 0
            tf.cond(due, self._move_with_policy, lambda: None)
        if self.old_policy:
            due = (update + 1) % self.recipe.prior_period == 0
            tf.cond(due, lambda: copy_weights(self.policy, self.old_policy), lambda: None)

    def _move_with_policy(self) -> None:
        self.critics.move_targets()
        polyak_update(self.policy, self.target_policy, self.config.tau)

    # ------------------------------------------------------------ what users get

    @property
    def evaluated_policy(self) -> Policy:
        """The policy to evaluate and export: the averaged one, or the newest without averaging."""
        return self.averaged_policy.mean if self.averaged_policy else self.policy

    def _average_policy(self) -> None:
        """Called once after the updates of an iteration."""
        if self.averaged_policy:
            self.averaged_policy.follow(self.policy)

    # ------------------------------------------------------------ state

    def state(self) -> dict[str, tf.Variable]:
        """Every variable of the learner by name: what a checkpoint holds."""
        models = [*self.critics.models, self.policy]
        for model in (self.target_policy, self.old_policy):
            if model:
                models.append(model)
        owners = {
            "adam/q": self.q_optimiser,
            "adam/v": self.v_optimiser,
            "adam/policy": self.policy_optimiser,
            "temperature": self.temperature,
            "critics": self.critics,
            "m_step": self.m_step,
        }
        if self.averaged_policy:
            models.append(self.averaged_policy.mean)
        if self.state_residual:
            models.append(self.state_residual.network)
            owners["adam/state_residual"] = self.state_residual.optimiser
        named = {
            "newest_e_step": self.newest_e_step,
            "reward_divisor": self.reward_divisor,
        }
        if self.averaged_policy:
            named["averaging_weight"] = self.averaged_policy.weight
        for model in models:
            for i, variable in enumerate(model.variables):
                named[f"{model.name}/{i}/{variable.path}"] = variable.value
        for name, owner in owners.items():
            for i, variable in enumerate(owner.variables):
                named[f"{name}/{i}"] = variable
        return named

    def load_state(self, arrays: dict[str, np.ndarray]) -> None:
        """Takes every variable's value from `arrays`, as `state` named them."""
        for name, variable in self.state().items():
            variable.assign(arrays[name])


def trainable(models: list[keras.Model]) -> list[tf.Variable]:
    """The variables that a loss of these models trains."""
    return [variable.value for model in models for variable in model.trainable_variables]


def derived_seed(seed: tf.Tensor, stream: int) -> tf.Tensor:
    """A stateless seed [2] that has nothing in common with `seed`."""
    return tf.random.experimental.stateless_fold_in(seed, stream)
