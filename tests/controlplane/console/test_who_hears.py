"""Whether anybody would be told of an alert."""

from dataclasses import replace

from controlplane.api.alert_views import HeardView
from controlplane.api.alerting_views import AlertingView, NotifierView
from controlplane.console.who_hears import who_hears

_NOTIFIER = NotifierView(
    name="oncall",
    kind="slack",
    file="/k/oncall",
    num_told=3,
    num_failed=0,
    num_due=0,
    told_at_unix_ns=1,
    error=None,
)
_ALERTING = AlertingView(
    as_of_unix_ns=1,
    is_on=True,
    evaluate_seconds=30,
    evaluated_at_unix_ns=1,
    pass_seconds=0.1,
    num_promises=4,
    num_failed_passes=0,
    error=None,
    num_firing=0,
    notifiers=[],
)
_HEARD = HeardView(
    source="alertmanager",
    heard_at_unix_ns=1,
    age_seconds=12,
    state="well",
    what="alerting was heard 12 s ago",
    told_by=None,
)


def told(alerting: AlertingView, *heard: HeardView) -> list[tuple[str, bool]]:
    return [(each.text, each.is_trouble) for each in who_hears(alerting, heard)]


def test_without_a_notifier_and_an_alertmanager_nobody_is_told() -> None:
    ((text, is_trouble),) = told(_ALERTING)
    assert is_trouble
    assert text.startswith("Nobody is told")


def test_one_that_tells_people_is_enough() -> None:
    assert told(replace(_ALERTING, notifiers=[_NOTIFIER])) == [
        ("oncall tells people of alerts: last told 0 s ago", False)
    ]
    assert told(_ALERTING, _HEARD) == [("Alertmanager: alerting was heard 12 s ago", False)]


def test_what_fails_is_named_before_what_works() -> None:
    failing = replace(
        _NOTIFIER, name="mail", error="status 500", num_failed=2, num_due=1, told_at_unix_ns=None
    )
    found = told(replace(_ALERTING, notifiers=[_NOTIFIER, failing], error="the database is away"))
    assert found == [
        ("The last evaluation failed: the database is away", True),
        (
            "Notifier mail failed: status 500 (nothing told yet, 2 attempts failed, 1 due)",
            True,
        ),
        ("oncall tells people of alerts: last told 0 s ago", False),
    ]
    silent = replace(_HEARD, state="silent", what="alerting was not heard for 9 min")
    assert told(_ALERTING, silent)[0][1]


def test_an_evaluation_that_does_not_end_is_a_trouble_though_nothing_failed() -> None:
    on = replace(_ALERTING, notifiers=[_NOTIFIER])
    assert told(replace(on, as_of_unix_ns=120 * 10**9)) == [
        ("oncall tells people of alerts: last told 119 s ago", False)
    ]
    late = replace(on, as_of_unix_ns=600 * 10**9)
    assert told(late)[0] == (
        "The last evaluation was 9 min ago, and the one under way does not end",
        True,
    )
    assert not any(is_trouble for _, is_trouble in told(replace(late, evaluate_seconds=300)))


def test_notifiers_of_an_evaluation_that_is_off_tell_nobody() -> None:
    found = told(replace(_ALERTING, is_on=False, notifiers=[_NOTIFIER]))
    assert found[0][0].startswith("Nobody is told")
    assert found[1] == ("The control plane's own evaluation is off", False)
