"""config.json: what it holds, and which folders are refused."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys

import pytest

from virel_tf.cli import main
from virel_tf.config import Config
from virel_tf.errors import ConfigError
from virel_tf.run_folder.paths import find_settings
from virel_tf.run_folder.settings import (
    FORMAT,
    differences,
    read_config,
    read_run,
    read_settings,
    write_settings,
)


def test_every_setting_is_read_back(tmp_path):
    config = Config(env="Hopper-v5", tau=0.01)
    write_settings(tmp_path, config)
    assert read_run(tmp_path) == config
    assert json.loads((tmp_path / "config.json").read_text())["format"] == FORMAT


def test_differences_leave_out_what_may_change():
    old = dataclasses.asdict(Config(seed=1, total_steps=10, threads=1))
    assert differences(old, Config(seed=1, total_steps=20, threads=2)) == []
    (line,) = differences(old, Config(seed=2))
    assert "seed" in line and "1 -> 2" in line


@pytest.mark.parametrize("number", [None, FORMAT + 1, 0, str(FORMAT), True])
@pytest.mark.parametrize("command", ["train", "evaluate", "export", "report", "experiment"])
def test_a_folder_of_another_format_is_refused_in_one_line(tmp_path, capsys, number, command):
    folder = tmp_path / "Hopper-v4" / "beta" / "seed1"
    folder.mkdir(parents=True)
    write_settings(folder, Config(env="Hopper-v4", variant="beta"))
    (folder / "metrics.csv").write_text("step,eval_return\n1000,1.0\n")
    saved = json.loads((folder / "config.json").read_text()) | {"format": number}
    if number is None:
        del saved["format"]
    before = json.dumps(saved)
    (folder / "config.json").write_text(before)
    words = {
        "train": [f"--run_dir={folder}", "--env=Hopper-v4", "--total_steps=100"],
        "report": [str(tmp_path), f"--out={tmp_path / 'report'}"],
        "experiment": [
            f"--out={tmp_path}",
            "--envs=Hopper-v4",
            "--variants=beta",
            "--seeds=1",
            "--total_steps=100",
        ],
    }.get(command, [f"--run_dir={folder}"])
    assert main([command, *words]) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1 and "format" in told and str(folder) in told
    assert (folder / "config.json").read_text() == before


def test_settings_of_another_version_are_named(tmp_path):
    (tmp_path / "config.json").write_text(
        json.dumps({"format": FORMAT, "seed": 1, "lambda_from_rewards": False})
    )
    with pytest.raises(ConfigError, match="lambda_from_rewards"):
        read_config(tmp_path)
    assert read_settings(tmp_path) == {"seed": 1, "lambda_from_rewards": False}


@pytest.mark.parametrize("text", ["", "[]", "7", "{"])
def test_damaged_settings_are_refused(tmp_path, text):
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(ConfigError, match=str(tmp_path)):
        read_settings(tmp_path)


def test_folders_with_settings_are_found_down_to_a_depth(tmp_path):
    folders = [tmp_path / "a", tmp_path / "b" / "c", tmp_path / "d" / "e" / "f"]
    for folder in folders:
        folder.mkdir(parents=True)
        write_settings(folder, Config())
    assert list(find_settings(tmp_path)) == folders
    assert list(find_settings(tmp_path, depth=2)) == folders[:2]


def test_a_run_s_folder_is_read_without_tensorflow():
    """Experiments and reports look at many folders, and need not wait for it."""
    code = (
        "import sys, virel_tf.run_folder.settings, virel_tf.run_folder.progress,"
        " virel_tf.run_folder.lock, virel_tf.run_folder.metrics, virel_tf.run_folder.identity;"
        "sys.exit('tensorflow' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
