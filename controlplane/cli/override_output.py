"""Break-glass overrides in the terminal."""

from collections.abc import Sequence

from controlplane.api.override_views import OverrideView
from controlplane.cli.terminal import instant, table

NONE_IN_FORCE = "no override is in force: every policy is enforced as it is written"
EVERY_ONE = "every deployment"


def override_table(found: Sequence[OverrideView]) -> str:
    """One line for each."""
    if not found:
        return NONE_IN_FORCE
    rows = [("ID", "DEPLOYMENT", "WHAT", "UNTIL", "BY", "GATEWAYS", "REASON")]
    rows += [
        (
            each.override_id,
            each.deployment or EVERY_ONE,
            each.effect,
            _end_of(each),
            each.created_by,
            _gateways(each),
            each.reason,
        )
        for each in found
    ]
    return table(rows)


def override_line(made: OverrideView) -> str:
    """What somebody has just made."""
    return (
        f"override {made.override_id}: {made.deployment or EVERY_ONE}: {made.effect}, until "
        f"{instant(made.until_unix_ns)}; it ends then by itself, or with `pilothouse override end "
        f"{made.override_id}`"
    )


def _end_of(override: OverrideView) -> str:
    if override.ended_at_unix_ns is None:
        return instant(override.until_unix_ns)
    who = "by itself" if override.ended_by is None else f"by {override.ended_by}"
    return f"ended {instant(override.ended_at_unix_ns)} {who}"


def _gateways(override: OverrideView) -> str:
    if not override.is_in_force or override.kind == "freeze":  # gateways have no part in that
        return "-"
    missing = override.missing_gateways
    enforcing = ", ".join(override.gateways) or "none yet"
    return f"{enforcing}; not {', '.join(missing)}" if missing and override.gateways else enforcing
