"""A new gateway process beside this one, started by this one to take its place (SIGHUP).

It runs the same command line on what is installed now. A supervisor that keeps its own record
of processes starts the successor itself instead.
"""

import os
import subprocess
import sys
from collections.abc import Sequence

import structlog

from dataplane.service_manager import OWN_VARIABLES

TAKE_OVER_OPTION = "--take-over"

_log = structlog.get_logger(__name__)


class Successors:
    """At most one at a time. One event loop owns it."""

    def __init__(self, arguments: Sequence[str]) -> None:
        """`arguments` of this process, without the interpreter and the module."""
        extra = () if TAKE_OVER_OPTION in arguments else (TAKE_OVER_OPTION,)
        self._argv = (sys.executable, "-m", "dataplane.gateway", *arguments, *extra)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start one, unless one is on its way. It is not ended with us: it is to outlive us."""
        if self._process is not None and self._process.poll() is None:
            _log.warning("a successor is starting already", pid=self._process.pid)
            return
        environment = {key: os.environ[key] for key in os.environ if key not in OWN_VARIABLES}
        try:
            self._process = subprocess.Popen(
                self._argv, env=environment, stdin=subprocess.DEVNULL, start_new_session=True
            )
        except OSError as error:
            _log.error("no successor can be started: this process serves on", error=str(error))
            return
        _log.info("a successor is starting", pid=self._process.pid)

    def has_failed(self) -> bool:
        """Notice, and say once, that one has ended without taking over."""
        if self._process is None or (code := self._process.poll()) is None:
            return False
        _log.error("the successor ended; this process serves on", exit_code=code)
        self._process = None
        return True
