"""What an incident cost is told also where no contract says what was promised."""

from controlplane.api.incident_views import view_detail
from controlplane.cli.incident_output import incident_text
from controlplane.store.incidents import IncidentState, StoredIncident, WholeIncident
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
