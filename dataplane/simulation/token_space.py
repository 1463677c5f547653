"""All token ids of one simulation, and the calls that are made of them."""

from collections.abc import Sequence

from dataplane.simulation.call import Call, Caller
from dataplane.simulation.joined_tokens import (
    JoinedTokens,
    OwnTokens,
    PrefixTokens,
    joined,
    parts_of,
)


class TokenSpace:
    """Makes calls. `is_told_apart` False: nobody compares prompts, and each is only as long as it
    is, which is cheaper."""

    def __init__(self, is_told_apart: bool = True) -> None:
        self.is_told_apart = is_told_apart
        self.prefixes = PrefixTokens()
        self._own = OwnTokens()

    def make_call(
        self,
        caller: Caller,
        prefix: tuple[range, ...],
        num_prompt_tokens: int,
        num_output_tokens: int,
        max_tokens: int | None,
        further_outputs: Sequence[int] = (),
    ) -> Call:
        """A call whose prompt begins with `prefix`, cut off where the prompt ends.
        `further_outputs` are the lengths of its answers behind the first."""
        if not self.is_told_apart:
            return Call(
                caller,
                range(num_prompt_tokens),
                range(num_output_tokens),
                max_tokens,
                further_answers=tuple(map(range, further_outputs)),
            )
        num_own = max(0, num_prompt_tokens - sum(map(len, prefix)))
        own = self._own.take(num_own + num_output_tokens)
        prompt: range | JoinedTokens = own[:num_own]
        if prefix:
            prompt = joined((*prefix, own[:num_own]), num_prompt_tokens)
        further = tuple(map(self._own.take, further_outputs)) if further_outputs else ()
        return Call(caller, prompt, own[num_own:], max_tokens, further_answers=further)

    def said_in(self, call: Call, most: int | None = None) -> tuple[range, ...]:
        """A prompt and its whole first answer; cut off behind `most` tokens."""
        assert isinstance(call.prompt, range | JoinedTokens)
        said = (*parts_of(call.prompt), call.answer[: call.max_tokens])
        return said if most is None else parts_of(joined(said, most))

    def make_next_call(
        self,
        before: Call,
        num_added: int,
        num_output_tokens: int,
        max_tokens: int | None,
        further_outputs: Sequence[int] = (),
    ) -> Call:
        """The turn after `before`: its prompt is that one's, its whole first answer, and more."""
        said = self.said_in(before)
        return self.make_call(
            before.caller,
            said,
            sum(map(len, said)) + num_added,
            num_output_tokens,
            max_tokens,
            further_outputs,
        )
