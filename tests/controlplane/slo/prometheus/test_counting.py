"""Slots of counters, as a real evaluator of PromQL adds them up."""

from pathlib import Path

from tests.controlplane.slo.prometheus.promtool import Expected, contract, try_rules, write_rules

_LABELS = 'deployment="chat",request_class="interactive",objective="availability"'
_HERE = 'job="gateways",instance="a:9100"'
JUDGED = f"pilothouse_gateway_objective_judged_total{{{_HERE},{_LABELS}}}"
GOOD = f"pilothouse_gateway_objective_good_total{{{_HERE},{_LABELS}}}"
STARTED = f"process_start_time_seconds{{{_HERE}}}"
VERSION = f"pilothouse_gateway_snapshot_version{{{_HERE}}}"
"""What tells a gateway from another process."""
_SPEC = contract([{"signal": "availability", "for": "99.9%"}])


def _with_versions(series: dict[str, str]) -> dict[str, str]:
    """Every process that tells its start is a gateway."""
    told = {name: values for name, values in series.items() if name.startswith("process_start")}
    versions = {
        name.replace("process_start_time_seconds", "pilothouse_gateway_snapshot_version"): values
        for name, values in told.items()
    }
    return {**series, **versions}


def _sum(counted: str, window: str, value: float, at: str) -> Expected:
    name = f"pilothouse:objective_{counted}:sum{window}"
    labels = 'deployment="chat", objective="availability", request_class="interactive"'
    return Expected(at=at, expr=name, samples={f"{name}{{{labels}}}": value})


def test_slots_of_a_window_add_up_to_what_was_counted(tmp_path: Path) -> None:
    files = write_rules(tmp_path, _SPEC)
    series = {STARTED: "0x40", JUDGED: "0+7x40", GOOD: "0+6x40"}
    try_rules(
        tmp_path,
        files,
        _with_versions(series),
        expected=[
            _sum("judged", "5m", 20 * 7, "10m"),
            _sum("good", "5m", 20 * 6, "10m"),
            _sum("judged", "1h", 40 * 7, "10m"),
        ],
    )


def test_a_fall_of_a_counter_is_a_restart_that_counts_from_zero(tmp_path: Path) -> None:
    files = write_rules(tmp_path, _SPEC)
    series = {
        STARTED: "0x12 180x8",
        JUDGED: "50000x12 12x8",
        GOOD: "50000x12 11x8",
    }
    try_rules(
        tmp_path,
        files,
        _with_versions(series),
        expected=[_sum("judged", "5m", 12, "5m"), _sum("good", "5m", 11, "5m")],
    )


def test_a_fall_under_the_same_start_counts_from_zero_for_good_and_judged(tmp_path: Path) -> None:
    files = write_rules(tmp_path, _SPEC)
    series = {STARTED: "0x40", JUDGED: "0+100x12 12+1x20", GOOD: "0+1x12 11+1x20"}
    try_rules(
        tmp_path,
        files,
        _with_versions(series),
        expected=[
            _sum("judged", "1h", 1200 + 12 + 19, "8m"),
            _sum("good", "1h", 12 + 11 + 19, "8m"),
        ],
    )


def test_what_was_counted_while_scrapes_were_missed_is_counted_when_they_return(
    tmp_path: Path,
) -> None:
    files = write_rules(tmp_path, _SPEC)
    gap = "0+5x8 stale _x23 200+5x8"  # two minutes of scrapes, six without, two more
    series = {STARTED: gap.replace("0+5x8", "0x8", 1).replace("200+5x8", "0x8"), JUDGED: gap}
    series[GOOD] = gap
    try_rules(tmp_path, files, _with_versions(series), expected=[_sum("judged", "1h", 235, "10m")])


def test_the_count_of_a_process_that_is_old_when_first_seen_is_no_traffic_of_now(
    tmp_path: Path,
) -> None:
    files = write_rules(tmp_path, _SPEC)
    series = {
        STARTED: "_x80 0x40",
        JUDGED: "_x80 100000+1x40",
        GOOD: "_x80 100000+1x40",
    }
    try_rules(tmp_path, files, _with_versions(series), expected=[_sum("judged", "1h", 40, "30m")])


def test_the_first_requests_of_a_new_process_count(tmp_path: Path) -> None:
    files = write_rules(tmp_path, _SPEC)
    series = {
        STARTED: "_x80 1200x40",
        JUDGED: "_x80 3+1x40",
        GOOD: "_x80 3+1x40",
    }
    try_rules(tmp_path, files, _with_versions(series), expected=[_sum("judged", "1h", 43, "30m")])


def test_gateways_are_added_up_each_with_its_own_restarts(tmp_path: Path) -> None:
    files = write_rules(tmp_path, _SPEC)
    other = _HERE.replace("a:9100", "b:9100")
    series = {
        STARTED: "0x40",
        JUDGED: "0+1x40",
        GOOD: "0+1x40",
        STARTED.replace(_HERE, other): "0x20 300x20",
        JUDGED.replace(_HERE, other): "0+2x20 0+2x20",
        GOOD.replace(_HERE, other): "0+2x20 0+2x20",
    }
    try_rules(
        tmp_path,
        files,
        _with_versions(series),
        expected=[_sum("judged", "1h", 40 + 40 + 38, "10m")],
    )


def test_good_and_judged_are_of_one_process_though_one_of_them_did_not_fall(tmp_path: Path) -> None:
    files = write_rules(tmp_path, _SPEC)
    series = {STARTED: "0x12 180x8", JUDGED: "120x12 130x8", GOOD: "120x12 119x8"}
    try_rules(
        tmp_path,
        files,
        _with_versions(series),
        expected=[_sum("judged", "5m", 130, "5m"), _sum("good", "5m", 119, "5m")],
    )


def test_the_first_requests_of_a_new_contract_count(tmp_path: Path) -> None:
    files = write_rules(tmp_path, _SPEC)
    series = {STARTED: "0x60", JUDGED: "_x40 30x20", GOOD: "_x40 29x20"}
    try_rules(
        tmp_path,
        files,
        _with_versions(series),
        expected=[_sum("judged", "5m", 30, "12m"), _sum("good", "5m", 29, "12m")],
    )
