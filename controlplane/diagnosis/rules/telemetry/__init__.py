"""The telemetry itself: stale, missing, misread, or of two clocks."""

from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.rules.telemetry.misread import MISREAD
from controlplane.diagnosis.rules.telemetry.missing import MISSING
from controlplane.diagnosis.rules.telemetry.skew import SKEW
from controlplane.diagnosis.rules.telemetry.stale import STALE
from controlplane.diagnosis.rules.telemetry.unanswered import NO_PAGE, SILENT

RULES: tuple[Rule, ...] = (STALE, MISSING, SKEW, MISREAD, SILENT, NO_PAGE)
"""The surer to be right, the earlier."""
