"""Whatever a validator of ours refuses, in whichever way, is told in its own words."""

import re
from collections.abc import Callable
from typing import Annotated

import pytest
from click.testing import CliRunner
from pydantic import AfterValidator, TypeAdapter, ValidationError

from dataplane.gateway.__main__ import main
from dataplane.invalid_input import say_invalid


def _raising(text: str) -> str:
    raise ValueError(text)


def _asserting(text: str) -> str:
    raise AssertionError(text)


@pytest.mark.parametrize("validator", [_raising, _asserting])
def test_a_validators_words_stand_alone(validator: Callable[[str], str]) -> None:
    words = "Value error, or so: give another name"

    with pytest.raises(ValidationError) as caught:
        TypeAdapter(Annotated[str, AfterValidator(validator)]).validate_python(words)

    [detail] = caught.value.errors()
    assert say_invalid(detail["type"], detail["msg"]) == words


def test_pydantics_own_words_stay_as_they_are() -> None:
    assert say_invalid("int_type", "Input should be a valid integer") == (
        "Input should be a valid integer"
    )


def test_a_gateways_option_that_does_not_fit_is_named_on_one_line() -> None:
    arguments = ["--name", "g", "--state-dir", "x", "--port", "99999", "--drain-seconds", "-1"]
    result = CliRunner().invoke(main, arguments)

    assert result.exit_code == 2
    said = result.output.splitlines()[-1]
    assert re.fullmatch(r"Error: --port: .*65535; --drain-seconds: .* 0", said), said
