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


_MOST_ADDED = 4096


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
        self._added: list[tuple[float, ...]] = []
        """Not in the arrays yet: many at once are put there for less."""
        self._arrays: tuple[array[Any], ...] = tuple(
            value for value in vars(self).values() if isinstance(value, array)
        )

    def __len__(self) -> int:
        return len(self.number) + len(self._added)

    def add(self, request: FleetRequest, latencies: "Sequence[float]", verdict: int) -> None:
        """One row. `latencies` the queue time, TTFT, TPOT and E2E, NaN where there is none."""
        assert request.disposition is not None
        assert request.delivery is not None
        of_class = request.request_class
        replica = request.replica
        classes, tenants, replicas = self.class_names, self.tenant_names, self.replica_names
        class_name = NO_CLASS if of_class is None else of_class.name
        replica_name = "" if replica is None else replica.replica_id
        self._added.append(
            (
                request.number,
                request.arrived_at,
                *latencies,
                len(request.call.prompt),
                request.num_cached_tokens,
                request.num_output_tokens,
                _NUMBER_BY_DISPOSITION[request.disposition],
                _NUMBER_BY_DELIVERY[request.delivery],
                classes.setdefault(class_name, len(classes)),
                tenants.setdefault(request.call.caller.tenant, len(tenants)),
                replicas.setdefault(replica_name, len(replicas)),
                verdict,
            )
        )
        if len(self._added) >= _MOST_ADDED:
            self.settle()

    def settle(self) -> None:
        """Put the rows that were added into the arrays; who reads them calls it before."""
        added, self._added = self._added, []
        for column, values in zip(self._arrays, zip(*added, strict=True), strict=False):
            column.extend(values)

    def rows_of_class(self, name: str) -> "np.ndarray[Any, Any]":
        """Which rows are of a class, as a mask."""
        numbers = np.frombuffer(self.request_class, dtype=np.uint16)
        mask: np.ndarray[Any, Any] = numbers == self.class_names.get(name, -1)
        return mask

    def checksum(self) -> str:
        """SHA-256 of all of it: the same for the same scenario and seed."""
        digest = hashlib.sha256()
        for name, value in vars(self).items():
            if name.startswith("_"):
                continue
            digest.update(name.encode())
            digest.update(
                value.tobytes() if isinstance(value, array) else repr(list(value)).encode()
            )
        return digest.hexdigest()
