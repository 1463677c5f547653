"""A reservoir is fair whenever a record came and however the stream was cut."""

from collections import Counter
from random import Random

from controlplane.store.reservoir import RecordKey, Reservoir


def test_everything_is_kept_while_there_is_room() -> None:
    reservoir = Reservoir(size=3)
    keys = [RecordKey("g", number) for number in range(3)]
    assert [reservoir.offer(key, Random(1)) for key in keys] == [None, None, None]
    assert reservoir.kept == keys


def test_it_never_holds_more_than_its_size() -> None:
    reservoir, random = Reservoir(size=5), Random(1)
    for number in range(1000):
        reservoir.offer(RecordKey("g", number), random)
    assert len(reservoir.kept) == len(set(reservoir.kept)) == 5
    assert reservoir.num_offered == 1000


def test_early_and_late_records_are_kept_equally_often() -> None:
    random, kept = Random(7), Counter[int]()
    for _ in range(4000):
        reservoir = Reservoir(size=4)
        for number in range(20):
            reservoir.offer(RecordKey("g", number), random)
        kept.update(key.gateway_sequence for key in reservoir.kept)
    # 4000 rounds keep each of 20 with probability 1/5; six standard deviations are 152.
    assert all(648 < kept[number] < 952 for number in range(20))
