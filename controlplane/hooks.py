"""What a plugin of the control plane can provide: one typed hook each, in one place."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pluggy

from controlplane.diagnosis.rule import Rule
from controlplane.slo.notices.notice import Notice
from dataplane.engine import EngineProcess, ReplicaSpec, ReplicaStatus

PROJECT = "pilothouse"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaObservation:
    """What a launcher sees of one replica right now."""

    spec: ReplicaSpec
    pid: int | None
    is_alive: bool
    status: ReplicaStatus | None
    """None until the process has written it."""
    exit_reason: str | None = None
    fencing_token: int | None = None
    """Of the process that is there; None: nothing tells."""


class Launcher(Protocol):
    """Places replicas. Calls for one deployment come one after the other; those for different ones,
    and `observe`, come side by side, from several threads. They are idempotent. One that takes
    long, or never ends, delays what is asked for its own deployment and nothing else."""

    def launch(self, spec: ReplicaSpec, process: EngineProcess) -> None:
        """Start a replica that outlives the caller. Raises OSError when it cannot be started."""
        ...

    def observe(self) -> list[ReplicaObservation]:
        """Every replica this launcher ever started and has not forgotten, alive or dead.

        Also those that an earlier control plane started: that is how they are adopted.
        """
        ...

    def stop(self, replica_id: str, is_forced: bool = False) -> None:
        """Ask a replica to drain and end, or end it at once. Unknown ids are no error."""
        ...

    def forget(self, replica_id: str) -> None:
        """Drop what is kept of a dead replica."""
        ...


class NotifyError(Exception):
    """A notice did not arrive; the message says why, and holds no secret. It is tried again."""


class Notifier(Protocol):
    """Tells people of alerts. A thread of its own calls it for each notice, and another one for a
    test; a call ends within some seconds, however long the other side takes."""

    def notify(self, notice: Notice) -> str:
        """Returns what was answered, in a few words: `HTTP 200`. Raises NotifyError."""
        ...


@hookspec(firstresult=True)
def pilothouse_create_launcher(name: str, state_dir: Path) -> Launcher | None:
    """The launcher called `name`; None when it is not yours."""


@hookspec(firstresult=True)
def pilothouse_create_engine_process(engine: str) -> EngineProcess | None:
    """How replicas of `engine` are started; None when it is not yours, or is only ever attached."""


@hookspec(firstresult=True)
def pilothouse_check_engine_settings(
    engine: str, settings: Mapping[str, Any]
) -> list[tuple[str, str]] | None:
    """Problems in an EngineConfig's settings as (key, what is wrong and the remedy); [] when
    they are fine, None when the engine is not yours.

    An engine takes `max_model_len` among them: a Model's own bound reaches it that way.
    """


@hookspec
def pilothouse_check_model_folder(folder: Path) -> list[str] | None:
    """Why your engine cannot run the model in a folder of safetensors, each naming its file; []
    when it can, None when it runs none. No weights are read, and no torch is imported."""


@hookspec
def pilothouse_diagnosis_rules() -> list[Rule] | None:
    """Rules of diagnosis beside the built-in ones; see `controlplane.diagnosis.rule`. Pure: they
    see a window and nothing else. An id that another rule has is an error. None: you have none."""


@hookspec(firstresult=True)
def pilothouse_create_notifier(kind: str, file: Path) -> Notifier | None:
    """The notifier of that kind, such as `slack`, whose address and whatever else is secret stand
    in `file`; None when it is not yours. Raises ValueError, naming the file and the remedy and
    nothing that stands in it, for one that it cannot use."""
