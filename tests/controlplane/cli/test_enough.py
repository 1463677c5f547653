"""Ctrl-C is kept from the first moment on, and the second one ends the command."""

import asyncio
import signal

import pytest

from controlplane.cli.enough import Enough


def test_who_had_enough_before_a_loop_ran_has_enough_in_it() -> None:
    async def is_told(enough: Enough) -> bool:
        return enough.event().is_set()

    with Enough() as enough:
        assert not asyncio.run(is_told(enough))
        signal.raise_signal(signal.SIGINT)
        assert asyncio.run(is_told(enough))


def test_ctrl_c_wakes_who_waits_for_it_and_the_second_one_ends_all() -> None:
    async def waited(enough: Enough) -> None:
        event = enough.event()
        asyncio.get_running_loop().call_soon(signal.raise_signal, signal.SIGINT)
        await asyncio.wait_for(event.wait(), timeout=10)

    before = signal.getsignal(signal.SIGINT)
    with Enough() as enough:
        asyncio.run(waited(enough))
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) == before
