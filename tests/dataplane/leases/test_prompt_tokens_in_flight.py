import random

from dataplane.leases.lease import Lease
from dataplane.leases.prompt_tokens_in_flight import PromptShortage, PromptTokensInFlight


def taken(prompts: PromptTokensInFlight, num_tokens: int, limit: int | None) -> Lease:
    lease = prompts.try_take(num_tokens, limit)
    assert isinstance(lease, Lease)
    return lease


def test_prompts_come_in_up_to_the_limit_and_leave_with_their_requests() -> None:
    prompts = PromptTokensInFlight()
    first = taken(prompts, 600, 1000)
    shortage = prompts.try_take(500, 1000)
    assert isinstance(shortage, PromptShortage)
    assert shortage.reason == "600 prompt tokens are in flight, and at most 1000 may be"
    first.release()
    first.release()
    assert prompts.num_tokens == 0
    taken(prompts, 500, 1000)


def test_a_prompt_above_the_limit_comes_in_alone() -> None:
    prompts = PromptTokensInFlight()
    with taken(prompts, 5000, 1000):
        assert isinstance(prompts.try_take(1, 1000), PromptShortage)
    taken(prompts, 1, 1000)


def test_nothing_is_left_of_a_hundred_thousand_prompts_however_they_ended() -> None:
    prompts = PromptTokensInFlight()
    stream = random.Random(6)
    held: list[Lease] = []
    for _ in range(100_000):
        limit = stream.choice((None, 50_000))
        lease = prompts.try_take(stream.randrange(4000), limit)
        if isinstance(lease, Lease):
            held.append(lease)
        while held and stream.random() < 0.5:
            held.pop(stream.randrange(len(held))).release()
    for lease in held:
        lease.release()
    prompts.check_integrity()
    assert prompts.num_tokens == 0
