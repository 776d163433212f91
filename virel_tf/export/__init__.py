"""A policy leaves the house: files that need nothing of this package to answer."""
