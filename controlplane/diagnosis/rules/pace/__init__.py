"""How fast steps and tokens are, and what takes the time."""
