"""M-steps in training: which TD targets the Qs of a recipe see, and the gradient that follows.

| --m_step | bootstraps on | gradient flows through the target | file |
|---|---|---|---|
| direct | what the recipe's bootstrap says | no | direct.py |
| residual | the Qs themselves, at two independent actions of the policy | yes | residual.py |
| gtd2, tdc | the Qs themselves, at an action of the policy | yes, weighted by b^T zeta | projected.py |
| elbo | the Qs themselves, at N actions weighted as pi_omega's | yes | elbo.py |

The losses are in `objective/m_step.py`. The stored s' stands for both samples that `residual` and
`elbo` want of what follows (s, a). That is exact where the environment's step is deterministic, as
MuJoCo's is. Elsewhere they take the variance of s' for error (Baird 1995); gtd2 and tdc need one
sample only.
"""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from virel_tf.algorithms.critic_ensemble import Critics
from virel_tf.algorithms.m_steps.base import Loss, MStep, MStepInputs, MStepResult
from virel_tf.algorithms.m_steps.direct import Direct
from virel_tf.algorithms.m_steps.elbo import FullElbo
from virel_tf.algorithms.m_steps.projected import Gtd2, Tdc
from virel_tf.algorithms.m_steps.residual import Residual
from virel_tf.config import Config
from virel_tf.objective.m_step import squared_error

__all__ = ["M_STEPS", "MStep", "MStepInputs", "MStepResult", "make_m_step"]

M_STEPS: dict[str, Callable[..., MStep]] = {
    "direct": Direct,
    "residual": Residual,
    "gtd2": Gtd2,
    "tdc": Tdc,
    "elbo": FullElbo,
}


def make_m_step(
    part: str | Loss, config: Config, critics: Critics, parameters: list[tf.Variable]
) -> MStep:
    """The M-step of that name, or the direct one with the user's own loss (prediction, target)."""
    if callable(part):
        return Direct(config, critics, parameters, part)
    return M_STEPS[part](config, critics, parameters, squared_error)
