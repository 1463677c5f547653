"""How engines start, stand still and do not let go."""

from controlplane.diagnosis.rule import Rule

RULES: tuple[Rule, ...] = ()
"""The surer to be right, the earlier."""
