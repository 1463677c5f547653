"""Write `dashboards/generated/` anew, from the code and from the demo's contract.

    .venv/bin/python -m dashboards

`pilothouse slo dashboards` makes those of contracts that are in force. A test holds the files to
what this writes.
"""

from pathlib import Path

from controlplane.slo.prometheus.links import Links
from controlplane.slo.promised import promises_of
from dashboards.contract import Contracted
from dashboards.demo_contract import demo_contract
from dashboards.rendering import render_contracts, render_general

FOLDER = Path(__file__).parent / "generated"
LINKS = Links(console_url="http://127.0.0.1:8700")
"""Where `make serve` has the console. An installation elsewhere makes its own."""


def rendered() -> dict[str, str]:
    """Texts by the name of their file."""
    revision, spec = demo_contract()
    promises = list(promises_of("chat", revision, spec))
    demo = Contracted(promises=promises, boundary=spec.boundary)
    return render_general(LINKS) | render_contracts([demo], LINKS)


def main() -> None:
    """Write all of them."""
    FOLDER.mkdir(exist_ok=True)
    for name, text in rendered().items():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
