"""VIREL on problems small enough to be solved exactly."""
