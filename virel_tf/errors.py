"""What can go wrong, told to a person in one line."""

import re


class ConfigError(ValueError):
    """A setting the user gave is wrong; the message names the flag (exit code 2, no traceback)."""


class RunError(Exception):
    """The run cannot go on, for a reason its user can understand and act on (exit code 1, no
    traceback).
    """


class BadNumber(RunError):
    """NaN or infinity in an observation, a reward, a loss or a weight."""


def told_by_tensorflow(error: Exception) -> str:
    """What a tf.errors.OpError says about files, without TensorFlow's own names.

    "No space left on device".
    """
    return re.sub(r"{{.*}} |.*; | \[Op:.*", "", str(error).partition("\n")[0])
