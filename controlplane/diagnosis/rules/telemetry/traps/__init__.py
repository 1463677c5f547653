"""Figures that are right and mean something else than they seem to, one trap each."""
