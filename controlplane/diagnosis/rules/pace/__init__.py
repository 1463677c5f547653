"""How fast steps and tokens are, and what takes the time."""

from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.rules.pace.communication_bound import COMMUNICATION_BOUND
from controlplane.diagnosis.rules.pace.host_bound import HOST_BOUND
from controlplane.diagnosis.rules.pace.interference import INTERFERENCE
from controlplane.diagnosis.rules.pace.precision import PRECISION
from controlplane.diagnosis.rules.pace.speculation import SPECULATION
from controlplane.diagnosis.rules.pace.underfilled import UNDERFILLED

RULES: tuple[Rule, ...] = (
    SPECULATION,
    PRECISION,
    INTERFERENCE,
    COMMUNICATION_BOUND,
    HOST_BOUND,
    UNDERFILLED,
)
"""The surer to be right, the earlier."""
