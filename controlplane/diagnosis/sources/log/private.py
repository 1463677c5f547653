"""What callers wrote and got, and secrets: taken out of a log line before anything sees it.

vLLM and SGLang log each request with its prompt if they are told to, gateways its body. A prompt
may ask about an OutOfMemoryError, which is no symptom, and nobody's prompt belongs into an answer,
an incident or a support bundle. Of a line about a request what stands before its content is kept:
who wrote it, when, and which request it is.
"""

import json
import re

from controlplane.diagnosis.sources.secrets import may_hold_secret, without_secrets

LEFT_OUT = "..."
_KEYS = (
    *("prompt", "prompts", "messages", "content", "inputs", "input_text", "completion"),
    *("system_prompt", "user_prompt", "instructions", "reasoning_content", "prompt_token_ids"),
)
_NAMES = frozenset(_KEYS)
_HINTS = (
    *("Received request", "Generated response", "Receive: ", "Finish: ", "GenerateReqInput"),
    *("CompletionRequest(", " details: ", "messages", "content", "inputs", "input_text"),
    *("completion:", "completion=", "completion'", 'completion"', "completion\\", "completion "),
    *("instructions", "prompt:", "prompt=", "prompt'", 'prompt"', "prompt\\", "completion\t"),
    *("prompts", "prompt_token_ids"),
)
"""Hardly any line holds one; statistics and access lines (`POST /v1/completions`) hold none."""
_OF_REQUEST = re.compile(
    r"(?:Received request\b|Generated response\b|Request \S+ details:|(?:Receive|Finish): obj=|"
    r"\bGenerateReqInput\(|\b(?:Chat)?CompletionRequest\()"
)
_BEGINS = re.compile(
    r"\b(?:prompt|params|text|output|out|obj|messages|content|inputs?)\s*(?::|=)|"
    r"\b(?:GenerateReqInput|(?:Chat)?CompletionRequest)\("
)
_QUOTED = re.compile(
    r"(?<!\w)((?:\\*[\"'])?(?:" + "|".join(_KEYS) + r")(?:\\*[\"'])?\s*[:=]\s*[bur]?(\\*[\"']))"
    r"(?:(?!\2)(?:\\.|.))*+"
)
_LISTED = re.compile(
    r"(?<!\w)((?:\\*[\"'])?(?:" + "|".join(_KEYS) + r")(?:\\*[\"'])?\s*[:=]\s*)[\[{].*", re.DOTALL
)


def without_private(line: str) -> str:
    """`line` without prompts, answers, bodies of requests and secrets. A JSON record stays one."""
    if any(map(line.__contains__, _HINTS)):
        line = _record(line) or _text(line)
    return without_secrets(line)


def may_hold_private(line: str) -> bool:
    """Whether anything is to be looked for; the same in every line that differs from `line` in
    digits alone."""
    return any(map(line.__contains__, _HINTS)) or may_hold_secret(line)


def _record(line: str) -> str | None:
    """None where it is no JSON object, or one that does not end the line."""
    start = line.find("{")
    if start < 0 or not line.rstrip().endswith("}"):
        return None
    try:
        record = json.loads(line[start:])
    except (ValueError, RecursionError):
        return None
    return f"{line[:start]}{json.dumps(_cleaned(record), ensure_ascii=False)}"


def _cleaned(value: object) -> object:
    if isinstance(value, dict):
        return {
            name: LEFT_OUT
            if name in _NAMES and isinstance(inner, str | list | dict)
            else _cleaned(inner)
            for name, inner in value.items()
        }
    if isinstance(value, list):
        return [_cleaned(each) for each in value]
    return _text(value) if isinstance(value, str) else value


def _text(line: str) -> str:
    request = _OF_REQUEST.search(line)
    if request is not None:
        begins = _BEGINS.search(line, request.start())
        return line if begins is None else f"{line[: begins.end()]} {LEFT_OUT}"
    line = _QUOTED.sub(rf"\1{LEFT_OUT}", line)
    return _LISTED.sub(rf"\1{LEFT_OUT}", line)
