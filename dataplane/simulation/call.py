"""What a client sends: one call, which may be sent again and may be followed by another."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from dataplane.simulation.clients import ClientBehaviour


class Conversation(Protocol):
    """What comes of an answer."""

    def next_turns(self) -> "Sequence[tuple[float, Call]]":
        """The calls that follow it, each with the seconds that its tools, or its person, take
        before. Empty: it is over."""
        ...

    def like(self, call: "Call", name: str) -> "Conversation":
        """One of the same kind behind another call, with as many turns to come as this one has,
        each built on what was said in it. It draws by `name`, and changes nothing of this one."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """What the calls of one kind have in common."""

    tenant: str
    client: ClientBehaviour
    headers: Mapping[str, str]
    """Names in lower case."""
    is_stream: bool = True


class Call:
    """One call. The same object when it is tried again."""

    __slots__ = (
        "answer",
        "caller",
        "conversation",
        "further_answers",
        "max_tokens",
        "num_sequences",
        "prompt",
    )

    def __init__(
        self,
        caller: Caller,
        prompt: Sequence[int],
        answer: range,
        max_tokens: int | None,
        conversation: Conversation | None = None,
        further_answers: tuple[range, ...] = (),
    ) -> None:
        """`answer` is what the model would say without a limit, and so are `further_answers` of a
        call that asks for several; `max_tokens` None: the caller names no limit."""
        self.caller = caller
        self.prompt = prompt
        self.answer = answer
        self.max_tokens = max_tokens
        self.conversation = conversation
        self.further_answers = further_answers
        self.num_sequences = 1 + len(further_answers) if further_answers else 1

    @property
    def num_tokens_of_longest(self) -> int:
        """Of its answers, without a limit."""
        return max(map(len, (self.answer, *self.further_answers)))

    def put_longer_first(self) -> None:
        """Have the first answer be one of more than a token, where there is one. Answers are drawn
        alike, so that nobody minds which of them is which."""
        if len(self.answer) > 1:
            return
        for number, other in enumerate(self.further_answers):
            if len(other) > 1:
                further = list(self.further_answers)
                self.answer, further[number] = other, self.answer
                self.further_answers = tuple(further)
                return


class CallSource(Protocol):
    """Where calls come from."""

    def next_call(self) -> tuple[float, Call] | None:
        """The next one and when it arrives, in order of time; None: no more."""
        ...
