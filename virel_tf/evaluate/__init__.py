"""How well a policy does."""
