"""What replicas side by side and the gateway before them show, and none of them alone."""

from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.rules.fleet.impossible import IMPOSSIBLE
from controlplane.diagnosis.rules.fleet.split import SPLIT
from controlplane.diagnosis.rules.fleet.stale import STALE_REPLICA
from controlplane.diagnosis.rules.fleet.storm import STORM
from controlplane.diagnosis.rules.fleet.stuck_gauges import STUCK_GAUGES
from controlplane.diagnosis.rules.fleet.transfer import TRANSFER
from controlplane.diagnosis.rules.fleet.undelivered import UNDELIVERED
from controlplane.diagnosis.rules.fleet.uneven import UNEVEN
from controlplane.diagnosis.rules.fleet.vanished import VANISHED

RULES: tuple[Rule, ...] = (
    STALE_REPLICA,
    STUCK_GAUGES,
    VANISHED,
    IMPOSSIBLE,
    TRANSFER,
    SPLIT,
    STORM,
    UNEVEN,
    UNDELIVERED,
)
"""The surer to be right, the earlier."""
