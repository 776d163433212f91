"""The help page: every command, and the flags of one of them."""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Mapping
from typing import TYPE_CHECKING

from virel_tf.config import WORDS

if TYPE_CHECKING:
    from virel_tf.commands import Command


def help_page(name: str, commands: Mapping[str, Command]) -> str:
    """What `virel-tf NAME --help` prints: at most 100 columns wide."""
    command = commands[name]
    words = [field for field in dataclasses.fields(command.options) if field.type == WORDS]
    usage = (
        " ".join([name, *(f"{field.name.upper()}..." for field in words)]) if words else "[COMMAND]"
    )
    lines = [
        "virel-tf: reinforcement learning as variational EM (VIREL) in TensorFlow",
        "",
        f"Usage: virel-tf {usage} [--flag=value ...]",
        "",
        "Commands:",
        *(f"  {other:<11}{commands[other].summary}" for other in commands),
        "  virel-tf COMMAND --help shows a command's own flags, --version the version.",
        "",
        "Example:",
        f"  {command.example}",
    ]
    lines += [f"  {field.name.upper()} are {field.metadata['help']}." for field in words]
    fields = [field for field in command.flags if field not in words]
    if fields:
        lines += [
            "",
            (
                f"Flags of {name}, with their defaults; --flagfile=FILE reads flags from a file,"
                " one on each line."
            ),
        ]
    if any(field.type == "bool" for field in fields):
        lines.append(
            "--xla means --xla=true, --noxla means --xla=false. Whole numbers may be written 1e5 or"
            " 100_000."
        )
    if any(field.name == "preset" for field in fields):
        lines.append("A preset's values replace these defaults; flags that are given replace both.")
    for group in dict.fromkeys(field.metadata["group"] for field in fields):
        lines += ["", f"{group}:"]
        for field in fields:
            if field.metadata["group"] == group:
                lines.append(help_entry(field))
    return "\n".join(lines)


def help_entry(field: dataclasses.Field) -> str:
    """A flag, its default and what it means."""
    default = field.default
    shown = {"bool": str(default).lower(), "str": default or "..."}.get(field.type)
    if shown is None:
        shown = f"{default:_}" if field.type == "int" else f"{default:g}"
    flag = f"  --{field.name}={shown} "
    choices = field.metadata["choices"]
    text = field.metadata["help"] + (f" [{'|'.join(choices)}]" if choices else "")
    indent = " " * 34
    return textwrap.fill(
        text, 100, initial_indent=f"{flag:<34}", subsequent_indent=indent, break_on_hyphens=False
    )
