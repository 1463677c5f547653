"""Memory that ran out, of a device or of the host: which line of the ledger broke, and when."""

from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.rules.memory.capture import GRAPH_CAPTURE
from controlplane.diagnosis.rules.memory.decode import DECODE_GROWTH
from controlplane.diagnosis.rules.memory.foreign import FOREIGN_MEMORY
from controlplane.diagnosis.rules.memory.fragmentation import FRAGMENTATION
from controlplane.diagnosis.rules.memory.host import HOST_MEMORY
from controlplane.diagnosis.rules.memory.load import LOAD
from controlplane.diagnosis.rules.memory.outlived import weighed
from controlplane.diagnosis.rules.memory.prefill import PREFILL_TRANSIENT
from controlplane.diagnosis.rules.memory.profile import PROFILE
from controlplane.diagnosis.rules.memory.warmup import WARMUP

RULES: tuple[Rule, ...] = tuple(
    map(
        weighed,
        (
            FOREIGN_MEMORY,
            HOST_MEMORY,
            FRAGMENTATION,
            LOAD,
            PROFILE,
            GRAPH_CAPTURE,
            WARMUP,
            PREFILL_TRANSIENT,
            DECODE_GROWTH,
        ),
    )
)
"""The surer to be right, the earlier."""
