"""The report as one HTML file that needs nothing beside it: style, figures, tables, films."""

from __future__ import annotations

import base64
import html
import math
import os
from pathlib import Path
from typing import Any

from virel_tf.reports.analysis import Table
from virel_tf.reports.figures import Picture, inline_svg
from virel_tf.reports.styles import DARK_PAGE, LIGHT_PAGE, PALETTE

EMBEDDED_BYTES = 4_000_000  # a larger film stays where it is, and the page links to it
SHOWN_ROWS = 60  # of the numbers behind a figure; the CSV has them all

STYLE = """
:root { color-scheme: light dark; --page: %(light_page)s; %(light)s }
@media (prefers-color-scheme: dark) { :root { --page: %(dark_page)s; %(dark)s } }
* { box-sizing: border-box; }
body { font: 16px/1.55 system-ui, sans-serif; color: var(--1c2128); background: var(--page);
  max-width: 80rem; margin: 0 auto; padding: 1.5rem 1rem 4rem; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 .5rem; }
h2 { font-size: 1.25rem; margin: 2.5rem 0 .5rem; }
p, li { max-width: 46rem; }
.note, figcaption, caption, summary { color: var(--57606a); font-size: .875rem; }
.side { display: grid; gap: 1rem 2rem; grid-template-columns: repeat(auto-fit, minmax(min(100%%, 24rem), 1fr)); }
.pair { display: grid; gap: 1rem 2rem; }
.side > *, .pair > * { min-width: 0; }
@media (min-width: 60rem) { .pair { grid-template-columns: 5fr 7fr; } }
figure { margin: .5rem 0 1rem; }
figcaption { margin-top: .4rem; max-width: 40rem; }
figure svg, video, figure img { display: block; width: 100%%; max-width: 36rem; height: auto; }
svg * { stroke-linejoin: round; stroke-linecap: butt; }
.table { overflow-x: auto; margin: .5rem 0; }
.table:focus-visible { outline: 2px solid var(--2f62a8); }
table { border-collapse: collapse; font-size: .875rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; padding-bottom: .25rem; }
th, td { text-align: left; padding: .2rem .8rem .2rem 0; border-bottom: 1px solid var(--d8dde3);
  vertical-align: top; white-space: nowrap; }
@media (min-width: 60rem) { td.text:last-child { white-space: normal; min-width: 13.5rem; } }
th { font-weight: 600; }
td.number, th.number { text-align: right; }
.folded { columns: 26rem; column-gap: 2rem; }
.folded details { break-inside: avoid; overflow-wrap: anywhere; }
.folded p { margin: .2rem 0 .6rem 1rem; font-size: .875rem; }
summary { cursor: pointer; padding: .4rem 0; }
code { font: .8rem ui-monospace, monospace; }
a { color: var(--2f62a8); }
"""


def style() -> str:
    """The style sheet: every colour of a figure is a variable that a dark page sets anew."""
    return STYLE % dict(
        light_page=LIGHT_PAGE,
        dark_page=DARK_PAGE,
        light=" ".join(f"--{light[1:]}: {light};" for light in PALETTE),
        dark=" ".join(f"--{light[1:]}: {dark};" for light, dark in PALETTE.items()),
    )


def page(title: str, body: list[str]) -> str:
    """A whole document."""
    return (
        "<!DOCTYPE html>\n<html lang='en'>\n<head>\n<meta charset='utf-8'/>\n"
        "<meta name='viewport' content='width=device-width, initial-scale=1'/>\n"
        f"<title>{html.escape(title)}</title>\n<style>{style()}</style>\n</head>\n<body>\n<main>\n"
        f"<h1>{html.escape(title)}</h1>\n" + "\n".join(body) + "\n</main>\n</body>\n</html>\n"
    )


def heading(text: str) -> str:
    """A section's."""
    return f"<h2>{html.escape(text)}</h2>"


def paragraph(text: str, note: bool = False) -> str:
    """A paragraph; a `note` is smaller."""
    opening = "<p class='note'>" if note else "<p>"
    return f"{opening}{html.escape(text)}</p>"


def bullets(lines: list[str]) -> str:
    """A list of lines."""
    return "<ul>" + "".join(f"<li>{html.escape(line)}</li>" for line in lines) + "</ul>"


def side_by_side(parts: list[str], layout: str = "side") -> str:
    """Beside each other where the screen is wide enough; `pair`: the second gets more room."""
    return f"<div class='{layout}'>" + "".join(f"<div>{part}</div>" for part in parts) + "</div>"


def folded(entries: list[tuple[str, list[str], str]]) -> str:
    """Lines that unfold into paragraphs and a command."""
    return (
        "<div class='folded'>"
        + "".join(
            f"<details><summary>{html.escape(title)}</summary><p><code>{html.escape(command)}</code></p>"
            + "".join(map(paragraph, lines))
            + "</details>"
            for title, lines, command in entries
        )
        + "</div>"
    )


def figure_id(name: str) -> str:
    """What a figure's title is known by on the page."""
    return f"{name}-title".replace(".", "-")


def table_id(name: str) -> str:
    """What a table is known by on the page."""
    return f"table-{name}"


def figure_html(picture: Picture, tables: list[Table], caption: str) -> str:
    """A figure with its name for who cannot see it, and the numbers behind it."""
    title = html.escape(picture.title)
    name = figure_id(picture.name)
    svg = inline_svg(picture).replace("<svg", f"<svg role='img' aria-labelledby='{name}'", 1)
    end = svg.index(">") + 1
    svg = f"{svg[:end]}<title id='{name}'>{title}</title>{svg[end:]}"
    numbers = "".join(
        f"<details><summary>The numbers behind it: {html.escape(table.title)}</summary>"
        f"{table_html(table)}</details>"
        for table in tables
    )
    return f"<figure>{svg}<figcaption>{html.escape(caption)}</figcaption>{numbers}</figure>"


def table_html(table: Table) -> str:
    """A table in a box of its own, which scrolls sideways where the screen is narrow."""
    step = max(1, math.ceil(len(table.rows) / SHOWN_ROWS))
    shown = [row for place, row in enumerate(table.rows, start=1) if place % step == 0 or step == 1]
    kinds = [
        "number" if any(isinstance(row[column], (int, float)) for row in table.rows) else "text"
        for column in range(len(table.columns))
    ]
    header = "".join(
        f"<th scope='col' class='{kind}'>{html.escape(name)}</th>"
        for name, kind in zip(table.columns, kinds, strict=True)
    )
    body = "".join("<tr>" + "".join(map(cell_html, row, kinds)) + "</tr>" for row in shown)
    some = "" if step == 1 else f", one row in {step}"
    caption = f"{table.title}{some}"
    return (
        f"<div class='table' tabindex='0' role='region' aria-label='{html.escape(table.title)}'>"
        f"<table id='{html.escape(table_id(table.name))}'><caption>{html.escape(caption)}</caption>"
        f"<thead><tr>{header}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def cell_html(value: Any, kind: str) -> str:
    """A cell of a table; `kind` is its class in the style sheet."""
    text = html.escape(cell_text(value))
    return f"<td class='{kind}'>{text}</td>"


def cell_text(value: Any) -> str:
    """A number as people read it, and a dash for what is unknown."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        digits = 0 if abs(value) >= 1000 else 1 if abs(value) >= 10 else 3
        return f"{value:,.{digits}f}" if abs(value) >= 0.1 or not value else f"{value:.3g}"
    return str(value)


def film_html(film: Path, caption: str, page_folder: Path) -> str:
    """A film inside the page or, if it is large, a link to it."""
    text = html.escape(caption)
    if film.stat().st_size > EMBEDDED_BYTES:
        link = html.escape(os.path.relpath(film, page_folder))
        return f"<p><a href='{link}'>{text}</a></p>"
    kind = "image/gif" if film.suffix.lower() == ".gif" else "video/mp4"
    source = f"data:{kind};base64,{base64.b64encode(film.read_bytes()).decode()}"
    element = (
        f"<img src='{source}' alt='{html.escape(caption)}'/>"
        if kind == "image/gif"
        else (
            f"<video controls='controls' muted='muted' loop='loop' src='{source}' "
            f"aria-label='{html.escape(caption)}'></video>"
        )
    )
    return f"<figure>{element}<figcaption>{text}</figcaption></figure>"
