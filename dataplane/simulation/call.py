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


class CallSource(Protocol):
    """Where calls come from."""

    def next_call(self) -> tuple[float, Call] | None:
        """The next one and when it arrives, in order of time; None: no more."""
        ...
