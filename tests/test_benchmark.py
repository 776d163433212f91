"""The benchmark command, for real but briefly, and its count of operations against one made by hand."""

from __future__ import annotations

import json
import subprocess
import sys

from test_training import virel
from untrained_run import make_run

# A process of its own: TensorFlow's threads are set once, before it is used.
LATENCY = """
import sys, tensorflow as tf
from virel_tf.benchmark.latency import measure_latency
print(sorted(measure_latency(sys.argv[1], "best", 0.1)["observations_per_s"], key=int))
print(tf.config.threading.get_inter_op_parallelism_threads())
"""


def test_benchmark_prints_one_consistent_json_line():
    done = virel("benchmark", "--env=InvertedPendulum-v4", "--variant=virel", "--hidden=64", "--batch_size=32",
                 "--seconds=1")
    result = json.loads(done.stdout)
    assert done.stdout.count("\n") == 1
    # D = 4, A = 1, H = 64. Multiplications per row: Q, V and the policy forward and their two gradients; V-bar forward;
    # Q at the policy's action forward (its observation part is shared) and back to the action.
    observation, action, middle, out = 4 * 64, 1 * 64, 64 * 64, 64
    q = 2 * (observation + action + middle + out) + middle + out  # forward and weights; back to the hidden layers
    v = 2 * (observation + middle + out) + middle + out
    policy = 2 * (observation + middle + 2 * out) + middle + 2 * out
    q_of_policy = 2 * (action + middle + out)
    target = observation + middle + out
    assert result["gflop_per_update"] * 1e9 == 2 * 32 * (q + v + policy + q_of_policy + target)
    assert result["roofline_fraction"] > 0 and result["env_steps_per_s"] > 0 and result["product_gflops"] > 0


def test_benchmark_without_updates_is_refused():
    assert "--updates_per_step" in virel("benchmark", "--updates_per_step=0", code=2).stderr


def test_latency_is_measured_with_the_run_s_threads(tmp_path):
    run = make_run(tmp_path, env="InvertedPendulum-v4", variant="ddpg", threads=3)
    done = subprocess.run([sys.executable, "-c", LATENCY, run.folder], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["['1', '4', '16', '64', '256', '1024', '4096']", "3"]
