"""A store: runs as compact data, to be published and compared.

    ENV.csv.gz      metrics.csv of all runs in an environment; the first column names the run
    runs.json.gz    of each run its label, settings, versions and columns, and how many rows it has

Cells are kept as text, so they have every digit of metrics.csv. A run's label says what it belongs
to; labels that begin with `studies/` are of runs that are only compared with each other. The same
runs give the same bytes.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import zlib
from collections.abc import Iterable
from pathlib import Path, PurePath
from typing import Any, NamedTuple

from virel_tf.errors import ConfigError, RunError
from virel_tf.files import atomic_write, ensure_writable
from virel_tf.run_folder.identity import identity, lacking_identity, with_default_settings
from virel_tf.run_folder.metrics import Row, parse_table, read_rows, read_table
from virel_tf.run_folder.paths import CONFIG, METRICS, VERSIONS, find_runs
from virel_tf.run_folder.progress import finished
from virel_tf.run_folder.settings import read_settings, without_format

INDEX = "runs.json.gz"
TABLE = ".csv.gz"
STORE_FORMAT = 1
STUDIES = "studies/"
NAME = "run"  # the first column of a table
PARTS = ("label", "settings", "versions", "columns")  # of a run, in the index


class StoredRun(NamedTuple):
    """A run as a store has it: the contents of config.json, versions.json and metrics.csv."""

    name: str  # no other run of the environment has it
    label: str
    settings: dict[str, Any]  # with the format number
    versions: Any  # None where they were not recorded
    columns: list[str]
    cells: list[list[str]]

    @property
    def table(self) -> str:
        """The name of the table that its rows are in."""
        return self.settings["env"].replace("/", "_")

    @property
    def all_settings(self) -> dict[str, Any]:
        """Without the format number, with the defaults of what another version did not have."""
        return with_default_settings(
            {name: value for name, value in self.settings.items() if name != "format"}
        )

    @property
    def identity(self) -> tuple[Any, ...]:
        """What no two runs of a store share."""
        return self.label, *identity(self.all_settings)

    def path(self, store: Path) -> Path:
        """What messages and pages call it."""
        return store / (self.table + TABLE) / self.name

    def rows(self, store: Path) -> list[Row]:
        """Its evaluations, as numbers."""
        try:
            return parse_table(self.columns, self.cells, self.path(store))
        except RunError as error:
            raise ConfigError(None, str(error)) from error


def find_stores(folder: Path) -> list[Path]:
    """The stores in or below a folder, in alphabetical order."""
    return [path.parent for path in sorted(folder.rglob(INDEX))]


def has_label(label: str, wanted: str) -> bool:
    """Whether a run with that label is wanted; `studies` means all studies, nothing all others."""
    return f"{label}/".startswith(f"{wanted}/") if wanted else not label.startswith(STUDIES)


def read_store(store: Path, label: str = "") -> list[StoredRun]:
    """The runs of a store that have the label, or a label below it; without one all but studies.

    ConfigError where there is none, or a file is not a store's.
    """
    index = read_index(store)
    labels = labels_of(index)
    wanted = {known for known in labels if has_label(known, label)}
    if not wanted:
        raise ConfigError(
            "label",
            f"'{store}' has no run {f'of {label!r}' if label else 'but those of studies'}; it must"
            f" be one of {', '.join(sorted(labels))}",
        )
    return read_tables(store, index, wanted)


def read_all(store: Path) -> list[StoredRun]:
    """All runs of a store."""
    index = read_index(store)
    return read_tables(store, index, labels_of(index))


def labels_of(index: dict[str, Any]) -> set[str]:
    """All labels that a store has."""
    return {entry["label"] for entries in index.values() for entry in entries.values()}


def read_tables(store: Path, index: dict[str, Any], labels: set[str]) -> list[StoredRun]:
    """The runs of a store with these labels; tables without any are not read."""
    runs = []
    for table, entries in index.items():
        if any(entry["label"] in labels for entry in entries.values()):
            cells = read_cells(store / (table + TABLE), entries)
            runs += [
                StoredRun(name=name, cells=cells[name], **{part: entry[part] for part in PARTS})
                for name, entry in entries.items()
                if entry["label"] in labels
            ]
    return runs


def read_index(store: Path) -> dict[str, dict[str, dict[str, Any]]]:
    """Table -> name -> what there is to know of a run, but for its rows."""
    path = store / INDEX
    try:
        content = json.loads(decompressed(path))
        found = content["format"]
        if found != STORE_FORMAT or isinstance(found, bool):
            raise ConfigError(
                None,
                f"{path} is of format {found!r}, made by another version of virel_tf; this "
                f"version reads format {STORE_FORMAT} alone",
            )
        index = content["runs"]
        for table, entries in index.items():
            for name, entry in entries.items():
                check_entry(table, entry, f"run '{name}' in {path}")
    except ConfigError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(
            None, f"{path} is damaged: it does not hold the runs of a store"
        ) from error
    return index


def check_entry(table: str, entry: dict[str, Any], what: str) -> None:
    """ConfigError, or one of those that damaged JSON raises, where it does not describe a run."""
    missing = lacking_identity(entry["settings"])
    if missing:
        raise ConfigError(
            None, f"{what} does not say the run's {', '.join(missing)}, or not as it should"
        )
    without_format(entry["settings"], f"{what} is")
    run = StoredRun(name="", cells=[], **{part: entry[part] for part in PARTS})
    texts = [run.label, *run.columns]
    if not all(isinstance(text, str) for text in texts) or run.table != table:
        raise TypeError(what)
    int(entry["rows"])


def read_cells(path: Path, entries: dict[str, dict[str, Any]]) -> dict[str, list[list[str]]]:
    """Name -> the cells of a run's rows, in its own columns."""
    try:
        columns, *table = csv.reader(io.StringIO(decompressed(path), newline=""))
        at = {column: place for place, column in enumerate(columns)}
        places = {
            name: [at[column] for column in entry["columns"]] for name, entry in entries.items()
        }
        if columns[0] != NAME or any(len(row) != len(columns) for row in table):
            raise ValueError(path)
        cells: dict[str, list[list[str]]] = {name: [] for name in entries}
        for row in table:
            cells[row[0]].append([row[place] for place in places[row[0]]])
    except ConfigError:
        raise
    except (ValueError, KeyError, IndexError, csv.Error) as error:
        raise ConfigError(None, f"{path} is damaged: it does not hold a table of runs") from error
    for name, entry in entries.items():
        if len(cells[name]) != entry["rows"]:
            raise ConfigError(
                None,
                f"{path} is damaged: it holds {len(cells[name])} of the {entry['rows']} rows of"
                f" '{name}'",
            )
    return cells


def decompressed(path: Path) -> str:
    """The text of a compressed file; ConfigError where it is none or cannot be read."""
    try:
        return gzip.decompress(path.read_bytes()).decode()
    except gzip.BadGzipFile as error:
        raise ConfigError(None, f"{path} is damaged: it is not compressed by gzip") from error
    except (EOFError, zlib.error, UnicodeDecodeError) as error:
        raise ConfigError(None, f"{path} is damaged: it cannot be decompressed") from error
    except OSError as error:
        raise ConfigError(None, f"{path} cannot be read: {error.strerror}") from error


def compressed(text: str) -> bytes:
    """The same bytes for the same text, whenever and under whatever name it is written."""
    data = io.BytesIO()
    with gzip.GzipFile("", "wb", compresslevel=9, fileobj=data, mtime=0) as file:
        file.write(text.encode())
    return data.getvalue()


def write_store(store: Path, runs: list[StoredRun]) -> None:
    """Makes the store hold these runs and no others."""
    ensure_writable(store)
    tables: dict[str, list[StoredRun]] = {}
    for run in sorted(runs, key=lambda run: (run.table, run.name)):
        tables.setdefault(run.table, []).append(run)
    index = {
        table: {
            run.name: {part: getattr(run, part) for part in PARTS} | {"rows": len(run.cells)}
            for run in together
        }
        for table, together in tables.items()
    }
    for table, together in tables.items():
        atomic_write(store / (table + TABLE), compressed(table_text(together)))
    content = dict(format=STORE_FORMAT, runs=index)
    atomic_write(store / INDEX, compressed(json.dumps(content, indent=1) + "\n"))
    for path in store.glob("*" + TABLE):
        if path.name.removesuffix(TABLE) not in tables:
            path.unlink()


def table_text(runs: list[StoredRun]) -> str:
    """The rows of all runs of a table; cells of columns that a run does not have are empty."""
    columns = list(dict.fromkeys(column for run in runs for column in run.columns))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([NAME, *columns])
    for run in runs:
        for cells in run.cells:
            values = dict(zip(run.columns, cells, strict=True))
            writer.writerow([run.name, *(values.get(column, "") for column in columns)])
    return text.getvalue()


def add_runs(store: Path, new: Iterable[StoredRun], replace: bool = False) -> None:
    """Adds runs to a store, or makes one of them.

    A run with the label and the identity of one that is there replaces it, and has its name. With
    `replace` all runs of the same label and environment go first.
    """
    new = list(new)
    there = read_all(store) if (store / INDEX).exists() else []
    if replace:
        gone = {(run.table, run.label) for run in new}
        there = [run for run in there if (run.table, run.label) not in gone]
    runs = {run.identity: run for run in there}
    names = {(run.table, run.name) for run in there}
    for run in new:
        if run.identity in runs:
            run = run._replace(name=runs[run.identity].name)
        else:
            run = run._replace(name=free_name(run, names))
        names.add((run.table, run.name))
        runs[run.identity] = run
    write_store(store, list(runs.values()))


def free_name(run: StoredRun, taken: set[tuple[str, str]]) -> str:
    """LABEL/VARIANT/seedSEED, with a number where other settings have that name already."""
    plain = f"{run.label}/{run.settings['variant']}/seed{run.settings['seed']}"
    name, count = plain, 1
    while (run.table, name) in taken:
        count += 1
        name = f"{plain}-{count}"
    return name


def run_in_folder(folder: Path, label: str) -> StoredRun:
    """The run of a folder, to be added to a store.

    A run_dir that begins at the root of a machine's files is left out.
    """
    saved = read_settings(folder)
    missing = lacking_identity(saved)
    if missing:
        raise ConfigError(
            None,
            f"'{folder / CONFIG}' does not say the run's {', '.join(missing)}, or not as it should",
        )
    read_rows(folder)  # refuses what is damaged
    settings = json.loads((folder / CONFIG).read_text())
    if PurePath(str(settings.get("run_dir", ""))).is_absolute():
        settings["run_dir"] = ""
    try:
        versions = json.loads((folder / VERSIONS).read_text())
    except (OSError, ValueError):
        versions = None
    return StoredRun("", label, settings, versions, *read_table(folder))


def pack(
    folders: list[Path], store: Path, label: str, replace: bool = False, unfinished: bool = False
) -> tuple[int, list[str]]:
    """Adds the runs in or below the folders to a store.

    Returns how many there were, and in words which were left out since they have not come to their
    end. ConfigError where there is none, or two are the same run.
    """
    runs: dict[tuple[Any, ...], Path] = {}
    packed: list[StoredRun] = []
    left_out = []
    found = {path.resolve(): path for folder in folders for path in found_in(folder)}
    for folder in found.values():
        run = run_in_folder(folder, label)
        first = runs.setdefault(run.identity, folder)
        if first is not folder:
            raise ConfigError(
                "runs", f"'{first}' and '{folder}' are the same run; leave one of them out"
            )
        steps = max((int(row["step"]) for row in run.rows(store)), default=0)
        total = run.all_settings["total_steps"]
        if unfinished or steps >= total or finished(folder, total):
            packed.append(run)
        else:
            left_out.append(f"{folder}: {steps:,} of {total:,} steps")
    if packed:
        add_runs(store, packed, replace)
    return len(packed), left_out


def found_in(folder: Path) -> list[Path]:
    """The folders of runs in or below a folder; ConfigError where there is none."""
    found = find_runs(folder) if folder.is_dir() else []
    if not found:
        raise ConfigError(
            "runs", f"'{folder}': there is no run in it; a run has a {CONFIG} and a {METRICS}"
        )
    return found
