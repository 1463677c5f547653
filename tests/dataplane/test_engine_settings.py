"""Settings against a model: every problem with its key, and what would be right."""

from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, Field, model_validator

from dataplane.engine_settings import check_settings, parse_settings


class Inner(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    depth: int = Field(default=1, ge=1)


class Outer(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    width: int = 1
    inner: Inner = Inner()
    other: Inner | None = None

    @model_validator(mode="after")
    def _is_narrow(self) -> "Outer":
        if self.width > 9:
            raise ValueError("it is too wide; lower width")
        return self


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        (
            {"widht": 2},
            ("widht", "unknown setting; did you mean width? Valid: inner, other, width"),
        ),
        ({"inner": {"x": 2}}, ("inner.x", "unknown setting; Valid: depth")),
        ({"other": {"x": 2}}, ("other.x", "unknown setting; Valid: depth")),
        ({"inner": {"depth": 0}}, ("inner.depth", "Input should be greater than or equal to 1")),
        ({"width": 10}, ("", "it is too wide; lower width")),
    ],
)
def test_a_problem_has_its_key_and_its_remedy(
    settings: dict[str, Any], problem: tuple[str, str]
) -> None:
    assert check_settings(Outer, settings) == [problem]


def test_what_is_fine_is_parsed() -> None:
    assert check_settings(Outer, {"inner": {"depth": 3}}) == []
    assert parse_settings(Outer, {"inner": {"depth": 3}}).inner.depth == 3


def test_parsing_names_every_problem_at_once() -> None:
    with pytest.raises(ValueError, match=r"settings\.width: .*; settings\.inner\.depth: "):
        parse_settings(Outer, {"width": "2", "inner": {"depth": 0}})
