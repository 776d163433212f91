"""The grid of an experiment, what its folders tell, and what follows when a cell's process ends."""

from __future__ import annotations

import fcntl
import io
import json
import os
import signal
from pathlib import Path

import pytest

from virel_tf.cli import main, parse_config, read_flags
from virel_tf.commands import TRAINING_FLAGS, ExperimentOptions
from virel_tf.errors import ConfigError
from virel_tf.experiments.command import LIVES, Experiment
from virel_tf.experiments.folder import finished, in_use, latest
from virel_tf.experiments.grid import make_cells
from virel_tf.experiments.pool import launch
from virel_tf.experiments.record import write_record
from virel_tf.experiments.table import Line, Table, summary
from virel_tf.train.triggers import StopRequest


def cells_of(out: Path, training: dict | None = None, **options):
    return make_cells(ExperimentOptions(out=str(out), **options), training or {})


# ---------------------------------------------------------------- the grid


def test_the_grid_is_the_product_and_goes_seed_by_seed(tmp_path):
    cells = cells_of(tmp_path, envs="Hopper-v4,Reacher-v4", variants="virel,sac", seeds="2")
    assert [cell.name for cell in cells] == [
        "Hopper-v4/virel/seed1", "Hopper-v4/sac/seed1", "Reacher-v4/virel/seed1", "Reacher-v4/sac/seed1",
        "Hopper-v4/virel/seed2", "Hopper-v4/sac/seed2", "Reacher-v4/virel/seed2", "Reacher-v4/sac/seed2"]
    assert cells[0].folder == tmp_path / "Hopper-v4/virel/seed1"


def test_each_cell_has_its_own_row_of_the_preset(tmp_path):
    hopper, humanoid = cells_of(tmp_path, envs="Hopper-v4,Humanoid-v4", variants="beta", seeds="1")
    assert (hopper.config.reward_scale, humanoid.config.reward_scale) == (5.0, 1.0)


def test_training_flags_and_sweeps_reach_every_cell(tmp_path):
    training = read_flags(TRAINING_FLAGS, ["--normalise_observations", "--total_steps=1e3"])
    cells = cells_of(tmp_path, training, envs="Hopper-v4", variants="beta", seeds="3,8", sweep="tau=0.1,0.2;hidden=8")
    assert [cell.name for cell in cells] == [f"Hopper-v4/beta/tau={tau},hidden=8/seed{seed}"
                                             for seed in (3, 8) for tau in (0.1, 0.2)]
    assert [cell.config.tau for cell in cells] == [0.1, 0.2, 0.1, 0.2]
    assert all(cell.config.hidden == 8 and cell.config.normalise_observations and cell.config.total_steps == 1000
               for cell in cells)


def test_a_cells_command_trains_its_settings(tmp_path):
    training = read_flags(TRAINING_FLAGS, ["--nonormalise_observations", "--layer_norm"])
    for cell in cells_of(tmp_path, training, envs="Hopper-v4", variants="beta,ddpg", seeds="1", sweep="tau=0.1,0.2"):
        assert cell.command[1:4] == ["-m", "virel_tf", "train"]
        assert parse_config(list(cell.flags)) == cell.config


@pytest.mark.parametrize("flags, told", [
    (["--envs=Hoper-v4"], "--envs: 'Hoper-v4' is not known to gymnasium (did you mean Hopper-v4?)"),
    (["--envs=Hopper-v4,"], "--envs: 'Hopper-v4,' is not allowed; it must be a list such as A,B"),
    (["--variants=virel,sak"], "--variants: 'sak' is not allowed; it must be one of virel, beta, "),
    (["--variants=sac,sac"], "--variants: sac is there twice"),
    (["--seeds=0"], "--seeds: '0' is not allowed; it must be how many, such as 5, or which, such as 3,5,8"),
    (["--seeds=two"], "--seeds: 'two' is not allowed; "),
    (["--sweep=tao=1"], "--sweep: 'tao' is not allowed; it must be a flag of training and its values, as in "
                        "tau=0.001,0.005 (did you mean tau?)"),
    (["--sweep=tau"], "--sweep: tau has no values; it must be as in tau=A,B"),
    (["--sweep=tau=0.1;tau=0.2"], "--sweep: tau is there twice"),
    (["--sweep=tau=0.1,0.2", "--tau=0.3"], "--sweep: tau is given as --tau too; it must be one or the other"),
    (["--sweep=tau=0.1,7"], "--tau: 7.0 is not allowed; it must be a number above 0 and at most 1"),
    (["--env=Hopper-v4"], "--env: there is no such flag (did you mean --envs?)"),
    (["--ray_address=127.0.0.1:9", "--seeds=1"], "--ray_address: no cluster at '127.0.0.1:9'"),
])
def test_bad_grids_are_told_in_one_line(tmp_path, capsys, flags, told):
    assert main(["experiment", f"--out={tmp_path / 'runs'}", *flags]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"virel-tf: {told}")
    assert error.count("\n") == 1


def test_a_folder_with_other_settings_is_refused_before_anything_runs(tmp_path):
    folder = tmp_path / "Hopper-v4/virel/seed2"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(parse_config(["--env=Hopper-v4", "--variant=virel", "--seed=2",
                                                      "--tau=0.5"]).to_json())
    with pytest.raises(ConfigError, match=r"seed2 holds a run with other settings \(--tau: 0.5 -> 0.005\)"):
        cells_of(tmp_path, envs="Hopper-v4", variants="virel", seeds="2")


# ---------------------------------------------------------------- what a folder tells


def test_latest_is_the_last_whole_row(tmp_path):
    assert latest(tmp_path) == (0, None, 0.0)
    (tmp_path / "metrics.csv").write_text("step,eval_return,steps_per_s\n1000,5.5,100\n2000,7.25,120.5\n3000,9")
    assert latest(tmp_path) == (2000, 7.25, 120.5)


def test_a_run_is_finished_when_its_last_policy_was_exported(tmp_path):
    export(tmp_path, step=1000)
    assert finished(tmp_path, 1000)
    assert not finished(tmp_path, 1001)


def test_a_folder_is_in_use_while_its_lock_is_held(tmp_path):
    assert not in_use(tmp_path)
    with open(tmp_path / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert in_use(tmp_path)
    assert not in_use(tmp_path)


# ---------------------------------------------------------------- what follows when a process ends


def export(folder: Path, step: int) -> None:
    version = folder / "policy" / "last" / "1"
    version.mkdir(parents=True, exist_ok=True)
    (version / "metadata.json").write_text(json.dumps({"step": step}))


class ScriptedPool:
    """Ends each cell at once, with the next exit code of its script; 0 leaves a finished run behind."""

    def __init__(self, codes: dict[str, list[int | str]]) -> None:
        self.codes, self.running, self.started = codes, [], []

    def slots(self) -> int:
        return 1

    def start(self, cell) -> None:
        assert not self.running
        self.started.append(cell.name)
        self.running.append(cell)

    def ended(self) -> list:
        over = [(cell, self.codes[cell.name].pop(0)) for cell in self.running]
        self.running = []
        for cell, code in over:
            cell.folder.mkdir(parents=True, exist_ok=True)
            (cell.folder / "output.log").write_text("virel-tf: something is wrong\n")
            if code == 0:
                export(cell.folder, cell.config.total_steps)
        return over

    def stop(self) -> None:
        pass


class LocalStart(ScriptedPool):
    """Makes the cell's folder and file as a start on this machine does."""

    def start(self, cell) -> None:
        launch(["true"], cell.folder).wait()
        super().start(cell)


def recorded(out: Path) -> dict[str, tuple[str, str]]:
    """Name -> state and reason of the cells in experiment.json."""
    cells = json.loads((out / "experiment.json").read_text())["cells"]
    return {cell["name"]: (cell["state"], cell["reason"]) for cell in cells}


@pytest.fixture
def outcome(tmp_path, monkeypatch):
    """Runs a grid of two cells whose processes end with the codes given."""
    monkeypatch.setattr("virel_tf.experiments.command.LOOK_EVERY", 0)

    def run(first: list[int | str], second: list[int | str], kind: type[ScriptedPool] = ScriptedPool,
            ) -> tuple[ScriptedPool, dict[str, tuple[str, str]], int]:
        cells = cells_of(tmp_path, {"total_steps": 100}, envs="Hopper-v4", variants="virel,beta", seeds="1")
        pool = kind({cells[0].name: first, cells[1].name: second})
        experiment = Experiment(cells, pool, Table(io.StringIO()), tmp_path)
        experiment.run(StopRequest())
        experiment.put_down()
        code = experiment.conclude()
        return pool, {name.split("/")[1]: state for name, state in recorded(tmp_path).items()}, code

    return run


def test_a_failed_cell_is_recorded_and_the_rest_goes_on(outcome, tmp_path):
    pool, record, code = outcome([1], [0])
    log = tmp_path / "Hopper-v4/virel/seed1/output.log"
    assert record == {"virel": ("failed", f"something is wrong (exit code 1; see {log})"), "beta": ("done", "")}
    assert code == 1


def test_a_cell_that_cannot_be_started_is_recorded_and_the_rest_goes_on(outcome, tmp_path):
    (tmp_path / "Hopper-v4").mkdir()
    (tmp_path / "Hopper-v4/virel").write_text("a file where a folder should be")
    pool, record, code = outcome([], [0], LocalStart)
    assert record["virel"][0] == "failed" and "cannot be started: [Errno 20] Not a directory" in record["virel"][1]
    assert record["beta"] == ("done", "")
    assert code == 1


def test_a_task_that_cannot_be_started_on_a_cluster_is_recorded_and_the_rest_goes_on(outcome):
    _, record, code = outcome(["No space left"], [0])
    assert record == {"virel": ("failed", "cannot be started: No space left"), "beta": ("done", "")}
    assert code == 1


def test_a_killed_cell_goes_on(outcome):
    pool, record, code = outcome([-signal.SIGKILL, 128 + signal.SIGTERM, 0], [0])
    assert pool.started.count("Hopper-v4/virel/seed1") == 3
    assert record["virel"] == ("done", "")
    assert code == 0


def test_a_cell_that_is_killed_again_and_again_fails(outcome):
    pool, record, code = outcome([-signal.SIGKILL] * LIVES, [0])
    assert pool.started.count("Hopper-v4/virel/seed1") == LIVES
    assert record["virel"] == ("failed", f"killed {LIVES} times in a row at the same checkpoint")
    assert record["beta"][0] == "done"
    assert code == 1


def test_a_cell_that_gets_on_between_kills_lives(outcome, tmp_path, monkeypatch):
    steps = iter(range(100))
    monkeypatch.setattr("virel_tf.experiments.command.newest_checkpoint", lambda folder: f"step-{next(steps)}")
    _, record, code = outcome([-signal.SIGKILL] * (LIVES + 4) + [0], [0])
    assert record["virel"][0] == "done"
    assert code == 0


def test_a_run_that_is_there_already_is_not_run_again(outcome, tmp_path):
    export(tmp_path / "Hopper-v4/virel/seed1", 100)
    pool, record, code = outcome([], [0])
    assert pool.started == ["Hopper-v4/beta/seed1"]
    assert record["virel"][0] == "done"


def test_a_cell_that_someone_else_trains_is_left_to_them(outcome, tmp_path, monkeypatch):
    folder = tmp_path / "Hopper-v4/virel/seed1"
    looks = iter([True, True, True])
    monkeypatch.setattr("virel_tf.experiments.command.in_use",
                        lambda path: path == folder and (next(looks, None) or export(folder, 100) or False))
    pool, record, code = outcome([], [0])
    assert pool.started == ["Hopper-v4/beta/seed1"]
    assert record["virel"][0] == "done"
    assert code == 0


def test_a_second_experiment_in_the_same_folder_keeps_the_record_of_the_first(tmp_path):
    for variant, state in (("virel", "failed"), ("beta", "done"), ("virel", "done")):
        cell, = cells_of(tmp_path, envs="Hopper-v4", variants=variant, seeds="1")
        write_record(tmp_path, [cell], {cell.name: state}, {})
    assert recorded(tmp_path) == {"Hopper-v4/virel/seed1": ("done", ""), "Hopper-v4/beta/seed1": ("done", "")}


def test_cells_that_run_when_the_experiment_is_stopped_are_recorded_as_waiting(tmp_path, monkeypatch):
    class Interrupted(ScriptedPool):
        def start(self, cell) -> None:
            super().start(cell)
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr("virel_tf.experiments.command.make_pool", lambda options: Interrupted({}))
    assert main(["experiment", f"--out={tmp_path}", "--envs=Hopper-v4", "--variants=virel", "--seeds=1"]) == 143
    assert recorded(tmp_path) == {"Hopper-v4/virel/seed1": ("waiting", "")}


def test_a_report_that_fails_does_not_cost_the_exit_code(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("virel_tf.experiments.report.write_report", lambda *arguments: [].pop())
    export(tmp_path / "Hopper-v4/virel/seed1", 100)
    assert main(["experiment", f"--out={tmp_path}", "--envs=Hopper-v4", "--variants=virel", "--seeds=1",
                 "--total_steps=100"]) == 0
    assert "no report was written: IndexError('pop from empty list')" in capsys.readouterr().err


# ---------------------------------------------------------------- the table

LINES = [Line("a/seed1", "done", 100, 100, 7.0), Line("a/seed2", "running", 50, 100, 3.0, 5.0),
         Line("b/seed1", "running", 20, 100, None, 3.0), Line("b/seed2", "waiting", 0, 100, None)]


def test_the_summary_adds_up():
    # 170 of 400 steps; 230 left at 8 steps/s take 28.75 s
    assert summary(LINES) == "4 cells: 1 done, 2 running, 1 waiting; 170 of 400 steps (42%); 8 steps/s in all, ETA 29s"


def test_elsewhere_a_line_is_due_each_half_minute():
    times = iter([0.0, 0.0, 29.0, 30.0])  # as it is made, shown, and asked twice
    shown = Table(io.StringIO(), clock=lambda: next(times))
    shown.show(LINES)
    assert [shown.due(), shown.due()] == [False, True]


def test_on_a_terminal_the_table_is_redrawn_in_place_and_running_cells_come_first(monkeypatch):
    stream = io.StringIO()
    stream.isatty = lambda: True
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("LINES", "7")  # room for three cells
    shown = Table(stream)
    shown.show(LINES)
    heading, *rows, more, last = stream.getvalue().splitlines()
    assert heading.split() == ["cell", "state", "done", "step", "return", "steps/s", "ETA"]
    assert [row.split() for row in rows] == [["a/seed2", "running", "50%", "50", "3.0", "5", "10s"],
                                             ["b/seed1", "running", "20%", "20", "3", "27s"],
                                             ["b/seed2", "waiting", "0%", "0"]]
    assert more == "... and 1 more"
    stream.truncate(0), stream.seek(0)
    shown.message("something happened")
    assert stream.getvalue() == "\x1b[6F\x1b[Jsomething happened\n"
