"""Sequences whose output is known before, for replicas that are simulated."""

from collections.abc import Iterable
from collections.abc import Sequence as TokenIds

from dataplane.scheduling.sequence import Sequence
from dataplane.simulation.replica import SimulatedReplica


def scripted(number: int, prompt: TokenIds[int], num_output: int) -> Sequence:
    """The sequence r`number`, which selects `num_output` tokens."""
    return Sequence(
        request_id=f"r{number}",
        sequence_id=number,
        prompt_token_ids=prompt,
        max_output_tokens=num_output,
        script=range(num_output),
    )


def submit_all(replica: SimulatedReplica, lengths: Iterable[tuple[int, int]]) -> None:
    """Sequences of (prompt, output) tokens, all there at once; none may be refused."""
    for number, (num_prompt, num_output) in enumerate(lengths):
        assert replica.submit(scripted(number, range(num_prompt), num_output)) is None
