"""Text to token ids and back, by what a model's own files say about its vocabulary.

Gateway and replica host each load the same files (see `dataplane.tokenizer_loading`), so that
prompts are counted with the model's own tokenizer before they are sent, and output is put
together from the same pieces.

Control tokens are what this module guards. A template writes `<|im_end|>` to end a turn;
a client who writes the same characters into a message must not end it. The `tokenizers`
library is therefore never told about control tokens at all. They are found here, in text
that may contain them, and the text between them goes to the library::

    template text   may hold control tokens
    message text    may not: wherever one could begin, its first character is replaced by
                    a stand-in (a private-use character that occurs nowhere else) before
                    the template is rendered, and put back after control tokens are found

The stand-in keeps every length and all other characters, so templates that trim, search or
compare message text still work.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import tokenizers

from dataplane.chat_template import ChatTemplate, Message, TemplateError

__all__ = ["Message", "TemplateError", "Tokenizer"]

_PRIVATE_USE = range(0xF0000, 0xFFFFE)


class Tokenizer:
    """One model's vocabulary and template. Immutable; safe to use from several threads."""

    def __init__(
        self,
        *,
        encoder: tokenizers.Tokenizer,
        token_bytes: Sequence[bytes],
        control_ids: Mapping[str, int],
        eos_token_ids: frozenset[int],
        bos_token_id: int | None,
        template: ChatTemplate | None,
    ) -> None:
        """`token_bytes[id]` is the UTF-8 (or a part of it) that a token stands for, empty for
        control tokens; `bos_token_id` is None where raw prompts get none put before them."""
        self.eos_token_ids = eos_token_ids
        self.token_bytes = tuple(token_bytes)
        self._encoder = encoder
        self._control_ids = dict(control_ids)
        self._bos_ids = [] if bos_token_id is None else [bos_token_id]
        self._template = template
        by_length = sorted(control_ids, key=len, reverse=True)
        pattern = "|".join(map(re.escape, by_length)) or r"(?!)"  # (?!) matches nothing
        self._control = re.compile(pattern)
        self._control_ahead = re.compile(f"(?={pattern})")  # finds overlapping ones, too
        self._longest_control = max(map(len, control_ids), default=0)
        self._control_firsts = sorted({text[0] for text in self._control_ids})
        self._template_characters = frozenset(self._template.source if self._template else "")
        self.max_chars_per_token = max(
            self._longest_control, *(len(piece.decode(errors="replace")) for piece in token_bytes)
        )
        """No token stands for more characters, so a text of more than n times as many has
        more than n tokens: the cheap check before tokenizing."""

    @property
    def vocab_size(self) -> int:
        """Ids are 0 to this, exclusive."""
        return len(self.token_bytes)

    def render_chat(self, messages: Sequence[Message]) -> str:
        """The prompt as text, for people to read; `encode_chat` is what engines get.

        Raises TemplateError when the messages do not fit the template, or there is none.
        """
        if self._template is None:
            raise TemplateError("the model has no chat template; use /v1/completions")
        return self._template.render(messages)

    def encode_chat(self, messages: Sequence[Message]) -> list[int]:
        """Token ids of the rendered messages; no text inside a message becomes a control token.

        Raises TemplateError as `render_chat` does.
        """
        real_by_stand_in = self._choose_stand_ins(messages)
        stand_in_by_real = {real: stand_in for stand_in, real in real_by_stand_in.items()}
        rendered = self.render_chat([self._guard(m, stand_in_by_real) for m in messages])
        return self._encode_segments(rendered, str.maketrans(real_by_stand_in))

    def encode(self, text: str, *, allow_special: bool) -> list[int]:
        """Token ids of `text`; with `allow_special`, control tokens in it are recognized.

        A character whose bytes the vocabulary lacks (rare control codes, unassigned planes)
        adds no token, as in the library that the model was trained with.
        """
        return self._encode_segments(text, {}) if allow_special else self._encode_plain(text)

    def encode_prompt(self, text: str) -> list[int]:
        """A raw /v1/completions prompt: its author writes the whole of it, control tokens too."""
        return self._bos_ids + self.encode(text, allow_special=True)

    def decode(self, ids: Iterable[int]) -> str:
        """Text without control tokens; U+FFFD stands where the bytes are no UTF-8.

        Raises ValueError for an id outside the vocabulary.
        """
        return b"".join(map(self.get_bytes, ids)).decode(errors="replace")

    def get_bytes(self, token_id: int) -> bytes:
        """What the token adds to the output. Raises ValueError outside the vocabulary."""
        if not 0 <= token_id < len(self.token_bytes):
            raise ValueError(f"token id {token_id} is outside 0..{len(self.token_bytes) - 1}")
        return self.token_bytes[token_id]

    def _encode_segments(self, text: str, put_back: dict[int, str]) -> list[int]:
        ids: list[int] = []
        position = 0
        for match in self._control.finditer(text):
            ids += self._encode_plain(text[position : match.start()].translate(put_back))
            ids.append(self._control_ids[match.group()])
            position = match.end()
        return ids + self._encode_plain(text[position:].translate(put_back))

    def _encode_plain(self, text: str) -> list[int]:
        if not text:
            return []
        # A batch, of one: it lets other threads run meanwhile, and leaves offsets out. `encode`
        # holds the interpreter for 10 ms of 20,000 characters, and with it every stream.
        [encoding] = self._encoder.encode_batch_fast([text], add_special_tokens=False)
        ids: list[int] = encoding.ids
        return ids

    def _choose_stand_ins(self, messages: Sequence[Message]) -> dict[str, str]:
        """Stand-in -> the first character of control tokens that it stands for."""
        used = set[str]().union(*map(set, _strings(messages)))
        used |= self._template_characters
        free = (chr(code) for code in _PRIVATE_USE if chr(code) not in used)
        return dict(zip(free, self._control_firsts, strict=False))

    def _guard(self, value: Any, stand_ins: dict[str, str]) -> Any:
        """`value` with every string in it guarded, at any depth."""
        match value:
            case str():
                return self._guard_text(value, stand_ins)
            case Mapping():
                return {
                    self._guard(key, stand_ins): self._guard(item, stand_ins)
                    for key, item in value.items()
                }
            case list() | tuple():
                return [self._guard(item, stand_ins) for item in value]
            case _:
                return value

    def _guard_text(self, text: str, stand_ins: dict[str, str]) -> str:
        if not any(first in text for first in self._control_firsts):
            return text
        guarded = list(text)
        for index in self._find_control_starts(text):
            guarded[index] = stand_ins[text[index]]
        return "".join(guarded)

    def _find_control_starts(self, text: str) -> Iterator[int]:
        """Where a control token begins, and where the text ends in the middle of one.

        White space after such an end does not count: a template may trim it away.
        """
        yield from (match.start() for match in self._control_ahead.finditer(text))
        stripped = text.rstrip()
        for index in range(max(0, len(stripped) - self._longest_control), len(stripped)):
            if stripped[index] not in self._control_firsts:
                continue
            if any(control.startswith(stripped[index:]) for control in self._control_ids):
                yield index


def _strings(value: Any) -> Iterable[str]:
    match value:
        case str():
            yield value
        case Mapping():
            for key, item in value.items():
                yield from _strings(key)
                yield from _strings(item)
        case list() | tuple():
            for item in value:
                yield from _strings(item)
