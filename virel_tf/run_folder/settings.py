"""config.json: every setting of a run, and the number of the layout of its folder."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

from virel_tf.config import Config
from virel_tf.errors import ConfigError
from virel_tf.files import atomic_write
from virel_tf.registry import RECIPES
from virel_tf.run_folder.paths import CONFIG

# Of a run's folder; goes up when an older version could not read a new one, or the reverse.
FORMAT = 1


def write_settings(folder: Path, config: Config) -> None:
    """Writes the settings, one per line."""
    content = dict(format=FORMAT) | dataclasses.asdict(config)
    atomic_write(folder / CONFIG, (json.dumps(content, indent=2) + "\n").encode())


def read_settings(folder: Path) -> dict[str, Any]:
    """The settings that a run's folder holds; ConfigError where it is not of this format."""
    path = folder / CONFIG
    try:
        saved = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise ConfigError(None, f"{path} cannot be read: {error}") from error
    if not isinstance(saved, dict):
        raise ConfigError(None, f"{path} is damaged: it does not hold settings")
    return without_format(saved, f"{folder} is a run's folder")


def without_format(saved: dict[str, Any], what: str) -> dict[str, Any]:
    """The settings alone; ConfigError where they are not of this format.

    `what` says what they are of, as in "runs/seed1 is a run's folder".
    """
    found = saved.get("format")
    if found != FORMAT or isinstance(found, bool):
        kind = "without a format number" if found is None else f"of format {found!r}"
        raise ConfigError(
            None,
            f"{what} {kind}, made by another version of virel_tf; "
            f"this version reads only format {FORMAT}",
        )
    return {name: value for name, value in saved.items() if name != "format"}


def read_config(folder: Path) -> dict[str, Any]:
    """The settings of a run that this version can resume or restore."""
    try:
        saved = read_settings(folder)
    except ConfigError as error:
        raise ConfigError("run_dir", error.message) from error
    unknown = sorted(set(saved) - {field.name for field in dataclasses.fields(Config)})
    if unknown:
        raise ConfigError(
            "run_dir",
            f"{folder / CONFIG} is of another version, with settings this one does not have: "
            f"{', '.join(unknown)}",
        )
    return {field.name: field.default for field in dataclasses.fields(Config)} | saved


def read_run(run_dir: str | Path) -> Config:
    """The configuration of the run in a folder.

    ConfigError where there is no run, or one of a variant that this process does not have.
    """
    if not (Path(run_dir) / CONFIG).is_file():
        raise ConfigError("run_dir", f"{run_dir} holds no run (no {CONFIG} there)")
    saved = read_config(Path(run_dir))
    if saved["variant"] not in RECIPES:
        raise ConfigError(
            "run_dir",
            f"{run_dir} is a run of {saved['variant']!r}, which does not ship with the package; call "
            "virel_tf.register, as its training did, and this command's function from Python",
        )
    return Config(**saved)


def differences(old: dict[str, Any], new: Config) -> list[str]:
    """The settings in which a saved config differs from `new`, other than those that may change."""
    lines = []
    for field in dataclasses.fields(new):
        value = getattr(new, field.name)
        if not field.metadata["may_change"] and old.get(field.name, field.default) != value:
            lines.append(f"{field.name}: {old.get(field.name, field.default)} -> {value}")
    return lines


def refuse_other_run(config: Config, folder: Path) -> None:
    """ConfigError where the folder holds a run that this configuration would overwrite or change."""
    if not (folder / CONFIG).exists():
        return
    if config.resume == "never":
        raise ConfigError(
            "resume",
            f"'never' is not allowed, since {folder} holds a run already; set another folder or "
            "remove it",
        )
    changes = differences(read_config(folder), config)
    if changes:
        raise ConfigError(
            "run_dir",
            f"{folder} holds a run with other settings ({'; '.join(changes)}); set those again, "
            "or another folder",
        )


def refuse_other_recipe(config: Config, folder: Path, saved: dict[str, str]) -> None:
    """ConfigError where a checkpoint is of a recipe that had the same name and other parts."""
    changes = [
        f"{field}: {saved.get(field)} -> {part}"
        for field, part in config.recipe.parts().items()
        if saved.get(field) != part
    ]
    if changes:
        raise ConfigError(
            "run_dir",
            f"{folder} holds a run of {config.variant} made of other parts "
            f"({'; '.join(changes)}); set another folder",
        )
