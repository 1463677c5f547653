"""Requests that wait: for too much work, for one of them, or for nothing."""

from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.rules.queue.blocked import BLOCKED
from controlplane.diagnosis.rules.queue.burst_draining import BURST_DRAINING
from controlplane.diagnosis.rules.queue.head_of_line import HEAD_OF_LINE
from controlplane.diagnosis.rules.queue.never_fits import NEVER_FITS
from controlplane.diagnosis.rules.queue.overload import OVERLOAD
from controlplane.diagnosis.rules.queue.retry_storm import RETRY_STORM

RULES: tuple[Rule, ...] = (
    NEVER_FITS,
    BLOCKED,
    RETRY_STORM,
    HEAD_OF_LINE,
    BURST_DRAINING,
    OVERLOAD,
)
"""The surer to be right, the earlier."""
