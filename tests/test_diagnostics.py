"""The objective as a training diagnostic: by hand, and in the files of a run."""

from __future__ import annotations

import csv
import math
import subprocess
import sys

import pytest
import tensorflow as tf
from tiny_learner import make_learner

from virel_tf.algorithms.diagnostics import DIAGNOSTICS, Diagnostics
from virel_tf.config import Config
from virel_tf.errors import ConfigError


def read(critic_slope: float, temperature: float) -> dict[str, float]:
    """On networks of one unit.

    Q = 0.5 relu(2 + slope a), and a policy that is a wide tanh-squashed Gaussian.
    """
    learner = make_learner(variant="virel")
    learner.critics.qs[0].action_layer.kernel.assign([[critic_slope]])
    learner.policy.output_layer.bias.assign([0.0, -0.2])
    return Diagnostics(learner).read(0, temperature)


def test_a_flat_critic_has_the_uniform_boltzmann_policy():
    """With Q = 1 everywhere the ELBO is 2 + entropy.

    log integral exp(1 / 0.5) over [-1, 1] is 2 + log 2.
    """
    got = read(critic_slope=0.0, temperature=0.5)
    assert got["log_partition"] == pytest.approx(2 + math.log(2), abs=0.01)
    assert got["elbo"] == pytest.approx(got["log_partition"] - got["boltzmann_kl"], rel=1e-5)
    assert got["scaled_elbo"] == pytest.approx(0.5 * got["elbo"], rel=1e-5)
    # The entropy of tanh(x), x ~ N(0, exp(-0.2)^2): the Gaussian's, and E[log(1 - tanh^2)], by
    # quadrature.
    x = tf.linspace(-8.0, 8.0, 20001)
    density = tf.exp(-0.5 * tf.square(x / math.exp(-0.2))) / (
        math.exp(-0.2) * math.sqrt(2 * math.pi)
    )
    squashing = float(
        tf.reduce_sum(density * 2 * (math.log(2) - x - tf.nn.softplus(-2 * x))) * (16 / 20000)
    )
    entropy = 0.5 * math.log(2 * math.pi * math.e) - 0.2 + squashing
    assert got["elbo"] == pytest.approx(2 + entropy, abs=0.02)


def test_the_partition_function_of_a_slope_by_hand():
    """Q = 0.5 (2 + a), a in [-1, 1], at temperature 0.5: log(e^2 (e - 1/e)) = 2 + log(2 sinh 1)."""
    assert read(critic_slope=1.0, temperature=0.5)["log_partition"] == pytest.approx(
        2 + math.log(2 * math.sinh(1.0)), abs=0.02
    )


def test_nothing_is_read_without_a_temperature():
    assert Diagnostics(make_learner(variant="virel")).read(0, None) == dict.fromkeys(DIAGNOSTICS)


def test_a_policy_without_density_is_refused():
    with pytest.raises(ConfigError, match="^diagnostics: .*variant=ddpg"):
        Config(variant="ddpg", diagnostics=True)


@pytest.mark.parametrize("preset", ["paper", "modern"])
def test_a_run_logs_them(tmp_path, preset):
    subprocess.run(
        [
            sys.executable,
            "-m",
            "virel_tf",
            "--env=InvertedPendulum-v4",
            "--variant=beta",
            "--diagnostics",
            f"--preset={preset}",
            "--hidden=16",
            "--batch_size=16",
            "--total_steps=600",
            "--random_steps=200",
            "--eval_every=200",
            "--eval_steps=50",
            "--replay_size=1000",
            "--threads=1",
            f"--run_dir={tmp_path}",
        ],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    rows = list(csv.DictReader((tmp_path / "metrics.csv").open()))
    assert all(rows[0][name] == "" for name in DIAGNOSTICS)  # nothing learned yet
    for row in rows[1:]:
        assert float(row["elbo"]) == pytest.approx(
            float(row["log_partition"]) - float(row["boltzmann_kl"]), rel=1e-4
        )
        # log mean exp(w) - mean(w) of the log weights w: not negative, and without an upper bound.
        assert 0 <= float(row["boltzmann_kl"]) < math.inf
