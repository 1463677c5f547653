from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataplane.simulation.link import Link, Transfer
from dataplane.simulation.timeline import Timeline


class Sender:
    """Notes when each transfer arrives."""

    def __init__(self, bits_per_second: float) -> None:
        self.timeline = Timeline()
        self.link = Link(self.timeline, bits_per_second)
        self.arrived_at: dict[str, float] = {}

    def send_at(self, at: float, name: str, num_bytes: float) -> None:
        self.timeline.at(at, partial(self.link.send, num_bytes, partial(self._arrive, name)))

    def set_at(self, at: float, bits_per_second: float) -> None:
        self.timeline.at(at, partial(self.link.set_bandwidth, bits_per_second))

    def _arrive(self, name: str) -> None:
        self.arrived_at[name] = self.timeline.now


def test_transfers_go_one_after_the_other_and_an_idle_link_begins_at_once() -> None:
    sender = Sender(8)
    sender.send_at(0, "a", 2)
    sender.send_at(1, "b", 3)
    sender.send_at(10, "c", 1)

    sender.timeline.run()

    assert sender.arrived_at == {"a": 2, "b": 5, "c": 11}
    assert sender.link.backlog_bits == 0


def test_the_backlog_is_what_was_put_and_is_not_carried() -> None:
    sender = Sender(8)
    sender.send_at(0, "a", 2)
    sender.send_at(0, "b", 3)

    sender.timeline.run(until=1.5)

    assert (sender.link.backlog_bits, sender.link.num_transfers) == (28, 2)


def test_another_bandwidth_holds_for_what_is_on_its_way_too() -> None:
    sender = Sender(8)
    sender.send_at(0, "a", 4)
    sender.send_at(0, "b", 1)
    sender.set_at(2, 4)

    sender.timeline.run()

    assert sender.arrived_at == {"a": 6, "b": 8}


def test_a_link_that_stands_still_loses_nothing() -> None:
    sender = Sender(8)
    sender.send_at(0, "a", 4)
    sender.set_at(1, 0)
    sender.send_at(2, "b", 1)
    sender.set_at(100, 8)

    sender.timeline.run(until=99)
    assert sender.arrived_at == {}
    assert sender.link.backlog_bits == 32
    sender.timeline.run()

    assert sender.arrived_at == {"a": 103, "b": 104}


def test_a_transfer_that_has_not_begun_can_be_withdrawn_and_those_behind_it_come_sooner() -> None:
    timeline = Timeline()
    link = Link(timeline, 8)
    arrived: list[tuple[str, float]] = []

    def send(name: str) -> Transfer:
        return link.send(2, lambda: arrived.append((name, timeline.now)))

    first, second, _ = send("first"), send("second"), send("third")
    timeline.run(until=1.0)
    assert not link.withdraw(first)
    assert link.withdraw(second)
    assert not link.withdraw(second)
    assert (link.num_transfers, link.backlog_bits) == (2, 8 + 16)
    timeline.run()
    assert arrived == [("first", 2), ("third", 4)]
    assert not link.withdraw(first)


def test_an_arrival_may_put_the_next_transfer() -> None:
    sender = Sender(8)
    sender.timeline.at(0, lambda: sender.link.send(1, lambda: sender.send_at(1, "next", 1)))

    sender.timeline.run()

    assert sender.arrived_at == {"next": 2}


def test_nothing_arrives_at_once_and_in_order() -> None:
    sender = Sender(8)
    sender.send_at(0, "a", 1)
    sender.send_at(0, "nothing", 0)

    sender.timeline.run()

    assert list(sender.arrived_at.items()) == [("a", 1), ("nothing", 1)]


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 40)), min_size=1),
    st.lists(st.tuples(st.integers(0, 60), st.sampled_from([0, 8, 16, 64]))),
)
def test_everything_arrives_in_order_whatever_happens_to_the_bandwidth(
    transfers: list[tuple[int, int]], changes: list[tuple[int, int]]
) -> None:
    sender = Sender(8)
    for number, (at, num_bytes) in enumerate(sorted(transfers)):
        sender.send_at(at, str(number), num_bytes)
    for at, bits_per_second in changes:
        sender.set_at(at, bits_per_second)
    sender.set_at(61, 8)

    sender.timeline.run()

    assert list(sender.arrived_at) == [str(number) for number in range(len(transfers))]
    assert sender.link.backlog_bits == pytest.approx(0, abs=1e-6)


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="a link of -1 bits"):
        Link(Timeline(), -1)
    with pytest.raises(ValueError, match="-1 bytes"):
        Link(Timeline(), 1).send(-1, lambda: None)
    with pytest.raises(ValueError, match="a link of -2 bits"):
        Link(Timeline(), 1).set_bandwidth(-2)
