"""The mean step that a request saw, from when all of them prefilled and decoded.

No step is seen, but every step of an engine gives each sequence that decodes one token, so the
steps in a request's decode are as many as its tokens after the first. What ran in them is what
overlaps::

    request 1   |prefill|------------- decode, 40 steps --------------|
    request 2               |prefill|------- decode, 25 tokens ---|
    request 3          ------ decode, some ------|

    in the mean step of 1's decode:  prompt tokens of 2 / 40
                                     (40 + 25 + those of 3 that fall into it) / 40 rows
    in 1's prefill, one step:        its prompt, and a row for each that decodes meanwhile

A prefill whose prompt was cut took more steps, and nothing says how many. Of a decode that
overlaps in part, tokens are counted at the mean pace of the two.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dataplane.simulation.fitting.regression import Array
from dataplane.simulation.fitting.served_request import ServedRequest
from dataplane.simulation.fitting.work import Work, attended_tokens

_SAME_MOMENT = 1e-9


class Window(NamedTuple):
    """The mean step of a request's decode, or the step of its prefill."""

    ended_at: float
    is_prefill: bool
    num_steps: float
    """That it is the mean of."""
    seconds: float
    """Of one of them."""
    work: Work


def observe_windows(requests: Sequence[ServedRequest]) -> list[Window]:
    """Of all requests, in order of their ends. What one server did says nothing of another."""
    by_server: dict[str, list[ServedRequest]] = defaultdict(list)
    for request in requests:
        by_server[request.server].append(request)
    windows = [window for each in by_server.values() for window in _Server(each).windows()]
    return sorted(windows, key=lambda window: window.ended_at)


class _Server:
    """The requests of one server, as columns in order of the beginning of their work."""

    def __init__(self, requests: Sequence[ServedRequest]) -> None:
        ordered = sorted(requests, key=lambda request: request.scheduled_at)
        self._begin = np.array([each.scheduled_at for each in ordered])
        self._first = np.array([each.first_token_at for each in ordered])
        self._last = np.array([each.last_token_at for each in ordered])
        self._num_prompt = np.array([float(each.num_prompt_tokens) for each in ordered])
        self._attended = np.array([attended_tokens(0, each.num_prompt_tokens) for each in ordered])
        self._num_steps = np.array([each.num_output_tokens - 1.0 for each in ordered])
        decode = self._last - self._first
        self._pace = np.where(decode > 0, self._num_steps / np.maximum(decode, 1e-12), 0.0)
        self._ends_by = np.maximum.accumulate(self._last)
        """Ascending: what came before a place in order has ended by then."""

    def windows(self) -> list[Window]:
        """Of every request its prefill, and its decode where it has one."""
        found = []
        for number in range(len(self._begin)):
            found.append(self._prefill(number))
            if self._num_steps[number] > 0:
                found.append(self._decode(number))
        return found

    def _prefill(self, number: int) -> Window:
        begin, end = float(self._begin[number]), float(self._first[number])
        work = self._work(begin, end, num_steps=1.0)
        return Window(end, True, 1.0, end - begin, work)

    def _decode(self, number: int) -> Window:
        begin, end = float(self._first[number]), float(self._last[number])
        num_steps = float(self._num_steps[number])
        work = self._work(begin, end, num_steps)
        return Window(end, False, num_steps, (end - begin) / num_steps, work)

    def _work(self, begin: float, end: float, num_steps: float) -> Work:
        """Of the mean of `num_steps` steps in that time."""
        near = slice(
            int(np.searchsorted(self._ends_by, begin, side="left")),
            int(np.searchsorted(self._begin, end, side="right")),
        )
        first, last, pace = self._first[near], self._last[near], self._pace[near]
        held = _overlap(begin, end, self._begin[near], first)
        prefilled = held / np.maximum(first - self._begin[near], 1e-12)
        decoded = _overlap(begin, end, first, last)
        here = num_steps / (end - begin)
        is_whole = (first <= begin + _SAME_MOMENT) & (last >= end - _SAME_MOMENT)
        is_inside = (first >= begin - _SAME_MOMENT) & (last <= end + _SAME_MOMENT)
        rate = np.where(is_whole, here, np.where(is_inside, pace, (here + pace) / 2))
        tokens = np.where(pace > 0, decoded * rate, 0.0)
        middle = (np.maximum(first, begin) + np.minimum(last, end)) / 2
        context = self._num_prompt[near] + (middle - first) * pace + 0.5
        return Work(
            float((prefilled * self._num_prompt[near]).sum()) / num_steps,
            float(tokens.sum()) / num_steps,
            float((tokens * context).sum()) / num_steps,
            0.0,
            float((prefilled * self._attended[near]).sum()) / num_steps,
        )


def _overlap(begin: float, end: float, begins: Array, ends: Array) -> Array:
    overlap: Array = np.maximum(0.0, np.minimum(ends, end) - np.maximum(begins, begin))
    return overlap
