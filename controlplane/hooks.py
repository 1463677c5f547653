"""What a plugin of the control plane can provide: one typed hook each, in one place."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

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


class StrayKind(StrEnum):
    """How a process is where it should not be."""

    REMAINS = "remains"
    """It was started for a replica whose own process is gone, or is another one."""
    INTRUDER = "intruder"
    """It listens on the port of a replica, and is none of that replica's processes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StrayProcess:
    """A process that a launcher found astray."""

    stray_id: str
    """Names this very process, and never another one."""
    kind: StrayKind
    pid: int | None
    """None: another user's, of which nothing is told."""
    replica_id: str
    """What it was started for, or whose port it has."""
    fencing_token: int
    command: str
    ports: tuple[int, ...]
    """Where it listens; of an intruder, the replica's alone."""
    resident_bytes: int | None
    """Of the host's memory; None: not told."""
    device_bytes: int | None
    """Of devices' memory; None: nothing tells."""


@runtime_checkable
class StrayFinder(Protocol):
    """A launcher that can look for strays is one as well. Called as launchers are."""

    def find_strays(self) -> list[StrayProcess]:
        """All that are there now."""
        ...

    def end_stray(self, stray_id: str) -> None:
        """End exactly that process, at once, if the last look told it; nothing else is touched.

        Raises ValueError for an intruder: a stranger is nobody's to end. OSError when it cannot.
        """
        ...


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
