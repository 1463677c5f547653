"""Memory that ran out, of a device or of the host: which line of the ledger broke, and when."""

from controlplane.diagnosis.rule import Rule

RULES: tuple[Rule, ...] = ()
"""The surer to be right, the earlier."""
