"""The tokenizer and chat template of a Hugging Face style folder.

tokenizer.json goes to the `tokenizers` library as it is, but for three things: the library
is not told about control tokens (see `dataplane.tokenizer`), nothing is cut off or padded,
and no unknown token is put in, so that text means the same here as in a GGUF file.

Supported is what the native engine's GGUF path supports: byte-level BPE, where every token
stands for bytes that do not depend on its neighbours.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tokenizers

from dataplane.artifact import ModelFileError
from dataplane.byte_alphabet import spell_bytes
from dataplane.chat_template import ChatTemplate
from dataplane.end_tokens import END_TOKENS
from dataplane.model_folder import (
    CHAT_TEMPLATE,
    CONFIG,
    GENERATION_CONFIG,
    TOKENIZER,
    TOKENIZER_CONFIG,
    find_json,
    read_json,
    read_text,
)
from dataplane.tokenizer import Tokenizer

_MAX_VOCAB_SIZE = 2**22


def load_folder_tokenizer(path: Path) -> Tokenizer:
    """Needs tokenizer.json; the other files say more where they are.

    Raises OSError when a file cannot be read, and ModelFileError when one is damaged or
    holds a vocabulary of a kind that is not supported.
    """
    return _FolderReader(path).tokenizer()


def read_end_token_ids(path: Path) -> frozenset[int]:
    """The tokens that end an output: every one that a file of the folder names, and the common
    spellings in the vocabulary. Raises as `load_folder_tokenizer` does."""
    return _FolderReader(path).end_token_ids()


@dataclass(frozen=True, slots=True)
class _AddedToken:
    """A token beside the merges."""

    id: int
    content: str
    is_control: bool


class _FolderReader:
    """Reads each file once, and checks what it takes from it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._document = read_json(path / TOKENIZER)
        self._settings = find_json(path / TOKENIZER_CONFIG)
        self._check_kind()
        self._vocab = self._read_vocab()
        self._added = list(self._read_added())

    def tokenizer(self) -> Tokenizer:
        return Tokenizer(
            encoder=self._encoder(),
            token_bytes=self._token_bytes(),
            control_ids={token.content: token.id for token in self._added if token.is_control},
            eos_token_ids=self.end_token_ids(),
            bos_token_id=self._bos_token_id(),
            template=self._template(),
        )

    def end_token_ids(self) -> frozenset[int]:
        named = [
            token_id
            for file in (CONFIG, GENERATION_CONFIG)
            for token_id in _token_ids(self._path / file, "eos_token_id")
        ]
        ids = self._id_by_token()
        spelled = {self._special_token("eos_token"), *END_TOKENS}
        return frozenset([*named, *(ids[token] for token in spelled if token in ids)])

    def _check_kind(self) -> None:
        model = self._document.get("model")
        if not isinstance(model, dict) or model.get("type") != "BPE":
            kind = model.get("type") if isinstance(model, dict) else None
            raise self._error(f"model.type is {kind!r}; only byte-level 'BPE' is supported")
        decoder = _kind_of(self._document.get("decoder"))
        if decoder != "ByteLevel" or model.get("byte_fallback"):
            raise self._error(
                f"decoder.type is {decoder!r}; only byte-level BPE (decoder 'ByteLevel', no "
                f"byte_fallback) is supported: choose another model, or an engine that is attached"
            )
        normalizer = _kind_of(self._document.get("normalizer"))
        if normalizer is not None:
            raise self._error(f"normalizer {normalizer!r} is not supported; only null is")

    def _read_vocab(self) -> dict[str, int]:
        vocab = self._document["model"].get("vocab")
        if not isinstance(vocab, dict) or not all(_is_token_id(each) for each in vocab.values()):
            raise self._error("model.vocab must map tokens to ids from 0 up")
        return vocab

    def _read_added(self) -> Iterator[_AddedToken]:
        for index, entry in enumerate(_list(self._document.get("added_tokens"))):
            where = f"added_tokens[{index}]"
            match entry:
                case {"id": int(token_id), "content": str(content)} if content:
                    pass
                case _:
                    raise self._error(f"{where} needs an id and a content")
            if not _is_token_id(token_id):
                raise self._error(f"{where}.id is {token_id}, which no vocabulary has")
            is_control = bool(entry.get("special"))
            if is_control and any(entry.get(key) for key in ("lstrip", "rstrip", "single_word")):
                raise self._error(
                    f"{where} ({content}) takes text around it away (lstrip, rstrip or "
                    f"single_word), which is not supported for special tokens"
                )
            yield _AddedToken(token_id, content, is_control)

    def _encoder(self) -> tokenizers.Tokenizer:
        controls = {token.content for token in self._added if token.is_control}
        plain = {token.content: token.id for token in self._added if not token.is_control}
        vocab = {token: each for token, each in self._vocab.items() if token not in controls}
        document = {
            **self._document,
            # In the vocabulary as well, or the library would number them anew.
            "model": {**self._document["model"], "vocab": vocab | plain, "unk_token": None},
            "added_tokens": [
                entry
                for entry in _list(self._document.get("added_tokens"))
                if not entry.get("special")
            ],
            "post_processor": None,
            "truncation": None,
            "padding": None,
        }
        try:
            return tokenizers.Tokenizer.from_str(json.dumps(document))
        except Exception as error:  # the library raises nothing narrower
            raise self._error(f"the tokenizers library does not take it: {error}") from error

    def _token_bytes(self) -> list[bytes]:
        ids = [*self._vocab.values(), *(token.id for token in self._added)]
        pieces = [b""] * self._vocab_size(max(ids, default=-1) + 1)
        for token, token_id in self._vocab.items():
            pieces[token_id] = spell_bytes(token)
        for added in self._added:
            pieces[added.id] = b"" if added.is_control else added.content.encode()
        return pieces

    def _vocab_size(self, num_tokens: int) -> int:
        """Models pad their vocabulary; an id without a token stands for nothing."""
        size = find_json(self._path / CONFIG).get("vocab_size", num_tokens)
        if not isinstance(size, int) or size > _MAX_VOCAB_SIZE:
            raise ModelFileError(self._path / CONFIG, f"vocab_size {size!r} is no size")
        if num_tokens > size:
            raise self._error(
                f"it has token ids up to {num_tokens - 1}, but {CONFIG} says vocab_size {size}; "
                f"the files belong to different models"
            )
        return size

    def _bos_token_id(self) -> int | None:
        """What raw prompts begin with: as tokenizer_config.json says, else as the template of
        tokenizer.json does."""
        before = self._prompt_prefix()
        adds = self._settings.get("add_bos_token")
        if adds is False:
            return None
        if before is None and adds:
            before = self._special_token("bos_token")
        if not before:
            return None
        token_id = self._id_by_token().get(before)
        if token_id is None:
            raise self._error(f"it has no token {before!r}, which prompts are to begin with")
        return token_id

    def _prompt_prefix(self) -> str | None:
        tokens: list[str | None] = [None]
        for processor in _flatten(self._document.get("post_processor"), "processors"):
            kind = _kind_of(processor)
            if kind == "ByteLevel":
                continue
            if kind != "TemplateProcessing":
                raise self._error(f"post_processor {kind!r} is not supported")
            tokens = [_special_of(piece) for piece in _list(processor.get("single"))]
        match tokens:
            case [None]:
                return None
            case [str(token), None]:
                return token
            case _:
                raise self._error(
                    "post_processor puts more around a prompt than one token before it, which is "
                    "not supported"
                )

    def _template(self) -> ChatTemplate | None:
        source_path, source = self._template_source()
        if source is None:
            return None
        try:
            return ChatTemplate(
                source,
                bos_token=self._special_token("bos_token"),
                eos_token=self._special_token("eos_token"),
            )
        except ValueError as error:
            raise ModelFileError(source_path, str(error)) from error

    def _template_source(self) -> tuple[Path, str | None]:
        """The file of its own goes before the setting."""
        own = self._path / CHAT_TEMPLATE
        if own.exists():
            return own, read_text(own)
        settings = self._path / TOKENIZER_CONFIG
        source = self._settings.get("chat_template")
        if isinstance(source, list):
            named = {each.get("name"): each.get("template") for each in source if _is_object(each)}
            source = named.get("default")
        if source is not None and not isinstance(source, str):
            raise ModelFileError(settings, "chat_template must be text, or a list with a default")
        return settings, source

    def _special_token(self, key: str) -> str:
        """A special token of tokenizer_config.json; "" where it names none."""
        value = self._settings.get(key)
        token = value.get("content") if isinstance(value, dict) else value
        if token is not None and not isinstance(token, str):
            raise ModelFileError(self._path / TOKENIZER_CONFIG, f"{key} must be a token's text")
        return token or ""

    def _id_by_token(self) -> dict[str, int]:
        return self._vocab | {token.content: token.id for token in self._added}

    def _error(self, why: str) -> ModelFileError:
        return ModelFileError(self._path / TOKENIZER, why)


def _token_ids(path: Path, key: str) -> list[int]:
    """One id or a list of them; [] where the file or the key is absent."""
    value = find_json(path).get(key)
    ids = value if isinstance(value, list) else [] if value is None else [value]
    if not all(_is_token_id(each) for each in ids):
        raise ModelFileError(path, f"{key} is {value!r}; it must be a token id or a list of them")
    return ids


def _is_token_id(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MAX_VOCAB_SIZE


def _is_object(value: object) -> bool:
    return isinstance(value, dict)


def _kind_of(part: object) -> str | None:
    return part.get("type") if isinstance(part, dict) else None


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _flatten(part: Any, key: str) -> Iterator[Mapping[str, Any]]:
    """A component, or those of a Sequence of them."""
    if not isinstance(part, dict):
        return
    if part.get("type") == "Sequence":
        for inner in _list(part.get(key)):
            yield from _flatten(inner, key)
    else:
        yield part


def _special_of(piece: object) -> str | None:
    """The special token of a template's piece; None for the text itself."""
    match piece:
        case {"SpecialToken": {"id": str(token)}}:
            return token
        case _:
            return None
