"""The line that says which device is used, and why it is not a GPU."""

from __future__ import annotations

import pytest

from virel_tf import device


def test_the_line_names_the_cpu_here(monkeypatch):
    monkeypatch.setattr(device, "expects_gpu", lambda environment: "")
    assert device.device_line(1) == "device: CPU, 1 core"
    assert device.device_line(3) == "device: CPU, 3 cores"


def test_a_gpu_that_was_asked_for_is_missed_in_the_same_line(monkeypatch):
    monkeypatch.setenv("NVIDIA_VISIBLE_DEVICES", "all")
    monkeypatch.setattr(device, "can_load", lambda name: False)
    line = device.device_line(1)
    assert line.startswith("device: CPU, 1 core; a GPU was asked for (NVIDIA_VISIBLE_DEVICES=all), but the NVIDIA")
    assert "\n" not in line


@pytest.mark.parametrize("environment, expected", [
    ({}, False), ({"NVIDIA_VISIBLE_DEVICES": "void"}, False), ({"NVIDIA_VISIBLE_DEVICES": "0"}, True)])
def test_what_speaks_for_a_gpu(environment, expected, tmp_path):
    assert bool(device.expects_gpu(environment, tmp_path)) == expected
    (tmp_path / "nvidia0").touch()
    assert "nvidia*" in device.expects_gpu(environment, tmp_path)


def test_the_first_thing_missing_is_named():
    assert "built without CUDA" in device.missing(False, lambda name: True)
    assert "libcuda.so.1" in device.missing(True, lambda name: False)
    assert "libraries are missing (libcudnn.so.9)" in device.missing(True, lambda name: name != "libcudnn.so.9")
    assert "nvidia-smi" in device.missing(True, lambda name: True)


def test_libraries_are_found_by_the_linker_and_in_folders(tmp_path):
    assert device.can_load("libc.so.6", [])
    assert not device.can_load("libnothing.so.1", [tmp_path])
    (tmp_path / "libnothing.so.1").write_bytes(b"not a library")
    assert not device.can_load("libnothing.so.1", [tmp_path])
