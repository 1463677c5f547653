"""Records of simulated requests: as a gateway would have written them, of all or of a sample.

A sample is drawn when a request arrives, by reservoir: of every set of arrivals so far each is
as likely in it as any other. Only those are traced event by event.
"""

import hashlib
from collections.abc import Callable, Iterable
from typing import Protocol

from dataplane.contract_terms import ContractTerms
from dataplane.latency import Latencies
from dataplane.lifecycle import Event, EventKind, Observability
from dataplane.record import RequestRecord, TraceContext
from dataplane.recording import RequestEnd, end_record
from dataplane.simulation.fleet_request import FleetRequest
from dataplane.simulation.fleet_scenario import ENGINE, FleetScenario
from dataplane.simulation.random_streams import random_stream
from dataplane.simulation.request_trace import RequestTrace

CHAT = "/v1/chat/completions"
_NUM_OWN_DIGITS = 12
"""Of an id, at its beginning: as likely to be another's as those of a real one."""


class RecordKeeper(Protocol):
    """Which requests are recorded, and where their records go."""

    def wants(self, number: int) -> bool:
        """Whether the request that arrives now, `number` from 0, is to be traced."""
        ...

    def keep(self, number: int, record: RequestRecord) -> None:
        """It has ended."""
        ...


class NoRecords:
    """Nobody is traced."""

    def wants(self, number: int) -> bool:
        """Nobody."""
        return False

    def keep(self, number: int, record: RequestRecord) -> None:
        """Of a request that was traced for another reason."""


class AllRecords:
    """Everybody is, and `taken` holds what ended until somebody takes it."""

    def __init__(self) -> None:
        self.taken: list[RequestRecord] = []

    def wants(self, number: int) -> bool:
        """Everybody."""
        return True

    def keep(self, number: int, record: RequestRecord) -> None:
        """In the order in which they end."""
        self.taken.append(record)

    def take(self) -> list[RequestRecord]:
        """What ended since the last call."""
        taken, self.taken = self.taken, []
        return taken


class StreamedRecords:
    """Everybody is, and each record is handed on when its request ends: memory stays bounded."""

    def __init__(self, take: Callable[[RequestRecord], object]) -> None:
        self._take = take

    def wants(self, number: int) -> bool:
        """Everybody."""
        return True

    def keep(self, number: int, record: RequestRecord) -> None:
        """In the order in which they end."""
        self._take(record)


class SampledRecords:
    """`size` of all, each as likely as any other."""

    def __init__(self, size: int, seed: int) -> None:
        self._size = size
        self._stream = random_stream(seed, "records")
        self._numbers: list[int] = []
        self._chosen: set[int] = set()
        self._records: dict[int, RequestRecord] = {}

    def wants(self, number: int) -> bool:
        """Algorithm R; who is replaced is forgotten, ended or not."""
        if len(self._numbers) < self._size:
            self._numbers.append(number)
        else:
            at = int(self._stream.random() * (number + 1))
            if at >= self._size:
                return False
            replaced, self._numbers[at] = self._numbers[at], number
            self._chosen.discard(replaced)
            self._records.pop(replaced, None)
        self._chosen.add(number)
        return True

    def keep(self, number: int, record: RequestRecord) -> None:
        """Unless it was replaced meanwhile."""
        if number in self._chosen:
            self._records[number] = record

    def records(self) -> Iterable[RequestRecord]:
        """In order of arrival."""
        return [record for _, record in sorted(self._records.items())]


class RecordWriter:
    """Makes the records of one scenario. The same content, seed and start give the same ids."""

    def __init__(self, scenario: FleetScenario) -> None:
        self._scenario = scenario
        run = (scenario.name, scenario.seed, scenario.starts_at_unix_ns, scenario.content)
        self.run_id = hashlib.sha256("/".join(map(str, run)).encode()).hexdigest()[:12]

    def gateway_id(self, number: int) -> str:
        """Never that of a real one, and another for each run that differs from others."""
        return f"simulated-{self.run_id}-{number}"

    def begin(self, request: FleetRequest) -> RequestTrace:
        """Trace a request that arrives."""
        arrived_at_unix_ns = self._scenario.starts_at_unix_ns + round(request.arrived_at * 1e9)
        return RequestTrace(
            self._request_id(request.number), request.arrived_at, arrived_at_unix_ns
        )

    def _request_id(self, number: int) -> str:
        """Its beginning tells it from all others: lists show no more of it, and people type it."""
        own = f"{self.run_id}-{number}"
        return f"{hashlib.sha256(own.encode()).hexdigest()[:_NUM_OWN_DIGITS]}-{own}"

    def end(
        self, request: FleetRequest, trace: RequestTrace, terms: ContractTerms | None
    ) -> RequestRecord:
        """The record of a traced request that has ended."""
        last = request.last_write_at
        assert last is not None
        return end_record(
            self._begun(request, trace),
            trace.lifecycle,
            RequestEnd(
                status_code=request.status,
                num_cached_tokens=(
                    None if request.scheduled_at is None else request.num_cached_tokens
                ),
                num_output_tokens=request.num_output_tokens,
                terms=terms,
                elapsed=last - request.arrived_at,
                cleanup_observability=Observability.OBSERVED,
                decision=trace.decision,
                routing=tuple(trace.routing),
            ),
        )

    def _begun(self, request: FleetRequest, trace: RequestTrace) -> RequestRecord:
        """What was known of it before it ended; the rest is replaced."""
        lifecycle, deployment = trace.lifecycle, request.gateway.deployment
        of_class = request.request_class
        digest = hashlib.sha256(lifecycle.request_id.encode()).hexdigest()
        assert lifecycle.disposition is not None
        assert lifecycle.delivery is not None
        return RequestRecord(
            request_id=lifecycle.request_id,
            gateway_id=request.gateway.gateway_id,
            gateway_sequence=request.gateway_sequence,
            arrived_at_unix_ns=lifecycle.arrived_at_unix_ns,
            endpoint=CHAT,
            tenant=request.call.caller.tenant,
            request_class=None if of_class is None else of_class.name,
            deployment=deployment.name,
            model=deployment.model_name,
            model_revision=deployment.model_revision,
            engine_config_revision=deployment.engine_config_revision,
            contract_revision=deployment.contract.revision if deployment.contract else None,
            policy_revision=deployment.policy.revision,
            snapshot_version=1,
            trace=TraceContext(trace_id=digest[:32], span_id=digest[32:48]),
            is_stream=request.call.caller.is_stream,
            status_code=request.status,
            disposition=lifecycle.disposition,
            reason=None,
            delivery=lifecycle.delivery,
            num_prompt_tokens=len(request.call.prompt),
            prompt_tokens_observability=Observability.OBSERVED,
            num_cached_tokens=None,
            num_output_tokens=None,
            max_output_tokens=request.max_output_tokens or None,
            engine=ENGINE if request.num_attempts else None,
            replica_ids=request.replica_ids,
            cleanup_observability=Observability.OBSERVED,
            events=(Event(kind=EventKind.ARRIVED, at=0.0),),
            client=None,
            latencies=Latencies(),
            judgement=None,
        )
