"""Runs as compact data: what is packed is read back, and what is damaged is refused."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path

import pytest
from written_runs import change_settings, write_grid, write_run

from virel_tf.cli import main
from virel_tf.errors import ConfigError
from virel_tf.reports.runs import read_experiment, read_runs
from virel_tf.reports.store import INDEX, compressed, pack, read_all, read_store
from virel_tf.run_folder.paths import find_runs

HOPPER = ("--env=Hopper-v4", "--variant=virel", "--total_steps=2000")
VERSIONS = [{"from_step": 0, "versions": {"numpy": "9.8.7"}, "git_revision": None}]


@pytest.fixture
def runs(tmp_path) -> Path:
    """Twelve runs in two environments.

    One has its versions, one other columns, one a setting of another version.
    """
    folder = write_grid(tmp_path / "runs")
    (folder / "Hopper-v4" / "beta" / "seed1" / "versions.json").write_text(json.dumps(VERSIONS))
    write_run(
        folder / "Hopper-v4" / "virel" / "seed2",
        [1 / 3, -1e-17] + [5.0] * 10,
        "--env=Hopper-v4",
        "--variant=virel",
        "--seed=2",
        "--total_steps=12000",
        q_loss=["", "nan", *range(10)],
    )
    change_settings(folder / "Walker2d-v4" / "virel" / "seed3", lambda_from_rewards=False)
    return folder


@pytest.fixture
def store(runs, tmp_path) -> Path:
    """A store of these runs, half of them in a study."""
    pack([runs / "Hopper-v4", runs / "Walker2d-v4" / "beta"], tmp_path / "store", "paper")
    pack([runs / "Walker2d-v4" / "virel"], tmp_path / "store", "studies/tau/0.1")
    return tmp_path / "store"


def files(store: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in store.iterdir()}


def index(store: Path) -> dict:
    return json.loads(gzip.decompress((store / INDEX).read_bytes()))


def test_what_is_packed_is_read_back_as_it_was(runs, store):
    assert set(files(store)) == {INDEX, "Hopper-v4.csv.gz", "Walker2d-v4.csv.gz"}
    stored = {
        (run.table, run.settings["variant"], run.settings["seed"]): run for run in read_all(store)
    }
    folders = find_runs(runs)
    assert len(stored) == len(folders) == 12
    for folder in folders:
        run = stored[folder.parts[-3], folder.parts[-2], int(folder.name.removeprefix("seed"))]
        assert json.dumps(run.settings) == json.dumps(
            json.loads((folder / "config.json").read_text())
        )
        versions = folder / "versions.json"
        assert run.versions == (json.loads(versions.read_text()) if versions.exists() else None)
        with open(folder / "metrics.csv", newline="") as file:
            assert [run.columns, *run.cells] == list(csv.reader(file))


def test_reports_read_a_store_like_the_folders(runs, tmp_path):
    pack([runs], tmp_path / "store", "paper")
    folders, stored = read_experiment([runs]), read_experiment([tmp_path / "store"])
    assert stored.missing == folders.missing
    for group, same in zip(stored.groups, folders.groups, strict=True):
        assert (group.env, group.label, group.seeds) == (same.env, same.label, same.seeds)
        assert [run.settings for run in group.runs] == [run.settings for run in same.runs]
        assert [run.versions for run in group.runs] == [run.versions for run in same.runs]
        assert str([run.rows for run in group.runs]) == str([run.rows for run in same.runs])  # nan


def test_the_same_runs_give_the_same_bytes(runs, store, tmp_path):
    before = files(store)
    pack([runs / "Hopper-v4"], store, "paper")
    assert files(store) == before
    pack([runs / "Walker2d-v4" / "virel"], tmp_path / "other", "studies/tau/0.1")
    pack([runs / "Walker2d-v4" / "beta"], tmp_path / "other", "paper")
    pack([runs / "Hopper-v4"], tmp_path / "other", "paper")
    assert files(tmp_path / "other") == before


def test_a_label_restricts_what_is_read(store):
    assert len(read_store(store)) == len(read_store(store, "paper")) == 9
    for label in ("studies", "studies/tau", "studies/tau/0.1"):
        assert {run.label for run in read_store(store, label)} == {"studies/tau/0.1"}
    with pytest.raises(ConfigError, match="has no run of 'studies/ta'; .* paper, studies/tau/0.1"):
        read_store(store, "studies/ta")
    with pytest.raises(ConfigError, match="are the same run"):
        read_runs([store.parent])  # where the folders are too


def test_folders_of_runs_have_no_labels(runs, capsys):
    assert main(["report", str(runs), "--label=paper"]) == 2
    assert capsys.readouterr().err == (
        f"virel-tf: --label: '{runs}': there is no store in it, which alone has labels\n"
    )


def test_a_run_is_replaced_by_one_of_the_same_settings_and_label(tmp_path):
    store = tmp_path / "store"
    write_run(tmp_path / "short", [1.0], *HOPPER, "--total_steps=1000")
    write_run(tmp_path / "long", [1.0, 2.0], *HOPPER)
    write_run(tmp_path / "other", [3.0, 4.0], *HOPPER, "--tau=0.1")
    for name in ("short", "other", "long"):
        pack([tmp_path / name], store, "paper")
    pack([tmp_path / "long"], store, "studies/again")
    assert {run.name: run.rows(store)[-1]["eval_return"] for run in read_all(store)} == {
        "paper/virel/seed1": 2.0,
        "paper/virel/seed1-2": 4.0,
        "studies/again/virel/seed1": 2.0,
    }
    pack([tmp_path / "long"], store, "paper", replace=True)
    assert [run.name for run in read_all(store)] == [
        "paper/virel/seed1",
        "studies/again/virel/seed1",
    ]


def test_pack_tells_what_it_leaves_out(tmp_path, capsys):
    write_run(tmp_path / "runs" / "a", [1.0], *HOPPER)
    words = ["pack", str(tmp_path / "runs"), f"--out={tmp_path / 'store'}", "--label=modern"]
    assert main(words) == 0
    told = f"left out: {tmp_path}/runs/a: 1,000 of 2,000 steps\npacked 0 runs into {tmp_path}/store"
    assert capsys.readouterr().out == told + "\n" and not (tmp_path / "store").exists()
    assert main([*words, "--unfinished"]) == 0
    assert capsys.readouterr().out == f"packed 1 run into {tmp_path}/store\n"
    write_run(tmp_path / "runs" / "b", [1.0, 2.0], *HOPPER)
    assert main(words) == 2
    assert "are the same run; leave one of them out" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words, told",
    [
        ([], "RUNS: pack needs them"),
        (["{runs}", "--label=paper"], "--out: pack needs it"),
        (["{runs}", "--out={store}"], "--label: '' is not allowed"),
        (["{runs}", "--out={store}", "--label=../x y"], "--label: '../x y' is not allowed"),
        (["{runs}/none", "--out={store}", "--label=x"], "there is no run in it"),
    ],
)
def test_pack_refuses_in_one_line(tmp_path, capsys, words, told):
    write_run(tmp_path / "runs", [1.0, 2.0], *HOPPER)
    names = dict(runs=tmp_path / "runs", store=tmp_path / "store")
    assert main(["pack", *(word.format(**names) for word in words)]) == 2
    error = capsys.readouterr().err
    assert told in error and error.count("\n") == 1 and not (tmp_path / "store").exists()


def test_a_folder_of_one_machine_is_not_packed(tmp_path):
    change_settings(write_run(tmp_path / "a", [1.0, 2.0], *HOPPER), run_dir=str(tmp_path / "a"))
    pack([tmp_path / "a"], tmp_path / "store", "paper")
    assert read_all(tmp_path / "store")[0].settings["run_dir"] == ""


def damaged_entry(**change) -> bytes:
    entry = {
        "label": "paper",
        "settings": {"format": 1, "env": "Hopper-v4", "variant": "virel", "seed": 1},
        "versions": None,
        "columns": ["step"],
        "rows": 1,
    }
    runs = {"Hopper-v4": {"paper/virel/seed1": entry | change}}
    return compressed(json.dumps({"format": 1, "runs": runs}))


@pytest.mark.parametrize(
    "name, content, told",
    [
        (INDEX, b"{}", "not compressed by gzip"),
        (INDEX, gzip.compress(b"{}", mtime=0)[:-3], "cannot be decompressed"),
        (INDEX, compressed("{"), "damaged"),
        (INDEX, compressed("[]"), "damaged"),
        (INDEX, compressed('{"runs": {}}'), "damaged"),
        (INDEX, compressed('{"format": 2, "runs": {}}'), "format 2"),
        (INDEX, compressed('{"format": 1, "runs": []}'), "damaged"),
        (INDEX, compressed('{"format": 1, "runs": {"Hopper-v4": {"a": 1}}}'), "damaged"),
        (INDEX, damaged_entry(label=7), "damaged"),
        (INDEX, damaged_entry(columns=None), "damaged"),
        (INDEX, damaged_entry(settings=[]), "does not say the run's env, variant, seed"),
        (
            INDEX,
            damaged_entry(settings={"env": "Hopper-v4", "variant": "virel", "seed": 1}),
            "without a format number",
        ),
        ("Hopper-v4.csv.gz", b"", "damaged"),
        ("Hopper-v4.csv.gz", compressed(""), "damaged"),
        ("Hopper-v4.csv.gz", compressed("step,eval_return\n1,2\n"), "damaged"),
        ("Hopper-v4.csv.gz", compressed("run,step,eval_return\nx,1,2\n"), "damaged"),
        ("Hopper-v4.csv.gz", compressed("run,step,eval_return\n"), "0 of the 2 rows"),
        (
            "Hopper-v4.csv.gz",
            compressed(
                "run,step,eval_return\npaper/virel/seed1,1000,1\npaper/virel/seed1,none,2\n"
            ),
            "line 3 has no number as its step",
        ),
    ],
)
def test_what_is_damaged_or_foreign_is_refused_in_one_line(tmp_path, capsys, name, content, told):
    write_run(tmp_path / "run", [1.0, 2.0], *HOPPER)
    store = tmp_path / "store"
    pack([tmp_path / "run"], store, "paper")
    (store / name).write_bytes(content)
    assert main(["report", str(store), f"--out={tmp_path / 'report'}"]) == 2
    error = capsys.readouterr().err
    assert str(store / name.partition(".")[0]) in error and told in error
    assert error.count("\n") == 1 and "Traceback" not in error


def test_a_table_that_is_not_there_is_told(store, capsys):
    (store / "Hopper-v4.csv.gz").unlink()
    assert main(["plot", str(store)]) == 2
    assert f"{store}/Hopper-v4.csv.gz cannot be read" in capsys.readouterr().err


def test_report_and_plot_draw_a_label(store, tmp_path, capsys):
    assert main(["report", str(store), "--label=studies/tau", f"--out={tmp_path / 'page'}"]) == 0
    page = (tmp_path / "page" / "report.html").read_text()
    assert "Walker2d-v4" in page and "Hopper-v4" not in page
    assert f"{store}/Walker2d-v4.csv.gz/studies/tau/0.1/virel/seed1" in page
    plot = ["plot", str(store), f"--out={tmp_path / 'figure.svg'}", "--env=Hopper-v4"]
    assert main(plot) == 0
    assert main([*plot, "--label=studies"]) == 2
    assert "--env" in capsys.readouterr().err
