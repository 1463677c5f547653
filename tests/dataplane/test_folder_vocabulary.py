"""A folder's tokenizer means the same as that of a GGUF file with the same vocabulary."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import processors

from dataplane.artifact import ModelFileError
from dataplane.folder_vocabulary import read_end_token_ids
from dataplane.tokenizer import TemplateError, Tokenizer
from dataplane.tokenizer_loading import load_tokenizer
from tests.dataplane.tiny_folder import change_json, tiny_library_tokenizer, write_tiny_folder
from tests.dataplane.tiny_gguf import END_ID, FIRST_BYTE_ID, THINK_ID, tiny_tokens, write_tiny_gguf


@pytest.fixture(scope="module")
def from_gguf(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return load_tokenizer(write_tiny_gguf(tmp_path_factory.mktemp("tiny") / "tiny.gguf"))


@pytest.fixture(scope="module")
def from_folder(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return load_tokenizer(write_tiny_folder(tmp_path_factory.mktemp("tiny") / "folder"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_tiny_folder(tmp_path / "folder")


_pieces = st.sampled_from(["<|end|>", "<|", "|>", "hello", " world", "<think>", "12", "é", "\n"])


@given(st.one_of(st.text(), st.lists(_pieces, max_size=8).map("".join)))
def test_text_becomes_the_same_tokens_as_with_the_gguf_file(
    from_gguf: Tokenizer, from_folder: Tokenizer, text: str
) -> None:
    ids = from_folder.encode(text, allow_special=False)
    assert ids == from_gguf.encode(text, allow_special=False)
    assert from_folder.decode(ids) == text
    assert from_folder.encode_prompt(text) == from_gguf.encode_prompt(text)
    chat = [{"role": "user", "content": text}]
    assert from_folder.encode_chat(chat) == from_gguf.encode_chat(chat)


def test_no_message_text_becomes_a_control_token_of_a_folder(from_folder: Tokenizer) -> None:
    ids = from_folder.encode_chat([{"role": "user", "content": "<|end|><think>"}])
    assert [token_id for token_id in ids if token_id < THINK_ID] == [1, END_ID, 1]
    assert THINK_ID in ids


def test_ids_that_only_pad_the_vocabulary_stand_for_nothing(from_folder: Tokenizer) -> None:
    assert from_folder.vocab_size == 288
    assert from_folder.decode([287, FIRST_BYTE_ID + ord("a"), 287]) == "a"


def test_an_added_token_behind_the_control_tokens_keeps_its_id(folder: Path) -> None:
    library = tiny_library_tokenizer()
    library.add_special_tokens(["<|late|>"])
    library.add_tokens(["<tool>"])
    library.save(str(folder / "tokenizer.json"))
    tokenizer = load_tokenizer(folder)
    late = len(tiny_tokens())
    assert tokenizer.encode("<tool>", allow_special=False) == [late + 1]
    assert tokenizer.encode("<|late|>", allow_special=True) == [late]
    assert late not in tokenizer.encode("<|late|>", allow_special=False)
    assert tokenizer.decode([late, late + 1]) == "<tool>"


def test_whole_words_in_the_vocabulary_never_are_control_tokens(folder: Path) -> None:
    """With ignore_merges a word that is in the vocabulary is one token, whatever it is."""
    document = json.loads((folder / "tokenizer.json").read_text())
    document["model"]["ignore_merges"] = True
    document["pre_tokenizer"]["pretokenizers"] = [
        {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    ]
    (folder / "tokenizer.json").write_text(json.dumps(document))
    tokenizer = load_tokenizer(folder)
    assert END_ID not in tokenizer.encode("<|end|>", allow_special=False)
    assert tokenizer.encode("<|end|>", allow_special=True) == [END_ID]


def test_a_stored_truncation_cuts_no_prompt_off(folder: Path) -> None:
    library = tiny_library_tokenizer()
    library.enable_truncation(4)
    library.enable_padding(length=8)
    library.save(str(folder / "tokenizer.json"))
    tokenizer = load_tokenizer(folder)
    assert len(tokenizer.encode("abcdefgh", allow_special=False)) == 8
    assert len(tokenizer.encode("a", allow_special=False)) == 1


def test_the_end_tokens_are_those_that_any_file_names(folder: Path) -> None:
    assert read_end_token_ids(folder) == {END_ID, 0}  # a list in generation_config.json
    assert load_tokenizer(folder).eos_token_ids == {END_ID, 0}
    (folder / "generation_config.json").unlink()
    assert read_end_token_ids(folder) == {END_ID}
    change_json(folder / "config.json", eos_token_id=None)
    assert read_end_token_ids(folder) == {END_ID}  # tokenizer_config.json spells it


def _with_bos(pair: str = "<|bos|> $A") -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        library = tiny_library_tokenizer()
        library.post_processor = processors.Sequence(
            [
                processors.ByteLevel(trim_offsets=False),
                processors.TemplateProcessing(
                    single=pair, special_tokens=[("<|bos|>", 3), ("<|end|>", END_ID)]
                ),
            ]
        )
        library.save(str(folder / "tokenizer.json"))

    return write


@pytest.mark.parametrize(
    ("has_template", "setting", "expected"),
    [
        (False, {}, []),
        (False, {"add_bos_token": True}, [3]),
        (True, {"add_bos_token": None}, [3]),
        (True, {"add_bos_token": True}, [3]),
        (True, {"add_bos_token": False}, []),
    ],
)
def test_a_raw_prompt_begins_as_the_folder_says(
    folder: Path, has_template: bool, setting: dict[str, Any], expected: list[int]
) -> None:
    if has_template:
        _with_bos()(folder)
    change_json(folder / "tokenizer_config.json", **setting)
    assert load_tokenizer(folder).encode_prompt("a") == [*expected, FIRST_BYTE_ID + ord("a")]


def test_a_template_file_goes_before_the_setting(folder: Path) -> None:
    (folder / "chat_template.jinja").write_text("{{ bos_token }}{{ messages[0].content }}")
    tokenizer = load_tokenizer(folder)
    assert tokenizer.encode_chat([{"role": "user", "content": "a"}]) == [3, FIRST_BYTE_ID + 97]


def test_of_several_templates_the_default_one_is_used(folder: Path) -> None:
    named = [
        {"name": "tools", "template": "t"},
        {"name": "default", "template": "d{{ eos_token }}"},
    ]
    change_json(folder / "tokenizer_config.json", chat_template=named)
    assert load_tokenizer(folder).encode_chat([{"role": "user", "content": "a"}])[-1] == END_ID


def test_a_folder_without_a_template_says_what_to_use_instead(folder: Path) -> None:
    (folder / "tokenizer_config.json").unlink()
    with pytest.raises(TemplateError, match="/v1/completions"):
        load_tokenizer(folder).encode_chat([{"role": "user", "content": "x"}])


def test_a_folder_of_a_tokenizer_alone_is_enough_to_count(folder: Path) -> None:
    for file in folder.iterdir():
        if file.name != "tokenizer.json":
            file.unlink()
    assert load_tokenizer(folder).vocab_size == len(tiny_tokens())


@pytest.mark.parametrize(
    ("file", "keys", "says"),
    [
        ("tokenizer.json", {"model": {"type": "Unigram"}}, "tokenizer.json: model.type is 'Uni"),
        ("tokenizer.json", {"model": []}, "model.type is None"),
        ("tokenizer.json", {"decoder": {"type": "Sequence"}}, "decoder.type is 'Sequence'; only"),
        ("tokenizer.json", {"normalizer": {"type": "NFC"}}, "normalizer 'NFC' is not supported"),
        ("tokenizer.json", {"added_tokens": [{"id": -1, "content": "x"}]}, r"added_tokens\[0\].id"),
        ("tokenizer.json", {"added_tokens": [7]}, r"added_tokens\[0\] needs an id"),
        (
            "tokenizer.json",
            {"added_tokens": [{"id": 9, "content": "x", "special": True, "lstrip": True}]},
            "takes text around it away",
        ),
        ("tokenizer.json", {"model": {"type": "BPE", "vocab": {"a": 2**40}}}, "model.vocab must"),
        ("tokenizer.json", {"model": {"type": "BPE", "vocab": {"a": 0}}}, "library does not take"),
        ("tokenizer.json", {"post_processor": {"type": "BertProcessing"}}, "'BertProcessing' is"),
        ("config.json", {"vocab_size": 200}, "ids up to 265, but config.json says vocab_size 200"),
        ("config.json", {"vocab_size": 2**60}, "config.json: vocab_size .* is no size"),
        ("generation_config.json", {"eos_token_id": "</s>"}, "eos_token_id is '</s>'"),
        ("tokenizer_config.json", {"chat_template": "{% if %}"}, "is broken at line 1"),
        ("tokenizer_config.json", {"eos_token": 7}, "eos_token must be a token's text"),
    ],
)
def test_a_vocabulary_that_is_not_supported_is_refused_by_file_and_key(
    folder: Path, file: str, keys: dict[str, Any], says: str
) -> None:
    change_json(folder / file, **keys)
    with pytest.raises(ModelFileError, match=says):
        load_tokenizer(folder)


def test_a_prompt_that_is_to_end_with_a_token_is_refused(folder: Path) -> None:
    _with_bos("<|bos|> $A <|end|>")(folder)
    with pytest.raises(ModelFileError, match="more around a prompt than one token before it"):
        load_tokenizer(folder)


@pytest.mark.parametrize(
    ("content", "says"),
    [(b"{", "is no JSON"), (b"[]", "JSON object"), (b"\xff", "no UTF-8"), (b"[" * 10**6, "is no")],
)
def test_a_damaged_tokenizer_file_is_named(folder: Path, content: bytes, says: str) -> None:
    (folder / "tokenizer.json").write_bytes(content)
    with pytest.raises(ModelFileError, match=f"tokenizer.json: .*{says}"):
        load_tokenizer(folder)


def test_a_folder_without_a_tokenizer_says_which_file_it_lacks(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()
    with pytest.raises(ModelFileError, match=r"tokenizer\.json: it is missing"):
        load_tokenizer(folder)
