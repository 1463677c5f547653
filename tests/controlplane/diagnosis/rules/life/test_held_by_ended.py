import pytest

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.rules.life.leak import LEAK
from controlplane.diagnosis.sources.case import read_case
from controlplane.diagnosis.verdict import Verdict

_IDLE = "srv  update_slots: all slots are idle"
_CASE = "id: slots\nengine: {name: llama.cpp, version: b9966}\ninput:\n- kind: log\n  text: |\n"
_NO_ROOM = (
    "srv  update_slots: failed to find free space in the KV cache, retrying with smaller batch "
    "size, i = 0, n_batch = 512, ret = 1"
)


def _started(task: int, tokens: int) -> str:
    return (
        f"slot update_slots: id  0 | task {task} | new prompt, n_ctx_slot = 8192, n_keep = 0, "
        f"task.n_tokens = {tokens}"
    )


def _ended(task: int, tokens: int) -> str:
    return (
        f"slot      release: id  0 | task {task} | stop processing: n_tokens = {tokens}, "
        "truncated = 0"
    )


def _judge(*lines: str) -> Verdict | None:
    text = "\n".join(f"    {line}" for line in lines)
    return LEAK.judge(read_case(_CASE + text + "\n", "slots.yaml").window)


def _one_after_another(*ended: int, last: int) -> tuple[str, ...]:
    lines: list[str] = []
    for task, tokens in enumerate(ended):
        lines += [_started(task, tokens - 200), _ended(task, tokens), _IDLE]
    return (*lines, _started(99, last), _NO_ROOM)


def test_what_ended_and_a_short_prompt_make_up_the_pool() -> None:
    verdict = _judge(*_one_after_another(3000, 3100, last=2000))
    assert verdict is not None
    assert verdict.confidence is Confidence.LIKELY


@pytest.mark.parametrize(
    ("ended", "last"),
    [((3000, 3100), 7900), ((1000, 1100), 2000), ((6000, 6100), 2000)],
    ids=["it fills the pool alone", "most of the pool is free", "they cannot all be held"],
)
def test_nothing_is_held_by_what_ended(ended: tuple[int, ...], last: int) -> None:
    verdict = _judge(*_one_after_another(*ended, last=last))
    assert verdict is None or verdict.confidence < Confidence.LIKELY
