"""Many runs: the grid of an experiment, where its cells run, and what they have come to."""
