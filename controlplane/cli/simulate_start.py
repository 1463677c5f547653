"""When a simulated run happened: as it is written, or, for a control plane, until now.

The simulation has no clock, so that the same file gives the same bytes. What is sent to a
control plane is another matter: it removes what is too old, and shows what was of late.
"""

import dataclasses
from datetime import UTC, datetime
from typing import Any

from controlplane.cli.client import get_json
from controlplane.cli.failures import RefusedError
from controlplane.cli.terminal import say
from controlplane.specs.scenario_compiling import ScenarioDocument
from controlplane.store.retention import Store
from dataplane.clock import wall_clock

_SECOND_NS = 10**9
_DAY_NS = 86_400 * _SECOND_NS


def placed(
    document: ScenarioDocument, starts_at_unix_ns: int | None, send: str | None
) -> ScenarioDocument:
    """The scenario with the start that it is to have. Says where it was moved to.

    `send` is the address of a control plane, None: none. Raises a CallError when it does not
    answer.
    """
    if starts_at_unix_ns is not None:
        document = _moved(document, starts_at_unix_ns)
    if send is None:
        return document
    now_unix_ns = wall_clock()
    if starts_at_unix_ns is None and "starts_at" not in document.spec.model_fields_set:
        document = _moved(document, start_of_run_until(now_unix_ns, document.spec.duration))
        starts_at = _instant(document.fleet.starts_at_unix_ns)
        say(
            f"moved to end now: records begin at {starts_at}; to send the same ones again, add "
            f"--starts-at {starts_at}",
            is_error=True,
        )
    _warn_of_future(document, now_unix_ns)
    _warn_of_age(document.fleet.starts_at_unix_ns, now_unix_ns, send)
    return document


def start_of_run_until(now_unix_ns: int, duration: float) -> int:
    """Where a run of so many seconds begins that ends now; in whole seconds, as it is written."""
    return (now_unix_ns - round(duration * _SECOND_NS)) // _SECOND_NS * _SECOND_NS


def _moved(document: ScenarioDocument, starts_at_unix_ns: int) -> ScenarioDocument:
    fleet = dataclasses.replace(document.fleet, starts_at_unix_ns=starts_at_unix_ns)
    return dataclasses.replace(document, fleet=fleet)


def _instant(unix_ns: int) -> str:
    return datetime.fromtimestamp(unix_ns // _SECOND_NS, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _warn_of_future(document: ScenarioDocument, now_unix_ns: int) -> None:
    begins_at_unix_ns = document.fleet.starts_at_unix_ns
    ends_at_unix_ns = begins_at_unix_ns + round(document.fleet.duration * _SECOND_NS)
    if ends_at_unix_ns > now_unix_ns:
        say(
            f"warning: requests lie ahead of now: the run is from {_instant(begins_at_unix_ns)} "
            f"to {_instant(ends_at_unix_ns)}, and what tells the last minutes or hours shows them "
            f"only then; add --starts-at with an earlier moment, or leave starts_at out",
            is_error=True,
        )


def _warn_of_age(starts_at_unix_ns: int, now_unix_ns: int, url: str) -> None:
    try:
        told: dict[str, Any] = get_json(url, "/api/v1/request-data")
    except RefusedError as error:  # a key may be allowed to send and not to ask
        say(f"warning: how long requests are kept there is unknown: {error}", is_error=True)
        return
    [kept_days] = [s["kept_days"] for s in told["stores"] if s["name"] == Store.REQUESTS]
    age_days = (now_unix_ns - starts_at_unix_ns) / _DAY_NS
    if age_days > kept_days:
        say(
            f"warning: the records begin {age_days:.0f} days ago, and {url} keeps requests for "
            f"{kept_days:g} days: older ones will be removed there; add --starts-at with a later "
            f"moment, or leave starts_at out",
            is_error=True,
        )
