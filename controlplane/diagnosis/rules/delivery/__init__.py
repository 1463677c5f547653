"""Tokens that are there and do not get out."""

from controlplane.diagnosis.rule import Rule

RULES: tuple[Rule, ...] = ()
"""The surer to be right, the earlier."""
