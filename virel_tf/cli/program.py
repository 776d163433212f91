"""`virel-tf [command] --flag=value ...`: finds the command, reads its flags and runs it.

TensorFlow is imported by the commands themselves, so help and error messages come at once.
"""

from __future__ import annotations

import os
import sys

from virel_tf import __version__
from virel_tf.cli.commands import COMMANDS, say
from virel_tf.cli.flags import read_flags
from virel_tf.cli.help_page import help_page
from virel_tf.config import Config
from virel_tf.errors import ConfigError, RunError
from virel_tf.options import WORDS, did_you_mean, flags_of
from virel_tf.relevance import unused_settings


def main(argv: list[str] | None = None) -> int:
    """Runs the command line (without the program's name) and returns the exit code."""
    try:
        return dispatch(sys.argv[1:] if argv is None else argv)
    except (ConfigError, RunError) as error:
        text = as_flag(error) if isinstance(error, ConfigError) else str(error)
        one_line = " ".join(text.split())
        print(f"virel-tf: {one_line}", file=sys.stderr)
        return 2 if isinstance(error, ConfigError) else 1
    # such as a path without permission; expected errors are raised where they occur
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
            None,
            f"{name!r} is not a command; it must be one of {', '.join(COMMANDS)}"
            + did_you_mean(name, [*COMMANDS, "help"]),
        )
    wants_all = not {"--helpfull", "-helpfull"}.isdisjoint(arguments)
    if wants_help or wants_all or not {"--help", "-help", "-h"}.isdisjoint(arguments):
        say(help_page(name, COMMANDS, full=wants_all))
        return 0
    if not {"--version", "-version"}.isdisjoint(arguments):
        say(f"virel-tf {__version__}")
        return 0
    command = COMMANDS[name]
    values = read_flags(command.flags, arguments, COMMANDS)
    names = {field.name for field in flags_of(command.options)}
    options = command.options(**{name: values[name] for name in values if name in names})
    if isinstance(options, Config):
        for note in unused_settings(options, values):
            print(f"virel-tf: --{note}", file=sys.stderr)
    if command.uses_tensorflow:
        import_tensorflow_quietly()
    if command.forwarded:
        return command.run(options, {name: values[name] for name in values if name not in names})
    return command.run(options)


def as_flag(error: ConfigError) -> str:
    """The error with its setting as the user typed it: --tau, or RUNS for words without a flag."""
    if error.setting is None:
        return error.message
    words = {
        field.name
        for command in COMMANDS.values()
        for field in command.flags
        if field.type == WORDS
    }
    name = error.setting.upper() if error.setting in words else f"--{error.setting}"
    return f"{name}: {error.message}"


def import_tensorflow_quietly() -> None:
    """Imports TensorFlow without its messages about drivers and CPU features.

    TF_CPP_MIN_LOG_LEVEL does not cover all of them, since some are written before its logging is
    set up, so stderr is redirected meanwhile. Where the user has set that variable, nothing is
    hidden.
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

        # looks for drivers, with messages where there are none
        tensorflow.config.list_physical_devices("GPU")
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
        os.close(nowhere)
        del os.environ[
            "TF_CPP_MIN_LOG_LEVEL"
        ]  # has been read; a child that found it would take it for the user's
