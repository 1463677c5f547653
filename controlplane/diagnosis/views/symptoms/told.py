"""What people and their tools wrote down: trouble by its words, objectives, comparisons."""

import re
from collections.abc import Iterator

from controlplane.diagnosis.citing import says
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.views.activity import Activity
from controlplane.diagnosis.views.contrast import contrasts
from controlplane.diagnosis.views.first_tokens import is_as_long_as_its_prompt
from controlplane.diagnosis.views.kept_prompts import kept_prompts
from controlplane.diagnosis.views.slowdown import slowdowns
from controlplane.diagnosis.views.symptoms.endings import LOST_SHARE
from controlplane.diagnosis.views.told import number_of, plain, says_no, told_all
from controlplane.diagnosis.words.devices import OF_DEVICE
from controlplane.diagnosis.words.latency import OBJECTIVE
from dataplane.engine_metrics.signal import Unit

_SLOWER = 1.25
_GROWN = 1.1
_TROUBLE = (
    r"\b(errors?|fail(ed|ures?|s)?|time ?outs?|timed out|crash\w*|restarts?|oom\w*|kills?"
    r"|evictions?"
    r"|rejected|rejects|refused|dropped|lost|stuck|leak\w*|5xx|50[0234]|429s?|retries|stalls?"
    r"|corrupt\w*|retransmit\w*|blocked|unanswered|zombies?|violations?)\b"
)
_NO_TROUBLE = (
    r"limit|max|budget|config|allowed|setting|policy|timeout (s|ms)|after|window|threshold"
    r"|objective"
    r"|validation"
)
_BAD_WORDS = (
    r"\b(no answer|unanswered|timed? ?out|stuck|hang\w*|hung|crash\w*|refused|fail\w*|dead|wedged"
    r"|not responding|unreachable|exit(ed)? [1-9]|killed)\b"
)
_HELD = r"(gpu|host|vram|device|smi|rss|memory)\b.*\b(used|in use|resident|mib|gib|held)\b|\brss\b"


def facts(now: Activity) -> Iterator[str]:
    """Trouble by its name, of which there is some."""
    for fact in told_all(now.window, _TROUBLE, without=_NO_TROUBLE):
        value = number_of(fact)
        if says_no(fact) or value == 0 or (value is None and not re.search(_BAD_WORDS, fact.raw)):
            continue
        if fact.unit is Unit.RATIO and value is not None and value <= LOST_SHARE:
            continue
        yield says(fact)
    for fact in now.window.facts:
        if fact.value is None and re.search(_BAD_WORDS, fact.raw.lower()):
            yield says(fact)


def comparisons(now: Activity) -> Iterator[str]:
    """Slower than before, or more memory held than before."""
    for slow in slowdowns(now.window):
        if slow.factor < _SLOWER or re.search(r"p50.*p9|start to ready", slow.contrast.keys):
            continue
        if not is_as_long_as_its_prompt(now.window, slow.contrast):
            yield slow.says
    kept = kept_prompts(now.window)
    for contrast in contrasts(now.window, _HELD):
        if contrast.base.key != contrast.other.key or contrast.factor <= _GROWN:
            continue
        is_host = contrast.other.unit is Unit.BYTES and not re.search(OF_DEVICE, contrast.keys)
        grown = contrast.value - contrast.base_value
        if not (kept is not None and is_host and kept.explains(grown)):
            yield contrast.says


def objectives(now: Activity) -> Iterator[str]:
    """An objective that is missed."""
    for limit in told_all(now.window, rf"{OBJECTIVE}|\ballowed\b"):
        bound = number_of(limit)
        about = set(plain(limit.key).split()) - {"objective", "slo", "target", "allowed", "sla"}
        for fact in now.window.facts:
            if fact is limit or fact.unit is not limit.unit or fact.value is None or not bound:
                continue
            if fact.quantile == limit.quantile and _is_about(fact, about) and fact.value > bound:
                yield f"{says(fact)} against {says(limit)}"


def _is_about(fact: Fact, words: set[str]) -> bool:
    own = set(plain(fact.key).split())
    return bool(own & words & {"ttft", "tpot", "itl", "latency", "e2e"}) or bool(
        own & {"latency", "e2e"} and not words & {"ttft", "tpot", "itl"}
    )
