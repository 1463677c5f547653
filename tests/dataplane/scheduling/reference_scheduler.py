"""The scheduler's rules once more, plainly: every step visits every sequence, nothing is kept.

It is what `dataplane.scheduling` is compared with, so it shares none of its objects: only the
configuration and the names of blockers. It costs as much as runs.
"""

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

from dataplane.scheduling.bounds import SchedulerConfig
from dataplane.scheduling.step import Blocker

Tokens = tuple[int, ...]
Identity = tuple[int | None, str, Tokens]


@dataclass(eq=False)
class Stream:
    """One sequence: all its tokens, how many of them are prompt, how many have KV."""

    stream_id: int
    tokens: list[int]
    limit: int
    tenant: str = ""
    script: list[int] | None = None
    num_prompt: int = 0
    num_computed: int = 0
    num_cached: int = 0
    num_preemptions: int = 0
    num_registered: int = 0
    node: int | None = None
    blocks: list[int] = field(default_factory=list)
    status: str = "waiting"

    def __post_init__(self) -> None:
        self.num_prompt = len(self.tokens)
        if self.script is not None:
            self.limit = min(self.limit, len(self.script))

    @property
    def num_behind(self) -> int:
        return len(self.tokens) - self.num_computed

    @property
    def num_output(self) -> int:
        return len(self.tokens) - self.num_prompt

    @property
    def is_decoding(self) -> bool:
        return self.num_output > 0 and self.num_behind == 1


@dataclass
class Chunk:
    stream: Stream
    start: int
    num_tokens: int
    is_prefill: bool
    selects: bool
    num_cached: int


@dataclass
class Plan:
    """The same facts as `StepPlan`, with ids instead of sequences."""

    chunks: list[Chunk] = field(default_factory=list)
    released: list[int] = field(default_factory=list)
    admitted: list[int] = field(default_factory=list)
    resumed: list[int] = field(default_factory=list)
    preempted: list[int] = field(default_factory=list)
    refused: list[int] = field(default_factory=list)
    stalled: list[int] = field(default_factory=list)
    deferred_on: Blocker | None = None
    is_blocked: bool = False


class Blocks:
    """Which blocks are blank, referenced, or kept for their content; and the trie over those."""

    def __init__(self, config: SchedulerConfig) -> None:
        self.size = config.block_size
        self.is_caching = config.is_prefix_caching
        self.references = [0] * config.num_blocks
        self.blank = list(reversed(range(config.num_blocks)))
        self.evictable: OrderedDict[int, None] = OrderedDict()
        self.nodes: dict[Identity, tuple[int, int]] = {}  # to (node, block)
        self.identities: dict[int, Identity] = {}
        self.num_nodes = 0

    @property
    def num_free(self) -> int:
        return len(self.blank) + len(self.evictable)

    def num_for(self, num_tokens: int) -> int:
        return -(-num_tokens // self.size)

    def take(self) -> int:
        if self.blank:
            block = self.blank.pop()
        else:
            block, _ = self.evictable.popitem(last=False)
            del self.nodes[self.identities.pop(block)]
        self.references[block] = 1
        return block

    def share(self, block: int) -> None:
        self.evictable.pop(block, None)
        self.references[block] += 1

    def give_back(self, blocks: list[int]) -> None:
        for block in reversed(blocks):
            self.references[block] -= 1
            if self.references[block] == 0 and block in self.identities:
                self.evictable[block] = None
            elif self.references[block] == 0:
                self.blank.append(block)

    def match(self, stream: Stream) -> tuple[list[int], int | None]:
        found: list[int] = []
        node = None
        if self.is_caching:
            for start in range(0, len(stream.tokens) - self.size, self.size):
                tokens = tuple(stream.tokens[start : start + self.size])
                if (node, stream.tenant, tokens) not in self.nodes:
                    break
                node, block = self.nodes[node, stream.tenant, tokens]
                found.append(block)
        return found, node

    def register(self, stream: Stream) -> None:
        while self.is_caching and (stream.num_registered + 1) * self.size <= stream.num_computed:
            start = stream.num_registered * self.size
            identity = (stream.node, stream.tenant, tuple(stream.tokens[start : start + self.size]))
            if identity not in self.nodes:
                block = stream.blocks[stream.num_registered]
                self.nodes[identity] = (self.num_nodes, block)
                self.identities[block] = identity
                self.num_nodes += 1
            stream.node = self.nodes[identity][0]
            stream.num_registered += 1


class ReferenceScheduler:
    """As `Scheduler`, by ids. What is wrong to call is not called here."""

    def __init__(self, config: SchedulerConfig) -> None:
        self.config = config
        self.blocks = Blocks(config)
        self.streams: dict[int, Stream] = {}
        self.running: list[Stream] = []
        self.waiting: list[Stream] = []
        self.finished: list[Stream] = []
        self.plan: Plan | None = None
        self.num_steps = self.num_preemptions = self.num_queried = self.num_hit = 0

    def add(self, stream: Stream) -> bool:
        """False when it can never run."""
        slots = self.config.num_blocks * self.config.block_size
        if stream.num_prompt + stream.limit > self.config.max_model_len:
            return False
        if stream.num_prompt > slots:
            return False
        self.streams[stream.stream_id] = stream
        self.waiting.append(stream)
        return True

    def finish(self, stream_id: int) -> bool:
        stream = self.streams.get(stream_id)
        if stream is None or stream.status == "finished":
            return False
        self._end(stream)
        return True

    def retire(self) -> list[int]:
        read = [] if self.plan is None else [c.stream for c in self.plan.chunks]
        retired = [s for s in self.finished if s not in read]
        self.finished = [s for s in self.finished if s in read]
        for stream in retired:
            self._release(stream)
            del self.streams[stream.stream_id]
        return [s.stream_id for s in retired]

    def schedule(self) -> Plan:
        plan = Plan(released=self.retire())
        self._continue_running(plan)
        plan.released += self.retire()
        plan.deferred_on = self._admit_waiting(plan)
        plan.is_blocked = not plan.chunks and bool(self.waiting or self.running)
        if plan.chunks:
            self.plan = plan
            self.num_steps += 1
        return plan

    def commit(self, selected: dict[int, int] | None) -> list[int]:
        assert self.plan is not None
        plan, self.plan = self.plan, None
        complete = []
        for chunk in plan.chunks:
            stream = chunk.stream
            if stream.status == "finished":
                continue
            stream.num_computed += chunk.num_tokens
            self.blocks.register(stream)
            if chunk.selects:
                stream.tokens.append(self._token(stream, selected))
                if stream.num_output >= stream.limit:
                    complete.append(stream)
        for stream in complete:
            self._end(stream)
        return [s.stream_id for s in complete]

    def abandon(self) -> None:
        self.plan = None

    def stats(self) -> dict[str, Any]:
        """The fields of `SchedulerStats`."""
        blocks = self.blocks
        return {
            "num_running": len(self.running),
            "num_waiting": len(self.waiting),
            "num_unreleased": len(self.finished),
            "num_free_blocks": blocks.num_free,
            "num_referenced_blocks": sum(count > 0 for count in blocks.references),
            "num_cached_blocks": len(blocks.identities),
            "num_evictable_blocks": len(blocks.evictable),
            "num_steps": self.num_steps,
            "num_preemptions": self.num_preemptions,
            "num_prefix_query_tokens": self.num_queried,
            "num_prefix_hit_tokens": self.num_hit,
        }

    def _token(self, stream: Stream, selected: dict[int, int] | None) -> int:
        if selected is not None:
            return selected[stream.stream_id]
        assert stream.script is not None
        return stream.script[stream.num_output]

    def _continue_running(self, plan: Plan) -> None:
        for stream in list(self.running):
            if stream.status != "running":
                continue
            if len(stream.tokens) > self.config.num_blocks * self.config.block_size:
                self._end(stream)
                plan.refused.append(stream.stream_id)
                continue
            num_tokens = self._grant(plan, stream, stream.num_behind, stream.is_decoding)
            if num_tokens > 0 and self._reserve(plan, stream, num_tokens):
                self._put(plan, stream, num_tokens, 0)
            elif num_tokens > 0:
                plan.stalled.append(stream.stream_id)

    def _grant(self, plan: Plan, stream: Stream, num_behind: int, is_decoding: bool) -> int:
        if is_decoding:
            return 1
        in_plan = [chunk.stream for chunk in plan.chunks]
        decodes_to_come = sum(
            s.is_decoding and s.stream_id > stream.stream_id and s not in in_plan
            for s in self.running
        )
        num_prompt = sum(c.num_tokens for c in plan.chunks if c.is_prefill)
        prompt_left = self.config.max_prompt_tokens - num_prompt
        return min(num_behind, prompt_left, self._tokens_left(plan) - decodes_to_come)

    def _tokens_left(self, plan: Plan) -> int:
        return self.config.max_num_batched_tokens - sum(c.num_tokens for c in plan.chunks)

    def _reserve(self, plan: Plan, stream: Stream, num_tokens: int) -> bool:
        needed = self.blocks.num_for(stream.num_computed + num_tokens) - len(stream.blocks)
        while needed > self.blocks.num_free:
            newest = self.running[-1]
            if newest is stream:
                return False
            self.running.pop()
            newest.status = "preempted"
            self._release(newest)
            newest.num_preemptions += 1
            self.num_preemptions += 1
            self.waiting.insert(0, newest)
            plan.preempted.append(newest.stream_id)
        stream.blocks += [self.blocks.take() for _ in range(needed)]
        return True

    def _put(self, plan: Plan, stream: Stream, num_tokens: int, num_cached: int) -> None:
        plan.chunks.append(
            Chunk(
                stream=stream,
                start=stream.num_computed,
                num_tokens=num_tokens,
                is_prefill=not stream.is_decoding,
                selects=num_tokens == stream.num_behind,
                num_cached=num_cached,
            )
        )

    def _admit_waiting(self, plan: Plan) -> Blocker | None:
        while self.waiting:
            if plan.preempted or plan.stalled:
                return Blocker.BLOCKS
            if len(self.running) >= self.config.max_num_seqs:
                return Blocker.SLOTS
            if self._tokens_left(plan) < 1:
                return Blocker.TOKEN_BUDGET
            stream = self.waiting[0]
            owed = [1 + self.blocks.num_for(len(s.tokens)) - len(s.blocks) for s in self.running]
            num_spare = self.blocks.num_free - sum(owed)
            found, node = self.blocks.match(stream)
            num_revived = sum(self.blocks.references[block] == 0 for block in found)
            num_new = self.blocks.num_for(len(stream.tokens)) - len(found)
            if num_spare < 1 or num_new + num_revived > num_spare:
                return Blocker.BLOCKS
            num_behind = len(stream.tokens) - len(found) * self.blocks.size
            is_decoding = stream.num_output > 0 and num_behind == 1
            num_tokens = self._grant(plan, stream, num_behind, is_decoding)
            if num_tokens < 1:
                return Blocker.PROMPT_BUDGET
            self._admit(plan, stream, found, node)
            assert self._reserve(plan, stream, num_tokens)
            self._put(plan, stream, num_tokens, stream.num_computed)
        return None

    def _admit(self, plan: Plan, stream: Stream, found: list[int], node: int | None) -> None:
        self.running.append(self.waiting.pop(0))
        for block in found:
            self.blocks.share(block)
        stream.blocks = list(found)
        stream.num_registered, stream.node = len(found), node
        stream.num_computed = len(found) * self.blocks.size
        if stream.status == "waiting":
            stream.num_cached = stream.num_computed
            self.num_queried += stream.num_prompt
            self.num_hit += stream.num_computed
            plan.admitted.append(stream.stream_id)
        else:
            plan.resumed.append(stream.stream_id)
        stream.status = "running"

    def _release(self, stream: Stream) -> None:
        self.blocks.give_back(stream.blocks)
        stream.blocks = []
        stream.num_computed = stream.num_registered = 0
        stream.node = None

    def _end(self, stream: Stream) -> None:
        (self.running if stream.status == "running" else self.waiting).remove(stream)
        stream.status = "finished"
        self.finished.append(stream)
