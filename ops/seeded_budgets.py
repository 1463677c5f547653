"""Made-up past of error budgets for the seeded console: twelve days of judged requests with a bad
night, maintenance that cost a little, and silences of every state."""

from collections import Counter
from dataclasses import replace

from controlplane.slo.alert_windows import Severity
from controlplane.slo.silences import SilenceKind, SilenceScope
from controlplane.store.counts import add_counts
from controlplane.store.database import Database
from controlplane.store.request_rows import CountKey
from controlplane.store.series import MinuteSample, add_samples
from controlplane.store.silences import NewSilence, add_silence, end_silence

_NS, _HOUR, _DAY = 10**9, 3600, 86400
_OBJECTIVES = ("ttft", "tpot", "availability", "together")
_STEP = 900
"""Of the last day; what was before it is counted by the hour."""
_BAD_NIGHT = (5 * _DAY, 5 * _DAY - 2 * _HOUR)
_MAINTENANCE = (9 * _HOUR, 8 * _HOUR)
"""From and until, in seconds before now."""


def store_budgets(request_db: Database, now_unix_ns: int) -> None:
    """From twelve days to an hour ago; what came later, other made-up traffic tells."""
    now = now_unix_ns // _NS // 60 * 60
    counts: Counter[CountKey] = Counter()
    for ago in (*range(12 * _DAY, _DAY, -_HOUR), *range(_DAY, _HOUR, -_STEP)):
        total = (40 + ago // _STEP * 7 % 25) * (_HOUR // _STEP if ago > _DAY else 1)
        for objective in _OBJECTIVES:
            names = (now - ago, "chat", "interactive", "acme", "chat@1")
            bad = _bad(objective, ago, total)
            counts[CountKey(*names, f"objective.{objective}.good")] += total - bad
            counts[CountKey(*names, f"objective.{objective}.total")] += total
    with request_db.session() as session:
        add_counts(session, counts)
        add_samples(
            session,
            [
                MinuteSample(
                    minute_unix=now - 12 * _DAY,
                    deployment=name,
                    num_gateways=1,
                    active=1.0,
                    queued=0.0,
                )
                for name in ("", "chat")
            ],
        )


def store_silences(config_db: Database, now_unix_ns: int) -> None:
    """Maintenance that is over and one that is planned, a silence in force and one ended early."""
    first, last = _MAINTENANCE
    chat = SilenceScope(deployment="chat")
    work = NewSilence(
        kind=SilenceKind.MAINTENANCE,
        scope=chat,
        reason="new disks below the model store",
        seconds=first - last,
    )
    tickets = NewSilence(
        kind=SilenceKind.SILENCE,
        scope=replace(chat, severity=Severity.TICKET),
        reason="anna looks after the cache; tickets say nothing new",
        seconds=2 * _HOUR,
    )
    began, noon = now_unix_ns - first * _NS, now_unix_ns - 20 * _HOUR * _NS
    ahead = replace(work, reason="new kernel", from_unix_ns=now_unix_ns + _DAY * _NS)
    wrong = replace(tickets, scope=chat, reason="the alert is wrong, I think")
    with config_db.session() as session:
        add_silence(session, work, actor="anna", clock=lambda: began)
        add_silence(session, ahead, actor="ben", clock=lambda: now_unix_ns)
        over = add_silence(session, wrong, actor="ben", clock=lambda: noon)
        end_silence(
            session, over.silence_id, actor="anna", reason="it was right",
            clock=lambda: noon + 600 * _NS,
        )  # fmt: skip
        add_silence(session, tickets, actor="anna", clock=lambda: now_unix_ns - 600 * _NS)


def _bad(objective: str, ago: int, total: int) -> int:
    """Of so many that were judged then."""
    in_maintenance = _MAINTENANCE[1] < ago <= _MAINTENANCE[0]
    if objective == "availability":
        return 1 if in_maintenance and ago % (3 * _STEP) == 0 else 0
    if _BAD_NIGHT[1] < ago <= _BAD_NIGHT[0]:
        return total // 2
    return total // 4 if in_maintenance else total // 60
