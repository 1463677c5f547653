"""The KV cache: thrown out for room, outgrown, lost, or of no use."""

from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.rules.cache.grown_contexts import GROWN_CONTEXTS
from controlplane.diagnosis.rules.cache.nothing_shared import NOTHING_SHARED
from controlplane.diagnosis.rules.cache.prefix_loss import PREFIX_LOSS
from controlplane.diagnosis.rules.cache.thrash import THRASH

RULES: tuple[Rule, ...] = (THRASH, GROWN_CONTEXTS, PREFIX_LOSS, NOTHING_SHARED)
"""The surer to be right, the earlier."""
