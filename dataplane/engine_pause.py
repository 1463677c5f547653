"""An engine that can be told to wait with one request: an interface beside the engine contract."""

from typing import Protocol, runtime_checkable


@runtime_checkable
class EnginePauser(Protocol):
    """An engine client whose engine can wait. Once it does, and once it goes on, it tells so by
    the events PAUSED and RESUMED; what is under way may come after them."""

    async def pause(self, request_id: str, is_paused: bool) -> None:
        """Ask for no more steps, or (False) for steps again. Of no effect where the request has
        ended. Raises EngineUnavailableError."""
        ...
