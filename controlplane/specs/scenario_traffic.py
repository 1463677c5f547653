"""The part of a Scenario that says who calls: when, with how much, and how they behave."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from controlplane.specs.kind import SpecModel
from controlplane.specs.names import Name
from controlplane.specs.quantity import Duration, Rate, Share
from controlplane.specs.tenant import DEFAULT_TENANT

_MOST_TOKENS = 10_000_000
_MOST = 1_000_000_000.0
Tokens = Annotated[int, Field(ge=1, le=_MOST_TOKENS)]
Weight = Annotated[float, Field(ge=0, le=_MOST)]


def _exactly_one(model: SpecModel, names: tuple[str, ...], example: str) -> None:
    given = [name for name in names if getattr(model, name) is not None]
    if len(given) != 1:
        said = " and ".join(given) if given else "none of them"
        raise ValueError(f"takes exactly one of {', '.join(names)}, not {said}; such as {example}")


class LengthSpec(SpecModel):
    """How long something is, in tokens: always the same, around a median, evenly between two
    bounds, or as often as it was seen."""

    constant: Tokens | None = None
    """Always so many."""
    median: Tokens | None = None
    """Log-normal around this; with `sigma`."""
    sigma: float | None = Field(default=None, ge=0, le=5, examples=[0.8])
    """Of the logarithm: 0.8 is a long tail, where 5 % are longer than 3.7 medians."""
    at_least: Tokens | None = None
    """Evenly from this; with `at_most`."""
    at_most: Tokens | None = None
    """Cuts a log-normal length off, or ends an even one."""
    seen: Annotated[tuple[Tokens, ...], Field(min_length=1, max_length=1_000_000)] | None = None
    """Each value as often as it stands here."""

    @model_validator(mode="after")
    def _says_one_thing(self) -> Self:
        names = ("constant", "median", "at_least", "seen")
        _exactly_one(self, names, "{median: 300, sigma: 0.8}")
        if (self.median is None) != (self.sigma is None):
            raise ValueError("median and sigma belong together, such as {median: 300, sigma: 0.8}")
        if self.at_least is not None and self.at_most is None:
            raise ValueError("at_least needs at_most, such as {at_least: 10, at_most: 90}")
        if self.at_least is not None and self.at_most is not None and self.at_least > self.at_most:
            raise ValueError(f"at_least {self.at_least} is more than at_most {self.at_most}")
        if self.at_most is not None and self.at_least is None and self.median is None:
            raise ValueError("at_most belongs to median or at_least")
        return self


class WaitSpec(SpecModel):
    """How long something takes: always the same, without memory, or around a median."""

    constant: Duration | None = None
    """Always so long."""
    mean: Duration | None = None
    """Exponential."""
    median: Duration | None = None
    """Log-normal around this; with `sigma`."""
    sigma: float | None = Field(default=None, ge=0, le=5, examples=[0.8])
    """Of the logarithm."""

    @model_validator(mode="after")
    def _says_one_thing(self) -> Self:
        _exactly_one(self, ("constant", "mean", "median"), "{mean: 2s}")
        if (self.median is None) != (self.sigma is None):
            raise ValueError("median and sigma belong together, such as {median: 2s, sigma: 1.0}")
        return self


class BurstsSpec(SpecModel):
    """Requests that come in clusters."""

    rate: Rate
    """Clusters, which come independently."""
    mean_size: float = Field(ge=1, le=1_000_000, examples=[20.0])
    """Requests of a cluster."""
    within: Duration
    """How long a cluster takes to arrive."""


class PrefixesSpec(SpecModel):
    """Beginnings that prompts have in common, such as system prompts."""

    count: int = Field(ge=1, le=1_000_000, examples=[20])
    """How many there are."""
    length: LengthSpec
    """Of each of them, for good."""
    share: Share = 1.0
    """Of the requests that begin with one."""
    skew: float = Field(default=0.0, ge=0, le=10)
    """0: all are equally likely; 1: the second is half as likely as the first, as words are."""


class TurnsSpec(SpecModel):
    """Conversations: each turn begins with all that was said before."""

    count: LengthSpec
    """Turns of a conversation, the first included."""
    wait: WaitSpec
    """From an answer until the next turn arrives: what its tools, or its person, take."""
    added: LengthSpec
    """Tokens that the next turn adds to what was said."""


class ReplaySpec(SpecModel):
    """Recorded traffic, again."""

    file: str = Field(min_length=1, max_length=4096, examples=["yesterday.jsonl"])
    """Records as JSON lines, or entries with at, prompt_tokens and output_tokens. Found from the
    folder of the scenario."""
    speed: float = Field(default=1.0, gt=0, le=1_000_000)
    """2: it arrives twice as fast."""
    class_header: str | None = Field(
        default=None, pattern=r"^[a-z0-9-]{1,100}$", examples=["x-class"]
    )
    """The header that tells the policy which class a request was recorded with."""
    prefix_block: Tokens = 512
    """Tokens that each of an entry's prefix_hashes stands for."""


class ArrivalsSpec(SpecModel):
    """One kind of traffic. Exactly one of poisson, bursts, every and replay says when."""

    name: Name
    """Names its random numbers: a kind that is added changes no other."""
    poisson: Rate | None = None
    """Requests come independently, so many a second."""
    bursts: BurstsSpec | None = None
    """Requests come in clusters."""
    every: Duration | None = None
    """One comes every so often."""
    replay: ReplaySpec | None = None
    """Requests come as they were recorded."""
    start: Duration | None = None
    """When the first may come; None: at once."""
    stop: Duration | None = None
    """When no more come; None: with the end of the scenario."""
    prompt: LengthSpec | None = None
    """Of a prompt, a shared beginning included."""
    output: LengthSpec | None = None
    """Of what the model would answer without a limit."""
    max_tokens: LengthSpec | None = None
    """The limit that callers name; None: they name none."""
    num_sequences: LengthSpec | None = None
    """Answers that a call asks for (`n`), each as long as `output` says; None: one."""
    prefixes: PrefixesSpec | None = None
    """Beginnings that prompts have in common."""
    turns: TurnsSpec | None = None
    """Conversations."""
    tenants: dict[Name, Weight] = Field(default_factory=lambda: {DEFAULT_TENANT: 1.0})
    """Who calls, by weight."""
    clients: dict[Name, Weight] = Field(default_factory=dict)
    """How callers behave, by weight; empty: they wait, and read as fast as it is written."""
    headers: dict[Annotated[str, Field(pattern=r"^[a-z0-9-]{1,100}$")], str] = Field(
        default_factory=dict, examples=[{"x-class": "batch"}]
    )
    """What a policy's `match` may read."""
    stream: bool = True
    """Whether answers are sent as they come."""

    @model_validator(mode="after")
    def _comes_in_one_way(self) -> Self:
        _exactly_one(self, ("poisson", "bursts", "every", "replay"), "poisson: 5/s")
        own = {"prompt": self.prompt, "output": self.output}
        if self.replay is None:
            missing = [name for name, value in own.items() if value is None]
            if missing:
                raise ValueError(
                    f"needs {' and '.join(missing)}, such as {missing[0]}: {{constant: 100}}"
                )
        else:
            given = [name for name, value in own.items() if value is not None]
            given += ["turns"] if self.turns else []
            given += ["prefixes"] if self.prefixes else []
            given += ["num_sequences"] if self.num_sequences else []
            if given:
                raise ValueError(f"a replay says {', '.join(given)} itself; leave that out")
            if len(self.clients) > 1:
                raise ValueError("a replay takes one kind of client; name one")
        if self.start is not None and self.stop is not None and self.start >= self.stop:
            raise ValueError("it stops before it starts")
        for name, weights in (("tenants", self.tenants), ("clients", self.clients)):
            if weights and not any(weights.values()):
                raise ValueError(f"{name}: none has a weight above 0")
        return self


class ReadingSpec(SpecModel):
    """A client that takes its answer slowly."""

    tokens_per_second: float = Field(gt=0, le=_MOST, examples=[10.0])
    """How fast it reads."""
    stops_after: Tokens | None = None
    """Tokens after which it reads nothing more and stays connected; None: it reads all."""
    buffered_tokens: int = Field(default=64, ge=0, le=_MOST_TOKENS)
    """What its connection holds unread: about 64 in a send buffer of 16 KiB."""


class RetriesSpec(SpecModel):
    """Coming again after a refusal or a failure."""

    most: int = Field(ge=1, le=1000, examples=[3])
    """How often, for one call."""
    backoff: Duration | None = None
    """Before the first one; None: at once."""
    factor: float = Field(default=2.0, ge=1, le=100)
    """How much longer each further pause is."""
    jitter: Share = 0.0
    """Share of a pause that is drawn around it."""
    longest: Duration = 60.0
    """No pause is longer."""
    heeds_retry_after: bool = False
    """Waits at least as long as the answer asks for."""
    when_impatient: bool = False
    """Also after it left because it took too long."""


class ClientSpec(SpecModel):
    """One kind of client."""

    first_token_within: Duration | None = None
    """It leaves when it has seen nothing by then; None: it waits."""
    answer_within: Duration | None = None
    """It leaves by then, whatever it has seen; None: it waits."""
    reading: ReadingSpec | None = None
    """None: it reads as fast as it is written."""
    retries: RetriesSpec | None = None
    """None: it comes once."""
