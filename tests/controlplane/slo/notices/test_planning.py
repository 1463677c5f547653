"""What is told when: once, pages at once, and nothing that somebody silenced."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from controlplane.slo.alert import Alert, AlertSubject
from controlplane.slo.alert_windows import DAY, HOUR, MINUTE, Severity
from controlplane.slo.notices.notice import Notice, NoticeKind
from controlplane.slo.notices.planning import plan_notices, with_ends
from controlplane.store.told_alerts import Group, Told
from tests.controlplane.slo.burning_alert import burning

NS = 10**9
PAGE, TICKET = burning(), burning(Severity.TICKET)


class People:
    """Who is told, and knows what was told before."""

    def __init__(self) -> None:
        self.told: dict[Group, Told] = {}
        self.now = 1_790_000_000

    def hear(
        self,
        *firing: Alert,
        after: int = 30,
        silenced: Callable[[AlertSubject], bool] = lambda _: False,
    ) -> list[Notice]:
        """What they are told `after` so many seconds."""
        self.now += after
        self.told = with_ends(self.told, firing, self.now * NS)
        heard = []
        for each in plan_notices(firing, self.told, silenced, "http://console", self.now * NS):
            self.told.pop(each.group, None)
            if each.told is not None:
                self.told[each.group] = each.told
            if each.notice is not None:
                heard.append(each.notice)
        return heard


def _kinds(notices: Sequence[Notice]) -> list[NoticeKind]:
    return [each.kind for each in notices]


def test_what_goes_on_is_told_once_again_after_four_hours_and_when_it_ends() -> None:
    people = People()
    assert _kinds(people.hear(PAGE)) == [NoticeKind.FIRING]
    assert people.hear(PAGE, after=4 * HOUR - 60) == []
    assert _kinds(people.hear(PAGE, after=60)) == [NoticeKind.REPEAT]
    (over,) = people.hear(after=10 * MINUTE)
    assert over.kind is NoticeKind.RESOLVED
    assert [each.subject for each in over.ended] == [PAGE.subject]
    assert people.told == {}
    assert people.hear(after=DAY) == []


def test_a_page_that_ends_while_another_goes_on_is_told_and_is_nothing_new() -> None:
    people, slower = People(), burning(objective="tpot")
    people.hear(PAGE, slower)
    (told,) = people.hear(slower, after=6 * MINUTE)
    assert told.kind is NoticeKind.REPEAT
    assert [each.subject for each in told.firing] == [slower.subject]
    assert [each.subject for each in told.ended] == [PAGE.subject]


def test_a_page_holds_the_tickets_of_its_deployment_back_and_of_no_other() -> None:
    people, other = People(), burning(Severity.TICKET, deployment="batch")
    notices = people.hear(TICKET, PAGE, other)
    assert [(each.deployment, each.num_held_back) for each in notices] == [
        ("chat", 1),
        ("batch", 0),
    ]
    assert [each.subject.severity for each in notices[0].firing] == [Severity.PAGE]


def test_a_ticket_is_told_when_the_page_before_it_ends() -> None:
    people = People()
    people.hear(PAGE, TICKET)
    (told,) = people.hear(TICKET, after=6 * MINUTE)
    assert told.kind is NoticeKind.FIRING
    assert [each.subject for each in told.firing] == [TICKET.subject]
    assert [each.subject for each in told.ended] == [PAGE.subject]


def test_a_page_after_a_ticket_is_told_at_once() -> None:
    people = People()
    people.hear(TICKET)
    (told,) = people.hear(TICKET, PAGE)
    assert [each.subject for each in told.firing] == [PAGE.subject]
    (over,) = people.hear(after=6 * MINUTE)
    assert {each.subject for each in over.ended} == {PAGE.subject, TICKET.subject}


def test_another_ticket_waits_until_five_minutes_have_passed() -> None:
    people, second = People(), burning(Severity.TICKET, objective="tpot")
    people.hear(TICKET)
    assert people.hear(TICKET, second) == []
    (told,) = people.hear(TICKET, second, after=5 * MINUTE)
    assert len(told.firing) == 2


def test_what_ends_and_comes_back_within_five_minutes_is_told_as_nothing() -> None:
    people = People()
    people.hear(PAGE)
    assert people.hear() == []
    assert people.hear(PAGE) == []


def test_a_silenced_alert_is_told_when_its_silence_ends() -> None:
    people = People()
    assert people.hear(PAGE, silenced=lambda subject: subject == PAGE.subject) == []
    assert _kinds(people.hear(PAGE)) == [NoticeKind.FIRING]


def test_one_that_is_silenced_while_it_fires_is_not_told_as_over() -> None:
    people = People()
    people.hear(PAGE)
    assert people.hear(PAGE, after=5 * HOUR, silenced=lambda _: True) == []
    assert _kinds(people.hear(PAGE, after=60)) == [NoticeKind.REPEAT]


def test_a_silenced_page_still_holds_its_tickets_back() -> None:
    people = People()
    assert people.hear(PAGE, TICKET, silenced=lambda s: s.severity is Severity.PAGE) == []
    assert people.hear(PAGE, TICKET)[0].num_held_back == 1


def test_an_end_that_nobody_could_be_told_of_for_a_day_is_let_go() -> None:
    over = replace(PAGE, ended_at_unix_ns=NS)
    told: Mapping[Group, Told] = {"chat": Told(at_unix_ns=1, alerts=(over,))}
    (due,) = plan_notices([], told, lambda _: False, "", DAY * NS)
    assert due.notice is not None
    (late,) = plan_notices([], told, lambda _: False, "", (DAY + 1) * NS)
    assert late.notice is None
    assert late.told is None


def test_the_day_to_tell_an_end_in_begins_with_the_end() -> None:
    people = People()
    people.hear(PAGE)
    assert people.hear(PAGE, after=2 * DAY, silenced=lambda _: True) == []
    assert _kinds(people.hear()) == [NoticeKind.RESOLVED]


def test_an_end_that_is_told_late_says_when_it_was() -> None:
    people = People()
    people.hear(PAGE)
    assert people.hear(after=60) == []
    ended_at = people.now * NS
    (over,) = people.hear(after=HOUR)
    assert over.ended[0].ended_at_unix_ns == ended_at


def test_a_clock_that_was_set_back_keeps_nothing_back() -> None:
    people = People()
    people.hear(TICKET)
    assert _kinds(people.hear(TICKET, PAGE, after=-2 * HOUR)) == [NoticeKind.FIRING]
    assert _kinds(people.hear(after=-2 * HOUR)) == [NoticeKind.RESOLVED]


def _attempted(firing: Sequence[Alert], told: Mapping[Group, Told]) -> dict[Group, Told]:
    """What is known where the message that is due was sent, and nobody answered."""
    (sent,) = plan_notices(firing, told, lambda _: False, "", 10 * HOUR * NS)
    assert sent.begun is not None
    return {sent.group: sent.begun}


def test_what_may_have_arrived_is_told_again_and_so_is_its_end() -> None:
    told = _attempted([PAGE], {})
    (again,) = plan_notices([PAGE], told, lambda _: False, "", 11 * HOUR * NS)
    assert again.notice is not None
    assert again.notice.kind is NoticeKind.FIRING
    assert again.begun is None  # nothing that is not kept already
    (over,) = plan_notices([], told, lambda _: False, "", 11 * HOUR * NS)
    assert over.notice is not None
    assert over.notice.kind is NoticeKind.RESOLVED


def test_what_may_have_arrived_forgets_nothing_that_did() -> None:
    other = burning(objective="tpot")
    told = _attempted([other], {"chat": Told(at_unix_ns=HOUR * NS, alerts=(PAGE,))})
    (over,) = plan_notices([], told, lambda _: False, "", 11 * HOUR * NS)
    assert over.notice is not None
    assert {each.subject for each in over.notice.ended} == {PAGE.subject, other.subject}


def test_pages_go_first() -> None:
    ticket, page = burning(Severity.TICKET, deployment="a"), burning(deployment="z")
    assert [each.deployment for each in People().hear(ticket, page)] == ["z", "a"]
