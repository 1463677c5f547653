"""Engines driven into trouble for real, and what the diagnosis makes of what they show."""
