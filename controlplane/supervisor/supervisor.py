"""The supervisor: takes the state directory, brings everything up, watches, ends everything.

It holds no state that matters: killed at any moment, the next one finds every process on
record, adopts what it would have started itself, and ends the rest.
"""

import errno
import signal
import socket

from controlplane.supervisor.asking import SERVE_LOCK
from controlplane.supervisor.child import Child, GivenUpError, Say
from controlplane.supervisor.ending import END_SIGNALS, RESTART_SIGNAL, Ending, wait_for_signal
from controlplane.supervisor.first_start import check_free, prepare
from controlplane.supervisor.gateway_child import GatewayChild
from controlplane.supervisor.readiness import Readiness
from controlplane.supervisor.settings import (
    CONTROL_PLANE,
    DEFAULT_PORT,
    LEAVE_SECONDS,
    ChildSpec,
    ServeSettings,
    control_plane_spec,
    gateway_spec,
)
from controlplane.supervisor.state_lock import state_lock
from dataplane.access import AuthMode
from dataplane.clock import monotonic_clock, wall_clock
from dataplane.processes import ProcessDirectory, is_alive, terminate

_LOOK_SECONDS = 0.2
_LEFTOVER_GRACE_SECONDS = 10.0
_AWAITED = END_SIGNALS | {RESTART_SIGNAL}
_TRY = """  curl {url}/v1/chat/completions -H 'content-type: application/json' {key}\\
    -d '{{"model": "{model}", "temperature": 0, "messages": [{{"role": "user", "content": \
"What is the capital of France?"}}]}}'"""


class Supervisor:
    """One `pilothouse serve`."""

    def __init__(self, settings: ServeSettings, say: Say) -> None:
        self._settings = settings
        self._say = say
        self._directory = ProcessDirectory(settings.state_dir)
        self._gateway = GatewayChild(
            self._directory,
            gateway_spec(settings),
            say,
            monotonic_clock,
            settings.gateway_state_dir,
            LEAVE_SECONDS,
        )
        self._control_plane = Child(
            self._directory, control_plane_spec(settings), say, monotonic_clock
        )
        self._children = (self._gateway, self._control_plane)
        self._started_at = monotonic_clock()

    def run(self) -> None:
        """Serve until Ctrl-C or SIGTERM; on return nothing of it runs any more.

        Raises GivenUpError, with nothing left running, when it cannot be served.
        """
        # Blocked before anything starts, so that no moment is left in which one ends us alone.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _AWAITED)
        try:
            with state_lock(self._settings.state_dir, SERVE_LOCK, "pilothouse serve"):
                self._run()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def _run(self) -> None:
        self._say(f"state and logs are in {self._settings.state_dir}")
        readiness = Readiness(
            self._control_plane.spec,
            self._gateway.spec,
            self._say,
            self._tell_answering,
            self._settings.own_key_path,
            self._settings.gateway_state_dir,
            monotonic_clock,
            wall_clock,
        )
        try:
            self._bring_up()
            readiness.start()
            self._watch()
        finally:
            readiness.stop()
            was_running = any(is_alive(record) for record in self._directory.records())
            ending = Ending(self._directory, self._settings.drain_seconds, self._say)
            left = ending.end_all()
            if was_running:
                said = f"still running: {'; '.join(left)}" if left else "nothing is left running"
                self._say(said)

    def _bring_up(self) -> None:
        self._end_strangers()
        adopted = {child.spec.name for child in self._children if child.adopt()}
        for child in self._children:
            if child.spec.name not in adopted:
                check_port(child.spec)
        if CONTROL_PLANE not in adopted:
            check_free(self._settings)
        if self._settings.auth is AuthMode.REQUIRED:
            prepare(self._settings, self._say)  # the gateway's key among other things
            self._gateway.start()
        else:
            # The gateway needs no database: it starts up while that is prepared.
            self._gateway.start()
            prepare(self._settings, self._say)
        self._control_plane.start()

    def _end_strangers(self) -> None:
        """Whatever is on record and is no child of this installation. Replicas are the
        operator's to judge."""
        names = {child.spec.name for child in self._children}
        for record in self._directory.records():
            if self._gateway.owns(record):
                continue
            if record.role != "replica" and record.name not in names and is_alive(record):
                self._say(f"ending {record.name}, pid {record.pid}: nobody asks for it any more")
                terminate(record, _LEFTOVER_GRACE_SECONDS)
            elif record.role == "replica" and is_alive(record):
                self._say(f"found {record.name}, pid {record.pid}: the control plane judges it")

    def _watch(self) -> None:
        while (number := wait_for_signal(_LOOK_SECONDS, _AWAITED)) in (None, RESTART_SIGNAL):
            if number is RESTART_SIGNAL:
                self._gateway.restart("asked for")
            for child in self._children:
                child.check()
        assert number is not None  # the loop goes on while there is none
        again = "; Ctrl-C again forces it" if number is signal.SIGINT else ""
        self._say(f"{number.name}: draining and ending everything{again}")

    def _tell_answering(self, model: str) -> None:
        seconds = monotonic_clock() - self._started_at
        gateway_url = self._settings.gateway_url
        self._say(f"Pilothouse answers, {seconds:.1f} s after the start")
        self._say(f"  console  {self._settings.control_plane_url}")
        self._say(f"  gateway  {gateway_url}/v1")
        key = ""
        if self._settings.auth is AuthMode.REQUIRED:
            self._say("clients show a key; make one, and put it where the line below has KEY:")
            self._say("  pilothouse keys create NAME --role client --tenant default")
            key = "-H 'authorization: Bearer KEY' "
        self._say(_TRY.format(url=gateway_url, model=model, key=key))
        if self._settings.port != DEFAULT_PORT:
            self._say("for the pilothouse command in another terminal:")
            self._say(f"  export PILOTHOUSE_URL={self._settings.control_plane_url}")
        self._say("Ctrl-C drains and ends all of it")


def check_port(spec: ChildSpec) -> None:
    """Raises GivenUpError when somebody else listens where `spec` is to listen."""
    option = "--gateway-port" if spec.role == "gateway" else "--port"
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((spec.host, spec.port))
        except OSError as error:
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise
            raise GivenUpError(
                f"port {spec.port} for the {spec.role} cannot be had ({error.strerror}): end "
                f"what listens there, or choose another one with {option}",
                1,
            ) from error
