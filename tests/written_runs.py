"""Runs that a test writes: settings and returns it can do sums with."""

from __future__ import annotations

import csv
import json
from pathlib import Path

from virel_tf.cli import parse_config
from virel_tf.run_folder.settings import write_settings

# The final returns of three seeds, and what counts as 1 in each environment: scores are the same in
# both.
FINALS = {"beta": (40, 60, 80), "virel": (20, 30, 50)}
UNITS = {"Hopper-v4": 100, "Walker2d-v4": 200}
ANCHORS = """env,steps,algorithm,mean,std,seeds,version,source
Hopper,0,random,0,1,100,v4,here
Hopper,10000,SAC,90,10,10,v3,some/where
Hopper,10000,SAC,110,,5,v2,else/where
Hopper,900000,SAC,5000,10,10,v3,some/where
Walker2d,0,random,0,1,100,v4,here
Walker2d,12000,SAC,200,10,10,v4,some/where
"""


def write_run(
    folder: Path, returns: list[float], *flags: str, steps: list[int] | None = None, **columns
) -> Path:
    """A run with an evaluation every 1000 steps, or at those steps."""
    folder.mkdir(parents=True, exist_ok=True)
    write_settings(folder, parse_config(list(flags)))
    steps = steps or [1000 * count for count in range(1, len(returns) + 1)]
    with open(folder / "metrics.csv", "w", newline="") as file:
        rows = zip(steps, returns, *columns.values(), strict=True)
        csv.writer(file, lineterminator="\n").writerows([("step", "eval_return", *columns), *rows])
    return folder


def write_grid(folder: Path) -> Path:
    """beta and virel in two environments, three seeds each.

    Two evaluations of 0, then ten at the final return.
    """
    for env, unit in UNITS.items():
        for variant, finals in FINALS.items():
            for seed, final in enumerate(finals, start=1):
                epsilon = [""] + [seed * 0.5**count for count in range(11)]
                write_run(
                    folder / env / variant / f"seed{seed}",
                    [0.0, 0.0] + [final * unit / 100] * 10,
                    f"--env={env}",
                    f"--variant={variant}",
                    f"--seed={seed}",
                    "--total_steps=12000",
                    epsilon=epsilon,
                    temperature=epsilon,
                    entropy=[""] + [0.5] * 11,
                )
    return folder


def change_settings(folder: Path, **settings) -> None:
    """Sets settings in a run's config.json, as another version might have.

    Or, with None, takes them away.
    """
    path = folder / "config.json"
    changed = json.loads(path.read_text()) | settings
    path.write_text(
        json.dumps({name: value for name, value in changed.items() if value is not None})
    )
