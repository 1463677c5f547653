"""Where engines behind OpenAI's API differ, as the shared client asks for it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from dataplane.engine import EngineRequest, EngineStats
from dataplane.openai_endpoint.http import EndpointHttp
from dataplane.openai_endpoint.refusal import Refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """What an endpoint answers about itself. None: it does not say."""

    version: str
    max_model_len: int | None = None
    """Prompt plus output tokens of one sequence."""
    max_num_seqs: int | None = None
    parameters: frozenset[str] | None = None
    """Of the body, beyond what every engine takes."""
    shows_cached_tokens: bool | None = None
    """Usage tells how much of a prompt was reused; None: the token that proves it shows."""


class Dialect(Protocol):
    """One engine's ways, for one endpoint."""

    @property
    def engine(self) -> str:
        """The plugin's name."""
        ...

    @property
    def keeps_connections(self) -> bool:
        """It can be sent another request where it has streamed an answer. False for servers that
        promise to and then hang up: a request that meets them is lost."""
        ...

    async def learn(self, http: EndpointHttp, model: Mapping[str, Any]) -> Learned:
        """Called at every connect; `model` is the served model's entry in /v1/models. Raises
        EngineUnavailableError for an endpoint that is of another kind, or not there."""
        ...

    async def stats(self, http: EndpointHttp) -> EngineStats:
        """Called every second or so. Raises EngineUnavailableError when it does not answer."""
        ...

    def read_refusal(self, status: int, body: object) -> Refusal:
        """What an error status means, or an error in the middle of a stream."""
        ...

    def more_of(self, request: EngineRequest, taken: frozenset[str]) -> Mapping[str, Any]:
        """What is added to the body; `taken` are the parameters that the endpoint takes."""
        ...

    async def count_prompt(
        self, http: EndpointHttp, model: str, body: Mapping[str, Any]
    ) -> int | None:
        """The prompt's tokens, counted by the engine; None: it cannot. Raises
        EngineUnavailableError."""
        ...


def count_in(value: object) -> int | None:
    """A number above 0 in an answer's JSON; None for all else."""
    is_count = isinstance(value, int) and not isinstance(value, bool) and value > 0
    return value if is_count and isinstance(value, int) else None
