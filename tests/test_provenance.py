"""versions.json: what made a run, part by part."""

from __future__ import annotations

import json

import numpy as np

import virel_tf
from virel_tf import provenance
from virel_tf.provenance import read_versions, record_versions


def test_a_run_going_on_with_other_versions_adds_a_part(tmp_path, monkeypatch):
    record_versions(tmp_path, 0)
    record_versions(tmp_path, 5000)  # the same versions: nothing to add
    monkeypatch.setattr(provenance, "git_revision", lambda: "another")
    record_versions(tmp_path, 8000)
    monkeypatch.setattr(provenance, "git_revision", lambda: "a third")
    record_versions(tmp_path, 8000)  # killed before its first checkpoint, the part above left nothing
    parts = json.loads((tmp_path / "versions.json").read_text())
    assert [part["from_step"] for part in parts] == [0, 8000]
    assert parts[0]["versions"]["virel_tf"] == virel_tf.__version__
    assert parts[0]["versions"]["numpy"] == np.__version__
    assert set(parts[0]["versions"]) == {"python", "virel_tf", "tensorflow", "keras", "tensorflow-probability",
                                         "gymnasium", "mujoco", "numpy"}
    assert parts[1]["git_revision"] == "a third"


def test_versions_that_cannot_be_read_are_none(tmp_path):
    assert read_versions(tmp_path) == []
    (tmp_path / "versions.json").write_text("[{")
    assert read_versions(tmp_path) == []
    (tmp_path / "versions.json").write_text('{"not": "a list"}')
    assert read_versions(tmp_path) == []
