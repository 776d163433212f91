"""The signatures of an exported policy: raw observations to actions in the environment's units.

The networks' layers are called inside `tf.function`, which leaves ordinary operations and
variables and nothing of Keras or TensorFlow Probability. Input that a graph would quietly broadcast
or carry along (a wrong width, NaN) fails inside the graph, so that every server refuses it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import tensorflow as tf

from virel_tf.algorithms.critic_ensemble import Critics
from virel_tf.envs.make import Environment
from virel_tf.networks.policies import Policy, log_density, squashed_gaussian
from virel_tf.objective.targets import minimum

Answer = dict[str, tf.Tensor]


class ServedPolicy:
    """The functions behind the signatures.

    D numbers are an observation, A an action, any B is a batch.
    """

    def __init__(
        self, policy: Policy, critics: Critics | None, env: Environment, reward_factor: float
    ) -> None:
        self.policy, self.critics, self.reward_factor = policy, critics, reward_factor
        self.observation_size, self.action_size = env.observation_size, env.action_size
        self.whole_numbers = env.whole_numbers
        self.low, self.high = env.action_low, env.action_high
        self.middle, self.half_width = (
            array.astype(np.float32) for array in (env.action_middle, env.action_half_width)
        )

    def signatures(self) -> dict[str, tf.types.experimental.ConcreteFunction]:
        """Every signature this policy has, by the name it is served under."""
        functions = {"serving_default": self.graph(self.act, "observation")}
        if not self.policy.deterministic:  # else there is nothing to draw and no density
            functions["sample"] = self.graph(self.sample, "observation", "noise")
            functions["distribution"] = self.graph(self.distribution, "observation")
        if self.critics:
            functions["value"] = self.graph(self.value, "observation", "action")
        return functions

    def graph(
        self, function: Callable[..., Answer], *inputs: str
    ) -> tf.types.experimental.ConcreteFunction:
        """The function as a graph, for any number of rows."""
        specs = [tf.TensorSpec([None, self._width(name)], name=name) for name in inputs]
        return tf.function(function, input_signature=specs, autograph=False).get_concrete_function()

    @property
    def variables(self) -> list[tf.Variable]:
        """All that the signatures read."""
        models = [self.policy, *(self.critics.online if self.critics else [])]
        return [variable.value for model in models for variable in model.variables]

    def act(self, observation: tf.Tensor) -> Answer:
        """observation [B, D] -> action [B, A]: the policy without its noise."""
        return {
            "action": self._scaled(
                self.policy.mean_action(self._checked(observation, "observation"))
            )
        }

    def unchecked_act(self, observation: tf.Tensor) -> Answer:
        """`act` for runtimes that drop checks.

        The action is NaN where a number of the observation is not finite.

        Layers may lose a NaN (the larger of NaN and 0 can be 0), so 0 times the observation, which
        is NaN for NaN and infinity, is added to the action. And they may broadcast or fold an
        observation of another width; splitting it into fixed widths makes such runtimes refuse it.
        """
        if self.observation_size > 1:
            observation = tf.concat(
                tf.split(observation, [1, self.observation_size - 1], axis=1), axis=1
            )
        spoilt = tf.reduce_sum(0.0 * observation, axis=-1, keepdims=True)
        return {"action": self.act(observation)["action"] + spoilt}

    def sample(self, observation: tf.Tensor, noise: tf.Tensor) -> Answer:
        """observation [B, D], normal noise [B, A] -> action [B, A] and its log density [B].

        The density is that of the action in the environment's units: log pi(a) of [-1, 1]^A
        less the logarithm of each half width. An action number without room (low = high) has no
        density and is left out; whole numbers are rounded after the density is taken.
        """
        loc, log_scale = self._gaussian(observation)
        noise = self._checked(noise, "noise")
        noise = of_same_batch(noise, loc, "observation and noise")
        before_tanh = loc + tf.exp(log_scale) * noise
        log_widths = np.log(self.half_width[self.half_width > 0]).sum(dtype=np.float32)
        return {
            "action": self._scaled(tf.tanh(before_tanh)),
            "log_prob": log_density(squashed_gaussian(loc, log_scale), before_tanh) - log_widths,
        }

    def distribution(self, observation: tf.Tensor) -> Answer:
        """observation [B, D] -> loc and scale [B, A] of a Gaussian.

        Its tanh, scaled, is the action.
        """
        loc, log_scale = self._gaussian(observation)
        return {"loc": loc, "scale": tf.exp(log_scale)}

    def value(self, observation: tf.Tensor, action: tf.Tensor) -> Answer:
        """observation [B, D], action [B, A] -> q [B], the least of the Qs, and v [B].

        There is no v where the policy was trained without a V.

        Both in the environment's rewards, the factor of training taken out again. What lies outside
        the action's bounds counts as the bound, as it does for the environment. Of several kinds of
        V it is the first critic's.
        """
        critics = self.critics
        assert critics is not None  # the signature is not there without
        observation = self.policy.normaliser(self._checked(observation, "observation"))
        action = self._checked(action, "action")
        action = of_same_batch(action, observation, "observation and action")
        widths = np.where(self.half_width > 0, self.half_width, np.float32(1))
        action = (tf.clip_by_value(action, self.low, self.high) - self.middle) / widths
        answer = {"q": minimum([q(observation, action) for q in critics.qs])}
        if critics.vs:
            answer["v"] = critics.vs[0](observation)
        return {name: value / self.reward_factor for name, value in answer.items()}

    def _gaussian(self, observation: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return self.policy(self.policy.normaliser(self._checked(observation, "observation")))

    def _scaled(self, action: tf.Tensor) -> tf.Tensor:
        """From [-1, 1]^A to the environment's units."""
        action = tf.clip_by_value(self.middle + self.half_width * action, self.low, self.high)
        return tf.round(action) if self.whole_numbers else action

    def _checked(self, tensor: tf.Tensor, name: str) -> tf.Tensor:
        """Fails in the graph where the input has another rank or width, or holds NaN or infinity."""
        tensor = tf.ensure_shape(tensor, [None, self._width(name)], name=f"{name}_shape")
        return tf.debugging.check_numerics(
            tensor, f"{name} must hold finite numbers", name=f"{name}_finite"
        )

    def _width(self, name: str) -> int:
        return self.observation_size if name == "observation" else self.action_size


def of_same_batch(tensor: tf.Tensor, other: tf.Tensor, names: str) -> tf.Tensor:
    """`tensor`, checked to be of the same batch as `other`.

    Fails in the graph, before it is used, where one batch would be spread over the other.
    """
    message = f"{names} must have the same number of rows"
    check = tf.debugging.assert_equal(tf.shape(tensor)[0], tf.shape(other)[0], message)
    with tf.control_dependencies([] if check is None else [check]):
        return tf.identity(tensor)
