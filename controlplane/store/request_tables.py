"""The request database: exact counts, compact rows and sampled full records.

It lives in a file (or schema) of its own and can be pruned or lost without harming config.
Three stores of the same records: counts per minute for all traffic, a compact row for every
request, and the full record for errors, violators and a sample.
"""

from sqlalchemy import BigInteger, Boolean, Float, Index, Integer, LargeBinary, String, text
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column
from sqlalchemy.types import TypeEngine


def _by_byte(length: int) -> TypeEngine[str]:
    """Text that every database compares by byte: what begins with "ab" is one range."""
    return String(length).with_variant(String(length, collation="C"), "postgresql")


class RequestBase(DeclarativeBase):
    """Base of every table of the request database."""


class RequestRow(RequestBase):
    """The compact row of one request. Durations in seconds since arrival; NULL is unknown."""

    __tablename__ = "requests"
    __table_args__ = (
        Index("requests_by_time", "arrived_at_unix_ns"),
        Index("requests_by_id", "request_id"),
        Index("requests_by_trace", "trace_id"),
        # A tenant's key sees nothing else, so its filters are all answered from one index.
        Index(
            "requests_by_tenant",
            "tenant",
            "arrived_at_unix_ns",
            "deployment",
            "request_class",
            "disposition",
            "in_contract",
        ),
        Index("requests_by_deployment", "deployment", "arrived_at_unix_ns", "ttft"),
        # Each alone has many requests, both together may have none.
        Index(
            "requests_by_deployment_and_class", "deployment", "request_class", "arrived_at_unix_ns"
        ),
        Index("requests_by_class", "request_class", "arrived_at_unix_ns"),
        Index("requests_by_disposition", "disposition", "arrived_at_unix_ns"),
        Index("requests_by_contract", "in_contract", "arrived_at_unix_ns"),
    )

    gateway_id: Mapped[str] = mapped_column(String(128), primary_key=True)
    gateway_sequence: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    request_id: Mapped[str] = mapped_column(_by_byte(64))
    trace_id: Mapped[str] = mapped_column(_by_byte(32))
    span_id: Mapped[str | None] = mapped_column(String(16))
    """Of its `request` span: what an engine's span names as its parent."""
    parent_span_id: Mapped[str | None] = mapped_column(String(16))
    """The caller's span, as its traceparent said."""
    arrived_at_unix_ns: Mapped[int] = mapped_column(BigInteger)
    tenant: Mapped[str | None] = mapped_column(String(128))
    request_class: Mapped[str | None] = mapped_column(String(128))
    deployment: Mapped[str | None] = mapped_column(String(128))
    model_revision: Mapped[str | None] = mapped_column(String(160))
    policy_revision: Mapped[str | None] = mapped_column(String(160))
    contract_revision: Mapped[str | None] = mapped_column(String(160))
    engine: Mapped[str | None] = mapped_column(String(64))
    replica_id: Mapped[str | None] = mapped_column(String(128))
    """Of the last attempt."""
    num_attempts: Mapped[int] = mapped_column(Integer)
    status_code: Mapped[int | None] = mapped_column(Integer)
    disposition: Mapped[str] = mapped_column(String(16))
    reason: Mapped[str | None] = mapped_column(String(512))
    delivery: Mapped[str] = mapped_column(String(16))
    num_prompt_tokens: Mapped[int | None] = mapped_column(Integer)
    num_cached_tokens: Mapped[int | None] = mapped_column(Integer)
    counted_output_tokens: Mapped[int] = mapped_column("num_output_tokens", Integer)
    is_output_unknown: Mapped[bool | None] = mapped_column(Boolean)
    """True: nobody counted the output, and the column beside it says 0. NULL: it is counted."""
    in_contract: Mapped[bool | None] = mapped_column(Boolean)
    # Offsets of the six spans; with them the waterfall can be drawn without the full record.
    scheduled: Mapped[float | None] = mapped_column(Float)
    first_token: Mapped[float | None] = mapped_column(Float)
    first_write: Mapped[float | None] = mapped_column(Float)
    finished: Mapped[float | None] = mapped_column(Float)
    last_write: Mapped[float | None] = mapped_column(Float)
    released: Mapped[float | None] = mapped_column(Float)
    # Latencies at the boundary of the contract (server where there is none).
    ttft: Mapped[float | None] = mapped_column(Float)
    tpot: Mapped[float | None] = mapped_column(Float)
    e2e: Mapped[float | None] = mapped_column(Float)
    first_answer: Mapped[float | None] = mapped_column(Float)
    max_gap: Mapped[float | None] = mapped_column(Float)
    """The longest between two tokens (engine) or two chunks."""
    # What it took of engines, all attempts together (see dataplane.metering).
    engine_seconds: Mapped[float | None] = mapped_column(Float)
    is_engine_inferred: Mapped[bool | None] = mapped_column(Boolean)
    """False: the engine measured it. NULL: it is not known."""
    kv_block_seconds: Mapped[float | None] = mapped_column(Float)
    engine_config_revision: Mapped[str | None] = mapped_column(String(160))
    rollout: Mapped[int | None] = mapped_column(BigInteger)
    """Number of the rollout that was under way, where an arm was chosen for it."""
    arm: Mapped[str | None] = mapped_column(String(16))
    """stable or candidate."""
    # While a rollout's candidate policy only looks on: what both policies decided.
    shadow_enforced: Mapped[str | None] = mapped_column(String(16))
    """admitted, degraded or rejected."""
    shadow_outcome: Mapped[str | None] = mapped_column(String(16))
    """The same of the one that looked on, or unknown."""
    shadow_class: Mapped[str | None] = mapped_column(String(128))
    """The class that the one that looked on puts it into."""
    shadow_kind: Mapped[str | None] = mapped_column(String(64))
    """Why that would have refused it, as the error's code says it."""
    shadow_differs: Mapped[bool | None] = mapped_column(Boolean)
    """Outcome, class, length or deployment would have been another. NULL: nobody knows."""

    @property
    def num_output_tokens(self) -> int | None:
        """None where nobody knows."""
        return None if self.is_output_unknown else self.counted_output_tokens


class MinuteCountRow(RequestBase):
    """Exact counts of one minute. One row for each combination that occurred."""

    __tablename__ = "minute_counts"
    __table_args__ = (
        # Every combination that occurs is offered first: a small part of all the rows.
        Index(
            "minute_counts_offered",
            "minute_unix",
            "deployment",
            "request_class",
            "tenant",
            sqlite_where=text("measure = 'offered'"),
            postgresql_where=text("measure = 'offered'"),
        ),
        Index(
            "minute_counts_sampled",
            "deployment",
            "minute_unix",
            sqlite_where=text("measure LIKE 'sampled.%'"),
            postgresql_where=text("measure LIKE 'sampled.%'"),
        ),
        # In the order in which charts add them up, with all that they read.
        Index("minute_counts_series", "minute_unix", "measure", "deployment", "value"),
    )

    minute_unix: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    """Start of the minute of the request's arrival, seconds since the epoch; of objective.* that of
    its end, when it was judged."""
    deployment: Mapped[str] = mapped_column(String(128), primary_key=True)
    request_class: Mapped[str] = mapped_column(String(128), primary_key=True)
    tenant: Mapped[str] = mapped_column(String(128), primary_key=True)
    contract_revision: Mapped[str] = mapped_column(String(160), primary_key=True)
    measure: Mapped[str] = mapped_column(String(64), primary_key=True)
    """offered, disposition.<word>, objective.<signal>.good|total, in_contract.good|total,
    tokens.input, tokens.output, tokens.cached, ttft.<latency bucket>, and those of
    controlplane.store.metered_measures; and, of no class or tenant,
    sampled.<gauge>: what gateways showed in that minute (see series)."""
    value: Mapped[int] = mapped_column(BigInteger)


class HourCountRow(RequestBase):
    """The same counts, but for gauges, summed over one hour."""

    __tablename__ = "hour_counts"
    __table_args__ = (Index("hour_counts_series", "hour_unix", "measure", "deployment", "value"),)

    hour_unix: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    """Start of the hour, seconds since the epoch."""
    deployment: Mapped[str] = mapped_column(String(128), primary_key=True)
    request_class: Mapped[str] = mapped_column(String(128), primary_key=True)
    tenant: Mapped[str] = mapped_column(String(128), primary_key=True)
    contract_revision: Mapped[str] = mapped_column(String(160), primary_key=True)
    measure: Mapped[str] = mapped_column(String(64), primary_key=True)
    value: Mapped[int] = mapped_column(BigInteger)


class FullRecordRow(RequestBase):
    """The full record of an error, a violator or a sampled request."""

    __tablename__ = "full_records"
    __table_args__ = (
        Index("full_records_by_reservoir", "minute_unix", "request_class", "kept_because"),
    )

    gateway_id: Mapped[str] = mapped_column(String(128), primary_key=True)
    gateway_sequence: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    request_id: Mapped[str] = mapped_column(String(64), index=True)
    minute_unix: Mapped[int] = mapped_column(BigInteger)
    request_class: Mapped[str] = mapped_column(String(128))
    kept_because: Mapped[str] = mapped_column(String(16))
    """error, violator or sample: each has a reservoir of its own per class and minute."""
    record: Mapped[bytes] = mapped_column(LargeBinary)
    """The RequestRecord as JSON."""


class ReservoirRow(RequestBase):
    """How many records each reservoir was offered, so that sampling stays fair across batches."""

    __tablename__ = "reservoirs"

    minute_unix: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    request_class: Mapped[str] = mapped_column(String(128), primary_key=True)
    kept_because: Mapped[str] = mapped_column(String(16), primary_key=True)
    num_offered: Mapped[int] = mapped_column(BigInteger)


class GatewayLossRow(RequestBase):
    """Records that a gateway says it had to drop: counted, never silent."""

    __tablename__ = "gateway_losses"

    gateway_id: Mapped[str] = mapped_column(String(128), primary_key=True)
    num_lost: Mapped[int] = mapped_column(BigInteger)


class RemovedDataRow(RequestBase):
    """How much of each store was ever removed and why, so that what is missing is explained."""

    __tablename__ = "removed_data"

    store: Mapped[str] = mapped_column(String(32), primary_key=True)
    """The table: full_records, requests, minute_counts, ..."""
    reason: Mapped[str] = mapped_column(String(16), primary_key=True)
    """age or size."""
    num_rows: Mapped[int] = mapped_column(BigInteger)
    last_at_unix_ns: Mapped[int] = mapped_column(BigInteger)


class SpanReportRow(RequestBase):
    """What one span of a client or an engine tells about one request, joined to it or waiting."""

    __tablename__ = "span_reports"
    __table_args__ = (
        Index("span_reports_by_request", "gateway_id", "gateway_sequence"),
        Index("span_reports_by_wait", "gateway_id", "sender", "received_at_unix_ns"),
        Index("span_reports_by_name", "named_request_id"),
    )

    trace_id: Mapped[str] = mapped_column(String(32), primary_key=True)
    span_id: Mapped[str] = mapped_column(String(16), primary_key=True)
    sender: Mapped[str] = mapped_column(String(128), primary_key=True)
    """The tenant whose key sent it, and whose requests alone it may be about; empty: any."""
    side: Mapped[str] = mapped_column(String(8))
    """client or engine."""
    named_request_id: Mapped[str | None] = mapped_column(String(64))
    """The request whose answer the client says it got."""
    received_at_unix_ns: Mapped[int] = mapped_column(BigInteger)
    gateway_id: Mapped[str | None] = mapped_column(String(128))
    """With `gateway_sequence` the request it is about; NULL while that is not known."""
    gateway_sequence: Mapped[int | None] = mapped_column(BigInteger)
    report: Mapped[bytes] = mapped_column(LargeBinary)
    """The SpanReport as JSON."""
    judgement: Mapped[bytes | None] = mapped_column(LargeBinary)
    """What the request's contract says at the boundary `client`, as JSON; it is in the counts."""
