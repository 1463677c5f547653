"""Faults of those who call: retries without a pause, and answers that are read slowly."""

from dataclasses import dataclass, replace

from dataplane.simulation.call import Call, Caller
from dataplane.simulation.clients import ClientBehaviour, Reading, Retries
from dataplane.simulation.faults.calls import CallFault, FreshTokens


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientFault(CallFault):
    """The share `intensity` of calls come from clients that behave otherwise."""

    def change(self, call: Call, name: str, tokens: FreshTokens) -> None:
        """Give the call another client."""
        if self.hits(name):
            call.caller = _with_client(call.caller, self.behave(call.caller.client))

    def behave(self, client: ClientBehaviour) -> ClientBehaviour:
        """How such a client behaves instead."""
        return client


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryStorm(ClientFault):
    """They lose patience, and come again and again without a growing pause."""

    patience: float | None = 10.0
    """Seconds after which they leave when they have seen nothing; None: as before."""
    max_retries: int = 8
    backoff: float = 0.1
    """Seconds between two tries, each time."""

    def behave(self, client: ClientBehaviour) -> ClientBehaviour:
        """Impatient, and with another try at once."""
        retries = Retries(
            max_retries=self.max_retries, backoff=self.backoff, factor=1.0, when_impatient=True
        )
        patience = client.first_token_within if self.patience is None else self.patience
        return replace(client, retries=retries, first_token_within=patience)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowClients(ClientFault):
    """They read so many tokens a second, or nothing more after some."""

    tokens_per_second: float = 4.0
    stops_after: int | None = None
    """Tokens; None: they read on to the end."""
    buffered_tokens: int = 64

    def behave(self, client: ClientBehaviour) -> ClientBehaviour:
        """With a pace of reading."""
        return replace(
            client,
            reading=Reading(
                tokens_per_second=self.tokens_per_second,
                stops_after=self.stops_after,
                buffered_tokens=self.buffered_tokens,
            ),
        )


def _with_client(caller: Caller, client: ClientBehaviour) -> Caller:
    return replace(caller, client=client)
