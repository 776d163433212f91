"""metrics.csv, read back: one row for each evaluation of a run."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import Any

from virel_tf.errors import RunError

Row = dict[str, Any]


def read_rows(path: Path, keep_rows: int | None = None) -> tuple[list[str], list[Row]]:
    """The columns and the first rows of a file, or all.

    A last line that a kill has cut short is not looked at.
    """
    end = None if keep_rows is None else keep_rows + 1
    try:
        lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
        columns, *table = csv.reader(line.decode() for line in lines[:end]) if lines else [[]]
    except OSError as error:
        raise RunError(f"cannot read {path}: {error.strerror}") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise RunError(f"{path} is damaged: {error}") from error
    if len(table) < (keep_rows or 0):
        raise RunError(
            f"{path} holds {len(table)} of the {keep_rows} rows that the checkpoint counts on"
        )
    for number, cells in enumerate(table, start=2):
        if len(cells) != len(columns):
            raise RunError(
                f"{path} is damaged: line {number} has {len(cells)} cells for {len(columns)}"
                " columns"
            )
    rows = [parse_row(columns, cells) for cells in table]
    for number, row in enumerate(rows, start=2):
        if not isinstance(row.get("step"), (int, float)) or not math.isfinite(row["step"]):
            raise RunError(f"{path} is damaged: line {number} has no number as its step")
    return columns, rows


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
