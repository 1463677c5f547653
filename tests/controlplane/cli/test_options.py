"""Where the commands find the databases: said, in the environment, or in a file that it names."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from controlplane.cli import main


def check(*options: str, env: dict[str, str]) -> tuple[int, str]:
    result = CliRunner().invoke(main, ["db", "check", *options], env=env, catch_exceptions=False)
    return result.exit_code, result.output


def test_a_file_may_hold_the_url_and_a_said_one_goes_before(tmp_path: Path) -> None:
    for name in ("said", "filed"):
        (tmp_path / name).mkdir()
    file = tmp_path / "url"
    file.write_text(f"sqlite:///{tmp_path}/filed/config.db\n")
    env = {"PILOTHOUSE_CONFIG_URL_FILE": str(file), "PILOTHOUSE_STATE_DIR": str(tmp_path)}
    assert f"{tmp_path}/filed/config.db" in check(env=env)[1]
    said = f"sqlite:///{tmp_path}/said/config.db"
    assert f"{tmp_path}/said/config.db" in check("--config-url", said, env=env)[1]
    assert f"{tmp_path}/said/config.db" in check(env=env | {"PILOTHOUSE_CONFIG_URL": said})[1]


@pytest.mark.parametrize("kind", ["CONFIG", "REQUESTS"])
def test_a_file_that_cannot_be_read_is_named_with_its_variable(tmp_path: Path, kind: str) -> None:
    variable = f"PILOTHOUSE_{kind}_URL_FILE"
    code, said = check(env={variable: str(tmp_path / "gone")})
    assert code == 2
    assert variable in said
    assert "cannot be read (No such file or directory)" in said
