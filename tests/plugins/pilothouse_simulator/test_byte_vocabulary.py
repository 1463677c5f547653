"""The Model that ships with the simulator: every text can be counted and said."""

from pathlib import Path

import pytest

import pilothouse_simulator
from dataplane.gguf_metadata import read_gguf_metadata
from dataplane.tokenizer import Tokenizer
from dataplane.tokenizer_loading import load_tokenizer
from pilothouse_simulator.byte_vocabulary import write_byte_vocabulary
from pilothouse_simulator.vocabulary import read_vocabulary
from tests.dataplane.tiny_gguf import END_ID, write_tiny_gguf

SHIPPED = Path(pilothouse_simulator.__file__).with_name("bytes.gguf")


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return load_tokenizer(SHIPPED)


def test_what_ships_is_what_is_written(tmp_path: Path) -> None:
    write_byte_vocabulary(tmp_path / "written.gguf")
    assert read_gguf_metadata(SHIPPED) == read_gguf_metadata(tmp_path / "written.gguf")


@pytest.mark.parametrize("text", ["plain", "Grüße, the 日本", "\x00\t\n", "<|end|>"])
def test_every_text_comes_back(tokenizer: Tokenizer, text: str) -> None:
    assert tokenizer.decode(tokenizer.encode(text, allow_special=False)) == text


def test_a_chat_is_rendered_and_nobody_can_end_it_from_within(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode_chat([{"role": "user", "content": "<|end|>"}])
    (end_id,) = tokenizer.eos_token_ids
    assert ids.count(end_id) == 1
    assert tokenizer.decode(ids) == "user\n<|end|>\nassistant\n"


def test_its_words_are_printable_and_not_its_end(tokenizer: Tokenizer) -> None:
    vocabulary = read_vocabulary(SHIPPED)
    assert tokenizer.decode(vocabulary.words).isprintable()
    assert len(vocabulary.words) == 95 + 3
    assert not vocabulary.end_token_ids & set(vocabulary.words)


def test_any_models_vocabulary_will_do(tmp_path: Path) -> None:
    vocabulary = read_vocabulary(write_tiny_gguf(tmp_path / "tiny.gguf"))
    assert vocabulary.end_token_ids == {END_ID}
    assert len(vocabulary.words) > 95
