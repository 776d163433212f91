"""The benchmark command, for real but briefly, and its count of operations against one made by hand."""

from __future__ import annotations

import json

from test_training import virel


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
