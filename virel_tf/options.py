"""Settings as fields of dataclasses: what each means, what is allowed, and how text is read.

Each field of an options dataclass is made by `option`, which holds all that is known of the
setting: its default, its help, its bounds. Checks, error messages, flags and help are made from it.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
from collections.abc import Collection, Iterable
from typing import Any

from virel_tf.errors import ConfigError

# The type of a field that takes the words after a command, which are no flags.
WORDS = "tuple[str, ...]"


def option(
    default: Any,
    group: str,
    help: str,
    *,
    choices: Collection[str] = (),
    least: float | None = None,
    above: float | None = None,
    most: float | None = None,
    may_change: bool = False,
    flag: bool = True,
    first: bool = False,
) -> Any:
    """One setting.

    may_change: a resumed run may have another value, since the numbers do not depend on it.
    flag: the command line has a flag for it; otherwise only Python sets it.
    first: --help shows it; the others are shown by --helpfull alone.
    """
    metadata = dict(
        group=group,
        help=help,
        choices=choices,
        least=least,
        above=above,
        most=most,
        may_change=may_change,
        flag=flag,
        first=first,
    )
    return dataclasses.field(default=default, metadata=metadata)


def flags_of(options: type) -> tuple[dataclasses.Field[Any], ...]:
    """The fields of an options dataclass that the command line sets."""
    return tuple(field for field in dataclasses.fields(options) if field.metadata["flag"])


def option_type(field: dataclasses.Field[Any]) -> type:
    """The Python type of a field (annotations are strings here)."""
    return {"int": int, "float": float, "bool": bool, "str": str}[str(field.type)]


def allowed(field: dataclasses.Field[Any]) -> str:
    """What a field may be, in words."""
    meta = field.metadata
    if meta["choices"]:
        return "one of " + ", ".join(meta["choices"])
    kind = {"int": "a whole number", "float": "a number", "bool": "true or false", "str": "text"}[
        str(field.type)
    ]
    bounds = [
        f"of at least {meta['least']}" if meta["least"] is not None else "",
        f"above {meta['above']}" if meta["above"] is not None else "",
        f"at most {meta['most']}" if meta["most"] is not None else "",
    ]
    return " ".join([kind, " and ".join(bound for bound in bounds if bound)]).strip()


def check_value(field: dataclasses.Field[Any], value: Any) -> None:
    """Raises ConfigError where `value` is not what the field allows."""
    meta = field.metadata
    good = isinstance(value, option_type(field)) and (
        field.type == "bool" or not isinstance(value, bool)
    )
    if good and field.type in ("int", "float"):
        # Whole numbers must fit into TensorFlow's int64, numbers into a float.
        good = (
            (abs(value) < 2**63 if field.type == "int" else math.isfinite(value))
            and (meta["least"] is None or value >= meta["least"])
            and (meta["above"] is None or value > meta["above"])
            and (meta["most"] is None or value <= meta["most"])
        )
    if good and meta["choices"]:
        good = value in meta["choices"]
    if not good:
        raise ConfigError(
            field.name,
            f"{value!r} is not allowed; it must be {allowed(field)}"
            + did_you_mean(str(value), meta["choices"]),
        )


def check_options(options: Any) -> None:
    """Checks every field of an options dataclass that `option` made.

    A whole number stands for a number: `Config(reward_scale=5)` has the reward scale 5.0.
    """
    for field in dataclasses.fields(options):
        if "group" not in field.metadata:
            continue
        value = getattr(options, field.name)
        if field.type == "float" and type(value) is int:
            value = float(value)
            object.__setattr__(options, field.name, value)
        check_value(field, value)


def read_value(field: dataclasses.Field[Any], text: str) -> Any:
    """The value that `text` stands for; ConfigError where the field does not allow it."""
    value = _parse(option_type(field), text)
    check_value(field, value)
    return value


def _parse(kind: type, text: str) -> Any:
    """The value that `text` stands for, or the text itself where it is none of that kind."""
    if kind is bool:
        return {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}.get(
            text.lower(), text
        )
    for read in {int: (int, _whole_number), float: (float,)}.get(kind, ()):
        try:
            return read(text)
        except ValueError:
            continue
    return text


def _whole_number(text: str) -> int:
    """1e5 is a whole number too."""
    if not float(text).is_integer():
        raise ValueError(text)
    return int(float(text))


def did_you_mean(word: str, possible: Iterable[str], prefix: str = "") -> str:
    """A hint, to end a message with, at what a mistyped word may have meant.

    Empty where nothing is close. `prefix` is written before the word that is meant.
    """
    possible = list(possible)
    within = [
        name for name in possible if f"_{word.lower()}_" in f"_{name}_"
    ]  # steps: total_steps, not n_step
    close = within or difflib.get_close_matches(word.lower(), possible, n=1)
    return f" (did you mean {prefix}{close[0]}?)" if close else ""
