"""Documents that people start from are documents that would be taken."""

from pathlib import Path

import pytest

from controlplane.specs.documents import load_documents
from controlplane.specs.installed import INSTALLED_CHECKS

# A Scenario is read by `pilothouse simulate` and never applied; those of simulate/ have their tests.
EXAMPLES = sorted(
    path
    for path in (Path(__file__).parents[2] / "ops" / "examples").glob("*/*.yaml")
    if "kind: Scenario" not in path.read_text()
)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_an_example_has_no_problems(path: Path) -> None:
    loaded = load_documents([(path.name, path.read_text())], checks=INSTALLED_CHECKS)
    assert loaded.problems == ()
    assert loaded.documents
