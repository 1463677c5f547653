"""How engines start, stand still and do not let go."""

from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.rules.life.hung import HUNG
from controlplane.diagnosis.rules.life.late import CAPACITY_LATE
from controlplane.diagnosis.rules.life.leak import LEAK
from controlplane.diagnosis.rules.life.startup import STARTUP_SLOW

RULES: tuple[Rule, ...] = (HUNG, LEAK, CAPACITY_LATE, STARTUP_SLOW)
"""The surer to be right, the earlier."""
