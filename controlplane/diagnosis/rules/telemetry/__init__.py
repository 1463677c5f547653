"""The telemetry itself: stale, missing, misread, or of two clocks."""

from controlplane.diagnosis.rule import Rule

RULES: tuple[Rule, ...] = ()
"""The surer to be right, the earlier."""
