"""Write the files in `alerts/` anew, from the code and from the demo's contract.

    .venv/bin/python -m ops.render_alerts

`pilothouse slo render` prints the same for contracts that are in force. A test holds the files to
what this writes.
"""

from pathlib import Path

from controlplane.slo.prometheus.alertmanager import Delivery, render_alertmanager
from controlplane.slo.prometheus.contract_alerts import watched_groups
from controlplane.slo.prometheus.counting import counting_groups
from controlplane.slo.prometheus.links import Links
from controlplane.slo.prometheus.rules import render
from controlplane.slo.prometheus.static_alerts import static_groups
from controlplane.slo.promised import promises_of
from dashboards.demo_contract import demo_contract

FOLDER = Path(__file__).parents[1] / "alerts"
LINKS = Links(console_url="http://127.0.0.1:8700")
"""Where `make serve` has the console. An installation elsewhere renders its own."""
DELIVERY = Delivery(
    control_plane_url=LINKS.console_url,
    credentials_file="/etc/alertmanager/key/alertmanager.key",
)
"""As ops/deploy places the key. The service outside, that a dead man's switch needs, is known to
each installation alone."""
_HOW = "Made by `python -m ops.render_alerts`: what is changed here is lost."


def rendered() -> dict[str, str]:
    """Texts by the name of their file."""
    revision, spec = demo_contract()
    demo = watched_groups(list(promises_of("chat", revision, spec)), LINKS)
    return {
        "counting.rules.yml": render(
            counting_groups(), [_HOW, "Counts of all objectives: every contract's rules need them."]
        ),
        "static.rules.yml": render(static_groups(LINKS), [_HOW, "What no objective covers."]),
        "demo-chat.rules.yml": render(
            demo.groups, [_HOW, f"Of contract {revision} of ops/demo, for the deployment chat."]
        ),
        "alertmanager.yml": render_alertmanager(
            DELIVERY,
            [
                _HOW,
                "A dead man's switch outside is missing here: `pilothouse slo render --common",
                "alertmanager --watchdog-url-file PATH` makes the file with it.",
            ],
        ),
    }


def main() -> None:
    """Write all of them."""
    FOLDER.mkdir(exist_ok=True)
    for name, text in rendered().items():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
