"""Where requests and their KV go."""

from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.rules.placement.phase_mismatch import PHASE_MISMATCH
from controlplane.diagnosis.rules.placement.skew import SKEW
from controlplane.diagnosis.rules.placement.transfer_bound import TRANSFER_BOUND
from controlplane.diagnosis.rules.placement.wrong_worker import WRONG_WORKER

RULES: tuple[Rule, ...] = (WRONG_WORKER, SKEW, TRANSFER_BOUND, PHASE_MISMATCH)
"""The surer to be right, the earlier."""
