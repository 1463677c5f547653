"""How engines start, stand still and do not let go."""

from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.rules.life.hung import HUNG
from controlplane.diagnosis.rules.life.leak import LEAK

RULES: tuple[Rule, ...] = (HUNG, LEAK)
"""The surer to be right, the earlier."""
