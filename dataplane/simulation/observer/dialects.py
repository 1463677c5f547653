"""Every dialect by its name."""

from dataplane.simulation.observer.dialect import Dialect, UnknownDialectError
from dataplane.simulation.observer.llamacpp import LLAMACPP
from dataplane.simulation.observer.pilothouse import PILOTHOUSE
from dataplane.simulation.observer.sglang import SGLANG
from dataplane.simulation.observer.vllm import VLLM, VLLM_0_10, VLLM_V0

DIALECTS = {
    dialect.name: dialect for dialect in (PILOTHOUSE, VLLM, VLLM_0_10, VLLM_V0, SGLANG, LLAMACPP)
}


def get_dialect(name: str) -> Dialect:
    """Raises UnknownDialectError, which names the nearest."""
    if name not in DIALECTS:
        raise UnknownDialectError(name, DIALECTS)
    return DIALECTS[name]
