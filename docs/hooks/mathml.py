"""Turns the equations of a page into MathML when the site is built.

Browsers draw MathML themselves, so the pages need no script and nothing from another host.
"""

from __future__ import annotations

import html
import re
from typing import Any

from latex2mathml.converter import convert

INLINE = re.compile(r'<span class="arithmatex">\\\((.+?)\\\)</span>', re.DOTALL)
BLOCK = re.compile(r'<div class="arithmatex">\s*\\\[(.+?)\\\]\s*</div>', re.DOTALL)


def on_page_content(content: str, **_: Any) -> str:
    """Called by MkDocs with the HTML of each page."""
    content = BLOCK.sub(lambda match: to_mathml(match[1], "block"), content)
    return INLINE.sub(lambda match: to_mathml(match[1], "inline"), content)


def to_mathml(latex: str, display: str) -> str:
    """One equation; `latex` is escaped as HTML."""
    return convert(html.unescape(latex.strip()), display=display)
