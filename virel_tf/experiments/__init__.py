"""Many runs: the grid of an experiment and where its cells run."""
