"""`virel-tf experiment`: keeps the cells of a grid running until each has ended or failed.

Nothing is remembered between two calls but what the runs' own folders hold, so the same command
goes on from there, and a single run that was made before counts as a cell.
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

LOOK_EVERY = 0.5  # seconds between two looks at the cells
LIVES = 3  # how often a cell may be killed in a row without getting on


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
    """Runs the grid, and has a report written at its end.

    Returns 0 where all cells came to their end, 1 where one failed, 128 + n after signal n.
    """
    if options.ray_address:  # a task on another machine is started in another folder
        options = dataclasses.replace(options, out=str(Path(options.out).absolute()))
    cells = make_cells(options, training)
    ensure_writable(Path(options.out))
    table = Table()
    for note in notes_on(options, cells):
        table.message(f"virel-tf: {note}")
    # Ray takes SIGTERM for itself as it starts, so the wish to stop is heard after it
    pool = make_pool(options, table)
    experiment = Experiment(cells, pool, table, Path(options.out))
    with StopRequest() as stop:
        try:
            experiment.run(stop)
        finally:
            late = pool.stop()
            experiment.put_down()
    if stop.signal:
        told = (
            f"; not saved in time, so gone back to their newest checkpoints: {', '.join(late)}"
            if late
            else ", and the running cells saved"
        )
        table.message(f"stopped{told}; the same command goes on from there")
        return stop.exit_code
    code = experiment.conclude()
    tell_report(Path(options.out), table, write_report)
    return code


def notes_on(options: ExperimentOptions, cells: list[Cell]) -> list[str]:
    """A line for each flag that is given or swept over and has no effect."""
    notes = [note for cell in cells for note in unused_settings(cell.config, cell.given)]
    if options.gpus_per_run and not options.ray_address:
        notes.append("gpus_per_run has no effect on this machine's runs: it belongs to ray_address")
    return list(dict.fromkeys(notes))


def tell_report(out: Path, table: Table, write_report: ReportWriter) -> None:
    """Writes the report on all runs in the folder, and says where it is."""
    try:
        page, missing = write_report(out)
    # the runs are there, and the exit code tells of them, whatever happens to the report
    except Exception as error:
        known = isinstance(error, (ConfigError, RunError))
        table.message(f"virel-tf: no report was written: {error if known else repr(error)}")
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
        self.deaths: dict[
            str, tuple[int, str]
        ] = {}  # how often killed in a row, and with which checkpoint

    def run(self, stop: StopRequest) -> None:
        """Until every cell is done or has failed, or the user wants to stop."""
        for cell in self.cells:
            if finished(cell.folder, cell.config.total_steps):
                self.state[cell.name] = "done"
        while not stop.signal and not {"waiting", "running", "elsewhere"}.isdisjoint(
            self.state.values()
        ):
            for cell, code in self.pool.ended():
                self.settle(cell, code)
            self.start_what_fits()
            if self.table.due():  # a look at the cells reads their files and touches their locks
                self.table.show(self.lines())
            time.sleep(LOOK_EVERY)

    def start_what_fits(self) -> None:
        """Gives free slots to waiting cells; one that another process trains is left to it."""
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

    def settle(self, cell: Cell, code: int | str) -> None:
        """What a process leaves behind.

        A finished run, one to go on with, or a failure; words say why it never was.
        """
        if isinstance(code, str):
            self.change(cell, "failed", f"cannot be started: {code}")
            return
        killed = code < 0 or code > 128
        if finished(cell.folder, cell.config.total_steps):
            self.change(cell, "done")
        elif killed and self.may_live_again(cell):
            self.change(
                cell,
                "waiting",
                f"its process was ended by signal {-code if code < 0 else code - 128}; going "
                "on from its newest checkpoint",
            )
        elif killed:
            self.change(cell, "failed", f"killed {LIVES} times in a row at the same checkpoint")
        elif in_use(cell.folder):
            self.change(cell, "elsewhere", "another process trains it")
        else:
            self.change(
                cell,
                "failed",
                f"{last_line(cell.folder)} (exit code {code}; see {output_path(cell.folder)})",
            )

    def may_live_again(self, cell: Cell) -> bool:
        """Counts a death; a cell that got on since the last one begins to count anew."""
        checkpoint = newest_checkpoint(cell.folder)
        deaths, before = self.deaths.get(cell.name, (0, checkpoint))
        deaths = deaths + 1 if before == checkpoint else 1
        self.deaths[cell.name] = deaths, checkpoint
        return deaths < LIVES

    def change(self, cell: Cell, state: str, reason: str = "") -> None:
        """A cell's new state, told and recorded."""
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

    def put_down(self) -> None:
        """After the processes were asked to end: what was running waits for the next time."""
        for cell in self.cells:
            if self.state[cell.name] == "running":
                self.state[cell.name] = (
                    "done" if finished(cell.folder, cell.config.total_steps) else "waiting"
                )
        self.record()

    def record(self) -> None:
        """How the cells stand, for the report to name those that are missing."""
        write_record(self.out, self.cells, self.state, self.reason)

    def conclude(self) -> int:
        """The last lines a user reads, and the exit code."""
        self.table.show(self.lines())
        self.table.keep()
        failed = [cell for cell in self.cells if self.state[cell.name] == "failed"]
        for cell in failed:
            self.table.message(f"virel-tf: {cell.name} failed: {self.reason[cell.name]}")
        return 1 if failed else 0
