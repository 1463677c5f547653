"""Doubts about one page as text: lines that could not be read, series that stand there twice, a
page that was cut off."""

from collections.abc import Iterable, Sequence

from controlplane.diagnosis.window import Doubt, DoubtKind
from dataplane.engine_metrics.exposition import BadLine, Page, Sample, SampleHead

_SHOWN = 3
_WIDTH = 80


def checked(
    page: Page, at: float, place: str, others_are_complete: bool, should_quote: bool = True
) -> tuple[Sequence[Sample], tuple[Doubt, ...]]:
    """The samples to use. `others_are_complete`: pages of the same window end as they should.
    `should_quote`: whoever reads the doubts may read the page too."""
    samples: Sequence[Sample] = page.samples
    doubts = list(_unreadable(page.bad_lines, at, place, should_quote))
    if not page.is_complete and page.is_last_line_sample and others_are_complete:
        doubts.append(_cut_off(samples[-1], at, place))
        samples = samples[:-1]
    once: dict[SampleHead, Sample] = {}
    differing: list[SampleHead] = []
    for sample in samples:
        before = once.get(sample.head)
        if before is not None and before.value != sample.value:
            differing.append(sample.head)
        once[sample.head] = sample
    doubts += _twice(differing, at)
    return tuple(once.values()) if len(once) < len(samples) else samples, tuple(doubts)


def _unreadable(
    bad: Sequence[BadLine], at: float, place: str, should_quote: bool
) -> Iterable[Doubt]:
    where = place or "the page"
    for line in bad[:_SHOWN]:
        quoted = f" ({line.why}): {line.line[:_WIDTH]}" if should_quote else ""
        yield Doubt(
            kind=DoubtKind.UNREADABLE,
            name=where,
            what=f"line {line.number} of {where} is no sample and was left out{quoted}",
            at=at,
        )
    if len(bad) > _SHOWN:
        yield Doubt(
            kind=DoubtKind.UNREADABLE,
            name=where,
            what=f"{len(bad) - _SHOWN} more lines of {where} are no samples and were left out",
            at=at,
        )


def _cut_off(last: Sample, at: float, place: str) -> Doubt:
    return Doubt(
        kind=DoubtKind.UNREADABLE,
        name=last.head.name,
        what=f"{place or 'the page'} ends within a line; its last sample, of {last.head.name}, "
        "may lack digits and was left out",
        at=at,
    )


def _twice(differing: Sequence[SampleHead], at: float) -> Iterable[Doubt]:
    for head in differing[:_SHOWN]:
        yield Doubt(
            kind=DoubtKind.DUPLICATE,
            name=head.name,
            what=f"{head.name} stands twice on one page with the same labels and another value; "
            "the last is used",
            at=at,
        )
