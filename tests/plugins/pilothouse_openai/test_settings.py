"""An endpoint's key stays where it is: config only points there."""

from pathlib import Path

import pytest

from pilothouse_openai.settings import OpenAISettings, check_settings

SECRET = "sk-live-5f3a"


def test_a_key_is_read_from_a_file_without_its_line_break(tmp_path: Path) -> None:
    path = tmp_path / "upstream.key"
    path.write_text(f"{SECRET}\n")

    assert OpenAISettings(api_key_file=str(path)).read_api_key() == SECRET


@pytest.mark.parametrize("content", ["", "\n", f"{SECRET}\nmore", "schlüssel"])
def test_what_is_no_key_is_refused_and_not_shown(tmp_path: Path, content: str) -> None:
    path = tmp_path / "upstream.key"
    path.write_text(content)

    with pytest.raises(ValueError, match=str(path)) as refused:
        OpenAISettings(api_key_file=str(path)).read_api_key()
    assert SECRET not in str(refused.value)
    assert "schl" not in str(refused.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"nowhere\.key.*No such file"):
        OpenAISettings(api_key_file=str(tmp_path / "nowhere.key")).read_api_key()


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"api_key": SECRET}, "api_key"),
        ({"api_key_env": SECRET}, "api_key_env"),
        ({"api_key_file": "relative.key"}, "api_key_file"),
        ({"api_key_env": "A", "api_key_file": "/a"}, "settings"),
    ],
)
def test_a_key_in_a_document_is_refused_and_never_repeated(
    settings: dict[str, str], key: str
) -> None:
    problems = check_settings(settings)

    assert [where for where, _ in problems] == [key]
    assert SECRET not in str(problems)
