"""Who sends, how, and what a limit does about it."""

from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.rules.callers.flood import FLOOD
from controlplane.diagnosis.rules.callers.generator import GENERATOR_BOUND
from controlplane.diagnosis.rules.callers.rejecting import REJECTING

RULES: tuple[Rule, ...] = (FLOOD, GENERATOR_BOUND, REJECTING)
"""The surer to be right, the earlier."""
