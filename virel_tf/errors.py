"""What can go wrong, told to a person in one line."""

from __future__ import annotations

import re


class ConfigError(ValueError):
    """A setting the user gave is wrong (on the command line: exit code 2, no traceback).

    `setting` is the name of a field, such as "replay_size", or None where the error is about no
    single setting. The command line writes it as the flag --replay_size.
    """

    def __init__(self, setting: str | None, message: str) -> None:
        super().__init__(setting, message)
        self.setting = setting
        self.message = message

    def __str__(self) -> str:
        return f"{self.setting}: {self.message}" if self.setting else self.message


class RunError(Exception):
    """The run cannot go on, for a reason its user can act on.

    Exit code 1, no traceback.
    """


class BadNumber(RunError):
    """NaN or infinity in an observation, a reward, a loss or a weight."""


def told_by_tensorflow(error: Exception) -> str:
    """What a tf.errors.OpError says about files, without TensorFlow's own names.

    "No space left on device".
    """
    return re.sub(r"{{.*}} |.*; | \[Op:.*", "", str(error).partition("\n")[0])
