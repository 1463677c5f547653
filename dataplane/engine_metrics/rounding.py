"""Gauges that their exporter rounds: they stand still while what they tell moves."""

from dataplane.engine_metrics.tables import TABLES

_ROUNDED = frozenset(
    alias.exported for table in TABLES for alias in table.aliases if alias.resolution > 0
)


def is_rounded(exported: str) -> bool:
    """Whether a gauge of this name is exported in steps that can be seen."""
    return exported in _ROUNDED
