"""Text comes out in whole characters, and all of it."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataplane.detokenizer import Detokenizer
from dataplane.tokenizer import Tokenizer
from dataplane.tokenizer_loading import load_tokenizer
from tests.dataplane.tiny_gguf import END_ID, FIRST_BYTE_ID, write_tiny_gguf


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    directory: Path = tmp_path_factory.mktemp("tiny")
    return load_tokenizer(write_tiny_gguf(directory / "tiny.gguf"))


def _byte_ids(text: str) -> list[int]:
    return [FIRST_BYTE_ID + byte for byte in text.encode()]


def test_a_character_of_four_tokens_appears_with_the_last(tokenizer: Tokenizer) -> None:
    detokenizer = Detokenizer(tokenizer)
    pieces = [detokenizer.add(token_id) for token_id in _byte_ids("👋")]
    assert pieces == ["", "", "", "👋"]
    assert detokenizer.flush() == ""


def test_a_character_that_stays_incomplete_becomes_a_replacement_at_the_end(
    tokenizer: Tokenizer,
) -> None:
    detokenizer = Detokenizer(tokenizer)
    pieces = [detokenizer.add(token_id) for token_id in _byte_ids("é")[:1]]
    assert pieces == [""]
    assert detokenizer.flush() == "\N{REPLACEMENT CHARACTER}"


def test_control_tokens_are_not_text(tokenizer: Tokenizer) -> None:
    detokenizer = Detokenizer(tokenizer)
    assert detokenizer.add(END_ID) == ""


def test_an_id_outside_the_vocabulary_is_an_error(tokenizer: Tokenizer) -> None:
    with pytest.raises(ValueError, match="outside"):
        Detokenizer(tokenizer).add(tokenizer.vocab_size)


@given(st.text())
def test_pieces_of_valid_text_never_hold_a_replacement(tokenizer: Tokenizer, text: str) -> None:
    detokenizer = Detokenizer(tokenizer)
    text = text.replace("\N{REPLACEMENT CHARACTER}", "")
    pieces = [detokenizer.add(token_id) for token_id in _byte_ids(text)]
    assert "".join(pieces) + detokenizer.flush() == text


@given(st.binary(max_size=40))
def test_pieces_equal_decoding_all_at_once_even_for_broken_bytes(
    tokenizer: Tokenizer, data: bytes
) -> None:
    ids = [FIRST_BYTE_ID + byte for byte in data]
    detokenizer = Detokenizer(tokenizer)
    streamed = "".join(map(detokenizer.add, ids)) + detokenizer.flush()
    assert streamed == tokenizer.decode(ids)
