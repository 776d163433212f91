"""The command line: `virel-tf [command] --flag=value ...`, with the commands of `commands.py`.

absl reads the syntax (--name=value, --noname, --flagfile); what a value may be is said once, by the
fields of the dataclass behind each command, and checked by `config.check_value`. TensorFlow is
imported by the commands themselves, so help and complaints come at once.
"""

from __future__ import annotations

import dataclasses
import os
import re
import sys
from collections.abc import Sequence
from typing import Any

from absl import flags

from virel_tf import __version__
from virel_tf.algorithms.relevance import notes_on_unused
from virel_tf.commands import COMMANDS, say
from virel_tf.config import (
    WORDS,
    Config,
    allowed,
    check_value,
    did_you_mean,
    option_type,
    read_value,
)
from virel_tf.errors import ConfigError, RunError
from virel_tf.help import help_page


def main(argv: list[str] | None = None) -> int:
    """Runs the command line (without the program's name) and returns the exit code."""
    try:
        return dispatch(sys.argv[1:] if argv is None else argv)
    except (ConfigError, RunError) as error:
        one_line = " ".join(str(error).split())
        print(f"virel-tf: {one_line}", file=sys.stderr)
        return 2 if isinstance(error, ConfigError) else 1
    # a path that may not be looked at, say; what is to be expected is told where it happens
    except OSError as error:
        print(
            f"virel-tf: {error.strerror or error}{f': {error.filename}' if error.filename else ''}",
            file=sys.stderr,
        )
        return 1
    except KeyboardInterrupt:
        return 130


def dispatch(arguments: list[str]) -> int:
    """Finds the command and runs it, or prints a help page or the version."""
    wants_help = arguments[:1] == ["help"]
    if wants_help:
        arguments = arguments[1:]
    name = "train"
    if arguments and not arguments[0].startswith("-"):
        name, arguments = arguments[0], arguments[1:]
    if name not in COMMANDS:
        raise ConfigError(
            f"{name!r} is not a command; it must be one of {', '.join(COMMANDS)}"
            + did_you_mean(name, [*COMMANDS, "help"])
        )
    if wants_help or not {"--help", "-help", "-h"}.isdisjoint(arguments):
        say(help_page(name, COMMANDS))
        return 0
    if not {"--version", "-version"}.isdisjoint(arguments):
        say(f"virel-tf {__version__}")
        return 0
    command = COMMANDS[name]
    given = read_flags(command.flags, arguments)
    own = {field.name for field in dataclasses.fields(command.options)}
    options = command.options(**{name: value for name, value in given.items() if name in own})
    if isinstance(options, Config):
        for note in notes_on_unused(options, given):
            print(f"virel-tf: {note}", file=sys.stderr)
    if command.uses_tensorflow:
        import_tensorflow_quietly()
    if command.handed_on:
        return command.run(
            options, {name: value for name, value in given.items() if name not in own}
        )
    return command.run(options)


def import_tensorflow_quietly() -> None:
    """Imports TensorFlow without what it has to say about drivers and CPU features.

    TF_CPP_MIN_LOG_LEVEL does not reach all of it, since some is written before its logging is set
    up, so stderr is closed meanwhile. Who sets that variable themselves wants to read it, and then
    nothing is hidden.
    """
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    # The actor's products are too small for two threads, and the cores belong to the learner.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if "TF_CPP_MIN_LOG_LEVEL" in os.environ:
        return
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
    sys.stderr.flush()
    stderr, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        import tensorflow

        # looks for drivers, and complains where there are none
        tensorflow.config.list_physical_devices("GPU")
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
        os.close(nowhere)
        del os.environ[
            "TF_CPP_MIN_LOG_LEVEL"
        ]  # has been read; a child that found it would take it for the user's


# ---------------------------------------------------------------- flags -> options


def parse_config(argv: list[str]) -> Config:
    """The settings that `virel-tf train` with these flags would run with."""
    return Config(**read_flags(dataclasses.fields(Config), argv))


def read_flags(fields: Sequence[dataclasses.Field], argv: list[str]) -> dict[str, Any]:
    """The values that `argv`, and the flagfiles it names, set.

    One flag per field; raises ConfigError.
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
            "version",
        ]
        hint = did_you_mean(error.flagname, names).replace("did you mean ", "did you mean --")
        raise ConfigError(
            f"--{error.flagname}: there is no such flag{hint}; --help lists those allowed"
        ) from None
    except flags.CantOpenFlagFileError as error:
        reason = re.sub(r"^.*\[Errno \d+\] ", "", str(error))
        raise ConfigError(
            f"--flagfile: {reason}; it must be a text file with one flag on each line"
        ) from None
    except UnicodeDecodeError:
        raise ConfigError(
            "--flagfile: not a text file; it must have one flag on each line"
        ) from None
    except (flags.Error, ValueError, OSError) as error:
        last = argv[-1].lstrip("-")
        if str(error).startswith("Missing value") and last in values:
            error = no_value(values[last].parser.field)
        raise ConfigError(str(error)) from None
    if positional and not words:
        word = positional[0]
        raise ConfigError(
            f"{word!r}: the command comes first, as in virel-tf {word} --flag=value"
            if word in COMMANDS
            else f"{word!r} is not a flag; settings are given as --flag=value"
        )
    given = {name: values[name].value for name in values if values[name].present}
    return given | {field.name: tuple(positional) for field in words}


def no_value(field: dataclasses.Field) -> flags.Error:
    """The error of a flag that stands alone."""
    return flags.IllegalFlagValueError(f"--{field.name}: has no value; it must be {allowed(field)}")


class OptionParser(flags.ArgumentParser):
    """Text to the value of a field."""

    def __init__(self, field: dataclasses.Field) -> None:
        super().__init__()
        self.field = field

    def parse(self, argument: Any) -> Any:
        if str(argument).startswith(
            "--"
        ):  # in `--env --seed=1` absl takes the next flag for the value
            raise no_value(self.field)
        value = (
            read_value(option_type(self.field), argument) if isinstance(argument, str) else argument
        )
        try:
            check_value(self.field, value)
        except ConfigError as error:
            raise flags.IllegalFlagValueError(
                str(error)
            ) from None  # absl would wrap a ValueError in its own words
        return value
