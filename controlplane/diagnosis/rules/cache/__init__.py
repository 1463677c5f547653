"""The KV cache: what is computed twice, what is lost, and what was never shared."""

from controlplane.diagnosis.rule import Rule

RULES: tuple[Rule, ...] = ()
"""The surer to be right, the earlier."""
