"""What answers are made of: the tokens of a model's vocabulary that a terminal can show."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dataplane.tokenizer import Tokenizer
from dataplane.tokenizer_loading import load_tokenizer


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """What the simulator needs to know of a tokenizer."""

    size: int
    words: Sequence[int]
    """Tokens that are whole printable text by themselves; not empty."""
    end_token_ids: frozenset[int]
    """Not empty."""


def read_vocabulary(artifact: Path) -> Vocabulary:
    """Raises OSError, and ValueError for an artifact whose words or ends nobody could see."""
    tokenizer = load_tokenizer(artifact)
    vocabulary = Vocabulary(
        size=tokenizer.vocab_size,
        words=_find_words(tokenizer),
        end_token_ids=tokenizer.eos_token_ids,
    )
    if not vocabulary.words:
        raise ValueError(f"{artifact}: no token of its vocabulary is printable; name another Model")
    if not vocabulary.end_token_ids:
        raise ValueError(
            f"{artifact}: it names no end token, so that no answer could end; name another Model"
        )
    return vocabulary


def _find_words(tokenizer: Tokenizer) -> list[int]:
    return [
        token_id for token_id, piece in enumerate(tokenizer.token_bytes) if _is_printable(piece)
    ]


def _is_printable(piece: bytes) -> bool:
    try:
        text = piece.decode()
    except UnicodeDecodeError:
        return False
    return bool(text) and text.isprintable()
