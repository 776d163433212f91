"""The help page: every command, and the flags of one of them."""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from virel_tf.config import Config
from virel_tf.options import WORDS, flags_of

if TYPE_CHECKING:
    from virel_tf.cli.commands import Command


def help_page(name: str, commands: Mapping[str, Command], full: bool = False) -> str:
    """What `virel-tf NAME --help` prints, or, in `full`, --helpfull: at most 100 columns wide."""
    command = commands[name]
    words = [field for field in command.flags if field.type == WORDS]
    usage = (
        " ".join([name, *(f"{field.name.upper()}..." for field in words)]) if words else "[COMMAND]"
    )
    lines = [
        "virel-tf: reinforcement learning as variational EM (VIREL) in TensorFlow",
        "",
        f"Usage: virel-tf {usage} [--flag=value ...]",
        "",
        "Commands:",
        *(f"  {other:<12}{commands[other].summary}" for other in commands),
        "  virel-tf COMMAND --help shows a command's own flags, --version the version.",
        "",
        "Example:",
        f"  {command.example}",
    ]
    lines += [f"  {field.name.upper()} are {field.metadata['help']}." for field in words]
    every = [field for field in command.flags if field not in words]
    fields = every if full else [field for field in every if shown_first(field)]
    if fields:
        lines += [
            "",
            (
                f"Flags of {name}, with their defaults; --flagfile=FILE reads flags from a file,"
                " one on each line."
            ),
        ]
    if len(fields) < len(every):
        lines.append(
            f"These are {len(fields)} of {len(every)}; virel-tf {name} --helpfull shows all."
        )
    switches = [field.name for field in fields if field.type == "bool"]
    if switches:
        switch = min(switches, key=len)
        lines.append(f"--{switch} means --{switch}=true, --no{switch} means --{switch}=false.")
    if any(field.type == "int" for field in fields):
        lines.append("Whole numbers may be written 1e5 or 100_000.")
    if any(field.name == "preset" for field in fields):
        lines.append("A preset's values replace these defaults; flags that are given replace both.")
    for group in dict.fromkeys(field.metadata["group"] for field in fields):
        lines += ["", f"{group}:"]
        for field in fields:
            if field.metadata["group"] == group:
                lines.append(help_entry(field))
    return "\n".join(lines)


def shown_first(field: dataclasses.Field[Any]) -> bool:
    """Whether --help shows the flag: some of training's, and all of the other commands'."""
    return field.metadata["first"] or field not in flags_of(Config)


def help_entry(field: dataclasses.Field[Any]) -> str:
    """A flag, its default and what it means."""
    default = field.default
    shown = {"bool": str(default).lower(), "str": default or "..."}.get(str(field.type))
    if shown is None:
        shown = f"{default:_}" if field.type == "int" else f"{default:g}"
    flag = f"  --{field.name}={shown} "
    choices = field.metadata["choices"]
    text = field.metadata["help"] + (f" [{'|'.join(choices)}]" if choices else "")
    indent = " " * 34
    return textwrap.fill(
        text, 100, initial_indent=f"{flag:<34}", subsequent_indent=indent, break_on_hyphens=False
    )
