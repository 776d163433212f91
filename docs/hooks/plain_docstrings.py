"""Shows the plain-text equations of docstrings as they are written.

Brackets and asterisks mean links and emphasis in Markdown, but E[Q] and T* in a docstring do not.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

CODE = re.compile(r"(`[^`]*`)")
ESCAPES = {"[": "&#91;", "]": "&#93;", "*": "&#42;"}


class PlainDocstrings(griffe.Extension):
    """Escapes the text of every docstring, but not its code."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called by griffe with each module, class, function and attribute."""
        if obj.docstring:
            lines = obj.docstring.value.splitlines()
            obj.docstring.value = "\n".join(escaped(line) for line in lines)


def escaped(line: str) -> str:
    """One line of a docstring; indented ones are code blocks."""
    if line.startswith("    "):
        return line
    parts = CODE.split(line)
    parts[::2] = [re.sub(r"[][*]", lambda match: ESCAPES[match[0]], part) for part in parts[::2]]
    return "".join(parts)
