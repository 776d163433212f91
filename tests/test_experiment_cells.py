"""What follows when a cell's process ends, and what is recorded of it."""

from __future__ import annotations

import io
import os
import signal

import pytest
from scripted_pool import ScriptedPool, cells_of, finish, recorded

from virel_tf.cli import main
from virel_tf.experiments.command import MAX_KILLS, Experiment
from virel_tf.experiments.pool import launch
from virel_tf.experiments.record import write_record
from virel_tf.experiments.table import Table
from virel_tf.train.triggers import StopRequest


class LocalStart(ScriptedPool):
    """Makes the cell's folder and file as a start on this machine does."""

    def start(self, cell) -> None:
        launch(["true"], cell.folder).wait()
        super().start(cell)


@pytest.fixture
def outcome(tmp_path, monkeypatch):
    """Runs a grid of two cells whose processes end with the codes given."""
    monkeypatch.setattr("virel_tf.experiments.command.POLL_SECONDS", 0)

    def run(
        first: list[int | str],
        second: list[int | str],
        kind: type[ScriptedPool] = ScriptedPool,
    ) -> tuple[ScriptedPool, dict[str, tuple[str, str]], int]:
        cells = cells_of(
            tmp_path, {"total_steps": 100}, envs="Hopper-v4", variants="virel,beta", seeds="1"
        )
        pool = kind({cells[0].name: first, cells[1].name: second})
        experiment = Experiment(cells, pool, Table(io.StringIO()), tmp_path)
        experiment.run(StopRequest())
        experiment.mark_interrupted()
        code = experiment.conclude()
        return pool, {name.split("/")[1]: state for name, state in recorded(tmp_path).items()}, code

    return run


def test_a_failed_cell_is_recorded_and_the_rest_goes_on(outcome, tmp_path):
    _pool, record, code = outcome([1], [0])
    log = tmp_path / "Hopper-v4/virel/seed1/output.log"
    assert record == {
        "virel": ("failed", f"something is wrong (exit code 1; see {log})"),
        "beta": ("done", ""),
    }
    assert code == 1


def test_a_cell_that_cannot_be_started_is_recorded_and_the_rest_goes_on(outcome, tmp_path):
    (tmp_path / "Hopper-v4").mkdir()
    (tmp_path / "Hopper-v4/virel").write_text("a file where a folder should be")
    _pool, record, code = outcome([], [0], LocalStart)
    assert (
        record["virel"][0] == "failed"
        and "cannot be started: [Errno 20] Not a directory" in record["virel"][1]
    )
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
    pool, record, code = outcome([-signal.SIGKILL] * MAX_KILLS, [0])
    assert pool.started.count("Hopper-v4/virel/seed1") == MAX_KILLS
    assert record["virel"] == (
        "failed",
        f"killed {MAX_KILLS} times in a row at the same checkpoint",
    )
    assert record["beta"][0] == "done"
    assert code == 1


def test_a_cell_that_gets_on_between_kills_lives(outcome, tmp_path, monkeypatch):
    steps = iter(range(100))
    monkeypatch.setattr(
        "virel_tf.experiments.command.newest_checkpoint", lambda folder: f"step-{next(steps)}"
    )
    _, record, code = outcome([-signal.SIGKILL] * (MAX_KILLS + 4) + [0], [0])
    assert record["virel"][0] == "done"
    assert code == 0


def test_a_run_that_is_there_already_is_not_run_again(outcome, tmp_path):
    finish(tmp_path / "Hopper-v4/virel/seed1", 100)
    pool, record, _code = outcome([], [0])
    assert pool.started == ["Hopper-v4/beta/seed1"]
    assert record["virel"][0] == "done"


def test_a_cell_that_someone_else_trains_is_left_to_them(outcome, tmp_path, monkeypatch):
    folder = tmp_path / "Hopper-v4/virel/seed1"
    looks = iter([True, True, True])
    monkeypatch.setattr(
        "virel_tf.experiments.command.in_use",
        lambda path: path == folder and (next(looks, None) or finish(folder, 100) or False),
    )
    pool, record, code = outcome([], [0])
    assert pool.started == ["Hopper-v4/beta/seed1"]
    assert record["virel"][0] == "done"
    assert code == 0


def test_a_second_experiment_in_the_same_folder_keeps_the_record_of_the_first(tmp_path):
    for variant, state in (("virel", "failed"), ("beta", "done"), ("virel", "done")):
        (cell,) = cells_of(tmp_path, envs="Hopper-v4", variants=variant, seeds="1")
        write_record(tmp_path, [cell], {cell.name: state}, {})
    assert recorded(tmp_path) == {
        "Hopper-v4/virel/seed1": ("done", ""),
        "Hopper-v4/beta/seed1": ("done", ""),
    }


def test_cells_that_run_when_the_experiment_is_stopped_are_recorded_as_waiting(
    tmp_path, monkeypatch
):
    class Interrupted(ScriptedPool):
        def start(self, cell) -> None:
            super().start(cell)
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr("virel_tf.experiments.command.make_pool", lambda *_: Interrupted({}))
    assert (
        main(
            ["experiment", f"--out={tmp_path}", "--envs=Hopper-v4", "--variants=virel", "--seeds=1"]
        )
        == 143
    )
    assert recorded(tmp_path) == {"Hopper-v4/virel/seed1": ("waiting", "")}


def test_a_report_that_fails_does_not_cost_the_exit_code(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("virel_tf.reports.report.write_report", lambda *arguments: [].pop())
    finish(tmp_path / "Hopper-v4/virel/seed1", 100)
    assert (
        main(
            [
                "experiment",
                f"--out={tmp_path}",
                "--envs=Hopper-v4",
                "--variants=virel",
                "--seeds=1",
                "--total_steps=100",
            ]
        )
        == 0
    )
    assert "no report was written: IndexError('pop from empty list')" in capsys.readouterr().err


@pytest.mark.parametrize("row, told", [("", "done"), ("100,1234.5678,9\n", "done: return 1,234.6")])
def test_a_finished_cell_tells_its_return_if_it_has_one(tmp_path, row, told):
    stream = io.StringIO()
    (cell,) = cells_of(tmp_path, envs="Hopper-v4", variants="virel", seeds="1")
    cell.folder.mkdir(parents=True)
    (cell.folder / "metrics.csv").write_text(f"step,eval_return,steps_per_s\n{row}")
    Experiment([cell], ScriptedPool({}), Table(stream), tmp_path).change(cell, "done")
    assert stream.getvalue() == f"{cell.name}: {told}\n"


def test_a_swept_flag_without_effect_is_named(tmp_path, capsys):
    for value in (1, 2):
        finish(tmp_path / f"Hopper-v4/virel/temperature_bound=0.{value}/seed1", 100)
    assert (
        main(
            [
                "experiment",
                f"--out={tmp_path}",
                "--envs=Hopper-v4",
                "--variants=virel",
                "--seeds=1",
                "--total_steps=100",
                "--sweep=temperature_bound=0.1,0.2",
            ]
        )
        == 0
    )
    assert (
        capsys.readouterr().err.count("temperature_bound has no effect on this run of virel") == 1
    )
