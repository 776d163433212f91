"""Which runs there are, which belong together, and what each was made with."""

from __future__ import annotations

import dataclasses
import shlex
from pathlib import Path

import numpy as np
import pytest
from written_runs import change_settings, write_grid, write_run

from virel_tf.cli import main, parse_config
from virel_tf.config import Config
from virel_tf.errors import ConfigError
from virel_tf.experiments.command_line import command_of
from virel_tf.experiments.grid import make_cells
from virel_tf.experiments.options import ExperimentOptions
from virel_tf.experiments.record import write_record
from virel_tf.presets import preset_names
from virel_tf.reports.runs import Missing, read_experiment, read_runs
from virel_tf.run_folder.identity import with_default_settings
from virel_tf.run_folder.settings import read_settings

HOPPER = ("--env=Hopper-v4", "--variant=virel")


@pytest.mark.parametrize(
    "flags",
    [
        [],
        ["--env=Hopper-v4", "--batch_size=128", "--seed=7"],  # the preset gives 256
        ["--env=Hopper-v4", "--preset=paper", "--reward_scale=1", "--seed=7"],  # the preset gives 5
        ["--variant=redq", "--policy_period=3", "--nodiagnostics"],
        [
            "--env=HalfCheetah-v4",
            "--variant=sac",
            "--preset=haarnoja2018b",
            "--total_steps=100_000",
            "--threads=1",
        ],
        [
            "--preset=none",
            "--env=Hopper-v4",
            "--normalisation=layer",
            "--tau=1e-3",
            "--resume=never",
        ],
        [
            "--run_dir=some where/it's",
            "--preset=paper",
            "--m_step=tdc",
            "--variant=virel",
            "--target_entropy=-2",
        ],
    ],
    ids=lambda flags: " ".join(flags) or "defaults",
)
def test_the_command_of_a_run_gives_its_settings_again(flags):
    config = parse_config(flags)
    command = shlex.split(command_of(dataclasses.asdict(config)))
    assert command[0] == "virel-tf" and parse_config(command[1:]) == config


@pytest.mark.parametrize("preset", preset_names())
def test_the_command_of_a_saved_run_gives_its_settings_again(tmp_path, preset):
    for number, variant in enumerate(("virel", "beta", "sac", "ddpg")):
        flags = ["--env=HalfCheetah-v4", f"--variant={variant}", f"--preset={preset}"]
        run = write_run(tmp_path / str(number), [1.0], *flags, "--tau=0.25", "--threads=1")
        settings = with_default_settings(read_settings(run))
        assert parse_config(shlex.split(command_of(settings))[1:]) == Config(**settings)


def test_a_command_tells_only_what_the_preset_does_not():
    settings = dataclasses.asdict(parse_config(["--env=Hopper-v4", "--hidden=64"]))
    assert (
        command_of(settings)
        == "virel-tf --env=Hopper-v4 --variant=beta --seed=1 --total_steps=1000000 --hidden=64"
    )


def test_the_command_of_an_unknown_preset_tells_every_difference_to_the_defaults():
    for preset, told in (("paper", "--reward_scale=5.0"), ("modern", "--normalisation=batch")):
        config = parse_config(["--env=Hopper-v4", f"--preset={preset}"])
        command = shlex.split(command_of(dataclasses.asdict(config) | {"preset": "lost"}))
        assert {"--preset=none", told} <= set(command)
        assert parse_config(command[1:]) == dataclasses.replace(config, preset="none")


def test_runs_are_found_below_the_folders_each_once(tmp_path):
    write_grid(tmp_path)
    (tmp_path / "Hopper-v4" / "config.json").write_text("not a run: there is no metrics.csv")
    assert len(read_runs([tmp_path])) == 12
    assert len(read_runs([tmp_path, tmp_path / "Hopper-v4", tmp_path / "." / "Walker2d-v4"])) == 12
    assert len(read_runs([tmp_path / "Hopper-v4" / "beta" / "seed1"])) == 1


def test_a_row_that_is_being_written_is_left_for_later(tmp_path):
    run = write_run(tmp_path, [1.0, 2.0], *HOPPER)
    with open(run / "metrics.csv", "a") as file:
        file.write("3000,30")  # of 300.5
    assert read_runs([tmp_path])[0].series("eval_return")[1].tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    "text, told",
    [
        ("step,eval_return\n1000,1,2\n", "line 2 has 3 cells for 2 columns"),
        ("steps,eval_return\n1000,1\n", "line 2 has no number as its step"),
        ("step,eval_return\n1000,1\nnone,2\n", "line 3 has no number as its step"),
        ("step,eval_return\n1000,1\nnan,2\n", "line 3 has no number as its step"),
    ],
)
def test_damaged_metrics_are_told(tmp_path, capsys, text, told):
    run = write_run(tmp_path, [1.0, 2.0], *HOPPER)
    (run / "metrics.csv").write_text(text)
    assert main(["report", str(tmp_path)]) == 1
    assert capsys.readouterr().err == f"virel-tf: {tmp_path}/metrics.csv is damaged: {told}\n"


@pytest.mark.parametrize(
    "settings, told",
    [
        ("[]", "damaged"),
        ("7", "damaged"),
        ('{"format": 1, "env": 1, "variant": "sac", "seed": 1}', "say the run's env"),
        (
            '{"format": 1, "env": "Hopper-v4", "variant": [], "seed": "1"}',
            "say the run's variant, seed",
        ),
    ],
)
def test_damaged_settings_are_told(tmp_path, capsys, monkeypatch, settings, told):
    # what is not refused must not train either
    monkeypatch.setattr("virel_tf.experiments.command.LocalPool", None)
    run = write_run(tmp_path / "Hopper-v4/virel/seed1", [1.0, 2.0], *HOPPER)
    (run / "config.json").write_text(settings)
    assert main(["report", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert f"{run}/config.json" in error and told in error and error.count("\n") == 1
    assert (
        main(
            ["experiment", f"--out={tmp_path}", "--envs=Hopper-v4", "--variants=virel", "--seeds=1"]
        )
        == 2
    )
    error = capsys.readouterr().err
    assert error.startswith(f"virel-tf: --out: {run}") and error.count("\n") == 1


def test_a_label_means_the_same_in_every_environment(tmp_path):
    write_run(tmp_path / "1", [1.0], "--env=Hopper-v4", "--variant=sac", "--preset=haarnoja2018b")
    write_run(tmp_path / "2", [1.0], "--env=Reacher-v4", "--variant=sac")
    # its reward scale is the preset's
    write_run(tmp_path / "3", [1.0], "--env=Hopper-v4", "--variant=virel")
    write_run(tmp_path / "4", [1.0], "--env=Reacher-v4", "--variant=virel")
    assert [(group.env, group.label) for group in read_experiment([tmp_path]).groups] == [
        ("Hopper-v4", "virel"),
        ("Hopper-v4", "sac, preset=haarnoja2018b"),
        ("Reacher-v4", "virel"),
        ("Reacher-v4", "sac"),
    ]


def test_settings_of_other_versions_do_no_harm(tmp_path):
    for seed in (1, 2):
        run = write_run(tmp_path / str(seed), [1.0], *HOPPER, f"--seed={seed}")
        # one too many, one too few
        change_settings(run, lambda_from_rewards=False, n_step=None)
    (group,) = read_experiment([tmp_path]).groups
    assert (group.label, group.seeds) == ("virel", [1, 2])
    assert "--lambda_from_rewards=false" in command_of(group.runs[0].settings)


def test_a_variant_that_only_another_program_has_is_shown_last(tmp_path):
    change_settings(write_run(tmp_path / "own", [1.0], *HOPPER), variant="mine")
    write_run(tmp_path / "mpo", [1.0], "--env=Hopper-v4", "--variant=mpo")
    assert read_experiment([tmp_path]).labels == ["mpo", "mine"]


def test_other_settings_make_another_group_that_says_so(tmp_path):
    write_run(tmp_path / "a", [1.0], *HOPPER, "--threads=1", "--total_steps=5000")
    write_run(
        tmp_path / "b",
        [1.0],
        *HOPPER,
        "--seed=2",
        "--threads=2",
        "--checkpoint_every=9",
        "--run_dir=x",
    )
    write_run(tmp_path / "c", [1.0], *HOPPER, "--e_step=score")
    write_run(tmp_path / "d", [1.0], *HOPPER, "--e_step=score", "--hidden=64")
    write_run(
        tmp_path / "e", [1.0], "--env=Walker2d-v4", "--variant=virel", "--e_step=score", "--tau=0.1"
    )
    experiment = read_experiment([tmp_path])
    assert [(group.env, group.label, group.seeds) for group in experiment.groups] == [
        ("Hopper-v4", "virel", [1, 2]),
        ("Hopper-v4", "virel, e_step=score", [1]),
        ("Hopper-v4", "virel, e_step=score, hidden=64", [1]),
        ("Walker2d-v4", "virel, tau=0.1, e_step=score", [1]),
    ]


def test_a_preset_stands_for_the_settings_it_brings(tmp_path):
    flags = ("--env=HalfCheetah-v4", "--variant=sac")
    write_run(tmp_path / "a", [1.0], *flags)
    write_run(tmp_path / "b", [1.0], *flags, "--preset=haarnoja2018b")
    assert read_experiment([tmp_path]).labels == ["sac", "sac, preset=haarnoja2018b"]


def test_two_runs_of_one_cell_are_refused(tmp_path):
    write_run(tmp_path / "first", [1.0], *HOPPER)
    write_run(tmp_path / "second", [2.0], *HOPPER, "--threads=2")
    with pytest.raises(
        ConfigError, match=r"first' and '.*second' are the same run, Hopper-v4 virel seed 1"
    ):
        read_runs([tmp_path])


def test_missing_and_shorter_cells_are_named(tmp_path):
    write_run(tmp_path / "a", [1.0, 2.0, 3.0], *HOPPER)
    write_run(tmp_path / "b", [1.0, 2.0], *HOPPER, "--seed=2")
    write_run(tmp_path / "c", [1.0, 2.0, 3.0], "--env=Hopper-v4", "--variant=beta")
    write_run(tmp_path / "d", [], "--env=Hopper-v4", "--variant=beta", "--seed=4")
    experiment = read_experiment([tmp_path])
    assert experiment.missing == [
        Missing("Hopper-v4", "virel", [2], "2,000 of 3,000 steps"),
        Missing("Hopper-v4", "virel", [4], "absent"),
        Missing("Hopper-v4", "beta", [2], "absent"),
        Missing("Hopper-v4", "beta", [4], "no evaluation yet"),
    ]
    assert [group.seeds for group in experiment.groups] == [[1, 2], [1]]


def test_a_run_of_less_than_half_the_steps_is_left_out_and_named(tmp_path):
    for seed, steps in ((1, 4), (2, 2), (3, 1)):
        write_run(tmp_path / str(seed), [float(seed)] * steps, *HOPPER, f"--seed={seed}")
    experiment = read_experiment([tmp_path])
    (group,) = experiment.groups
    assert (group.seeds, group.steps) == ([1, 2], 2000)
    assert experiment.missing == [
        Missing("Hopper-v4", "virel", [2], "2,000 of 4,000 steps"),
        Missing("Hopper-v4", "virel", [3], "left out: 1,000 of 4,000 steps"),
    ]


@pytest.mark.parametrize("returns, steps", [([5.0], [8000]), ([float("nan"), 5.0], [4000, 8000])])
def test_a_run_without_an_evaluation_up_to_the_group_s_end_is_left_out_and_named(
    tmp_path, returns, steps
):
    write_run(tmp_path / "late", returns, *HOPPER, "--seed=2", steps=steps)
    write_run(tmp_path / "early", [3.0], *HOPPER, steps=[4000])
    experiment = read_experiment([tmp_path])
    np.testing.assert_array_equal(experiment.groups[0].final_scores(), [3.0])
    assert (
        Missing("Hopper-v4", "virel", [2], "left out: no evaluation up to step 4,000")
        in experiment.missing
    )


def write_plan(out: Path, states: dict[int, tuple[str, str]], **options) -> None:
    """The record of a grid in Hopper.

    Those seeds have the state and the reason; the others are done.
    """
    cells = make_cells(
        ExperimentOptions(envs="Hopper-v4", out=str(out), seeds=str(max(states)), **options),
        {"total_steps": 2000},
    )
    told = {cell.name: states.get(cell.config.seed, ("done", "")) for cell in cells}
    write_record(
        out,
        cells,
        {name: state for name, (state, _) in told.items()},
        {name: reason for name, (_, reason) in told.items()},
    )


def test_what_an_experiment_recorded_of_a_missing_cell_is_told(tmp_path):
    write_run(tmp_path / "Hopper-v4/virel/seed1", [1.0, 2.0], *HOPPER)
    write_run(tmp_path / "Hopper-v4/virel/seed2", [1.0], *HOPPER, "--seed=2")
    write_plan(tmp_path, {2: ("failed", "disk full"), 3: ("waiting", "")}, variants="virel")
    write_plan(tmp_path, {1: ("running", "")}, variants="virel", sweep="hidden=9;tau=0.1")
    swept = "virel, tau=0.1, hidden=9"
    missing = [
        Missing("Hopper-v4", "virel", [2], "1,000 of 2,000 steps (failed: disk full)"),
        Missing("Hopper-v4", "virel", [3], "absent (waiting)"),
        Missing("Hopper-v4", swept, [1], "absent (running)"),
        Missing("Hopper-v4", swept, [2, 3], "absent"),
    ]
    assert read_experiment([tmp_path]).missing == missing
    # recorded in the folder above
    assert read_experiment([tmp_path / "Hopper-v4"]).missing == missing
    assert read_experiment([tmp_path / "Hopper-v4/virel/seed2"]).missing == [
        Missing("Hopper-v4", "virel", [2], "1,000 steps (failed: disk full)")
    ]
    for damage in (
        "[",
        "[]",
        '{"cells": [1]}',
        '{"cells": [{"name": "x"}]}',
        '{"cells": [{"settings": {"seed": []}}]}',
    ):
        (tmp_path / "experiment.json").write_text(damage)
        assert len(read_experiment([tmp_path]).missing) == 1


def test_a_recorded_cell_that_was_finished_by_hand_is_not_missing(tmp_path):
    write_plan(tmp_path, {1: ("failed", "disk full"), 2: ("waiting", "")}, variants="virel")
    for seed in (1, 2):
        write_run(tmp_path / f"Hopper-v4/virel/seed{seed}", [1.0, 2.0], *HOPPER, f"--seed={seed}")
    assert read_experiment([tmp_path]).missing == []


@pytest.mark.parametrize(
    "sweep, label",
    [
        ("tau=1e-2;hidden=64", "beta, tau=0.01, hidden=64"),
        ("diagnostics=1", "beta, diagnostics=True"),
        ("tau=5e-3", "beta"),
    ],
)
def test_a_swept_cell_is_labelled_like_its_run(tmp_path, sweep, label):
    """Beside a plain run; the last sweeps over the value that the plain run has anyway."""
    write_run(tmp_path / "plain", [1.0, 2.0], "--env=Hopper-v4")
    write_plan(tmp_path, {1: ("running", ""), 2: ("waiting", "")}, variants="beta", sweep=sweep)
    experiment = read_experiment([tmp_path])
    assert Missing("Hopper-v4", label, [2], "absent (waiting)") in experiment.missing
    assert {cell.label for cell in experiment.missing} <= {"beta", label}


def test_curves_meet_on_common_steps_and_end_with_the_shortest_run(tmp_path):
    write_run(tmp_path / "a", [10.0, 20.0, 40.0], *HOPPER, steps=[1000, 2000, 4000])
    write_run(tmp_path / "b", [0.0, 6.0], *HOPPER, "--seed=2", steps=[1500, 3000])
    (group,) = read_experiment([tmp_path]).groups
    steps, values = group.curves("eval_return")
    np.testing.assert_array_equal(steps, [1500, 2000, 3000])
    np.testing.assert_allclose(values, [[15, 20, 30], [0, 2, 6]])
    np.testing.assert_allclose(group.final_scores(), [15, 3])  # mean of 10 and 20, of 0 and 6


def test_folders_without_runs_are_told(tmp_path):
    with pytest.raises(ConfigError, match="no such folder"):
        read_runs([tmp_path / "nowhere"])
    with pytest.raises(ConfigError, match="there is no run in it"):
        read_runs([tmp_path])
    write_run(tmp_path, [], *HOPPER)
    with pytest.raises(ConfigError, match="evaluated yet"):
        read_experiment([tmp_path])
    change_settings(tmp_path, seed=None)
    with pytest.raises(ConfigError, match="does not say the run's seed"):
        read_runs([tmp_path])
