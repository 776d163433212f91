"""The benchmark command, for real but briefly.

Also its count of operations, against one made by hand.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from trained_runs import virel
from untrained_run import make_run

# A process of its own: TensorFlow's threads are set once, before it is used.
LATENCY = """
import sys, tensorflow as tf
from virel_tf.export.latency import measure_latency
print(sorted(measure_latency(sys.argv[1], "best", 0.1)["observations_per_s"], key=int))
print(tf.config.threading.get_inter_op_parallelism_threads())
"""


def by_hand(preset: str) -> float:
    """Multiplications of an update for D = 4, A = 1, H = 64 and a batch of 32."""
    observation, action, middle, out = 4 * 64, 1 * 64, 64 * 64, 64
    # forward, weights; back to hidden layers
    q = 2 * (observation + action + middle + out) + middle + out
    policy = 2 * (observation + middle + 2 * out) + middle + 2 * out
    if preset == "paper":
        v = 2 * (observation + middle + out) + middle + out
        q_of_policy = 2 * (action + middle + out)  # its observation part is shared with the M-step
        target = observation + middle + out
        return 32 * (q + v + policy + q_of_policy + target)
    m_step = 2 * 64 * q  # two critics on (s, a) and (s', a') together
    # Mean and variance of the input, once for both critics, and of each critic's hidden layers.
    m_step += 2 * 64 * (4 + 1) + 2 * (2 * 2 * 64 * 64)
    m_step += 2 * 3 * (middle + out)  # offsets folded into biases, and the gradients of that
    next_action = (32 + 1) * (observation + middle + 2 * out)  # and the offsets folded into biases
    q_of_policy = 2 * (
        32 * (observation + 2 * (action + middle + out)) + observation + 2 * action + middle + out
    )
    e_step = 32 * policy + q_of_policy
    e_step += 2 * 32 * 4 + 2 * 2 * 32 * 64 + 3 * (middle + 2 * out)  # as in the M-step
    return m_step + next_action + e_step / 3


@pytest.mark.parametrize("preset", ["paper", "modern"])
def test_benchmark_prints_one_consistent_json_line(preset):
    done = virel(
        "benchmark",
        "--env=InvertedPendulum-v4",
        "--variant=virel",
        "--hidden=64",
        "--batch_size=32",
        "--seconds=1",
        f"--preset={preset}",
    )
    result = json.loads(done.stdout)
    assert done.stdout.count("\n") == 1
    assert result["gflop_per_update"] * 1e9 == pytest.approx(2 * by_hand(preset), rel=1e-12)
    assert (
        result["roofline_fraction"] > 0
        and result["env_steps_per_s"] > 0
        and result["product_gflops"] > 0
    )


def test_benchmark_without_updates_is_refused():
    assert "--updates_per_step" in virel("benchmark", "--updates_per_step=0", code=2).stderr


def test_latency_is_measured_with_the_run_s_threads(tmp_path):
    run = make_run(tmp_path, env="InvertedPendulum-v4", variant="ddpg", threads=3)
    done = subprocess.run(
        [sys.executable, "-c", LATENCY, run.folder], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["['1', '4', '16', '64', '256', '1024', '4096']", "3"]
