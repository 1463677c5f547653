"""What all requests to one application share in memory, made before the first of them.

None of it is made when it is first asked for: two threads that ask at once would each get one of
their own, and what is noted on one of them would be lost.
"""

import asyncio

from fastapi import FastAPI

from controlplane.api.alert_counters import AlertCounters
from controlplane.api.changes import ChangeCounter
from controlplane.api.gateway_samples import GatewaySamples
from controlplane.api.otlp import SpanIntake
from controlplane.api.span_counters import SpanCounters
from controlplane.slo.alert_book import AlertBook
from controlplane.store.contract_terms import ContractTermsBook
from controlplane.store.database import Database


def install_shared(app: FastAPI, config_db: Database) -> None:
    """Put it all on `app.state`."""
    state = app.state
    state.alert_book = AlertBook(config_db)
    state.alert_counters = AlertCounters()
    state.closing = asyncio.Event()
    state.contract_terms = ContractTermsBook(config_db)
    state.gateway_samples = GatewaySamples()
    state.request_changes = ChangeCounter()
    state.span_counters = SpanCounters()
    state.span_intake = SpanIntake()
