"""The value functions of a recipe: Qs, what they bootstrap on, and their TD errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypedDict

import keras
import tensorflow as tf

from virel_tf.algorithms.temperature import RunningMean
from virel_tf.config import Config
from virel_tf.networks.critics import QNetwork, ValueNetwork
from virel_tf.networks.policies import Sample
from virel_tf.networks.target import copy_weights, polyak_update
from virel_tf.objective.climb import climb
from virel_tf.objective.targets import (
    VALUES,
    aligning_scale,
    bounded,
    hard,
    mean,
    minimum,
    minimum_of_subset,
    soft,
    td_target,
)
from virel_tf.recipe import Recipe, find_part
from virel_tf.transition import Transition

Value = Callable[
    ..., tf.Tensor
]  # how a state's value follows from Q: objective.targets.hard, soft, or the user's own
ALIGNMENT_DECAY = (
    0.999  # rewards and entropies behind virel2's scale are those of about the last 1000 batches
)


class Regression(NamedTuple):
    """What the M-step of Q regresses, per critic, and what the E-step can use again."""

    predictions: list[tf.Tensor]  # Q_i(s, a) [B]
    td_targets: list[tf.Tensor]  # T Q_i (s, a) [B]
    observation_parts: list[tf.Tensor] | None = (
        None  # the first layers' share of s, for the E-step to use again
    )


class NetworkShape(TypedDict):
    """What all critics of a run have in common."""

    hidden: int
    layers: int
    activation: str
    normalisation: str
    initial_weights: str


class Critics:
    """Qs of the kinds that the recipe lists. Kinds that are the same share their V."""

    def __init__(
        self, config: Config, recipe: Recipe, observation_size: int, action_size: int
    ) -> None:
        self.config, self.recipe = config, recipe
        self.kinds: list[Value] = [find_part(kind, VALUES) for kind in recipe.critics]
        self.distinct = list(dict.fromkeys(self.kinds))
        self.mixed = hard in self.distinct and soft in self.distinct
        self.batch_norm = config.normalisation == "batch"
        shape = NetworkShape(
            hidden=config.hidden,
            layers=config.layers,
            activation=config.activation,
            normalisation=config.normalisation,
            initial_weights=config.initial_weights,
        )

        def q(i: int, name: str, first: QNetwork | None) -> QNetwork:
            return QNetwork(
                observation_size,
                action_size,
                seed=network_seed(config, 0, i),
                name=f"{name}{i}",
                input_norm_of=first,
                **shape,
            )

        def v(i: int, name: str) -> ValueNetwork:
            return ValueNetwork(
                observation_size, seed=network_seed(config, 25, i), name=f"{name}{i}", **shape
            )

        # All Qs see the same batches, so the statistics of their inputs are the same: the first
        # Q's.
        self.qs: list[QNetwork] = []
        for i in range(len(self.kinds)):
            self.qs.append(q(i, "q", self.qs[0] if self.qs else None))
        self.vs: list[ValueNetwork] = []
        self.target_vs: list[ValueNetwork] = []
        self.target_qs: list[QNetwork] = []
        if recipe.bootstrap == "v":
            self.vs = [v(i, "v") for i in range(len(self.distinct))]
            self.target_vs = [v(i, "target_v") for i in range(len(self.distinct))]
        elif recipe.bootstrap != "self":
            self.target_qs = [q(i, "target_q", self.qs[0]) for i in range(len(self.kinds))]
        for source, target in self._followed:
            copy_weights(source, target)
        self.mean_reward, self.mean_bonus = (
            RunningMean(ALIGNMENT_DECAY),
            RunningMean(ALIGNMENT_DECAY),
        )

    @property
    def _followed(self) -> list[tuple[keras.Model, keras.Model]]:
        """(network, its target network)."""
        if self.recipe.bootstrap == "v":
            return list(zip(self.vs, self.target_vs, strict=True))
        if self.recipe.bootstrap == "self":
            return []
        return list(zip(self.qs, self.target_qs, strict=True))

    @property
    def online(self) -> list[keras.Model]:
        """The networks that learn: every Q, then every V."""
        return [*self.qs, *self.vs]

    @property
    def models(self) -> list[keras.Model]:
        """Every network, for a checkpoint."""
        return [*self.online, *self.target_vs, *self.target_qs]

    @property
    def variables(self) -> list[tf.Variable]:
        """State beside the networks'."""
        return [*self.mean_reward.variables, *self.mean_bonus.variables]

    # ------------------------------------------------------------ Q at an action of the policy,
    # inference mode

    def observation_parts(self, observation: tf.Tensor) -> list[tf.Tensor]:
        """The first layer's share of the observation, per Q, for `of_action`."""
        return [q.observation_part(observation) for q in self.qs]

    def of_action(self, parts: list[tf.Tensor], action: tf.Tensor) -> list[tf.Tensor]:
        """Q_i(s, a) [B]."""
        return [q.of_action(part, action) for q, part in zip(self.qs, parts, strict=True)]

    def for_policy(self, qs: list[tf.Tensor]) -> tf.Tensor:
        """The Q that the policy climbs [B]."""
        return mean(qs) if self.recipe.policy_q == "mean" else minimum(qs)

    def values(
        self, qs: list[tf.Tensor], sample: Sample, temperature: tf.Tensor
    ) -> list[tf.Tensor]:
        """The targets of V, one for each kind, from Q_i at the policy's action [B]."""
        return [kind(minimum(qs), sample.log_prob, temperature) for kind in self.distinct]

    # ------------------------------------------------------------ M-step: Q(s, a) and its TD target

    def regression(
        self,
        batch: Transition,
        next_sample: Sample | None,
        temperature: tf.Tensor,
        subset_seed: tf.Tensor,
        online: bool = False,
        track: bool = True,
    ) -> Regression:
        """Q(s, a) and r + gamma U(s') per critic; no gradient flows through the latter.

        next_sample: actions at s'; None where a V stands for the value of s'. `online` asks for the
        V or the Qs that learn in place of their target networks. `track`: running statistics of
        batch normalisation follow this batch.

        With batch normalisation (s, a) and (s', a') go through a network together, as one batch of
        twice the size: Q at both is then normalised by the same statistics (Bhatt et al. 2024).
        """
        if self.recipe.bootstrap == "v":
            predictions, parts = self._predictions(batch, track)
            next_values = self._next_vs(batch, online)
            return Regression(predictions, self.td_targets(batch, next_values), parts)
        assert next_sample is not None  # no V stands for the value of s'
        target_qs = self.qs if online else self.target_qs
        if self.batch_norm or self.recipe.bootstrap == "self":
            observation = tf.concat([batch.observation, batch.next_observation], axis=0)
            action = tf.concat([batch.action, next_sample.action], axis=0)
            halves = [
                tf.split(q, 2) for q in self._in_training(self.qs, observation, action, track)
            ]
            predictions = [here for here, _ in halves]
            next_qs = [there for _, there in halves]
            parts = None
            if self.recipe.bootstrap != "self" and not online:
                target = self._in_training(target_qs, observation, action, track=False)
                next_qs = [tf.split(q, 2)[1] for q in target]
        else:
            predictions, parts = self._predictions(batch, track)
            if self.recipe.bootstrap == "optimal_q":
                next_sample = self._climbed(batch.next_observation, next_sample, target_qs)
            next_qs = [q(batch.next_observation, next_sample.action) for q in target_qs]
        next_qs = [tf.stop_gradient(q) for q in next_qs]
        least = self._least(next_qs, subset_seed)
        next_values = [kind(least, next_sample.log_prob, temperature) for kind in self.distinct]
        return Regression(predictions, self.td_targets(batch, next_values), parts)

    def _predictions(
        self, batch: Transition, track: bool
    ) -> tuple[list[tf.Tensor], list[tf.Tensor] | None]:
        """Q_i(s, a) [B], and the first layers' share of s."""
        if self.batch_norm:
            return self._in_training(self.qs, batch.observation, batch.action, track), None
        parts = self.observation_parts(batch.observation)
        return self.of_action(parts, batch.action), parts

    def _in_training(
        self, qs: list[QNetwork], observation: tf.Tensor, action: tf.Tensor, track: bool
    ) -> list[tf.Tensor]:
        """Q_i [B] in training mode; batch normalisation treats the inputs once for all Qs."""
        if not self.batch_norm:
            return [q(observation, action) for q in qs]
        inputs = qs[0].normalised(observation, action, track)
        return [q.of_normalised(inputs, track) for q in qs]

    def _next_vs(self, batch: Transition, online: bool) -> list[tf.Tensor]:
        """V(s') [B] per kind."""
        models = self.vs if online else self.target_vs
        if not self.batch_norm:
            return [v(batch.next_observation) for v in models]
        both = tf.concat([batch.observation, batch.next_observation], axis=0)
        return [tf.split(v(both, training=True, track=False), 2)[1] for v in models]

    def predicted_values(self, batch: Transition) -> list[tf.Tensor]:
        """V(s) [B] per kind, in training mode."""
        if not self.batch_norm:
            return [v(batch.observation) for v in self.vs]
        both = tf.concat([batch.observation, batch.next_observation], axis=0)
        return [tf.split(v(both, training=True), 2)[0] for v in self.vs]

    def _climbed(self, observation: tf.Tensor, sample: Sample, qs: list[QNetwork]) -> Sample:
        """The best action found near the sampled one."""
        action = climb(
            lambda action: minimum([q(observation, action) for q in qs]),
            sample.action,
            self.recipe.climb_steps,
        )
        return sample._replace(action=action)

    def _least(self, qs: list[tf.Tensor], subset_seed: tf.Tensor) -> tf.Tensor:
        """The minimum over the Qs, or over a random subset of them."""
        subset = self.recipe.target_subset
        if 0 < subset < len(qs):
            return minimum_of_subset(qs, subset, subset_seed)
        return minimum(qs)

    def td_targets(self, batch: Transition, next_values: list[tf.Tensor]) -> list[tf.Tensor]:
        """T Q_i [B] for each Q, on its kind's value of s'."""
        scale = self.soft_reward_scale()
        next_values = [bounded(value, self.config.value_bound) for value in next_values]
        return [
            td_target(
                batch.reward * scale if kind is soft else batch.reward,
                batch.terminated,
                next_values[self.distinct.index(kind)],
                batch.discount,
            )
            for kind in self.kinds
        ]

    def td_error(self, regression: Regression) -> tf.Tensor:
        """T Q - Q [N], what epsilon is made of.

        Only hard critics count, where there are any: the soft operator is not in the paper's set.
        Each has its own residual; of epsilon_critics=minimum there is one, of the minimum that
        the policy sees.
        """
        pairs = list(zip(regression.td_targets, regression.predictions, strict=True))
        pairs = [
            pair for pair, kind in zip(pairs, self.kinds, strict=True) if kind is hard
        ] or pairs
        if self.recipe.epsilon_critics == "minimum":
            return pairs[0][0] - minimum([prediction for _, prediction in pairs])
        return tf.concat([target - prediction for target, prediction in pairs], axis=0)

    # ------------------------------------------------------------ virel2's alignment, target
    # networks

    def soft_reward_scale(self) -> tf.Tensor | float:
        """virel2's factor on the soft critic's rewards; 1 without a hard critic to align with."""
        if not self.mixed:
            return 1.0
        if self.recipe.soft_reward_scale:
            return self.recipe.soft_reward_scale
        scale = aligning_scale(self.mean_reward.mean, self.mean_bonus.mean)
        return tf.where(self.mean_reward.weight > 0, scale, 1.0)

    def follow_means(self, batch: Transition, entropy: tf.Tensor, temperature: tf.Tensor) -> None:
        """Takes in what `soft_reward_scale` needs of an update."""
        if self.mixed and not self.recipe.soft_reward_scale:
            self.mean_reward.update(tf.reduce_mean(batch.reward))
            # The bonus is that of s', where there is one.
            reached = tf.reduce_mean(batch.discount * (1.0 - batch.terminated))
            self.mean_bonus.update(temperature * entropy * reached)

    def move_targets(self) -> None:
        """One Polyak step of the target networks."""
        for source, target in self._followed:
            polyak_update(source, target, self.config.tau)


def network_seed(config: Config, role: int, index: int = 0) -> int:
    """A seed for each network of a run. `role` counts up to 100; second critics are far off."""
    return (100 * config.seed + role + 50_000_017 * index) % 2**31
