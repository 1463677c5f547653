"""What one engine's server may be told by config, and why not the rest.

Servers have hundreds of options and get more with each version: some load code, some read any file
or listen on other addresses. A list of those would always be one short, so an adapter lists the
options that only change how a server works, and whoever runs the machine may grant more.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from dataplane.openai_endpoint.settings import EngineEndpointSettings
from dataplane.owned_server.grants import OPTIONS_VARIABLE, PROGRAMS_VARIABLE, Grants

COMMON_VARIABLES = frozenset({
    "CUDA_DEVICE_ORDER", "CUDA_VISIBLE_DEVICES", "HF_HUB_OFFLINE", "HIP_VISIBLE_DEVICES",
    "MKL_NUM_THREADS", "NCCL_DEBUG", "NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL", "OMP_NUM_THREADS",
    "OMP_PROC_BIND", "OPENBLAS_NUM_THREADS", "OTEL_BSP_SCHEDULE_DELAY",
    "OTEL_SERVICE_NAME", "ROCR_VISIBLE_DEVICES", "TOKENIZERS_PARALLELISM", "TRANSFORMERS_OFFLINE",
})  # fmt: skip
"""Environment variables that any server may be given."""
_LOADERS = re.compile(r"(LD_|DYLD_|PYTHON|BASH_|GCONV_)\w*|PATH|IFS|ENV|HOME|SHELL|NODE_OPTIONS")
_SECRET = re.compile(r"api-key|token$|password|secret", re.IGNORECASE)
_LISTENS = re.compile(r"host$|port$|addr$|address$|uds$|ssl-|root-path|api-prefix")
_CODE = re.compile(
    r"trust-remote-code|plugin|middleware|-cls$|processors$|module|connector|transfer-config|"
    r"hf-overrides|override|tools|agent|mcp|executor-backend|^--rpc$|^-?-config$|log-config"
)
_TEMPLATE = re.compile(r"template")
_NUMBER = re.compile(r"-\d+(\.\d+)?")
_PLAIN = re.compile(r"[A-Za-z0-9_.,:+-]{1,256}")


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchTerms:
    """Of one engine's server."""

    program: str
    """Its usual name."""
    product: str
    """What is to be installed where it is missing."""
    given: Mapping[str, str] = field(default_factory=dict)
    """Options that are not to be repeated, each with what says them instead."""
    arguments: frozenset[str]
    """Options that config may give, spelled in full."""
    variables: frozenset[str] = frozenset()
    """Environment variables that config may give, beside COMMON_VARIABLES."""
    start_lines: Mapping[str, str] = field(default_factory=dict)
    """By stage of the start: a regular expression of the lines with which it tells what that took,
    in the group `seconds`. A stage of no line is not told."""
    key_variable: str | None = None
    """The environment variable that the server takes its API key from; None: it takes it only where
    everybody could read it."""


def check_launch(
    terms: LaunchTerms, settings: EngineEndpointSettings, grants: Grants
) -> list[tuple[str, str]]:
    """Problems as (key of the settings, what is wrong and the remedy)."""
    return [
        *_check_program(settings.server_executable, grants),
        *_check_arguments(terms, settings.server_args, grants),
        *_check_variables(terms, settings.server_environment, grants),
    ]


def check_launch_here(
    terms: LaunchTerms, settings: EngineEndpointSettings
) -> list[tuple[str, str]]:
    """As `check_launch`, on the machine and in the environment of this process: where documents are
    accepted that is the control plane's."""
    try:
        grants = Grants.of(os.environ)
    except ValueError as error:
        return [("", str(error))] if _is_asked(settings) else []
    return check_launch(terms, settings, grants)


def _is_asked(settings: EngineEndpointSettings) -> bool:
    return bool(settings.server_executable or settings.server_args or settings.server_environment)


def _check_program(named: str | None, grants: Grants) -> Iterator[tuple[str, str]]:
    if named is None or grants.find_named(named) is not None:
        return
    known = ", ".join(sorted(grants.programs)) or "none"
    yield (
        "server_executable",
        f"{named} is no program that may be started here: whoever runs this machine grants it by "
        f"its absolute path in {PROGRAMS_VARIABLE}, in the control plane's environment. Granted: "
        f"{known}",
    )


def _check_arguments(
    terms: LaunchTerms, words: Sequence[str], grants: Grants
) -> Iterator[tuple[str, str]]:
    option, is_granted = "", False
    for index, word in enumerate(words):
        key = f"server_args.{index}"
        if word.startswith("-") and not _NUMBER.fullmatch(word):
            option, has_value, value = word.partition("=")
            is_granted = option in grants.options and option not in terms.given
            if option not in terms.arguments and not is_granted:
                yield key, _why_no_argument(terms, option)
                is_granted = True  # one complaint is enough
            elif has_value and not is_granted and not _PLAIN.fullmatch(value):
                yield key, _why_no_value(option)
        elif not option:
            yield key, f"{word!r} follows no option: begin with one, as --name or --name=value"
        elif not is_granted and not _PLAIN.fullmatch(word):
            yield key, _why_no_value(option)


def _check_variables(
    terms: LaunchTerms, entries: Sequence[str], grants: Grants
) -> Iterator[tuple[str, str]]:
    for index, entry in enumerate(entries):
        name, _, value = entry.partition("=")
        is_known = name in COMMON_VARIABLES or name in terms.variables
        if name in grants.options or (is_known and _PLAIN.fullmatch(value)):
            continue
        what = _why_no_value(name) if is_known else _why_no_variable(name)
        yield f"server_environment.{index}", what


def _why_no_argument(terms: LaunchTerms, option: str) -> str:
    normal = option.replace("_", "-")
    if normal in terms.given:
        return f"{option} is not to be given here: {terms.given[normal]}"
    return f"{option} {_reason(normal)}. {_remedy(option)}"


def _reason(option: str) -> str:
    if _SECRET.search(option):
        return (
            "is a secret, and everybody on a machine can read arguments: settings.api_key_env and "
            "settings.api_key_file name a key that the server is given where its engine takes it "
            "from its environment"
        )
    if _LISTENS.search(option):
        return "decides where the server is reached; it listens on the loopback alone"
    if _TEMPLATE.search(option):
        return "may read any file: put the chat template into the model's own files"
    if _CODE.search(option):
        return "can load code or settings from elsewhere, which would run as the control plane does"
    return "is not among the options that are known to change only how the server works"


def _why_no_variable(name: str) -> str:
    if _LOADERS.fullmatch(name):
        return f"{name} decides which code the server loads. {_remedy(name)}"
    if _SECRET.search(name.replace("_", "-")):
        return f"{name} {_reason(name.replace('_', '-').lower())}"
    return (
        f"{name} is not among the variables that are known to change only how the server works. "
        f"{_remedy(name)}"
    )


def _why_no_value(name: str) -> str:
    return (
        f"the value of {name} is no plain word or number, and what is none may name a file or hold "
        f"further options. {_remedy(name)}"
    )


def _remedy(name: str) -> str:
    return (
        f"Leave it out, or let whoever runs this machine grant it: {OPTIONS_VARIABLE}={name} in "
        f"the control plane's environment"
    )
