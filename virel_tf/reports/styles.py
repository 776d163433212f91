"""How variants look: a colour for light and one for dark pages, a line and a marker.

Line and marker are for who sees no colours.
"""

from __future__ import annotations

from typing import Any, NamedTuple

INK, FAINT, GRID = "#1c2128", "#57606a", "#d8dde3"
LIGHT_PAGE, DARK_PAGE = "#ffffff", "#14171c"


class Look(NamedTuple):
    """The looks of one variant. `colour` is the light page's; PALETTE has the dark one's."""

    colour: str
    line: Any  # what matplotlib takes as a linestyle
    marker: str


LOOKS = {
    "virel": Look("#2f62a8", "-", "o"),
    "beta": Look("#c0392f", (0, (6, 1.5)), "s"),
    "virel1": Look("#0b7f99", (0, (1.2, 1.2)), "^"),
    "virel2": Look("#7a4fb5", (0, (5, 1.5, 1.2, 1.5)), "v"),
    "sac": Look("#2c7f45", (0, (9, 2)), "D"),
    "sac_v1": Look("#6f7400", (0, (3, 1.2)), "P"),
    "ddpg": Look("#7a5230", (0, (5, 1.2, 1.2, 1.2, 1.2, 1.2)), "X"),
    "mpo": Look("#b85c00", (0, (2, 2)), "*"),
}
SPARE = (
    Look("#a8327f", "-", "<"),
    Look("#4c5a68", (0, (6, 1.5)), ">"),
    Look("#00695c", (0, (1.2, 1.2)), "p"),
    Look("#5d4037", (0, (9, 2)), "h"),
    Look("#283593", (0, (3, 1.2)), "d"),
)

# What stands for each colour on a dark page.
PALETTE = {
    INK: "#e6e9ed",
    FAINT: "#a3acb8",
    GRID: "#333a43",
    "#2f62a8": "#7fb0f2",
    "#c0392f": "#ff8a80",
    "#0b7f99": "#5ccfe6",
    "#7a4fb5": "#c7a8f7",
    "#2c7f45": "#76d295",
    "#6f7400": "#cfd564",
    "#7a5230": "#d6aa80",
    "#b85c00": "#ffb266",
    "#a8327f": "#f291cf",
    "#4c5a68": "#aebac6",
    "#00695c": "#55c9b8",
    "#5d4037": "#c8a597",
    "#283593": "#a3aefc",
}


def looks_of(labels: list[str]) -> dict[str, Look]:
    """A look for each label.

    A variant's own, fixed one; further labels of it, and strangers, take the spare ones.
    """
    spare = 0
    looks: dict[str, Look] = {}
    for label in labels:
        look = LOOKS.get(label.split(",")[0])
        if look is None or look in looks.values():
            look = spare_look(spare)
            spare += 1
        looks[label] = look
    return looks


def spare_look(number: int) -> Look:
    """The first are SPARE; then colours, lines and markers go on in turn.

    Each is out of step with the others.
    """
    count = len(SPARE)
    line = number + number // count
    marker = line + number // count**2
    return Look(
        SPARE[number % count].colour, SPARE[line % count].line, SPARE[marker % count].marker
    )
