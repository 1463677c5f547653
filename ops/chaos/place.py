"""The installation under trial, and what it says of its deployment and its rollouts."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import httpx

from dataplane.gateway.status import DEPLOYMENTS_PATH
from dataplane.processes import ProcessRecord
from ops.chaos.documents import DEPLOYMENT
from ops.endurance.installation import Installation, NotInTimeError

_CALL_SECONDS = 5.0
_LOOK_SECONDS = 0.05
OVER = ("promoted", "aborted")


@dataclass(slots=True)
class Place:
    """Every question is asked again while the control plane is away."""

    installation: Installation

    def apply(self, documents: str) -> None:
        """Make them the desired state. Raises ValueError for what is refused."""
        files = [{"name": "chaos.yaml", "text": documents}]
        answer = self._ask("POST", "/api/v1/apply", {"files": files, "author": "chaos"})
        if answer.status_code != httpx.codes.OK:
            raise ValueError(f"documents were refused: {answer.text}")

    def newest(self) -> dict[str, Any]:
        """The newest rollout; number 0: there is none."""
        rollouts = self.get(f"/api/v1/rollouts?deployment={DEPLOYMENT}")["rollouts"]
        return dict(rollouts[0]) if rollouts else {"number": 0, "state": ""}

    def detail(self, number: int) -> dict[str, Any]:
        """One rollout, whole."""
        return dict(self.get(f"/api/v1/rollouts/{number}"))

    def abort(self, number: int) -> None:
        """As a person would. One that is over stays as it is."""
        self._ask("POST", f"/api/v1/rollouts/{number}/abort", {"reason": "chaos"})

    def deployment(self) -> dict[str, Any]:
        """As the control plane tells it."""
        return dict(self.get(f"/api/v1/deployments/{DEPLOYMENT}"))

    def lanes(self) -> list[dict[str, Any]]:
        """Its replicas that have not ended."""
        return [lane for lane in self.deployment()["lanes"] if not lane["is_ended"]]

    def num_connected(self) -> int | None:
        """Replicas of the arm that is the deployment's, as its gateway could send requests to
        them now; None: the gateway does not say."""
        url = f"http://127.0.0.1:{self.installation.gateway_port}{DEPLOYMENTS_PATH}"
        try:
            told = httpx.get(url, timeout=_CALL_SECONDS).json()["deployments"]
        except httpx.HTTPError:
            return None
        found = [each["num_connected"] for each in told if each["name"] == DEPLOYMENT]
        return int(found[0]) if found else None

    def process_of(self, replica_id: str) -> ProcessRecord | None:
        """The process of a replica that runs."""
        alive = self.installation.alive("replica")
        return next((each for each in alive if each.name == replica_id), None)

    def get(self, path: str) -> Any:
        """JSON of one of the control plane's paths."""
        answer = self._ask("GET", path, None)
        answer.raise_for_status()
        return answer.json()

    def _ask(self, method: str, path: str, body: dict[str, Any] | None) -> httpx.Response:
        """Raises NotInTimeError when it is away for long."""
        url = f"http://127.0.0.1:{self.installation.port}{path}"
        deadline, why = time.monotonic() + 60, ""
        while time.monotonic() < deadline:
            try:
                answer = httpx.request(method, url, json=body, timeout=_CALL_SECONDS)
            except httpx.TransportError as error:
                why = f"{type(error).__name__}: {error}"
            else:
                if answer.status_code < httpx.codes.INTERNAL_SERVER_ERROR:
                    return answer
                why = answer.text
            time.sleep(_LOOK_SECONDS)
        raise NotInTimeError(f"{method} {path} was not answered for a minute: {why}")


def wait_until(condition: Callable[[], object], seconds: float, what: str) -> float:
    """Seconds that it took. Raises NotInTimeError."""
    began = time.monotonic()
    while not condition():
        if time.monotonic() - began > seconds:
            raise NotInTimeError(f"waited {seconds:g} s for {what}")
        time.sleep(_LOOK_SECONDS)
    return time.monotonic() - began
