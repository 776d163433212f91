"""Transitions seen, and batches of them."""
