"""How long what somebody sets aside for a time may last: a break-glass override, a silence. Pure.

Both are meant for a trouble at hand. What would outlast a day is forgotten by then, so it has to be
asked for, and nothing lasts for longer than a month.
"""

MAX_SECONDS = 24 * 3600
"""Unless who makes it says that it shall last longer."""
MAX_LONGER_SECONDS = 30 * 24 * 3600


def find_time_fault(what: str, seconds: float, *, may_be_longer: bool) -> str | None:
    """Why `what` (with its article: `an override`) cannot last so long; None: it can."""
    if not may_be_longer and seconds > MAX_SECONDS:
        return (
            f"{what} lasts for at most 24h; make another when it ends, or say that this one may be "
            "longer: --longer, may_be_longer in the API, a box in the console"
        )
    if not 1 <= seconds <= MAX_LONGER_SECONDS:
        return f"{what} lasts for 1s at least and for 30d at most"
    return None
