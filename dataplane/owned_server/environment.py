"""The environment of a server: what it needs of ours, and what its config gives. Pure.

The control plane's own holds keys of engines, of callers and of databases; a server, and whatever
it loads, gets none of them.
"""

import re
from collections.abc import Mapping, Sequence

from dataplane.process_mark import passed_on

_PASSED = re.compile(
    r"PATH|HOME|USER|LOGNAME|LANG|LANGUAGE|LC_\w+|TZ|TMPDIR|XDG_CACHE_HOME|LD_LIBRARY_PATH|"
    r"LD_PRELOAD|SSL_CERT_(FILE|DIR)|HF_HOME|HF_HUB_(OFFLINE|CACHE)|TRANSFORMERS_OFFLINE|"
    r"(CUDA|NVIDIA|HIP|ROCR|ROCM|HSA|OMP|KMP|GOMP|MKL|OPENBLAS|NCCL|RCCL|GLOO|UCX|TORCH|"
    r"TORCHINDUCTOR|TRITON|VLLM|SGLANG|SGL|GGML|TOKENIZERS|OTEL)_\w+"
)
_SECRET = re.compile(r"KEY|(^|_)TOKEN($|_)|SECRET|PASSWORD|PASSWD|CREDENTIAL|HEADERS")


def server_environment(ours: Mapping[str, str], entries: Sequence[str]) -> dict[str, str]:
    """What of `ours` a server may see, and `entries` of NAME=value over it."""
    passed = {name: value for name, value in ours.items() if _is_passed(name)} | passed_on(ours)
    return passed | {name: value for name, _, value in (e.partition("=") for e in entries)}


def _is_passed(name: str) -> bool:
    return bool(_PASSED.fullmatch(name)) and not _SECRET.search(name)
