"""The value functions of a recipe: its Qs, the V or the slow copies they bootstrap on, and their residuals."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import keras
import tensorflow as tf

from virel_tf.algorithms.recipe import Recipe, find_part
from virel_tf.algorithms.temperature import RunningMean
from virel_tf.config import Config
from virel_tf.networks.critics import QNetwork, ValueNetwork
from virel_tf.networks.policies import Sample
from virel_tf.networks.target import copy_weights, polyak_update
from virel_tf.objective.operators import climb
from virel_tf.objective.targets import VALUES, aligning_scale, hard, minimum, soft, td_target
from virel_tf.types import Transition

Value = Callable[..., tf.Tensor]  # how a state's value follows from Q: objective.targets.hard, soft, or the user's own
ALIGNMENT_DECAY = 0.999  # rewards and entropies behind virel2's scale are those of about the last 1000 batches


class Evidence(NamedTuple):
    """What the M-step of Q regresses, per critic."""

    predictions: list[tf.Tensor]  # Q_i(s, a) [B]
    targets: list[tf.Tensor]  # T Q_i (s, a) [B]


class Critics:
    """Qs of the kinds that the recipe lists. Kinds that are the same share their V."""

    def __init__(self, config: Config, recipe: Recipe, observation_size: int, action_size: int) -> None:
        self.config = config
        self.kinds: list[Value] = [find_part(kind, VALUES) for kind in recipe.critics]
        self.distinct = list(dict.fromkeys(self.kinds))
        self.climbs = recipe.bootstrap == "optimal_q"
        self.mixed = hard in self.distinct and soft in self.distinct
        shape = dict(hidden=config.hidden, layers=config.layers, activation=config.activation,
                     layer_norm=config.layer_norm, initial_weights=config.initial_weights)

        def q(i: int, name: str) -> QNetwork:
            return QNetwork(observation_size, action_size, seed=network_seed(config, 0, i), name=f"{name}{i}", **shape)

        def v(i: int, name: str) -> ValueNetwork:
            return ValueNetwork(observation_size, seed=network_seed(config, 25, i), name=f"{name}{i}", **shape)

        self.qs = [q(i, "q") for i in range(len(self.kinds))]
        # What is bootstrapped on: V-bar, one for each kind, or Q-bar, one for each Q.
        self.vs = [v(i, "v") for i in range(len(self.distinct))] if recipe.bootstrap == "v" else []
        self.slow = [v(i, "target_v") for i in range(len(self.vs))] or [q(i, "target_q") for i in range(len(self.qs))]
        for source, target in zip(self.vs or self.qs, self.slow, strict=True):
            copy_weights(source, target)
        self.mean_reward, self.mean_bonus = RunningMean(ALIGNMENT_DECAY), RunningMean(ALIGNMENT_DECAY)

    @property
    def online(self) -> list[keras.Model]:
        """The networks that learn: every Q, then every V."""
        return [*self.qs, *self.vs]

    @property
    def models(self) -> list[keras.Model]:
        """Every network, for a checkpoint."""
        return [*self.online, *self.slow]

    @property
    def variables(self) -> list[tf.Variable]:
        """State beside the networks'."""
        return [*self.mean_reward.variables, *self.mean_bonus.variables]

    def observation_parts(self, observation: tf.Tensor) -> list[tf.Tensor]:
        """The first layer's share of the observation, per Q, for `of_action`."""
        return [q.observation_layer(observation) for q in self.qs]

    def of_action(self, parts: list[tf.Tensor], action: tf.Tensor) -> list[tf.Tensor]:
        """Q_i(s, a) [B]."""
        return [q.of_action(part, action) for q, part in zip(self.qs, parts, strict=True)]

    def values(self, qs: list[tf.Tensor], sample: Sample, temperature: tf.Tensor) -> list[tf.Tensor]:
        """The targets of V, one for each kind, from Q_i at the policy's action [B]."""
        return [kind(minimum(qs), sample.log_prob, temperature) for kind in self.distinct]

    def next_values(self, next_observation: tf.Tensor, next_sample: Callable[[], Sample], temperature: tf.Tensor,
                    online: bool = False) -> list[tf.Tensor]:
        """The value of s' [B], one for each kind, by the slow networks or, where `online`, by those that learn."""
        if self.vs:
            return [v(next_observation) for v in (self.vs if online else self.slow)]
        sample, models = next_sample(), self.qs if online else self.slow

        def qs(action: tf.Tensor) -> list[tf.Tensor]:
            return [q(next_observation, action) for q in models]

        if self.climbs:
            sample = sample._replace(action=climb(lambda action: minimum(qs(action)), sample.action,
                                                  self.config.climb_steps))
        return self.values(qs(sample.action), sample, temperature)

    def targets(self, batch: Transition, next_values: list[tf.Tensor]) -> list[tf.Tensor]:
        """T Q_i [B] for each Q, on its kind's value of s'."""
        scale = self.soft_reward_scale()
        return [td_target(batch.reward * scale if kind is soft else batch.reward, batch.terminated,
                          next_values[self.distinct.index(kind)], batch.discount) for kind in self.kinds]

    def soft_reward_scale(self) -> tf.Tensor | float:
        """virel2's factor on the soft critic's rewards; 1 where there is no hard critic to align with."""
        if not self.mixed:
            return 1.0
        if self.config.soft_reward_scale:
            return self.config.soft_reward_scale
        scale = aligning_scale(self.mean_reward.mean, self.mean_bonus.mean)
        return tf.where(self.mean_reward.weight > 0, scale, 1.0)

    def follow_means(self, batch: Transition, sample: Sample, temperature: tf.Tensor) -> None:
        """Takes in what `soft_reward_scale` needs to know of an update."""
        if self.mixed and not self.config.soft_reward_scale:
            self.mean_reward.update(tf.reduce_mean(batch.reward))
            # The bonus is that of s', where there is one.
            reached = tf.reduce_mean(batch.discount * (1.0 - batch.terminated))
            self.mean_bonus.update(-temperature * tf.reduce_mean(sample.log_prob) * reached)

    def td_error(self, evidence: Evidence) -> tf.Tensor:
        """T Q - Q [N], what epsilon is made of.

        Only hard critics count, where there are any: the soft operator is not in the paper's set. Each has its own
        residual; of --epsilon_critics=minimum there is one, of the minimum that the policy sees.
        """
        pairs = list(zip(evidence.targets, evidence.predictions, strict=True))
        pairs = [pair for pair, kind in zip(pairs, self.kinds, strict=True) if kind is hard] or pairs
        if self.config.epsilon_critics == "minimum":
            return pairs[0][0] - minimum([prediction for _, prediction in pairs])
        return tf.concat([target - prediction for target, prediction in pairs], axis=0)

    def move_slow(self) -> None:
        """One Polyak step of the slow networks."""
        for source, target in zip(self.vs or self.qs, self.slow, strict=True):
            polyak_update(source, target, self.config.tau)


def network_seed(config: Config, role: int, index: int = 0) -> int:
    """A seed for each network of a run: `role` counts up to 100, and second critics are far from the first."""
    return (100 * config.seed + role + 50_000_017 * index) % 2**31
