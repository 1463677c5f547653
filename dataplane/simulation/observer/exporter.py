"""One replica as its surroundings see it: what `/metrics` answers, and what is in its log.

The exporter is the StepObserver of the replica's present process. It knows the engine, not
the simulation: a process that starts again counts from zero, one that is stuck tells what it
told last, one that ended tells nothing.
"""

from collections.abc import Iterable
from collections.abc import Sequence as ReadableSequence
from dataclasses import replace
from datetime import datetime
from typing import Protocol

from dataplane.scheduling.scheduler import Scheduler
from dataplane.scheduling.sequence import Sequence
from dataplane.scheduling.step import StepPlan
from dataplane.simulation.cost import CostModel
from dataplane.simulation.observer.dialect import (
    Dialect,
    EngineIdentity,
    EngineView,
    Rates,
    wall_clock,
)
from dataplane.simulation.observer.ended_work import EndedWork
from dataplane.simulation.observer.exposition import Family, render
from dataplane.simulation.observer.lines import Logged, Scraped, Sink
from dataplane.simulation.observer.speculation import DraftCount
from dataplane.simulation.observer.tally import EngineTally
from dataplane.simulation.timeline import Timeline

LEAK_BOUND_SECONDS = 5.0
"""As `dataplane.host.engine_loop` has it."""
STUCK_AFTER_SECONDS = 10.0
"""A step that takes so long is noticed by who logs."""


class FamilyFilter(Protocol):
    """What stands between an engine and who scrapes it: a proxy, an agent, a relabelling."""

    def pass_on(self, families: list[Family], target: str, at: float) -> list[Family]:
        """What the scraper gets to see at `at` (seconds), in order. Called once a scrape."""
        ...


class EngineExporter:
    """What one replica exports. `started` begins a process, `exited` ends it."""

    def __init__(
        self,
        timeline: Timeline,
        dialect: Dialect,
        identity: EngineIdentity,
        sink: Sink,
        *,
        anchor_unix: float,
        filters: ReadableSequence[FamilyFilter] = (),
    ) -> None:
        """`anchor_unix` is the wall time of virtual time 0, in seconds."""
        self.identity = identity
        self.dialect = dialect
        self.tally = EngineTally(timeline, {})
        self._timeline = timeline
        self._sink = sink
        self._anchor_unix = anchor_unix
        self._filters = filters
        self._scheduler: Scheduler | None = None
        self._is_running = False
        self._drafts: DraftCount | None = None
        self._told_work = EndedWork()
        self._rates = Rates()
        self._stages: dict[str, float] = {}
        self._leaks: list[tuple[str, float]] = []
        self._num_leaks_reported = 0
        self._num_stuck_lines = 0

    @property
    def target(self) -> str:
        """Whom a scrape names."""
        return self.identity.replica_id

    @property
    def is_up(self) -> bool:
        """A process serves."""
        return self._scheduler is not None

    @property
    def is_running(self) -> bool:
        """There is a process, which may still start."""
        return self._is_running

    # What happens to the process.

    def starting(self) -> None:
        """It was launched, and answers nobody yet."""
        self._stages = {}
        self._is_running = True
        self._manager("Started", "")

    def stage_ended(self, stage: str, seconds: float) -> None:
        """A stage of its start took so long."""
        self._stages[stage] = seconds
        self._log(self.dialect.log.stage_ended(stage, seconds, self._wall()))

    def started(self, scheduler: Scheduler, cost: CostModel | None = None) -> None:
        """It serves from now on; `cost` tells what it counts where it speculates."""
        now = self._timeline.now
        self._drafts = DraftCount.begin(cost)
        self._scheduler = scheduler
        self._is_running = True
        self.tally = EngineTally(self._timeline, self.dialect.bounds(scheduler.config))
        self._told_work = EndedWork()
        self._rates = Rates(at=now)
        self._leaks = []
        self._num_leaks_reported = 0
        self._num_stuck_lines = 0
        self._log(self.dialect.log.started(self._view(scheduler), self._wall()))

    def ran_out_of_memory(self, num_wanted: int) -> None:
        """It needed `num_wanted` blocks' worth more than there was, and ends with that."""
        scheduler = self._require()
        view = self._view(scheduler)
        self._log(self.dialect.log.out_of_memory(view, num_wanted, self._wall()))
        self.exited(1)

    def exited(self, code: int) -> None:
        """It ended; a negative code is the signal that did it."""
        self._scheduler = None
        self._is_running = False
        if code < 0:
            self._manager("Main process exited", f", code=killed, status={-code}/{_SIGNALS[-code]}")
            self._manager("Failed with result 'signal'", "")
        elif code > 0:
            self._manager("Main process exited", f", code=exited, status={code}/FAILURE")
            self._manager("Failed with result 'exit-code'", "")
        else:
            self._manager("Deactivated successfully", "")

    # What the engine does.

    def submitted(self, sequence: Sequence) -> None:
        """It arrived at the engine."""
        self.tally.submitted(sequence)

    def refused(self, sequence: Sequence) -> None:
        """It can never run."""
        self.tally.refused(sequence)

    def cancelled(self, sequence: Sequence, asked_at: float) -> None:
        """It was ended early, as was asked for at `asked_at`."""
        self.tally.cancelled(sequence, asked_at)
        self._count_drafts()

    def dropped(self, sequence: Sequence) -> None:
        """It ended with another one of its request, which was refused by the step that begins."""
        self.tally.dropped(sequence)

    def leaked(self, sequence: Sequence) -> None:
        """It was cancelled, and its blocks stay taken while this process lives."""
        self.tally.leaked(sequence)
        self._leaks.append((sequence.request_id, self._timeline.now))

    def step_began(self, plan: StepPlan) -> None:
        """Count, and write what the engine writes of it."""
        self.tally.step_began(plan)
        if plan.preempted and self._scheduler is not None:
            self._log(self.dialect.log.preempted(self._view(self._scheduler), self._wall()))

    def step_ended(self, plan: StepPlan, complete: Iterable[Sequence]) -> None:
        """Count."""
        self.tally.step_ended(plan, complete)
        self._count_drafts()

    def _count_drafts(self) -> None:
        if self._drafts is not None:
            self._drafts.answers_ended(self.tally.ended.num_decode_steps)

    # What somebody outside asks.

    def scrape(self) -> Scraped:
        """What `/metrics` answers now."""
        now = self._timeline.now
        if self._scheduler is None:
            return self._unanswered("connection refused")
        families = self.dialect.families(self._view(self._scheduler))
        self._told_work = replace(self.tally.ended)
        for each in self._filters:
            families = each.pass_on(families, self.target, now)
        return Scraped(at=now, target=self.target, text=render(families))

    def write_log(self) -> None:
        """The lines of another `log_every_seconds` of the dialect."""
        scheduler = self._scheduler
        if scheduler is None:
            return
        now = self._timeline.now
        if self.dialect.counts_while_stuck or not self._is_stuck(STUCK_AFTER_SECONDS):
            self._rates.take(now, self.tally, scheduler.stats)
            self._log(self.dialect.log.periodic(self._view(scheduler), self._wall()))
        self._report_stuck(scheduler)
        self._report_leaks(scheduler, now)

    def _report_stuck(self, scheduler: Scheduler) -> None:
        if not self._is_stuck(self.dialect.stuck_seconds * (self._num_stuck_lines + 1)):
            self._num_stuck_lines = self._num_stuck_lines if self._is_stuck(0) else 0
            return
        self._num_stuck_lines += 1
        self._log(self.dialect.log.stuck(self._view(scheduler), self._wall()))

    def _report_leaks(self, scheduler: Scheduler, now: float) -> None:
        past = self._leaks[self._num_leaks_reported :]
        for request_id, leaked_at in past:
            if now - leaked_at <= LEAK_BOUND_SECONDS:
                return
            self._num_leaks_reported += 1
            view = self._view(scheduler)
            self._log(self.dialect.log.leaked(view, request_id, now - leaked_at, self._wall()))

    def _is_stuck(self, seconds: float) -> bool:
        began_at = self.tally.step_began_at
        return began_at is not None and self._timeline.now - began_at >= seconds

    def _view(self, scheduler: Scheduler) -> EngineView:
        now = self._timeline.now
        reported = sum(now - at > LEAK_BOUND_SECONDS for _, at in self._leaks)
        return EngineView(
            identity=self.identity,
            config=scheduler.config,
            stats=scheduler.stats,
            tally=self.tally,
            now=now,
            rates=self._rates,
            new_work=self.tally.ended.since(self._told_work),
            drafting=None if self._drafts is None else self._drafts.read(),
            ended_drafting=None if self._drafts is None else self._drafts.read_ended(),
            start_stages=self._stages,
            num_leaked=len(self._leaks),
            num_leaks_reported=reported,
        )

    def _require(self) -> Scheduler:
        if self._scheduler is None:
            raise RuntimeError(f"no process of {self.target} runs; call started() first")
        return self._scheduler

    def _wall(self) -> datetime:
        return wall_clock(self._anchor_unix, self._timeline.now)

    def _unanswered(self, why: str) -> Scraped:
        return Scraped(at=self._timeline.now, target=self.target, text="", error=why)

    def _log(self, lines: list[str]) -> None:
        if lines:
            at = self._timeline.now
            self._sink(Logged(at=at, target=self.target, text="\n".join(lines)))

    def _manager(self, what: str, detail: str) -> None:
        stamp = self._wall().strftime("%b %d %H:%M:%S")
        unit = f"{self.target}.service"
        said = f"{what} {unit}." if what == "Started" else f"{unit}: {what}{detail}."
        self._log([f"{stamp} systemd[1]: {said}"])


_SIGNALS = {6: "ABRT", 9: "KILL", 11: "SEGV", 15: "TERM"}
