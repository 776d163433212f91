"""`virel-tf experiment`: runs the cells of a grid until each is done or has failed.

The state of an experiment is in the folders of its runs alone, so the same command resumes it, and
a single run that was made before counts as a cell.
"""

from __future__ import annotations

import dataclasses
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from virel_tf.errors import ConfigError, RunError
from virel_tf.experiments.grid import Cell, make_cells
from virel_tf.experiments.options import ExperimentOptions
from virel_tf.experiments.pool import LocalPool, last_line
from virel_tf.experiments.record import write_record
from virel_tf.experiments.table import Line, Table
from virel_tf.files import ensure_writable
from virel_tf.machine import cores
from virel_tf.relevance import unused_settings
from virel_tf.run_folder.lock import in_use
from virel_tf.run_folder.paths import output_path
from virel_tf.run_folder.progress import finished, latest, newest_checkpoint
from virel_tf.train.triggers import StopRequest

POLL_SECONDS = 0.5  # between two checks of the cells
MAX_KILLS = 3  # a cell killed so often in a row without a new checkpoint has failed


class Pool(Protocol):
    """Where cells run; see `LocalPool`."""

    def slots(self) -> int: ...
    def start(self, cell: Cell) -> None: ...
    def ended(self) -> Sequence[tuple[Cell, int | str]]: ...
    def stop(self) -> list[str]: ...


ReportWriter = Callable[[Path], tuple[Path, list[str]]]  # folder of runs -> page, missing cells


def run_experiment(
    options: ExperimentOptions, training: dict[str, Any], write_report: ReportWriter
) -> int:
    """Runs the grid, then writes a report.

    Returns 0 where all cells are done, 1 where one failed, 128 + n after signal n.
    """
    if options.ray_address:  # a task on another machine is started in another folder
        options = dataclasses.replace(options, out=str(Path(options.out).absolute()))
    cells = make_cells(options, training)
    ensure_writable(Path(options.out))
    table = Table()
    for note in notes_on(options, cells):
        table.message(f"virel-tf: {note}")
    # Ray installs its handler of SIGTERM as it starts, so ours comes after it
    pool = make_pool(options, table)
    experiment = Experiment(cells, pool, table, Path(options.out))
    with StopRequest() as stop:
        try:
            experiment.run(stop)
        finally:
            late = pool.stop()
            experiment.mark_interrupted()
    if stop.signal:
        saved = (
            f"; not saved in time, so back at their newest checkpoints: {', '.join(late)}"
            if late
            else ", and the running cells saved"
        )
        table.message(f"stopped{saved}; run the same command to resume")
        return stop.exit_code
    code = experiment.conclude()
    write_final_report(Path(options.out), table, write_report)
    return code


def notes_on(options: ExperimentOptions, cells: list[Cell]) -> list[str]:
    """A line for each flag that is set or swept over and has no effect."""
    notes = [note for cell in cells for note in unused_settings(cell.config, cell.flag_names)]
    if options.gpus_per_run and not options.ray_address:
        notes.append("gpus_per_run is ignored: it applies only with ray_address")
    return list(dict.fromkeys(notes))


def write_final_report(out: Path, table: Table, write_report: ReportWriter) -> None:
    """Writes the report on all runs in the folder and prints its path."""
    try:
        page, missing = write_report(out)
    # the exit code is that of the runs, whatever happens to the report
    except Exception as error:
        expected = isinstance(error, (ConfigError, RunError))
        table.message(f"virel-tf: no report was written: {error if expected else repr(error)}")
        return
    for cell in missing:
        table.message(f"missing: {cell}")
    table.message(f"wrote {page}")


def make_pool(options: ExperimentOptions, table: Table) -> Pool:
    """This machine, or a Ray cluster where one is named."""
    if options.ray_address:
        from virel_tf.experiments.ray_pool import RayPool

        return RayPool(
            options.ray_address,
            options.cpus_per_run,
            options.gpus_per_run,
            options.jobs,
            table.message,
        )
    return LocalPool(options.jobs or max(1, cores(0) // options.cpus_per_run))


class Experiment:
    """The states of the cells, and what follows when one changes."""

    def __init__(self, cells: list[Cell], pool: Pool, table: Table, out: Path) -> None:
        self.cells, self.pool, self.table, self.out = cells, pool, table, out
        self.state = {cell.name: "waiting" for cell in cells}
        self.reason: dict[str, str] = {}
        # how often killed in a row, and with which checkpoint
        self.kills: dict[str, tuple[int, str]] = {}

    def run(self, stop: StopRequest) -> None:
        """Runs until every cell is done or has failed, or a signal stops the experiment."""
        for cell in self.cells:
            if finished(cell.folder, cell.config.total_steps):
                self.state[cell.name] = "done"
        while not stop.signal and not {"waiting", "running", "elsewhere"}.isdisjoint(
            self.state.values()
        ):
            for cell, code in self.pool.ended():
                self.on_exit(cell, code)
            self.fill_slots()
            if self.table.due():  # lines() reads the cells' files and touches their locks
                self.table.show(self.lines())
            time.sleep(POLL_SECONDS)

    def fill_slots(self) -> None:
        """Starts waiting cells in free slots; a cell that another process trains is left alone."""
        free = self.pool.slots() - sum(state == "running" for state in self.state.values())
        for cell in self.cells:
            if self.state[cell.name] not in ("waiting", "elsewhere"):
                continue
            if in_use(cell.folder):
                self.change(cell, "elsewhere", "another process trains it")
            elif finished(cell.folder, cell.config.total_steps):
                self.change(cell, "done")
            elif free > 0:
                try:
                    self.pool.start(cell)
                except (OSError, subprocess.SubprocessError) as error:
                    self.change(cell, "failed", f"cannot be started: {error}")
                    continue
                self.change(cell, "running")
                free -= 1
            elif self.state[cell.name] == "elsewhere":
                self.change(cell, "waiting")

    def on_exit(self, cell: Cell, code: int | str) -> None:
        """Sets the state of a cell whose process has ended: done, waiting to be resumed, or failed.

        `code` is the exit code, or the reason why no process could be started.
        """
        if isinstance(code, str):
            self.change(cell, "failed", f"cannot be started: {code}")
            return
        killed = code < 0 or code > 128
        if finished(cell.folder, cell.config.total_steps):
            self.change(cell, "done")
        elif killed and self.may_restart(cell):
            self.change(
                cell,
                "waiting",
                f"its process was ended by signal {-code if code < 0 else code - 128}; resuming "
                "from its newest checkpoint",
            )
        elif killed:
            self.change(cell, "failed", f"killed {MAX_KILLS} times in a row at the same checkpoint")
        elif in_use(cell.folder):
            self.change(cell, "elsewhere", "another process trains it")
        else:
            self.change(
                cell,
                "failed",
                f"{last_line(cell.folder)} (exit code {code}; see {output_path(cell.folder)})",
            )

    def may_restart(self, cell: Cell) -> bool:
        """Counts a kill, anew where the cell has written a checkpoint since the last one."""
        checkpoint = newest_checkpoint(cell.folder)
        kills, before = self.kills.get(cell.name, (0, checkpoint))
        kills = kills + 1 if before == checkpoint else 1
        self.kills[cell.name] = kills, checkpoint
        return kills < MAX_KILLS

    def change(self, cell: Cell, state: str, reason: str = "") -> None:
        """Sets a cell's state, prints it and records it."""
        if self.state[cell.name] == state:
            return
        self.state[cell.name] = state
        self.reason[cell.name] = reason
        if state == "done":
            last = latest(cell.folder).return_
            reason = "" if last is None else f"return {last:,.1f}"
        if state != "running":
            self.table.message(f"{cell.name}: {state}" + (f": {reason}" if reason else ""))
        self.record()

    def lines(self) -> list[Line]:
        """The cells as the table shows them."""
        lines = []
        for cell in self.cells:
            state, row = self.state[cell.name], latest(cell.folder)
            total = cell.config.total_steps
            moving = state in ("running", "elsewhere") and in_use(cell.folder)
            if state == "running" and not moving and row.step < total:
                state = "waiting"  # its process is starting, or a cluster has it in its queue
            lines.append(
                Line(
                    cell.name,
                    state,
                    total if state == "done" else row.step,
                    total,
                    row.return_,
                    row.steps_per_s if moving else 0.0,
                )
            )
        return lines

    def mark_interrupted(self) -> None:
        """Marks the cells that were stopped while running as waiting."""
        for cell in self.cells:
            if self.state[cell.name] == "running":
                self.state[cell.name] = (
                    "done" if finished(cell.folder, cell.config.total_steps) else "waiting"
                )
        self.record()

    def record(self) -> None:
        """Writes experiment.json, from which the report names missing cells."""
        write_record(self.out, self.cells, self.state, self.reason)

    def conclude(self) -> int:
        """Prints the final table and the failures; returns the exit code."""
        self.table.show(self.lines())
        self.table.keep()
        failed = [cell for cell in self.cells if self.state[cell.name] == "failed"]
        for cell in failed:
            self.table.message(f"virel-tf: {cell.name} failed: {self.reason[cell.name]}")
        return 1 if failed else 0
