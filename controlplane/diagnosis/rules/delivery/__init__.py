"""What happens to tokens after they were made."""

from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.rules.delivery.front_end_bound import FRONT_END_BOUND
from controlplane.diagnosis.rules.delivery.slow_client import SLOW_CLIENT

RULES: tuple[Rule, ...] = (FRONT_END_BOUND, SLOW_CLIENT)
"""The surer to be right, the earlier."""
