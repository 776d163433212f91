"""The command line: flags, help, commands and messages. Nothing else in the package imports it."""

from virel_tf.cli.flags import parse_config, read_flags
from virel_tf.cli.program import main

__all__ = ["main", "parse_config", "read_flags"]
