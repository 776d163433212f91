"""The line that says which device is used, and why it is not a GPU."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import tensorflow as tf

from virel_tf import machine


@pytest.fixture
def no_gpu(monkeypatch, tmp_path):
    """A machine without a GPU, whatever this one has."""
    expects_gpu = machine.expects_gpu
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: [])
    monkeypatch.setattr(
        machine, "expects_gpu", lambda environment: expects_gpu(environment, tmp_path)
    )


def test_the_line_names_the_cpu(no_gpu, monkeypatch):
    monkeypatch.delenv("NVIDIA_VISIBLE_DEVICES", raising=False)
    assert machine.device_line(1) == "device: CPU, 1 core"
    assert machine.device_line(3) == "device: CPU, 3 cores"


def test_a_gpu_that_is_expected_is_missed_in_the_same_line(no_gpu, monkeypatch):
    monkeypatch.setenv("NVIDIA_VISIBLE_DEVICES", "all")
    monkeypatch.setattr(tf.test, "is_built_with_cuda", lambda: True)
    monkeypatch.setattr(machine, "can_load", lambda name: False)
    line = machine.device_line(1)
    assert line.startswith(
        "device: CPU, 1 core; NVIDIA_VISIBLE_DEVICES=all is set, but the NVIDIA driver is missing"
    )
    assert "\n" not in line


def test_a_gpu_is_named(monkeypatch):
    monkeypatch.setattr(
        tf.config, "list_physical_devices", lambda kind: [SimpleNamespace(name=f"{kind}:0")]
    )
    monkeypatch.setattr(
        tf.config.experimental,
        "get_device_details",
        lambda gpu: {"device_name": f"model {gpu.name}"},
    )
    assert machine.device_line(1) == "device: GPU model GPU:0"


@pytest.mark.parametrize(
    "environment, expected",
    [
        ({}, False),
        ({"NVIDIA_VISIBLE_DEVICES": "void"}, False),
        ({"NVIDIA_VISIBLE_DEVICES": "0"}, True),
    ],
)
def test_what_speaks_for_a_gpu(environment, expected, tmp_path):
    assert bool(machine.expects_gpu(environment, tmp_path)) == expected
    (tmp_path / "nvidia0").touch()
    assert "nvidia*" in machine.expects_gpu(environment, tmp_path)


def test_the_first_thing_missing_is_named():
    assert "built without CUDA" in machine.missing(False, lambda name: True)
    assert "libcuda.so.1" in machine.missing(True, lambda name: False)
    assert "libraries are missing (libcudnn.so.9)" in machine.missing(
        True, lambda name: name != "libcudnn.so.9"
    )
    assert "nvidia-smi" in machine.missing(True, lambda name: True)


def test_libraries_are_found_by_the_linker_and_in_folders(tmp_path):
    assert machine.can_load("libc.so.6", [])
    assert not machine.can_load("libnothing.so.1", [tmp_path])
    (tmp_path / "libnothing.so.1").write_bytes(b"not a library")
    assert not machine.can_load("libnothing.so.1", [tmp_path])
