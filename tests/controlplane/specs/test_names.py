"""Names and references."""

import pytest

from controlplane.specs.names import Reference, check_name, parse_reference


@pytest.mark.parametrize("name", ["a", "smollm2", "qwen2.5-7b", "0", "a" * 63])
def test_dns_labels_are_names(name: str) -> None:
    assert check_name(name) == name


@pytest.mark.parametrize(
    "name", ["", "A", "a_b", "-a", "a-", "a b", "a/b", "../x", "a" * 64, "é", "a\n", "a@1"]
)
def test_what_would_need_escaping_somewhere_is_no_name(name: str) -> None:
    with pytest.raises(ValueError, match="is not a name"):
        check_name(name)


def test_a_bad_name_comes_with_one_that_would_do() -> None:
    with pytest.raises(ValueError, match="'my-model' would do"):
        check_name("My_Model")


def test_a_reference_follows_the_latest_or_pins_a_revision() -> None:
    assert parse_reference("chat") == Reference("chat")
    assert parse_reference("chat@12") == Reference("chat", 12)
    assert str(parse_reference("chat@12")) == "chat@12"


@pytest.mark.parametrize(
    "text", ["chat@", "chat@0", "chat@x", "chat@-1", "@1", "a@1@2", 5, None, "A@1"]
)
def test_half_a_reference_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match=r"reference|revision|not a name"):
        parse_reference(text)
