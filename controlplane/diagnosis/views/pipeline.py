"""Each stage of a pipeline by itself: what is told of one of them, such as `stage_1_waiting`.

A model that speaks has a stage that thinks, one that talks and one that makes sound, each an engine
with its own batch and its own queue; a sum over them is nobody's.
"""

import re
from collections.abc import Iterator
from dataclasses import replace

from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.views.told import plain
from controlplane.diagnosis.window import Window

_STAGE = re.compile(r"\bstage (\d{1,2}|[a-z]\w*)\b")
_FEWEST = 2
"""Figures of one stage: one alone may be of a stage of anything."""


def each_stage(window: Window) -> Iterator[tuple[str, Window]]:
    """Its name, and a window in which its facts stand as those of an engine beside what is told of
    all. Series and lines are left out: nobody says of which stage they are."""
    by_stage: dict[str, list[Fact]] = {}
    common = []
    for fact in window.facts:
        found = _STAGE.search(plain(fact.key))
        if found is None:
            common.append(fact)
            continue
        own = " ".join(_STAGE.sub(" ", plain(fact.key)).split())
        if own:
            by_stage.setdefault(found[1], []).append(replace(fact, key=own.replace(" ", "_")))
    for stage, facts in by_stage.items():
        if len({fact.key for fact in facts}) >= _FEWEST:
            told = sorted((*common, *facts), key=lambda fact: fact.at)
            yield (
                f"stage {stage}",
                replace(
                    window,
                    facts=tuple(told),
                    series=(),
                    histograms=(),
                    events=(),
                    lines=(),
                    line_times=(),
                    told_lines=(),
                ),
            )
