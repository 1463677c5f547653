"""Calls of a trace that a Scenario is over too early for."""

from controlplane.specs.scenario_compiling import ScenarioDocument


def left_out_lines(document: ScenarioDocument) -> list[str]:
    """Of each replay some of whose calls never come: how many, and what would let them."""
    named = [each.replay.file for each in document.spec.arrivals if each.replay is not None]
    duration = document.fleet.duration
    lines = []
    for file, replay in zip(named, document.fleet.replays, strict=True):
        late = replay.find_late(duration)
        if late is not None:
            count = len(replay.entries)
            lines.append(
                f"warning: {late.num_calls} of {count} {'call' if count == 1 else 'calls'} of "
                f"{file} {'is' if late.num_calls == 1 else 'are'} left out: the scenario ends "
                f"after {duration:g} s, and the last that waits for no answer comes after "
                f"{late.last_at:g} s; raise duration above that, or the replay's speed"
            )
    return lines
