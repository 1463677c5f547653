"""What a client that measures has run out of: CPU, time in its loop, sockets, ports."""

import re

from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.device import BUSY_CORE, cpu_of
from controlplane.diagnosis.views.told import number_of, share_of, told_all, told_number
from controlplane.diagnosis.window import Window

GENERATOR = (
    r"client|generator|load ?gen|loadtest|load test|bench\w*|locust|k6|wrk|hey|vegeta|genai ?perf|"
    r"tester|driver|harness|script|jmeter|guidellm|tool|browser|tabs?"
)
_LAG_SECONDS = 0.05
"""Of an event loop that is to read tokens every 20 ms or so."""
LOCAL = (
    r"event loop|loop lag|ephemeral|ports?( used| left| in use)|file descriptors?|open files|"
    r"ulimit|fd limit|gil|single (process|thread|core)|read buffer|read bufsize|semaphore|socket|"
    r"connection pool|connections? (from|limit|pool)|pool size|tokeniz|gc pause"
)


SERVER = r"\b(servers?|engines?|core|workers?|scheduler|ranks?|front\w*|api|gateway|router|proxy)\b"
"""Whose lock, loop or link it is, where it is not the client's."""
NOT_LOCAL = (
    rf"{SERVER}|\b(kv|cache|blocks?|tokens)\b"
    r"|\btokenizer (path|mode|init|worker|revision|backend|batch)|\bskip tokenizer"
    r"|\bsend ?(q|queue|buf(fer)?)\b|\bunsent\b|\bunacked\b"
)
"""Pools and tokenizers of the engine, which its page tells of as settings."""


def busy(argument: Argument, window: Window) -> int:
    """Its process has no CPU left, or its loop is behind."""
    signs = 0
    cpu = cpu_of(window, GENERATOR)
    if cpu is not None and cpu.value >= BUSY_CORE:
        argument.says(f"{cpu.says}: the generator has no CPU left")
        signs += 1
    lock = told_number(window, rf"({GENERATOR}).*\b(gil|lock)\b|\bgil\b", without=SERVER)
    held = share_of(lock)
    if lock is not None and held is not None and held >= BUSY_CORE:
        argument.fact(lock, "one thread is all that it has")
        signs += 1
    lag = told_number(
        window,
        rf"\b({GENERATOR})\b.*\b(lag|behind|late|delay|drift)\b",
        without=SERVER,
    )
    value = number_of(lag)
    if lag is not None and value is not None and value >= _LAG_SECONDS:
        argument.fact(lag, "the generator is behind")
        signs += 1
    return signs


def spent(argument: Argument, window: Window) -> int:
    """Something of the client's own has run out."""
    found = [
        fact
        for fact in window.facts
        if fact.value is None and re.search(_RUN_OUT, fact.raw, re.IGNORECASE)
    ]
    for fact in found:
        argument.fact(fact, "the client has run out of it")
    lines = window.lines_with(_TOOL_SAYS)[-2:]
    for line in lines:
        argument.says(" ".join(line.split())[:200])
    return int(bool(found or lines))


_TOOL_SAYS = (
    r"insufficient vus|dropped.?iterations|cpu usage (above 90|was too high)|constrain your "
    r"throughput|connection pool is full, discarding|pooltimeout|load generator (is )?overloaded"
    r"|schedule lag|unable to (keep up|maintain) (with )?(the )?(request |arrival )?rate"
)
"""Locust, k6 and HTTP clients of themselves."""
_RUN_OUT = (
    r"EADDRNOTAVAIL|EMFILE|too many open files|cannot assign requested address|pool is full|"
    r"pool ?timeout|constrain your throughput|event loop (is )?blocked"
)


def cite_local(argument: Argument, window: Window) -> bool:
    """Limits on the client's side."""
    links = rf"\b({GENERATOR})\b.*\b(nic|bandwidth)\b"
    found = told_all(window, rf"{LOCAL}|{links}", without=NOT_LOCAL)
    for fact in found:
        argument.fact(fact)
    return bool(found) or cpu_of(window, GENERATOR) is not None
