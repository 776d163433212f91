"""Reads flags: text of the command line to the values of an options dataclass.

absl reads the syntax (--name=value, --noname, --flagfile). What a value may be is said by the
fields (see `options`).
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Sequence
from typing import Any

from absl import flags

from virel_tf.config import Config
from virel_tf.errors import ConfigError
from virel_tf.options import WORDS, allowed, check_value, did_you_mean, flags_of, read_value


def parse_config(argv: list[str]) -> Config:
    """The settings that `virel-tf train` with these flags would run with."""
    return Config(**read_flags(flags_of(Config), argv))


def read_flags(
    fields: Sequence[dataclasses.Field[Any]], argv: list[str], commands: Collection[str] = ()
) -> dict[str, Any]:
    """The values that `argv`, and the flagfiles it names, set.

    One flag per field; raises ConfigError. `commands`: words that must come before the flags.
    """
    values = flags.FlagValues()
    words = [field for field in fields if field.type == WORDS]
    values.set_gnu_getopt(bool(words))  # flags may follow words
    for field in fields:
        if field in words:
            continue
        flags.DEFINE_flag(
            flags.Flag(
                OptionParser(field),
                flags.ArgumentSerializer(),
                field.name,
                field.default,
                field.metadata["help"],
                boolean=field.type == "bool",
            ),
            values,
        )
    try:
        positional = values(["virel-tf", *argv])[1:]
    except flags.UnrecognizedFlagError as error:
        names = [
            *values,
            *(f"no{name}" for name in values if values[name].boolean),
            "flagfile",
            "help",
            "helpfull",
            "version",
        ]
        hint = did_you_mean(error.flagname, names, prefix="--")
        raise ConfigError(
            error.flagname, f"there is no such flag{hint}; --helpfull lists those allowed"
        ) from None
    except flags.CantOpenFlagFileError as error:
        reason = re.sub(r"^.*\[Errno \d+\] ", "", str(error))
        raise ConfigError(
            "flagfile", f"{reason}; it must be a text file with one flag on each line"
        ) from None
    except UnicodeDecodeError:
        raise ConfigError(
            "flagfile", "not a text file; it must have one flag on each line"
        ) from None
    except FlagValueError as error:
        raise ConfigError(error.setting, error.message) from None
    except (flags.Error, ValueError, OSError) as error:
        last = argv[-1].lstrip("-")
        parser = values[last].parser if last in values else None
        if str(error).startswith("Missing value") and isinstance(parser, OptionParser):
            raise no_value(parser.field) from None
        raise ConfigError(None, str(error)) from None
    if positional and not words:
        word = positional[0]
        raise ConfigError(
            None,
            f"{word!r}: the command comes first, as in virel-tf {word} --flag=value"
            if word in commands
            else f"{word!r} is not a flag; settings are given as --flag=value",
        )
    given = {name: values[name].value for name in values if values[name].present}
    return given | {field.name: tuple(positional) for field in words}


def no_value(field: dataclasses.Field[Any]) -> ConfigError:
    """The error of a flag that stands alone."""
    return ConfigError(field.name, f"has no value; it must be {allowed(field)}")


class FlagValueError(flags.IllegalFlagValueError):
    """A ConfigError on its way through absl, which would wrap a ValueError in words of its own."""

    def __init__(self, error: ConfigError) -> None:
        super().__init__(str(error))
        self.setting, self.message = error.setting, error.message


class OptionParser(flags.ArgumentParser[Any]):
    """Text to the value of a field."""

    def __init__(self, field: dataclasses.Field[Any]) -> None:
        super().__init__()
        self.field = field

    def parse(self, argument: Any) -> Any:
        """The value; absl hands over a value of another type where a flag stands without one."""
        if str(argument).startswith("--"):
            # In `--env --seed=1` absl takes the next flag for the value.
            raise FlagValueError(no_value(self.field))
        try:
            if isinstance(argument, str):
                return read_value(self.field, argument)
            check_value(self.field, argument)
        except ConfigError as error:
            raise FlagValueError(error) from None
        return argument
