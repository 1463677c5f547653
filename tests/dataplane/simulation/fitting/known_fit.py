"""A fit that is written down, for what takes one."""

from collections.abc import Mapping

from dataplane.simulation.fitting.document import (
    SCHEMA_VERSION,
    Fit,
    Noise,
    Overheads,
    Spread,
    StepForm,
    TokensKnot,
)
from tests.dataplane.simulation.fitting.simulated_records import MACHINE, NO_OVERHEADS


def known_fit(
    seconds: float = 0.01,
    noise: Noise | None = None,
    overheads: Overheads = NO_OVERHEADS,
    cold_start: Mapping[str, Spread] | None = None,
) -> Fit:
    """Every step takes `seconds`, whatever is in it."""
    return Fit(
        schema_version=SCHEMA_VERSION,
        source="records",
        engine="paged",
        model="tiny",
        model_revision="tiny@1",
        engine_config_revision="chat@1",
        machine=MACHINE,
        first_at_unix_ns=1,
        last_at_unix_ns=2,
        num_requests=100,
        num_steps=1000,
        num_steps_used=1000,
        form=StepForm(knots=(TokensKnot(num_tokens=0, seconds=seconds),)),
        residuals=(),
        noise=noise,
        seen=None,
        overheads=overheads,
        cold_start=cold_start or {},
        cannot_tell=(),
    )
