"""`virel-tf benchmark`: how fast a run is, beside how fast this machine multiplies matrices.

Both are measured in one process.

Machines are shared and their speed drifts, so the four things measured take turns in windows of a
fraction of a second. Each reported rate is the median over its windows.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from virel_tf import machine
from virel_tf.algorithms.learner import Learner
from virel_tf.benchmark.products import Product, bare_products, products_of
from virel_tf.config import Config
from virel_tf.errors import ConfigError
from virel_tf.replay.ring import ReplayView
from virel_tf.timing import measure
from virel_tf.train.run import Run

GEMM_SIZE = 2048
FILL_STEPS = 5000


def run_benchmark(config: Config, seconds: float) -> dict[str, Any]:
    """Measures for about `seconds`; see docs/benchmark.md for what each number means."""
    machine.configure(config.threads)
    cores = machine.cores(config.threads)
    if not config.updates_per_step:
        raise ConfigError("updates_per_step", "0 is not allowed; the benchmark measures updates")
    run = Run(dataclasses.replace(config, total_steps=2**31 - 1, random_steps=0))
    fill_replay(run)
    iterations = run.iterate()
    size = config.steps_per_iteration
    period = run.learner.recipe.policy_period
    products = products_of_updates(run.learner, run.replay.view())
    update_gflop = sum(product.flops for product in products) / period / 1e9
    rates = measure(
        seconds,
        {
            "gemm": (split_gemm(cores), 2 * (GEMM_SIZE // cores * cores) * GEMM_SIZE**2 / 1e9),
            "products": (bare_products(products, cores, size), size * period * update_gflop),
            "updates": (run.learn, size * config.updates_per_step),
            "env_steps": (lambda: next(iterations), size),
        },
    )
    run.close()
    update_gflops = rates["updates"] * update_gflop
    return dict(
        env=config.env,
        variant=config.variant,
        batch_size=config.batch_size,
        hidden=config.hidden,
        cores=cores,
        env_steps_per_s=round(rates["env_steps"], 1),
        updates_per_s=round(rates["updates"], 1),
        gemm_gflops_peak=round(rates["gemm"], 1),
        gflop_per_update=update_gflop,
        update_gflops=round(update_gflops, 1),
        roofline_fraction=round(update_gflops / rates["gemm"], 3),
        product_gflops=round(rates["products"], 1),
        product_fraction=round(update_gflops / rates["products"], 3),
        env_steps_per_update=round(rates["env_steps"] / rates["updates"], 3),
    )


def fill_replay(run: Run) -> None:
    """Real transitions of the untrained policy.

    They are enough for beta's temperature to be the estimated one.
    """
    while run.step < max(FILL_STEPS, run.config.epsilon_samples):
        run.collector.collect(0, run.config.steps_per_iteration)
        run.step += run.config.steps_per_iteration


def split_gemm(cores: int) -> Callable[[], object]:
    """A float32 product of GEMM_SIZE x GEMM_SIZE matrices, its rows shared out over all cores."""
    left = [
        tf.Variable(tf.random.stateless_normal([GEMM_SIZE // cores, GEMM_SIZE], [0, core]))
        for core in range(cores)
    ]
    right = tf.Variable(tf.random.stateless_normal([GEMM_SIZE, GEMM_SIZE], [1, 0]))

    @tf.function
    def multiply() -> list[tf.Tensor]:
        return [tf.matmul(rows, right)[0, 0] for rows in left]

    return lambda: [corner.numpy() for corner in multiply()]


def products_of_updates(learner: Learner, view: ReplayView) -> list[Product]:
    """The matrix products of policy_period updates: one with an E-step, the others without."""
    recipe = learner.recipe
    learner.recipe = dataclasses.replace(recipe, policy_period=1)
    with_e_step = products_of(update_graph(learner, view))
    learner.recipe = recipe
    if recipe.policy_period == 1:
        return with_e_step
    # A conditional E-step is a separate graph, so these are the products outside of it.
    without_e_step = products_of(update_graph(learner, view))
    return with_e_step + (recipe.policy_period - 1) * without_e_step


def update_graph(learner: Learner, view: ReplayView) -> tf.types.experimental.ConcreteFunction:
    """The graph of one update by itself."""
    arguments = view, tf.constant(0), tf.constant(0), tf.constant(1.0)
    return tf.function(learner.update_once).get_concrete_function(*arguments)
