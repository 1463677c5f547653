"""The tokenizer and chat template that a GGUF file carries."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tokenizers
from gguf.constants import TokenType
from tokenizers import AddedToken, models, pre_tokenizers

from dataplane.byte_alphabet import spell_bytes
from dataplane.chat_template import ChatTemplate
from dataplane.gguf_metadata import GGUFError, read_gguf_metadata
from dataplane.tokenizer import Tokenizer

_CONTROL_TYPES = frozenset({TokenType.CONTROL, TokenType.UNKNOWN})
_END_KEYS = ("eos_token_id", "eot_token_id", "eom_token_id")


def load_gguf_tokenizer(path: Path) -> Tokenizer:
    """The tokenizer and chat template inside a GGUF file; takes about a third of a second.

    Raises OSError when the file cannot be read, and GGUFError (a ValueError) when it is no
    GGUF file or holds a vocabulary of a kind that is not supported.
    """
    metadata = read_gguf_metadata(path)
    return _VocabularyReader(path, metadata).tokenizer()


class _VocabularyReader:
    """Builds a Tokenizer from the `tokenizer.*` keys of a file, checking each as it goes."""

    def __init__(self, path: Path, metadata: Mapping[str, Any]) -> None:
        self._path = path
        self._metadata = metadata

    def tokenizer(self) -> Tokenizer:
        kind = self._get("model")
        if kind != "gpt2":
            raise GGUFError(
                self._path, f"its tokenizer is {kind!r}; only byte-level BPE ('gpt2') is supported"
            )
        tokens: list[str] = self._get("tokens")
        types: list[int] = self._get("token_type")
        if len(tokens) != len(types):
            raise GGUFError(self._path, f"{len(tokens)} tokens but {len(types)} token types")
        control_ids = {
            token: token_id
            for token_id, (token, kind) in enumerate(zip(tokens, types, strict=True))
            if kind in _CONTROL_TYPES and token
        }
        user_defined = [
            token
            for token, kind in zip(tokens, types, strict=True)
            if kind == TokenType.USER_DEFINED
        ]
        return Tokenizer(
            encoder=self._encoder(tokens, user_defined),
            token_bytes=_token_bytes(tokens, types),
            control_ids=control_ids,
            eos_token_ids=frozenset(
                self._find(key) for key in _END_KEYS if self._find(key) is not None
            ),
            bos_token_id=self._find("bos_token_id") if self._find("add_bos_token") else None,
            template=self._template(tokens),
        )

    def _encoder(self, tokens: list[str], user_defined: list[str]) -> tokenizers.Tokenizer:
        merges = [tuple(merge.split(" ", 1)) for merge in self._get("merges")]
        vocab = {token: token_id for token_id, token in enumerate(tokens)}
        try:
            encoder = tokenizers.Tokenizer(models.BPE(vocab=vocab, merges=merges))
        except Exception as error:  # the library raises nothing narrower
            raise GGUFError(self._path, f"its merges do not fit its tokens: {error}") from error
        encoder.pre_tokenizer = self._pre_tokenizer()
        encoder.add_tokens([AddedToken(token, normalized=False) for token in user_defined])
        return encoder

    def _pre_tokenizer(self) -> pre_tokenizers.PreTokenizer:
        byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False)
        digits = pre_tokenizers.Digits(individual_digits=True)
        by_name = {
            "gpt-2": byte_level,
            "smollm": pre_tokenizers.Sequence([digits, byte_level]),
        }
        name = self._get("pre")
        if name not in by_name:
            raise GGUFError(
                self._path,
                f"its pre-tokenizer {name!r} is not supported; those that are: "
                f"{', '.join(sorted(by_name))}",
            )
        return by_name[name]

    def _template(self, tokens: list[str]) -> ChatTemplate | None:
        source = self._metadata.get("tokenizer.chat_template")
        if source is None:
            return None
        bos, eos = self._find("bos_token_id"), self._find("eos_token_id")
        try:
            return ChatTemplate(
                source,
                bos_token="" if bos is None else tokens[bos],
                eos_token="" if eos is None else tokens[eos],
            )
        except ValueError as error:
            raise GGUFError(self._path, str(error)) from error

    def _find(self, key: str) -> Any:
        return self._metadata.get(f"tokenizer.ggml.{key}")

    def _get(self, key: str) -> Any:
        value = self._find(key)
        if value is None:
            raise GGUFError(self._path, f"it has no key tokenizer.ggml.{key}")
        return value


def _token_bytes(tokens: list[str], types: list[int]) -> list[bytes]:
    return [
        b""
        if kind in _CONTROL_TYPES
        else token.encode()
        if kind == TokenType.USER_DEFINED
        else spell_bytes(token)
        for token, kind in zip(tokens, types, strict=True)
    ]
