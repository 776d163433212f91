"""metrics.csv, read back: one row for each evaluation of a run."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import Any

from virel_tf.errors import RunError
from virel_tf.run_folder.paths import METRICS

Row = dict[str, Any]
TAIL = 64 * 1024  # bytes at the end of the file that surely hold its last two rows


def read_rows(folder: Path, keep_rows: int | None = None) -> tuple[list[str], list[Row]]:
    """The columns and the first rows of a run's metrics, or all, as `read_table` finds them."""
    columns, table = read_table(folder, keep_rows)
    return columns, parse_table(columns, table, folder / METRICS)


def read_table(folder: Path, keep_rows: int | None = None) -> tuple[list[str], list[list[str]]]:
    """The columns and the cells of the first rows of a run's metrics, or all, as text.

    A last line truncated by a kill is ignored.
    """
    path = folder / METRICS
    end = None if keep_rows is None else keep_rows + 1
    try:
        lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
        rows = list(csv.reader(line.decode() for line in lines[:end]))
    except OSError as error:
        raise RunError(f"cannot read {path}: {error.strerror}") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise RunError(f"{path} is damaged: {error}") from error
    columns = rows[0] if rows else []
    table = rows[1:]
    if len(table) < (keep_rows or 0):
        raise RunError(
            f"{path} holds {len(table)} of the {keep_rows} rows that the checkpoint was saved with"
        )
    for number, cells in enumerate(table, start=2):
        if len(cells) != len(columns):
            raise RunError(
                f"{path} is damaged: line {number} has {len(cells)} cells for {len(columns)}"
                " columns"
            )
    return columns, table


def parse_table(columns: list[str], table: list[list[str]], path: Path) -> list[Row]:
    """The values of the cells; RunError, which names `path`, where a row has no step."""
    rows = [parse_row(columns, cells) for cells in table]
    for number, row in enumerate(rows, start=2):
        if not isinstance(row.get("step"), (int, float)) or not math.isfinite(row["step"]):
            raise RunError(f"{path} is damaged: line {number} has no number as its step")
    return rows


def last_row(folder: Path) -> dict[str, str]:
    """The cells of the last whole row by column; empty where there is none to be read."""
    try:
        with open(folder / METRICS, "rb") as file:
            columns = file.readline().decode().strip().split(",")
            start = file.tell()
            file.seek(max(start, file.seek(0, 2) - TAIL))
            whole = file.read().decode().rpartition("\n")[0]
    except (OSError, UnicodeDecodeError):
        return {}
    if not whole:
        return {}
    return dict(zip(columns, next(csv.reader([whole.rpartition("\n")[2]])), strict=False))


def evaluated_return(folder: Path, step: int) -> float | None:
    """The mean return of the run's evaluation at that step, if there was one."""
    try:
        rows = read_rows(folder)[1]
    except RunError:  # only the return is missing then
        return None
    returns = [float(row["eval_return"]) for row in rows if row["step"] == step]
    return returns[-1] if returns and math.isfinite(returns[-1]) else None


def parse_row(columns: list[str], cells: list[str]) -> Row:
    """The values by column: numbers where the cell holds one, None where it is empty."""
    return {name: _value(cell) for name, cell in zip(columns, cells, strict=True)}


def _value(cell: str) -> int | float | str | None:
    if not cell:
        return None
    for kind in (int, float):
        try:
            return kind(cell)
        except ValueError:
            continue
    return cell
