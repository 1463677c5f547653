"""Watching running engines: nothing is installed, changed or sent to them but GET requests."""

from controlplane.diagnosis.sources.live.failures import NoMetricsError, StoppedError
from controlplane.diagnosis.sources.live.watching import Progress, watch

__all__ = ["NoMetricsError", "Progress", "StoppedError", "watch"]
