"""The index against the plain rule that it stands for."""

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from dataplane.prefix_report import PrefixReport
from dataplane.routing.prefix_index import PrefixIndex
from dataplane.routing.prompt_blocks import hash_blocks

BLOCK = 4


def prompt(*parts: int) -> tuple[bytes, ...]:
    """Blocks of a prompt whose block k is filled with the k-th number."""
    tokens = [part for part in parts for _ in range(BLOCK)]
    return hash_blocks(tokens, "acme", BLOCK)


def test_a_replica_has_what_it_was_sent_up_to_where_another_prompt_differs() -> None:
    index = PrefixIndex(BLOCK)
    index.note_sent("a", prompt(1, 2, 3, 4))
    index.note_sent("b", prompt(1, 2))
    assert index.find(prompt(1, 2, 3, 9)) == {"a": 3 * BLOCK, "b": 2 * BLOCK}
    assert index.find(prompt(1, 9)) == {"a": BLOCK, "b": BLOCK}
    assert index.find(prompt(9, 2, 3)) == {}
    assert index.find(()) == {}


def test_what_a_process_had_is_forgotten_with_it() -> None:
    index = PrefixIndex(BLOCK)
    index.note_sent("a", prompt(1, 2))
    index.note_sent("b", prompt(1))
    index.forget("a")
    index.forget("a")
    assert index.find(prompt(1, 2)) == {"b": BLOCK}
    index.note_sent("a", prompt(5))
    assert index.find(prompt(1, 2)) == {"b": BLOCK}, "the next process begins with nothing"


def test_the_oldest_end_goes_first_where_there_are_too_many() -> None:
    index = PrefixIndex(BLOCK, max_blocks=4)
    index.note_sent("a", prompt(1, 2, 3))
    index.note_sent("a", prompt(1, 7, 8))
    assert index.num_blocks == 4
    assert index.find(prompt(1, 2, 3)) == {"a": 2 * BLOCK}
    assert index.find(prompt(1, 7, 8)) == {"a": 3 * BLOCK}
    index.note_sent("b", prompt(*range(50, 60)))
    assert index.num_blocks == 4
    assert index.find(prompt(*range(50, 60))) == {"b": 4 * BLOCK}


def test_a_replica_is_thought_to_have_no_more_than_its_cache_holds() -> None:
    index = PrefixIndex(BLOCK)
    index.set_capacity("a", 10 * BLOCK)
    for number in range(100, 130):
        index.note_sent("a", prompt(number))
    known = [number for number in range(100, 130) if index.find(prompt(number))]
    assert known == list(range(120, 130)) or known == list(range(125, 130))
    index.note_sent("a", prompt(129))
    assert index.find(prompt(129)) == {"a": BLOCK}


def test_half_is_forgotten_of_one_that_evicted_more_than_was_thought() -> None:
    index = PrefixIndex(BLOCK)
    index.note_sent("a", prompt(1))
    index.forget_half("a")
    index.note_sent("a", prompt(2))
    assert index.find(prompt(1)) == index.find(prompt(2)) == {"a": BLOCK}
    index.forget_half("a")
    assert index.find(prompt(1)) == {}
    assert index.find(prompt(2)) == {"a": BLOCK}
    index.forget_half("nobody")


@dataclass
class PlainIndex:
    """Whole prompts, compared one by one."""

    sent: dict[str, list[tuple[bytes, ...]]] = field(default_factory=dict)

    def find(self, blocks: tuple[bytes, ...]) -> dict[str, int]:
        found = {}
        for replica_id, prompts in self.sent.items():
            depth = max((num_same(blocks, each) for each in prompts), default=0)
            if depth:
                found[replica_id] = depth * BLOCK
        return found


def num_same(one: tuple[bytes, ...], other: tuple[bytes, ...]) -> int:
    for position, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return position
    return min(len(one), len(other))


REPLICA = st.sampled_from(("a", "b", "c", "d"))
PROMPT = st.lists(st.integers(1, 2), max_size=6).map(lambda parts: prompt(*parts))
STEP = st.one_of(
    st.tuples(st.just("sent"), REPLICA, PROMPT),
    st.tuples(st.just("sent"), REPLICA, PROMPT),
    st.tuples(st.just("forget"), REPLICA, PROMPT),
    st.tuples(st.just("churn"), REPLICA, PROMPT),
)


@given(st.lists(STEP, max_size=40))
@settings(max_examples=150, deadline=None)
def test_without_a_bound_the_index_knows_what_the_prompts_themselves_tell(
    steps: list[tuple[str, str, tuple[bytes, ...]]],
) -> None:
    index, plain = PrefixIndex(BLOCK), PlainIndex()
    for action, replica_id, blocks in steps:
        if action == "sent":
            index.note_sent(replica_id, blocks)
            plain.sent.setdefault(replica_id, []).append(blocks)
        elif action == "forget":
            index.forget(replica_id)
            plain.sent.pop(replica_id, None)
        else:  # more processes than bits are kept for
            for number in range(40):
                index.note_sent(f"passing-{number}", blocks)
                index.forget(f"passing-{number}")
        index.check_integrity()
        assert index.find(blocks) == plain.find(blocks)


def test_what_a_new_replica_is_sent_first_is_remembered_also_where_dead_bits_are_swept_out() -> (
    None
):
    index = PrefixIndex(BLOCK)
    index.note_sent("b", prompt(1))
    for number in range(200):
        index.note_sent("new", prompt(1))
        assert index.find(prompt(1)) == {"b": BLOCK, "new": BLOCK}, f"process {number}"
        index.forget("new")


@given(st.lists(st.tuples(REPLICA, PROMPT), max_size=30), st.integers(1, 12))
@settings(max_examples=100, deadline=None)
def test_a_bounded_index_never_knows_more_than_was_sent(
    sent: list[tuple[str, tuple[bytes, ...]]], max_blocks: int
) -> None:
    index, plain = PrefixIndex(BLOCK, max_blocks), PlainIndex()
    index.set_capacity("a", 3 * BLOCK)
    for replica_id, blocks in sent:
        index.note_sent(replica_id, blocks)
        plain.sent.setdefault(replica_id, []).append(blocks)
        index.check_integrity()
        most = plain.find(blocks)
        for found, depth in index.find(blocks).items():
            assert depth <= most[found]


def report(
    stored: tuple[bytes, ...], removed: tuple[bytes, ...] = (), *, whole: bool
) -> PrefixReport:
    return PrefixReport(
        cursor="x:1",
        block_tokens=BLOCK,
        is_whole=whole,
        stored=b"".join(stored),
        removed=b"".join(removed),
    )


def test_what_an_engine_tells_is_what_it_has_until_it_tells_otherwise() -> None:
    index = PrefixIndex(BLOCK)
    assert index.take_report("a", report(prompt(1, 2, 3), whole=True), 0.0)
    assert index.find(prompt(1, 2, 3, 4)) == {"a": 3 * BLOCK}
    assert index.take_report("a", report(prompt(5), prompt(1, 2, 3)[1:], whole=False), 1.0)
    assert index.find(prompt(1, 2, 3, 4)) == {"a": BLOCK}
    assert index.find(prompt(5)) == {"a": BLOCK}
    assert (index.told_at("a"), index.told_at("b")) == (1.0, None)
    index.take_report("a", report(prompt(7), whole=True), 2.0)
    assert index.find(prompt(1)) == {}
    assert index.find(prompt(7)) == {"a": BLOCK}
    index.check_integrity()


def test_changes_of_what_was_never_told_are_not_taken() -> None:
    index = PrefixIndex(BLOCK)
    assert not index.take_report("a", report(prompt(1), whole=False), 0.0)
    index.take_report("a", report(prompt(1), whole=True), 1.0)
    index.forget("a")
    assert not index.take_report("a", report(prompt(1), whole=False), 2.0)
    assert index.find(prompt(1)) == {}


def test_what_was_sent_counts_beside_it_until_it_must_have_been_told() -> None:
    index = PrefixIndex(BLOCK)
    index.take_report("a", report((), whole=True), 0.0)
    index.note_sent("a", prompt(1, 2))
    index.take_report("a", report((), whole=False), 1.0)
    assert index.find(prompt(1, 2)) == {"a": 2 * BLOCK}
    for second in (12.0, 24.0):
        index.take_report("a", report((), whole=False), second)
    assert index.find(prompt(1, 2)) == {}, "it told, and did not have it"


def test_of_whom_more_is_told_than_there_is_room_for_not_all_is_known() -> None:
    index = PrefixIndex(BLOCK, max_blocks=4)
    index.take_report("a", report(prompt(1, 2, 3), whole=True), 0.0)
    index.take_report("b", report(prompt(7, 8), whole=True), 0.0)
    assert (index.told_at("a"), index.told_at("b")) == (None, 0.0)
    index.take_report("a", report(prompt(1), whole=True), 1.0)
    assert index.told_at("a") == 1.0


def test_where_not_all_is_known_of_what_is_told_what_was_sent_goes_on_to_count() -> None:
    index = PrefixIndex(BLOCK, max_blocks=6)
    index.take_report("a", report(prompt(*range(10, 20)), whole=True), 0.0)
    for second in range(60):
        index.note_sent("a", prompt(1, 2))
        if second < 40:
            index.take_report("a", report((), whole=False), float(second))
    assert index.find(prompt(1, 2)) == {"a": 2 * BLOCK}
    index.take_report("a", report((), whole=False), 90.0)
    assert index.find(prompt(1, 2)) == {"a": 2 * BLOCK}


def test_a_long_report_is_taken_in_parts() -> None:
    index = PrefixIndex(BLOCK)
    index.take_report("a", report(prompt(5, 6), whole=True), 0.0)
    parts = list(report(prompt(1, 2, 3), whole=True).parts(2))
    assert [part.is_whole for part in parts] == [True, False, False]
    changes = report(prompt(4), prompt(1, 2, 3), whole=False).parts(2)
    for part in (*parts, *changes):
        index.take_report("a", part, 1.0)
    assert index.find(prompt(4)) == {"a": BLOCK}
    assert index.find(prompt(1, 2, 3)) == index.find(prompt(5)) == {}


def test_a_report_of_blocks_of_another_size_changes_nothing() -> None:
    index = PrefixIndex(2 * BLOCK)
    assert index.take_report("a", report(prompt(1), whole=True), 0.0)
    assert index.find(prompt(1)) == {}
    assert index.told_at("a") is None


@given(
    st.lists(
        st.tuples(
            st.sampled_from("ab"),
            st.sampled_from(["send", "whole", "more", "less", "forget"]),
            st.lists(st.integers(1, 3), min_size=1, max_size=4),
        ),
        max_size=120,
    )
)
def test_told_blocks_are_kept_apart_from_sent_ones_however_bits_are_swept(
    steps: list[tuple[str, str, list[int]]],
) -> None:
    """Chains are told and untold whole, as engines do; the rule is a set for each replica."""
    index = PrefixIndex(BLOCK)
    had: dict[str, set[bytes]] = {}
    for at, (replica_id, what, parts) in enumerate(steps):
        blocks = prompt(*parts)
        has = had.get(replica_id)
        if what == "send":
            index.set_capacity(replica_id, 4 * BLOCK)
            index.note_sent(replica_id, blocks)
        elif what == "forget":
            index.forget(replica_id)
            had.pop(replica_id, None)
        elif what == "whole":
            index.take_report(replica_id, report(blocks, whole=True), float(at))
            had[replica_id] = set(blocks)
        elif has is not None and what == "more":
            new = tuple(each for each in blocks if each not in has)
            index.take_report(replica_id, report(new, whole=False), float(at))
            has |= set(new)
        elif has is not None:  # an end goes, and no other chain needs it: all behind it goes
            index.take_report(replica_id, report((), tuple(has), whole=False), float(at))
            has.clear()
        index.check_integrity()
        for replica, blocks_there in had.items():
            found = index.find(blocks)
            num_told = next(
                (i for i, each in enumerate(blocks) if each not in blocks_there), len(blocks)
            )
            assert found.get(replica, 0) >= num_told * BLOCK
