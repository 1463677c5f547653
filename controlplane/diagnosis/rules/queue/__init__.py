"""Requests that wait: for too much work, for one of them, or for nothing."""

from controlplane.diagnosis.rule import Rule

RULES: tuple[Rule, ...] = ()
"""The surer to be right, the earlier."""
