"""`virel-tf export`: a run's policy as files that do not need this package."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tensorflow as tf

from virel_tf import machine
from virel_tf.config import POLICIES, Config
from virel_tf.envs.make import Environment, make_env
from virel_tf.errors import RunError, tensorflow_message
from virel_tf.export.converted import write_converted
from virel_tf.export.lite import lite_files
from virel_tf.export.metadata import METADATA, describe
from virel_tf.export.onnx_format import onnx_files
from virel_tf.export.readme import MODELS_CONFIG, models_config
from virel_tf.export.saved_model import write_saved_model
from virel_tf.export.signatures import ServedPolicy
from virel_tf.export.versions import add_version, newest_version
from virel_tf.files import atomic_write
from virel_tf.networks.folding import without_batch_norm
from virel_tf.run_folder.metrics import evaluated_return
from virel_tf.run_folder.paths import exports_folder, policy_path
from virel_tf.run_folder.policies import SavedWeights, read_weights
from virel_tf.run_folder.restore import float32_layers, restore_critics, restore_policy
from virel_tf.run_folder.settings import read_run
from virel_tf.version import __version__


def export_run(
    run_dir: str | Path, which: str = "best", out: str | Path = "", format: str = "saved_model"
) -> dict[str, Any]:
    """Adds a version with a policy of the run, unless the newest one holds it; returns its path.

    `which` is best, last, or the step of a checkpoint that the run keeps.
    """
    config = read_run(run_dir)
    machine.configure(config.threads)
    weights = read_weights(run_dir, which)
    return_ = evaluated_return(Path(run_dir), weights.step)
    # a number would look like a version
    name = which if which in POLICIES else f"step{weights.step}"
    folder = Path(out) if out else exports_folder(run_dir, format) / name
    version = newest_version(folder)
    new = version is None or not holds(version, weights, which, format)
    if new:
        env = make_env(config.env)
        metadata = describe(config, env, which, format, weights.step, return_, weights.fingerprint)
        try:
            version = add_version(
                folder, writer(format, config, env, weights, metadata, folder.resolve().name)
            )
        except tf.errors.OpError as error:  # TensorFlow writes files by itself
            raise RunError(
                f"cannot write a version in {folder}: {tensorflow_message(error)}"
            ) from error
        env.close()
    if format == "saved_model" and not out:
        write_models_config(folder.parent)
    return {
        "env": config.env,
        "variant": config.variant,
        "policy": which,
        "step": weights.step,
        "return": return_,
        "format": format,
        "path": str(version),
        "new": new,
    }


def export_policies(run_dir: Path) -> None:
    """Exports every policy of a finished run as a SavedModel."""
    for which in POLICIES:
        if policy_path(run_dir, which).is_file():
            export_run(run_dir, which)


def writer(
    format: str,
    config: Config,
    env: Environment,
    weights: SavedWeights,
    metadata: dict[str, Any],
    model_name: str,
) -> Callable[[Path], None]:
    """What fills a version's folder."""
    served = served_policy(config, env, weights)
    if format == "saved_model":
        return lambda folder: write_saved_model(folder, served, env, metadata, model_name)
    files = lite_files if format == "litert" else onnx_files
    return lambda folder: write_converted(folder, served, metadata, files(served))


def served_policy(config: Config, env: Environment, weights: SavedWeights) -> ServedPolicy:
    """The policy and its critics in float32, with batch normalisation folded into the dense layers."""
    policy = restore_policy(config, env, weights)
    critics = restore_critics(config, env, weights)
    with float32_layers():
        policy = without_batch_norm(policy)
        if critics:
            critics.qs = [without_batch_norm(q) for q in critics.qs]
            critics.vs = [without_batch_norm(v) for v in critics.vs]
    return ServedPolicy(policy, critics, env, reward_factor(config, weights))


def reward_factor(config: Config, weights: SavedWeights) -> float:
    """What the critics' rewards were multiplied by."""
    if config.reward_scaling == "return":
        return config.reward_scale / weights.reward_divisor
    return config.reward_scale


def holds(version: Path, weights: SavedWeights, which: str, format: str) -> bool:
    """Whether a version is this policy with these weights in this format.

    It must also be made by this version of the package.
    """
    try:
        metadata = json.loads((version / METADATA).read_text())
    except (OSError, ValueError):
        return False
    made = [metadata.get(name) for name in ("fingerprint", "policy", "file_format")]
    return [*made, metadata.get("versions", {}).get("virel_tf")] == [
        weights.fingerprint,
        which,
        format,
        __version__,
    ]


def write_models_config(folder: Path) -> None:
    """A list of the run's models for a server's --model_config_file."""
    text = models_config(
        [model.name for model in sorted(folder.iterdir()) if newest_version(model)]
    ).encode()
    path = folder / MODELS_CONFIG
    if not path.exists() or path.read_bytes() != text:
        atomic_write(path, text)
