"""An engine that was started anew within a watch is asked for its end, before anything else."""

from dataclasses import replace

import pytest

from controlplane.diagnosis.judging import diagnose
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.rules import BUILT_IN_RULES
from controlplane.diagnosis.views.restarts import restart_of
from controlplane.diagnosis.window import Change, Window
from dataplane.engine_metrics.signal import Signal
from tests.controlplane.diagnosis.rules.build_window import series, window

HITS = series(Signal.CACHED_PROMPT_TOKENS, 7, 7, 7, 0, 0, 0, 3, every=5)
PROMPTS = series(Signal.PROMPT_TOKENS, 500, 520, 534, 0, 82, 90, 101, every=5)
TOKENS = series(Signal.GENERATION_TOKENS, 3000, 3600, 4247, 0, 300, 700, 1300, every=5)


def _watch(*more: Change) -> Window:
    return window(HITS, PROMPTS, TOKENS, *more, engine="llama.cpp")


def test_what_restarted_while_it_was_watched_is_asked_how_it_ended() -> None:
    found = diagnose(_watch(), BUILT_IN_RULES)
    assert found.mechanism is Mechanism.CANNOT_TELL
    assert "exit code" in found.needs[0]
    assert Mechanism.CACHE_NOTHING_SHARED not in {each.mechanism for each in found.possible}


def test_it_is_of_the_first_page_on_which_all_counters_are_lower() -> None:
    restart = restart_of(_watch())
    assert restart is not None
    assert restart.at == 15


@pytest.mark.parametrize(
    "found",
    [
        _watch(Change(at=14, what="restarted by hand")),
        window(HITS, series(Signal.PROMPT_TOKENS, 500, 520, 534, 540, 600, every=5)),
        window(
            series(Signal.PROMPT_TOKENS, 900, 40, 905, 44, 910, every=5),
            series(Signal.GENERATION_TOKENS, 9000, 400, 9050, 440, 9100, every=5),
        ),
        window(
            series(Signal.PROMPT_TOKENS, 900, 905, 40, 44, 910, 915, 50, 54, every=5),
            series(Signal.GENERATION_TOKENS, 9000, 9050, 400, 440, 9100, 9150, 480, 520, every=5),
        ),
    ],
    ids=["somebody did it", "one counter alone", "two by turns", "two by turns, pages in pairs"],
)
def test_what_is_known_or_is_no_restart_is_not_asked_for(found: Window) -> None:
    assert restart_of(found) is None


@pytest.mark.parametrize("num_pages", range(3, 9))
def test_two_that_answer_two_pages_each_restart_at_no_moment(num_pages: int) -> None:
    prompts, tokens = (900, 905, 40, 44, 910, 915, 50, 54), (9, 10, 3, 4, 11, 12, 5, 6)
    found = window(
        series(Signal.PROMPT_TOKENS, *prompts[:num_pages], every=5),
        series(Signal.GENERATION_TOKENS, *tokens[:num_pages], every=5),
    )
    assert restart_of(found) is None


@pytest.mark.parametrize(
    "change",
    [
        Change(at=16, what="e is ready: its counters restarted", subject="e", is_observation=True),
        Change(at=14, what="f starts: scaled up", subject="f"),
        Change(at=-2000, what="chat: engine config e@1 to e@2, deployed by eva"),
    ],
    ids=["what we saw ourselves", "another replica", "long before"],
)
def test_what_did_not_start_it_anew_does_not_silence_it(change: Change) -> None:
    own = [replace(each, labels={"replica": "e"}) for each in (HITS, PROMPTS, TOKENS)]
    assert restart_of(window(*own, change)) is not None


def test_the_start_of_that_replica_itself_is_who_did_it() -> None:
    own = [replace(each, labels={"replica": "e"}) for each in (HITS, PROMPTS, TOKENS)]
    assert restart_of(window(*own, Change(at=2, what="e starts: by hand", subject="e"))) is None
