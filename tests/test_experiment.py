"""The grid of an experiment, what its folders tell, and the table that shows it."""

from __future__ import annotations

import fcntl
import io

import pytest
from scripted_pool import ScriptedPool, cells_of, finish

from virel_tf.cli import main, parse_config, read_flags
from virel_tf.errors import ConfigError
from virel_tf.experiments.command import Experiment
from virel_tf.experiments.grid import read_seeds
from virel_tf.experiments.options import TRAINING_FLAGS
from virel_tf.experiments.table import Line, Table, summary
from virel_tf.run_folder.lock import in_use
from virel_tf.run_folder.progress import finished, latest
from virel_tf.run_folder.settings import write_settings
from virel_tf.train.triggers import StopRequest

# ---------------------------------------------------------------- the grid


def test_the_grid_is_the_product_and_goes_seed_by_seed(tmp_path):
    cells = cells_of(tmp_path, envs="Hopper-v4,Reacher-v4", variants="virel,sac", seeds="2")
    assert [cell.name for cell in cells] == [
        "Hopper-v4/virel/seed1",
        "Hopper-v4/sac/seed1",
        "Reacher-v4/virel/seed1",
        "Reacher-v4/sac/seed1",
        "Hopper-v4/virel/seed2",
        "Hopper-v4/sac/seed2",
        "Reacher-v4/virel/seed2",
        "Reacher-v4/sac/seed2",
    ]
    assert cells[0].folder == tmp_path / "Hopper-v4/virel/seed1"


@pytest.mark.parametrize(
    "text, seeds",
    [("3", [1, 2, 3]), ("3,8", [3, 8]), ("7,", [7]), ("0,", [0]), ("268435456,", [2**28])],
)
def test_seeds_are_how_many_or_which(text, seeds):
    assert read_seeds(text) == seeds


def test_each_cell_has_its_own_row_of_the_preset(tmp_path):
    hopper, humanoid = cells_of(
        tmp_path / "paper",
        {"preset": "paper"},
        seeds="1",
        envs="Hopper-v4,Humanoid-v4",
        variants="beta",
    )
    assert (hopper.config.reward_scale, humanoid.config.reward_scale) == (5.0, 1.0)
    cells = cells_of(
        tmp_path / "modern", envs="Hopper-v4,InvertedPendulum-v4", variants="beta,ddpg", seeds="1"
    )
    assert [(cell.config.critics, cell.config.random_steps) for cell in cells] == [
        (2, 5000),
        (1, 5000),
        (2, 1000),
        (1, 1000),
    ]


def test_training_flags_and_sweeps_reach_every_cell(tmp_path):
    training = read_flags(TRAINING_FLAGS, ["--normalise_observations", "--total_steps=1e3"])
    cells = cells_of(
        tmp_path,
        training,
        envs="Hopper-v4",
        variants="beta",
        seeds="3,8",
        sweep="tau=0.1,0.2;hidden=8",
    )
    assert [cell.name for cell in cells] == [
        f"Hopper-v4/beta/tau={tau},hidden=8/seed{seed}" for seed in (3, 8) for tau in (0.1, 0.2)
    ]
    assert [cell.config.tau for cell in cells] == [0.1, 0.2, 0.1, 0.2]
    assert all(
        cell.config.hidden == 8
        and cell.config.normalise_observations
        and cell.config.total_steps == 1000
        for cell in cells
    )


def test_a_cells_command_trains_its_settings(tmp_path):
    training = read_flags(TRAINING_FLAGS, ["--nonormalise_observations", "--normalisation=layer"])
    for cell in cells_of(
        tmp_path, training, envs="Hopper-v4", variants="beta,ddpg", seeds="1", sweep="tau=0.1,0.2"
    ):
        assert cell.command[1:4] == ["-m", "virel_tf", "train"]
        assert parse_config(list(cell.flags)) == cell.config


@pytest.mark.parametrize(
    "flags, told",
    [
        (
            ["--envs=Hoper-v4"],
            "--envs: 'Hoper-v4' is not registered in gymnasium (did you mean Hopper-v4?)",
        ),
        (
            ["--envs=Hopper-v4,"],
            "--envs: 'Hopper-v4,' is not allowed; it must be a list such as A,B",
        ),
        (
            ["--variants=virel,sak"],
            "--variants: 'sak' is not allowed; it must be one of virel, beta, ",
        ),
        (["--variants=sac,sac"], "--variants: sac "),
        (
            ["--seeds=0"],
            "--seeds: '0' is not allowed; ",
        ),
        (["--seeds=two"], "--seeds: 'two' is not allowed; "),
        (["--seeds=,"], "--seeds: ',' is not allowed; "),
        (
            ["--seeds=1001"],
            "--seeds: '1001' is not allowed; it must be at most 1000 seeds, each of 0 to 268435456",
        ),
        (
            ["--seeds=1,268435457"],
            "--seeds: '1,268435457' is not allowed; it must be at most 1000 seeds",
        ),
        (
            ["--sweep=tao=1"],
            (
                "--sweep: 'tao' is not allowed; it must be a setting of training and its values, as in"
                " tau=0.001,0.005 (did you mean tau?)"
            ),
        ),
        (["--sweep=tau"], "--sweep: tau has no values; it must be as in tau=A,B"),
        (["--sweep=tau=0.1;tau=0.2"], "--sweep: tau "),
        (
            ["--sweep=tau=0.1,0.2", "--tau=0.3"],
            "--sweep: tau ",
        ),
        (
            ["--sweep=tau=0.1,7"],
            "--tau: 7.0 is not allowed; it must be a number above 0 and at most 1",
        ),
        (
            ["--sweep=tau=0.001,1e-3"],
            (
                "--sweep: InvertedPendulum-v4/virel/tau=0.001/seed1 and "
                "InvertedPendulum-v4/virel/tau=1e-3/seed1 would be the same run"
            ),
        ),
        (
            ["--sweep=checkpoint_every=10,20"],
            (
                "--sweep: InvertedPendulum-v4/virel/checkpoint_every=10/seed1 and "
                "InvertedPendulum-v4/virel/checkpoint_every=20/seed1 would be the same run"
            ),
        ),
        (["--env=Hopper-v4"], "--env: there is no such flag (did you mean --envs?)"),
        (["--ray_address=127.0.0.1:9", "--seeds=1"], "--ray_address: no cluster at '127.0.0.1:9'"),
    ],
)
def test_bad_grids_are_told_in_one_line(tmp_path, capsys, monkeypatch, flags, told):
    # what is not refused must not train either
    monkeypatch.setattr("virel_tf.experiments.command.LocalPool", None)
    assert main(["experiment", f"--out={tmp_path / 'runs'}", *flags]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"virel-tf: {told}")
    assert error.count("\n") == 1


def test_a_folder_with_other_settings_is_refused_before_anything_runs(tmp_path):
    folder = tmp_path / "Hopper-v4/virel/seed2"
    folder.mkdir(parents=True)
    write_settings(
        folder, parse_config(["--env=Hopper-v4", "--variant=virel", "--seed=2", "--tau=0.5"])
    )
    with pytest.raises(
        ConfigError,
        match=r"^out: .*seed2 holds a run with other settings \(tau: 0.5 -> 0.005\)",
    ):
        cells_of(tmp_path, envs="Hopper-v4", variants="virel", seeds="2")


@pytest.mark.parametrize(
    "made, planned", [("", "tau=0.005"), ("tau=0.005", ""), ("tau=5e-3", "tau=0.005")]
)
def test_a_cell_that_is_there_in_another_folder_is_refused(tmp_path, made, planned):
    (cell,) = cells_of(tmp_path, envs="Hopper-v4", variants="virel", seeds="1", sweep=made)
    cell.folder.mkdir(parents=True)
    write_settings(cell.folder, cell.config)
    with pytest.raises(ConfigError, match=f"same run as {cell.folder}, "):
        cells_of(tmp_path, envs="Hopper-v4", variants="virel", seeds="1", sweep=planned)
    assert (
        len(cells_of(tmp_path, envs="Hopper-v4", variants="virel", seeds="2", sweep="tau=0.1,0.2"))
        == 4
    )


# ---------------------------------------------------------------- what a folder tells


def test_latest_is_the_last_whole_row(tmp_path):
    assert latest(tmp_path) == (0, None, 0.0)
    (tmp_path / "metrics.csv").write_text(
        "step,eval_return,steps_per_s\n1000,5.5,100\n2000,7.25,120.5\n3000,9"
    )
    assert latest(tmp_path) == (2000, 7.25, 120.5)


def test_a_run_is_finished_once_it_came_to_its_last_step(tmp_path):
    finish(tmp_path, step=1000)
    assert finished(tmp_path, 1000)
    assert not finished(tmp_path, 1001)


def test_a_folder_is_in_use_while_its_lock_is_held(tmp_path):
    assert not in_use(tmp_path)
    with open(tmp_path / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert in_use(tmp_path)
    assert not in_use(tmp_path)


# ---------------------------------------------------------------- the table

LINES = [
    Line("a/seed1", "done", 100, 100, 7.0),
    Line("a/seed2", "running", 50, 100, 3.0, 5.0),
    Line("b/seed1", "running", 20, 100, None, 3.0),
    Line("b/seed2", "waiting", 0, 100, None),
]


def test_the_summary_adds_up():
    # 170 of 400 steps; 230 left at 8 steps/s take 28.75 s
    assert (
        summary(LINES)
        == "4 cells: 1 done, 2 running, 1 waiting; 170 of 400 steps (42%); 8 steps/s in all,"
        " ETA 29s"
    )


def test_elsewhere_a_line_is_due_each_half_minute():
    times = iter([0.0, 0.0, 29.0, 30.0])  # as it is made, shown, and checked twice
    shown = Table(io.StringIO(), clock=lambda: next(times))
    shown.show(LINES)
    assert [shown.due(), shown.due()] == [False, True]


@pytest.fixture
def terminal():
    stream = io.StringIO()
    stream.isatty = lambda: True
    return stream


def test_on_a_terminal_the_table_is_redrawn_in_place_and_running_cells_come_first(
    monkeypatch, terminal
):
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("LINES", "7")  # room for three cells
    shown = Table(terminal)
    shown.show(LINES)
    heading, *rows, more, _last = terminal.getvalue().splitlines()
    assert heading.split() == ["cell", "state", "done", "step", "return", "steps/s", "ETA"]
    assert [row.split() for row in rows] == [
        ["a/seed2", "running", "50%", "50", "3.0", "5", "10s"],
        ["b/seed1", "running", "20%", "20", "3", "27s"],
        ["b/seed2", "waiting", "0%", "0"],
    ]
    assert more == "... and 1 more"
    terminal.truncate(0), terminal.seek(0)
    shown.message("something happened")
    assert terminal.getvalue() == "\x1b[6F\x1b[Jsomething happened\n"


def test_on_a_terminal_the_last_table_stays(tmp_path, terminal):
    cells = cells_of(tmp_path, {"total_steps": 100}, envs="Hopper-v4", variants="virel", seeds="1")
    finish(cells[0].folder, 100)
    table = Table(terminal)
    experiment = Experiment(cells, ScriptedPool({}), table, tmp_path)
    experiment.run(StopRequest())
    assert experiment.conclude() == 0
    table.message("wrote report.html")
    assert "1 cells: 1 done; 100 of 100 steps (100%)\nwrote report.html\n" in terminal.getvalue()
    assert "\x1b" not in terminal.getvalue()
