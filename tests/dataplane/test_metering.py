from dataplane.engine import EngineUse
from dataplane.lifecycle import Observability
from dataplane.metering import Metered, Metering


def test_what_engines_told_of_all_attempts_is_observed() -> None:
    metering = Metering()
    metering.add(EngineUse(engine_seconds=0.5, kv_block_seconds=3.0), shared_seconds=9.0)
    metering.add(EngineUse(engine_seconds=0.25, kv_block_seconds=1.0), shared_seconds=9.0)
    assert metering.total == Metered(
        engine_seconds=0.75, engine_observability=Observability.OBSERVED, kv_block_seconds=4.0
    )


def test_one_attempt_that_nobody_told_of_makes_the_sum_inferred_and_its_blocks_unknown() -> None:
    metering = Metering()
    metering.add(None, shared_seconds=2.0)
    metering.add(EngineUse(engine_seconds=0.5, kv_block_seconds=3.0), shared_seconds=9.0)
    assert metering.total == Metered(
        engine_seconds=2.5, engine_observability=Observability.INFERRED, kv_block_seconds=None
    )


def test_what_was_never_submitted_took_nothing_that_could_be_told() -> None:
    assert Metering().total is None
