"""The config kinds, one module a kind."""
