"""What an incident cost is told also where no contract says what was promised, and what came before
each time that it began."""

from dataclasses import replace

from controlplane.api.incident_views import view_detail
from controlplane.api.marks import Mark
from controlplane.cli.incident_output import incident_text
from controlplane.store.incident import IncidentState, StoredIncident, WholeIncident
from controlplane.store.incident_spell import IncidentSpell
from controlplane.store.usage import UsageKey

WHOLE = WholeIncident(
    incident=StoredIncident(
        incident_id="9f3a61c2",
        deployment="chat",
        state=IncidentState.OPEN,
        mechanism="engine.hung",
        confidence="likely",
        opened_at_unix_ns=10**18,
        since_unix_ns=None,
        last_seen_at_unix_ns=10**18,
        resolved_at_unix_ns=None,
        num_reopened=0,
        acknowledged_at_unix_ns=None,
        acknowledged_by=None,
        spells=(
            IncidentSpell(opened_at_unix_ns=10**18, since_unix_ns=None, resolved_at_unix_ns=None),
        ),
    ),
    findings=(),
    events=(),
)


def test_refused_and_broken_requests_are_counted_where_none_was_judged() -> None:
    usage = {
        UsageKey("chat", "all", "a"): {
            "offered": 50,
            "disposition.rejected": 20,
            "disposition.shed": 9,
        },
        UsageKey("chat", "all", "b"): {
            "offered": 34,
            "disposition.deadline": 5,
            "disposition.error": 18,
        },
    }
    view = view_detail(WHOLE, [], usage, 10**18)
    assert (view.num_offered, view.num_refused, view.num_failed, view.num_judged) == (84, 29, 23, 0)
    said = incident_text(view)
    assert "Of 84 requests while it lasted: 29 refused, 23 without a whole answer" in said
    assert "Who is hurt is unknown" not in said


def test_where_nothing_is_known_nothing_is_counted() -> None:
    said = incident_text(view_detail(WHOLE, [], {}, 10**18))
    assert "refused" not in said
    assert "Who is hurt is unknown: no request was judged while it lasted" in said


_S = 10**9


def _mark(text: str, at_unix_s: int) -> Mark:
    return Mark(at_unix_ns=at_unix_s * _S, kind="config", deployment="chat", text=text)


def _reopened() -> WholeIncident:
    """Open from 1000 to 1200 and again since 2000, which was found at 2030."""
    times = ((1030, 1000, 1200), (2030, 2000, None))
    spells = tuple(
        IncidentSpell(
            opened_at_unix_ns=opened * _S,
            since_unix_ns=since * _S,
            resolved_at_unix_ns=ended * _S if ended else None,
        )
        for opened, since, ended in times
    )
    opened, since = 1030 * _S, 1000 * _S
    return replace(
        WHOLE,
        incident=replace(
            WHOLE.incident,
            opened_at_unix_ns=opened,
            since_unix_ns=since,
            num_reopened=1,
            spells=spells,
        ),
    )


def test_each_time_that_it_began_has_the_changes_before_it() -> None:
    marks = [_mark("first deployed", 940), _mark("fewer seats", 1900), _mark("later", 2010)]
    view = view_detail(_reopened(), marks, {}, 2100 * _S)
    assert [(each.text, each.lag_seconds, each.began_at_unix_ns) for each in view.changes] == [
        ("fewer seats", 100, 2000 * _S),
        ("first deployed", 60, 1000 * _S),
        ("later", -10, 2000 * _S),
    ]


def test_of_what_was_reopened_the_last_beginning_is_told_and_those_before() -> None:
    marks = [_mark("first deployed", 940), _mark("fewer seats", 1900)]
    view = view_detail(_reopened(), marks, {}, 2100 * _S)
    said = incident_text(view)
    assert "since 1970-01-01 00:33:20Z, by the signal" in said
    assert "and before from 1970-01-01 00:16:40Z until 1970-01-01 00:20:00Z" in said
    again, first = said.index("began again at 1970-01-01 00:33:20Z"), said.index("it began at")
    assert again < said.index("fewer seats") < first < said.index("first deployed")
    assert "since=1970-01-01T00%3A33%3A20Z" in view.requests_query
    assert view.incident.open_seconds(2100 * _S) == 300
