"""The command that measures how fast a run is."""
