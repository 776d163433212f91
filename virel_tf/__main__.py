"""`python -m virel_tf`: the same as the command `virel-tf`."""

import sys

from virel_tf.cli import main

sys.exit(main())
