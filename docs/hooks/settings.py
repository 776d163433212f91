"""Writes the tables of docs/settings.md from the fields of Config."""

from __future__ import annotations

import dataclasses
from typing import Any

from mkdocs.structure.pages import Page

from virel_tf.config import Config

MARKER = "<!-- settings -->"


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Called by MkDocs with the text of each page."""
    if page.file.src_uri != "settings.md":
        return markdown
    if MARKER not in markdown:
        raise ValueError(f"docs/settings.md lacks {MARKER}")
    return markdown.replace(MARKER, tables())


def tables() -> str:
    """One table for each group of settings."""
    modern = Config(env="HalfCheetah-v4", variant="beta", preset="modern")
    lines: list[str] = []
    group = None
    for field in dataclasses.fields(Config):
        if field.metadata["group"] != group:
            group = field.metadata["group"]
            heading = group[0].upper() + group[1:]
            lines += ["", f"## {heading}", "", "| setting | default | modern | meaning |"]
            lines.append("|---|---|---|---|")
        value = getattr(modern, field.name)
        changed = value != field.default and field.name != "env"
        meaning = field.metadata["help"].replace("|", r"\|")
        if field.metadata["choices"]:
            meaning += "<br>one of " + ", ".join(
                f"`{choice}`" for choice in field.metadata["choices"]
            )
        lines.append(
            f"| `{field.name}` | {shown(field.default)} | {shown(value) if changed else ''} |"
            f" {meaning} |"
        )
    return "\n".join(lines)


def shown(value: Any) -> str:
    """A value as it is written after a flag."""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, int):
        return f"`{value:_}`"
    if isinstance(value, float):
        return f"`{value:g}`"
    return f"`{value}`" if value else ""
