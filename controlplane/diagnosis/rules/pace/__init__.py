"""What makes tokens slow: other work in the step, the host, wires, drafts, small batches."""

from controlplane.diagnosis.rule import Rule

RULES: tuple[Rule, ...] = ()
"""The surer to be right, the earlier."""
