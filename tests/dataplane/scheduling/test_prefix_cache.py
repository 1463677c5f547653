import pytest

from dataplane.scheduling.block_pool import BlockPool
from dataplane.scheduling.prefix_cache import NO_MATCH, BlockIdentity, PrefixCache
from dataplane.scheduling.sequence import Sequence

BLOCK_SIZE = 4


class Cached:
    """A cache over its own pool, and sequences computed into it."""

    def __init__(self, num_blocks: int = 16) -> None:
        self.pool = BlockPool(num_blocks, BLOCK_SIZE)
        self.cache = PrefixCache(self.pool)
        self._next_id = 0

    def sequence(self, token_ids: tuple[int, ...], isolation_key: str = "") -> Sequence:
        self._next_id += 1
        return Sequence(
            request_id=f"r{self._next_id}",
            sequence_id=self._next_id,
            prompt_token_ids=token_ids,
            max_output_tokens=8,
            isolation_key=isolation_key,
        )

    def compute(self, token_ids: tuple[int, ...], isolation_key: str = "") -> Sequence:
        """A sequence whose KV is all there, each block its own."""
        sequence = self.sequence(token_ids, isolation_key)
        block_ids = self.pool.allocate(self.pool.num_blocks_for(len(token_ids)))
        assert block_ids is not None
        sequence.block_table = block_ids
        sequence.num_computed_tokens = len(token_ids)
        self.cache.register(sequence)
        self.cache.check_integrity()
        return sequence

    def find(self, token_ids: tuple[int, ...], isolation_key: str = "") -> tuple[int, ...]:
        """The block ids that a new sequence with these tokens would reuse."""
        return self.cache.match(self.sequence(token_ids, isolation_key)).block_ids


@pytest.fixture(params=["spread", "colliding"])
def cached(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Cached:
    """Every test holds twice: also when all identities have the same hash."""
    if request.param == "colliding":
        monkeypatch.setattr(BlockIdentity, "__hash__", lambda _: 7)
        assert hash(BlockIdentity(None, "", (1,))) == hash(BlockIdentity(None, "b", (2,)))
    return Cached()


def test_full_blocks_are_reused_and_a_partial_one_is_not(cached: Cached) -> None:
    first = cached.compute(tuple(range(10)))
    assert cached.find((*range(10), 99)) == tuple(first.block_table[:2])


def test_the_last_token_is_always_recomputed(cached: Cached) -> None:
    first = cached.compute(tuple(range(8)))
    assert cached.find(tuple(range(8))) == tuple(first.block_table[:1])
    assert cached.find(tuple(range(9))) == tuple(first.block_table[:2])


def test_a_match_counts_its_tokens_and_knows_where_it_ends(cached: Cached) -> None:
    first = cached.compute(tuple(range(8)))
    match = cached.cache.match(cached.sequence(tuple(range(12))))
    assert (match.num_tokens, match.node) == (8, first.cache_node)
    assert cached.cache.match(cached.sequence((5, 6, 7, 8, 9))) == NO_MATCH


def test_a_prefix_ends_at_the_first_different_block(cached: Cached) -> None:
    first = cached.compute((1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12))
    assert cached.find((1, 2, 3, 4, 5, 6, 7, 0, 9, 10, 11, 12, 13)) == (first.block_table[0],)


def test_the_same_tokens_after_another_beginning_are_not_the_same(cached: Cached) -> None:
    cached.compute((1, 1, 1, 1, 5, 5, 5, 5))
    second = cached.compute((2, 2, 2, 2, 5, 5, 5, 5))
    assert cached.find((2, 2, 2, 2, 5, 5, 5, 5, 0)) == tuple(second.block_table)
    assert cached.find((5, 5, 5, 5, 0)) == ()


def test_tenants_never_share_blocks(cached: Cached) -> None:
    of_a = cached.compute(tuple(range(8)), isolation_key="a")
    assert cached.find(tuple(range(9)), isolation_key="b") == ()
    of_b = cached.compute(tuple(range(8)), isolation_key="b")
    assert cached.find(tuple(range(9)), isolation_key="a") == tuple(of_a.block_table)
    assert cached.find(tuple(range(9)), isolation_key="b") == tuple(of_b.block_table)


def test_the_first_copy_of_a_block_stays_the_one_that_is_found(cached: Cached) -> None:
    first = cached.compute(tuple(range(8)))
    twin = cached.compute(tuple(range(8)))
    assert cached.find(tuple(range(9))) == tuple(first.block_table)
    assert twin.cache_node == first.cache_node
    assert cached.pool.num_cached == 2


def test_what_follows_a_copy_is_found_behind_the_first(cached: Cached) -> None:
    first = cached.compute(tuple(range(4)))
    longer = cached.compute(tuple(range(8)))
    assert cached.find(tuple(range(9))) == (first.block_table[0], longer.block_table[1])


def test_output_is_reused_like_a_prompt(cached: Cached) -> None:
    sequence = cached.compute((1, 2, 3))
    sequence.output_token_ids += [4, 5]
    sequence.num_computed_tokens = 4
    cached.cache.register(sequence)
    assert cached.find((1, 2, 3, 4, 5)) == (sequence.block_table[0],)


def test_only_computed_tokens_are_registered(cached: Cached) -> None:
    sequence = cached.compute((1, 2, 3))
    sequence.output_token_ids.append(4)  # selected, and without KV
    cached.cache.register(sequence)
    assert cached.find((1, 2, 3, 4, 5)) == ()


def test_evicted_blocks_are_not_found_and_beginnings_live_longest(cached: Cached) -> None:
    first = cached.compute(tuple(range(16)))
    cached.pool.release(first.block_table)
    cached.pool.allocate(13)  # 12 blank, then one evicted: the tail
    assert cached.find(tuple(range(17))) == tuple(first.block_table[:3])
    cached.cache.check_integrity()
    cached.pool.allocate(3)
    assert cached.find(tuple(range(17))) == ()
    cached.cache.check_integrity()


def test_a_block_is_not_found_below_a_stranger_that_took_its_parents_block(
    cached: Cached,
) -> None:
    parent = cached.compute((1, 1, 1, 1))
    child = cached.compute((1, 1, 1, 1, 5, 5, 5, 5))  # its own copy of the first block
    cached.pool.release(parent.block_table)
    cached.pool.allocate(13)
    evicting = cached.pool.allocate(1)
    assert evicting == parent.block_table  # the findable first block is gone
    cached.pool.release(evicting)
    stranger = cached.compute((2, 2, 2, 2))
    assert stranger.block_table == evicting
    assert cached.find((2, 2, 2, 2, 5, 5, 5, 5, 0)) == (stranger.block_table[0],)
    assert cached.find((1, 1, 1, 1, 5, 5, 5, 5, 0)) == ()
    cached.pool.release(child.block_table)
    cached.cache.check_integrity()


def test_a_block_that_pool_and_trie_disagree_on_is_reported(cached: Cached) -> None:
    cached.pool.mark_cached(cached.compute((1, 2)).block_table[:1])
    with pytest.raises(AssertionError, match=r"finds 0 blocks.*holds 1"):
        cached.cache.check_integrity()


def test_prefixes_that_part_in_the_middle_of_anothers_blocks_are_each_found(
    cached: Cached,
) -> None:
    trunk = cached.compute(tuple(range(16)))
    early = cached.compute((*range(4), *range(50, 58)))
    late = cached.compute((*range(12), *range(60, 64)))
    again = cached.compute((*range(12), *range(60, 64), *range(70, 74)))
    assert cached.find((*range(16), 0)) == tuple(trunk.block_table)
    assert cached.find((*range(4), *range(50, 58), 0)) == (
        trunk.block_table[0],
        *early.block_table[1:],
    )
    assert cached.find((*range(12), *range(60, 64), 0)) == (
        *trunk.block_table[:3],
        late.block_table[3],
    )
    assert cached.find((*range(12), *range(60, 64), *range(70, 74), 0)) == (
        *trunk.block_table[:3],
        late.block_table[3],
        again.block_table[4],
    )


def test_a_sequence_goes_on_where_others_went_on_before_it(cached: Cached) -> None:
    first = cached.compute(tuple(range(4)))
    other = cached.compute(tuple(range(12)))
    first.output_token_ids += [4, 5, 6, 7, 20, 21, 22, 23]
    first.block_table += cached.pool.allocate(2) or []
    first.num_computed_tokens = 12
    cached.cache.register(first)
    cached.cache.check_integrity()
    assert cached.find((*range(8), 20, 21, 22, 23, 0)) == (
        first.block_table[0],
        other.block_table[1],
        first.block_table[2],
    )
    assert cached.pool.num_cached == 4


def test_who_lost_its_tail_and_computes_it_again_is_found_again(cached: Cached) -> None:
    sequence = cached.compute(tuple(range(12)))
    twin = cached.compute(tuple(range(12)))  # its blocks are its own, and not found
    cached.pool.release(sequence.block_table)
    taken = cached.pool.allocate(11)  # ten blank, then the tail
    assert taken is not None
    assert taken[-1] == sequence.block_table[2]
    twin.output_token_ids += [12, 13, 14, 15]
    twin.block_table += taken[:1]
    twin.num_computed_tokens = 16
    cached.cache.register(twin)  # behind what was lost: kept, and out of reach
    cached.cache.check_integrity()
    assert cached.pool.num_cached == 3
    match = cached.cache.match(sequence)
    assert match.block_ids == tuple(sequence.block_table[:2])
    cached.pool.reference(match.block_ids)
    sequence.block_table[2] = taken[1]
    sequence.num_registered_blocks, sequence.cache_node = 2, match.node
    cached.cache.register(sequence)
    cached.cache.check_integrity()
    assert cached.find((*range(16), 0)) == tuple(sequence.block_table)
