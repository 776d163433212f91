"""Writes the page: one HTML file with its figures inside, and each figure as a PNG beside it."""

from __future__ import annotations

import base64
import html
import io
from pathlib import Path

from virel_tf.files import atomic_write, ensure_writable
from virel_tf.theory.sections import SECTIONS, Section

STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
img { max-width: 100%; background: white; border-radius: 4px; }
.table { overflow-x: auto; }
table { border-collapse: collapse; margin: 1rem 0; }
th, td { text-align: left; padding: 0.25rem 1rem 0.25rem 0; border-bottom: 1px solid #8886; }
"""


def write_theory(folder: Path) -> Path:
    """Computes every section and writes theory.html and the PNGs into the folder.

    Returns the page's path.
    """
    ensure_writable(folder)
    parts = []
    for make in SECTIONS:
        section = make()
        picture = io.BytesIO()
        section.figure.savefig(picture, format="png", dpi=130)
        atomic_write(folder / f"{make.__name__}.png", picture.getvalue())
        parts.append(section_html(section, picture.getvalue()))
    page = (
        "<!doctype html><html lang='en'><meta charset='utf-8'><meta name='viewport'"
        " content='width=device-width'><title>VIREL in"
        f" numbers</title><style>{STYLE}</style><h1>VIREL in numbers</h1><p>What the paper proves,"
        f" computed exactly on small problems.</p>{''.join(parts)}</html>\n"
    )
    atomic_write(folder / "theory.html", page.encode())
    return folder / "theory.html"


def section_html(section: Section, picture: bytes) -> str:
    """One section as HTML."""
    header = "".join(f"<th>{html.escape(cell)}</th>" for cell in section.header)
    rows = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>"
        for row in section.rows
    )
    image = base64.b64encode(picture).decode()
    return (
        f"<h2>{html.escape(section.title)}</h2><p>{html.escape(section.text)}</p>"
        f"<img alt='{html.escape(section.title, quote=True)}' src='data:image/png;base64,{image}'>"
        f"<div class='table'><table><tr>{header}</tr>{rows}</table></div>"
    )
