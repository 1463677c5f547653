"""An endpoint's key stays where it is: config only points there."""

from pathlib import Path

import pytest

from pilothouse_openai.settings import OpenAISettings, check_settings

SECRET = "sk-live-5f3a"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ENGINE_KEYS_DIR", str(tmp_path))
    return tmp_path


def test_a_key_is_read_from_a_file_without_its_line_break(folder: Path) -> None:
    (folder / "upstream.key").write_text(f"{SECRET}\n")

    assert OpenAISettings(api_key_file="upstream.key").read_api_key() == SECRET


@pytest.mark.parametrize("content", ["", "\n", f"{SECRET}\nmore", "schlüssel"])
def test_what_is_no_key_is_refused_and_not_shown(folder: Path, content: str) -> None:
    (folder / "upstream.key").write_text(content)

    with pytest.raises(ValueError, match=r"upstream\.key") as refused:
        OpenAISettings(api_key_file="upstream.key").read_api_key()
    assert SECRET not in str(refused.value)
    assert "schl" not in str(refused.value)


def test_a_missing_file_is_named(folder: Path) -> None:
    with pytest.raises(ValueError, match=r"nowhere\.key.*No such file"):
        OpenAISettings(api_key_file="nowhere.key").read_api_key()


def test_without_a_folder_for_keys_no_file_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ENGINE_KEYS_DIR", raising=False)

    with pytest.raises(ValueError, match="ENGINE_KEYS_DIR"):
        OpenAISettings(api_key_file="upstream.key").read_api_key()


@pytest.mark.parametrize(
    "settings",
    [
        {"api_key_file": "/var/lib/pilothouse/secrets/admin.key"},
        {"api_key_file": "../secrets/admin.key"},
        {"api_key_file": ".."},
        {"api_key_env": "PILOTHOUSE_CONFIG_URL"},
        {"api_key_env": "AWS_SECRET_ACCESS_KEY"},
    ],
)
def test_config_cannot_point_at_what_is_not_an_engines_key(settings: dict[str, str]) -> None:
    assert len(check_settings(settings)) == 1


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"api_key": SECRET}, "api_key"),
        ({"api_key_env": SECRET}, "api_key_env"),
        ({"api_key_env": "ENGINE_KEY_A", "api_key_file": "a.key"}, ""),
    ],
)
def test_a_key_in_a_document_is_refused_and_never_repeated(
    settings: dict[str, str], key: str
) -> None:
    problems = check_settings(settings)

    assert [where for where, _ in problems] == [key]
    assert SECRET not in str(problems)


def test_settings_that_exclude_each_other_are_told_in_our_words_alone() -> None:
    both = {"api_key_env": "ENGINE_KEY_A", "api_key_file": "a.key"}

    assert check_settings(both) == [("", "give api_key_env or api_key_file, not both")]
