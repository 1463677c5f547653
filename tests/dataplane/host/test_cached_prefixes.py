"""What is told of a prefix cache is what it finds, whatever came and went."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dataplane.host import cached_prefixes
from dataplane.host.cached_prefixes import CachedPrefixes
from dataplane.prefix_report import PrefixReport
from dataplane.routing.prompt_blocks import BLOCK_TOKENS, DIGEST_BYTES, hash_blocks
from dataplane.scheduling.block_pool import BlockPool
from dataplane.scheduling.prefix_cache import PrefixCache
from dataplane.scheduling.sequence import Sequence

NUM_BLOCKS = 640  # tokens, in blocks of any size


class Engine:
    """A pool and its cache; sequences are computed into it, held, and given back."""

    def __init__(self, block_size: int) -> None:
        self.pool = BlockPool(NUM_BLOCKS // block_size, block_size)
        self.cache = PrefixCache(self.pool)
        self.told = CachedPrefixes(block_size)
        self.cache.set_watcher(self.told)
        self.held: list[Sequence] = []
        self._next_id = 0

    def compute(
        self, token_ids: tuple[int, ...], tenant: str, num_chunks: int, num_now: int | None = None
    ) -> None:
        """In so many steps, as far as there is room for it; only the first of them now."""
        sequence = self._sequence(token_ids, tenant)
        match = self.cache.match(sequence)
        self.pool.reference(match.block_ids)
        num_new = self.pool.num_blocks_for(len(token_ids)) - len(match.block_ids)
        block_ids = self.pool.allocate(num_new)
        if block_ids is None:
            self.pool.release(list(match.block_ids))
            return
        sequence.block_table = [*match.block_ids, *block_ids]
        sequence.cache_node = match.node
        sequence.num_registered_blocks = len(match.block_ids)
        for chunk in range(1, (num_chunks if num_now is None else num_now) + 1):
            done = max(match.num_tokens, len(token_ids) * chunk // num_chunks)
            sequence.num_computed_tokens = done
            self.cache.register(sequence)
        self.held.append(sequence)

    def go_on(self, index: int, num_tokens: int | None = None) -> None:
        """With one that was begun, so far, or to its end."""
        if self.held:
            sequence = self.held[index % len(self.held)]
            sequence.num_computed_tokens = num_tokens or sequence.num_tokens
            self.cache.register(sequence)

    def release(self, index: int) -> None:
        if self.held:
            self.pool.release(self.held.pop(index % len(self.held)).block_table)

    def num_found(self, token_ids: tuple[int, ...], tenant: str) -> int:
        """Blocks as they are told, that a prompt with these tokens would find."""
        match = self.cache.match(self._sequence((*token_ids, 0), tenant))
        return match.num_tokens // BLOCK_TOKENS

    def _sequence(self, token_ids: tuple[int, ...], tenant: str) -> Sequence:
        self._next_id += 1
        return Sequence(
            request_id=f"r{self._next_id}",
            sequence_id=self._next_id,
            prompt_token_ids=token_ids,
            max_output_tokens=8,
            isolation_key=tenant,
        )


class Follower:
    """What somebody knows who asks now and then."""

    def __init__(self, told: CachedPrefixes) -> None:
        self._told = told
        self._cursor: str | None = None
        self.blocks: set[bytes] = set()

    def ask(self) -> PrefixReport:
        report = self._told.report(self._cursor)
        assert report is not None
        if report.is_whole:
            self.blocks.clear()
        removed, stored = split(report.removed), split(report.stored)
        assert removed <= self.blocks
        assert not stored & self.blocks
        self.blocks = (self.blocks - removed) | stored
        self._cursor = report.cursor
        return report


def split(hashes: bytes) -> set[bytes]:
    return {hashes[at : at + DIGEST_BYTES] for at in range(0, len(hashes), DIGEST_BYTES)}


# Prompts that share beginnings of many lengths: each part is 24 tokens of one kind.
PROMPTS = st.lists(st.integers(1, 2), min_size=1, max_size=9).map(
    lambda parts: tuple(part for part in parts for _ in range(24))
)
TENANTS = st.sampled_from(["acme", "other"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("compute"), PROMPTS, TENANTS, st.integers(1, 4)),
        st.tuples(st.just("compute"), PROMPTS, TENANTS, st.integers(2, 4), st.integers(0, 1)),
        st.tuples(st.just("go_on"), st.integers(0, 99)),
        st.tuples(st.just("release"), st.integers(0, 99)),
        st.tuples(st.just("ask")),
    ),
    max_size=25,
)


@settings(deadline=None)
@given(st.sampled_from([4, 16, 32, 64, 48]), STEPS, st.lists(st.tuples(PROMPTS, TENANTS)))
def test_what_is_told_is_what_a_prompt_would_find(
    block_size: int, steps: list[tuple[Any, ...]], asked: list[tuple[tuple[int, ...], str]]
) -> None:
    engine = Engine(block_size)
    follower = Follower(engine.told)
    seen = list(asked)
    for name, *arguments in steps:
        if name == "compute":
            engine.compute(*arguments)
            seen.append((arguments[0], arguments[1]))
        elif name == "release":
            engine.release(*arguments)
        elif name == "go_on":
            engine.go_on(*arguments)
        else:
            follower.ask()
        engine.told.check_integrity()
    follower.ask()

    assert len(follower.blocks) == engine.told.num_blocks
    for token_ids, tenant in seen:
        known = [block in follower.blocks for block in hash_blocks(token_ids, tenant)]
        num_known = known.index(False) if False in known else len(known)
        num_found = engine.num_found(token_ids, tenant)
        # An engine finds whole blocks of its own: of its last one a prompt may have a part.
        assert num_found <= num_known < num_found + max(1, block_size / BLOCK_TOKENS)
        assert not any(known[num_known:]), "what cannot be reached is not told"


def test_what_is_computed_behind_blocks_that_went_meanwhile_is_found_by_nobody() -> None:
    engine = Engine(16)
    prompt = (1,) * 320
    engine.compute(prompt, "acme", 1, num_now=0)  # its blocks will be a copy of its own
    engine.compute(prompt, "acme", 1)
    engine.go_on(0, 160)  # what it has computed by now is found at the other one
    engine.release(1)
    engine.compute((2,) * 320, "acme", 1)  # takes the room of the other one
    engine.go_on(0)
    engine.told.check_integrity()
    assert engine.num_found(prompt, "acme") == 0
    assert engine.told.num_blocks == 320 // BLOCK_TOKENS


def test_who_is_too_far_behind_or_knew_another_process_is_told_everything(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cached_prefixes, "_MAX_LOGGED", 4)
    engine = Engine(32)
    follower = Follower(engine.told)
    engine.compute((1,) * 64, "acme", 1)
    assert follower.ask().is_whole
    engine.compute((2,) * 64, "acme", 1)
    assert not follower.ask().is_whole
    engine.compute((3,) * 320, "acme", 1)
    assert follower.ask().is_whole
    assert len(follower.blocks) == 14

    another = Engine(32).told.report(follower._cursor)
    assert another is not None
    assert another.is_whole


def test_a_cache_too_large_to_tell_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cached_prefixes, "_MAX_TOLD", 3)
    engine = Engine(32)
    engine.compute((1,) * 96, "acme", 1)
    assert engine.told.report(None) is not None
    engine.compute((2,) * 32, "acme", 1)
    assert engine.told.report(None) is None


def test_nothing_is_kept_of_runs_that_are_over() -> None:
    engine = Engine(16)
    for number in range(200):
        engine.compute((1,) * 64 + (2 + number,) * 64, "acme", 1)
        engine.release(0)
        engine.told.check_integrity()
    assert engine.told.num_runs <= NUM_BLOCKS // 16
