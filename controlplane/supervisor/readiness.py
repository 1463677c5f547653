"""What the person at the terminal sees while it starts, and the proof that it answers.

A service answers when a real request through the gateway came back with a token, and not
before. It is sent once the gateway says that it has a replica for it, since each one that is
refused would be a record. After that, only what happens to replicas is told.
"""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from controlplane.supervisor.child import Say
from controlplane.supervisor.http import call
from controlplane.supervisor.settings import ChildSpec
from dataplane.access import read_key_file
from dataplane.clock import MonotonicClock, WallClock
from dataplane.gateway.status import DEPLOYMENTS_PATH, PROBE_HEADER, read_status

_EAGER_SECONDS = 0.1
_CALM_SECONDS = 1.0
_PROOF_SECONDS = 60.0
_PROOF_PATH = "/v1/chat/completions"


class Readiness:
    """Watches in a thread of its own, until the process ends or `stop`."""

    def __init__(
        self,
        control_plane: ChildSpec,
        gateway: ChildSpec,
        say: Say,
        on_answer: Callable[[str], None],
        key_path: Path,
        gateway_state_dir: Path,
        clock: MonotonicClock,
        wall: WallClock,
    ) -> None:
        """`on_answer` is called once, with the name of the model that answered; the key to be
        shown is at `key_path`, where one is needed."""
        self._control_plane = control_plane
        self._gateway = gateway
        self._say = say
        self._on_answer = on_answer
        self._key_path = key_path
        self._gateway_state_dir = gateway_state_dir
        self._clock = clock
        self._since_unix_ns = wall()
        self._told: dict[str, str] = {}
        self._is_proven = False
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="readiness", daemon=True)

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def stop(self) -> None:
        """Say nothing more. A request under way is not waited for."""
        self._stopping.set()

    def _run(self) -> None:
        while not self._stopping.wait(_CALM_SECONDS if self._is_proven else _EAGER_SECONDS):
            self._look()

    def _look(self) -> None:
        seen = self._get("/api/v1/replicas")
        deployments = self._get("/api/v1/deployments")
        if seen is None or deployments is None:
            return
        self._tell_replicas(seen)
        self._tell_holds(deployments["deployments"])
        if not self._is_proven:
            ready = [each for each in deployments["deployments"] if each["num_ready"] > 0]
            served = self._served() if ready else set[str]()
            self._is_proven = any(self._prove(each) for each in ready if each["name"] in served)

    def _tell_replicas(self, seen: dict[str, Any]) -> None:
        for line in reversed(seen["history"]):
            if line["at_unix_ns"] > self._since_unix_ns:
                key = f"{line['replica_id']} {line['state']} {line['at_unix_ns']}"
                self._tell(key, f"{line['replica_id']}: {line['state']}, {line['reason']}")
        for replica in seen["replicas"]:
            if replica["state"] == "starting" and replica["stage"]:
                self._tell(f"stage {replica['replica_id']}", _describe_start(replica))

    def _tell_holds(self, deployments: list[dict[str, Any]]) -> None:
        for each in deployments:
            # The seconds in it count down, and are not worth a line each.
            hold = (each["hold"] or "").partition(", next start in")[0]
            if hold:
                self._tell(f"hold {each['name']}", f"{each['name']} waits: {hold}")

    def _served(self) -> set[str]:
        """The deployments that the gateway knows and has a replica of; its snapshot may come
        later than the control plane says ready."""
        gateway = self._gateway
        answer = call(gateway.host, gateway.port, "GET", DEPLOYMENTS_PATH, headers=self._probe())
        if answer is None or answer[0] != 200:
            return set()
        return {each["name"] for each in answer[1]["deployments"] if each["num_connected"] > 0}

    def _prove(self, deployment: dict[str, Any]) -> bool:
        """Send one real request through the gateway, as a probe: it is no tenant's traffic."""
        body = {
            "model": deployment["name"],
            "messages": [{"role": "user", "content": "Hello"}],
            "max_tokens": 1,
        }
        answer = call(
            self._gateway.host,
            self._gateway.port,
            "POST",
            _PROOF_PATH,
            body,
            _PROOF_SECONDS,
            self._probe(),
        )
        if answer is not None and answer[0] == 200 and not self._stopping.is_set():
            self._on_answer(deployment["model"])
            return True
        return False

    def _tell(self, key: str, text: str) -> None:
        if self._told.get(key) != text and not self._stopping.is_set():
            self._told[key] = text
            self._say(text)

    def _key(self) -> dict[str, str]:
        try:
            return {"authorization": f"Bearer {read_key_file(self._key_path)}"}
        except (OSError, ValueError):
            return {}  # without authentication there is none

    def _probe(self) -> dict[str, str]:
        try:
            return {PROBE_HEADER: read_status(self._gateway_state_dir).probe_key}
        except FileNotFoundError:
            return {}  # it does not listen yet, and will not answer

    def _get(self, path: str) -> Any:
        answer = call(
            self._control_plane.host, self._control_plane.port, "GET", path, headers=self._key()
        )
        return answer[1] if answer is not None and answer[0] == 200 else None


def _describe_start(replica: dict[str, Any]) -> str:
    took = {stage: seconds for stage, seconds in replica["start_stages"].items() if seconds >= 0.1}
    done = ", ".join(f"{stage} took {seconds:.1f} s" for stage, seconds in took.items())
    return f"{replica['replica_id']}: {replica['stage']}" + (f" ({done})" if done else "")
