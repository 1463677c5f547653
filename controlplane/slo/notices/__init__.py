"""Telling people of alerts: what is told when, and by which way."""
