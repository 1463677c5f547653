"""Who sends, how, and what a limit does about it."""

from controlplane.diagnosis.rule import Rule

RULES: tuple[Rule, ...] = ()
"""The surer to be right, the earlier."""
