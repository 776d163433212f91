"""Every variant, side by side."""

from __future__ import annotations

from virel_tf.algorithms.recipe import Recipe
from virel_tf.algorithms.temperature import ConstantTemperature, ResidualTemperature
from virel_tf.objective.e_step import E_STEPS
from virel_tf.objective.m_step import squared_error
from virel_tf.objective.targets import expected_q_target, td_target

RECIPES: dict[str, Recipe] = {
    # Algorithm 1 (alg:variatinal_actor_critic_virel): the entropy is scaled by a constant alpha.
    "virel": Recipe(critics="one hard Q, V", q_target=td_target, v_target=expected_q_target,
                    m_step=squared_error, e_steps=E_STEPS, temperature=ConstantTemperature),
    # Algorithm 2 (alg:variatinal_actor_critic_beta): by lambda times the estimated residual error.
    "beta": Recipe(critics="one hard Q, V", q_target=td_target, v_target=expected_q_target,
                   m_step=squared_error, e_steps=E_STEPS, temperature=ResidualTemperature),
}
