"""What gateways export is taken apart by deployment, and asked for with the key of each."""

from controlplane.diagnosis.always_on.gateway_history import GatewayHistory, gateway_targets
from controlplane.diagnosis.always_on.scraper import ScrapedPage
from controlplane.diagnosis.sources.joining import join
from dataplane import names
from dataplane.engine_metrics.signal import Signal
from tests.controlplane.quiet_gateway import quiet_report

_BOTH = frozenset({"chat", "batch"})


def _page(rejected: int) -> str:
    scope = 'request_class="interactive"'
    lines = []
    for deployment, number in (("chat", rejected), ("batch", 900)):
        labels = f'deployment="{deployment}",{scope}'
        lines += [
            f'{names.GATEWAY_REJECTED_TOTAL}{{{labels},reason="queue_full"}} {number}',
            f"{names.GATEWAY_QUEUED}{{{labels}}} 3",
        ]
        for boundary, count in (("server", 10), ("engine", 10)):
            of = f'{labels},boundary="{boundary}"'
            lines += [
                f'{names.GATEWAY_TTFT_SECONDS}_bucket{{{of},le="+Inf"}} {count}',
                f"{names.GATEWAY_TTFT_SECONDS}_count{{{of}}} {count}",
                f"{names.GATEWAY_TTFT_SECONDS}_sum{{{of}}} 5",
            ]
    return "\n".join([*lines, ""])


def _take(history: GatewayHistory, name: str, text: str | None, at: float) -> None:
    (target,) = gateway_targets([quiet_report(name)])
    page = ScrapedPage(target=target, place=target.page or "", text=text)
    history.take([page], at, _BOTH)


def test_each_deployment_gets_its_own_and_what_reports_say_is_left_to_them() -> None:
    history = GatewayHistory()
    for at, rejected in ((0.0, 5), (15.0, 12)):
        _take(history, "gateway-0", _page(rejected), at)
    window = join(list(history.tell("chat")))
    series = window.find(Signal.GATEWAY_REJECTED, reason="queue_full")
    assert series is not None
    assert series.increase == 7
    assert window.find(Signal.GATEWAY_QUEUED) is None
    histogram = window.find_histogram(Signal.GATEWAY_TTFT)
    assert histogram is not None
    assert histogram.readings[-1].count == 10, "the server's boundary alone"


def test_of_a_gateway_that_is_gone_or_silent_nothing_is_made_up() -> None:
    history = GatewayHistory()
    _take(history, "gateway-0", _page(5), 0.0)
    _take(history, "gateway-0", None, 15.0)
    assert len(list(history.tell("chat"))) == 1
    _take(history, "gateway-1", None, 30.0)
    assert list(history.tell("chat")) == []


def test_each_is_shown_its_own_key_which_is_not_printed() -> None:
    reports = [quiet_report("gateway-0"), quiet_report("gateway-1")]
    targets = gateway_targets(reports, lambda name: f"key of {name}")
    assert [each.bearer for each in targets] == ["key of gateway-0", "key of gateway-1"]
    assert "key of" not in repr(targets)
