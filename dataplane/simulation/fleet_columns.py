"""A row for each simulated request: a number in each of a few arrays, as they ended."""

import hashlib
from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np

from dataplane.lifecycle import Delivery, Disposition
from dataplane.simulation.fleet_request import FleetRequest

NO_CLASS = "(none)"
"""Requests that no class took."""

_NUMBER_BY_DISPOSITION = {disposition: number for number, disposition in enumerate(Disposition)}
_NUMBER_BY_DELIVERY = {delivery: number for number, delivery in enumerate(Delivery)}


class Columns:
    """A row for each request, as arrays of the same length."""

    def __init__(self) -> None:
        self.number = array("q")
        self.arrived_at = array("d")
        self.queue_time = array("d")
        self.ttft = array("d")
        self.tpot = array("d")
        self.e2e = array("d")
        self.num_prompt_tokens = array("l")
        self.num_cached_tokens = array("l")
        self.num_output_tokens = array("l")
        self.disposition = array("B")
        """Position in `Disposition`; so for the next."""
        self.delivery = array("B")
        self.request_class = array("H")
        """Position in `class_names`; so for the next two."""
        self.tenant = array("I")
        self.replica = array("H")
        self.in_contract = array("b")
        """1, 0, or -1 where nothing applies."""
        self.class_names: dict[str, int] = {}
        self.tenant_names: dict[str, int] = {}
        self.replica_names: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self.number)

    def add(self, request: FleetRequest, latencies: "Sequence[float]", verdict: int) -> None:
        """One row. `latencies` the queue time, TTFT, TPOT and E2E, NaN where there is none."""
        self.number.append(request.number)
        self.arrived_at.append(request.arrived_at)
        self.queue_time.append(latencies[0])
        self.ttft.append(latencies[1])
        self.tpot.append(latencies[2])
        self.e2e.append(latencies[3])
        self.num_prompt_tokens.append(len(request.call.prompt))
        self.num_cached_tokens.append(request.num_cached_tokens)
        self.num_output_tokens.append(request.num_output_tokens)
        assert request.disposition is not None
        assert request.delivery is not None
        self.disposition.append(_NUMBER_BY_DISPOSITION[request.disposition])
        self.delivery.append(_NUMBER_BY_DELIVERY[request.delivery])
        of_class = request.request_class
        replica = request.replica
        names = self.class_names
        name = NO_CLASS if of_class is None else of_class.name
        self.request_class.append(names.setdefault(name, len(names)))
        names = self.tenant_names
        self.tenant.append(names.setdefault(request.call.caller.tenant, len(names)))
        names = self.replica_names
        name = "" if replica is None else replica.replica_id
        self.replica.append(names.setdefault(name, len(names)))
        self.in_contract.append(verdict)

    def rows_of_class(self, name: str) -> "np.ndarray[Any, Any]":
        """Which rows are of a class, as a mask."""
        numbers = np.frombuffer(self.request_class, dtype=np.uint16)
        mask: np.ndarray[Any, Any] = numbers == self.class_names.get(name, -1)
        return mask

    def checksum(self) -> str:
        """SHA-256 of all of it: the same for the same scenario and seed."""
        digest = hashlib.sha256()
        for name, value in vars(self).items():
            digest.update(name.encode())
            digest.update(
                value.tobytes() if isinstance(value, array) else repr(list(value)).encode()
            )
        return digest.hexdigest()
