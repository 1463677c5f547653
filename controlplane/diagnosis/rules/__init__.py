"""The rules that Pilothouse brings. Others come by the hook `pilothouse_diagnosis_rules`."""

from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.rules.cache import RULES as CACHE
from controlplane.diagnosis.rules.callers import RULES as CALLERS
from controlplane.diagnosis.rules.delivery import RULES as DELIVERY
from controlplane.diagnosis.rules.fleet import RULES as FLEET
from controlplane.diagnosis.rules.healthy import HEALTHY
from controlplane.diagnosis.rules.life import RULES as LIFE
from controlplane.diagnosis.rules.memory import RULES as MEMORY
from controlplane.diagnosis.rules.pace import RULES as PACE
from controlplane.diagnosis.rules.placement import RULES as PLACEMENT
from controlplane.diagnosis.rules.queue import RULES as QUEUE
from controlplane.diagnosis.rules.telemetry import RULES as TELEMETRY

BUILT_IN_RULES: tuple[Rule, ...] = (
    *MEMORY,
    *FLEET,
    *LIFE,
    *TELEMETRY,
    *CALLERS,
    *QUEUE,
    *CACHE,
    *PLACEMENT,
    *DELIVERY,
    *PACE,
    HEALTHY,
)
"""Where two are equally sure, the earlier one is the answer."""
