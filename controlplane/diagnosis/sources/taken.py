"""What the files that were named held, before it is joined."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from controlplane.diagnosis.sources import bounds
from controlplane.diagnosis.sources.input_error import InputError
from controlplane.diagnosis.sources.opening import OpenedText
from controlplane.diagnosis.sources.owners import Owners
from controlplane.diagnosis.sources.page_times import SavedPage
from controlplane.diagnosis.sources.part import Part

if TYPE_CHECKING:
    from controlplane.diagnosis.sources.records.gathered import RecordsRead


@dataclass(slots=True)
class Taken:
    """Of one command."""

    deployment: str | None
    """Of records, those of which; None: they are of one."""
    pages: list[SavedPage] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)
    owners: Owners = field(default_factory=Owners)
    _records: "RecordsRead | None" = None
    _of_pages: int = 0

    def take_pages(self, pages: Sequence[SavedPage]) -> None:
        """Adds those of a file. Raises InputError where they are too many to be held."""
        self._of_pages += sum(len(page.text) for page in pages)
        if self._of_pages > bounds.MOST_OF_ALL_PAGES:
            raise InputError(
                pages[-1].place,
                f"and what was named before it hold more than {bounds.MOST_OF_ALL_PAGES >> 20} MiB "
                "of metrics pages",
                "name fewer of them: those of the minutes that are meant",
            )
        self.pages += pages

    @property
    def is_empty(self) -> bool:
        """Nothing could be made of any."""
        return not self.pages and not self.parts and self._records is None

    def take_records(self, opened: OpenedText) -> None:
        """Adds those of a file. Raises InputError."""
        # Whoever reads none does without the store, whose rows they become.
        from controlplane.diagnosis.sources.records.gathered import RecordsRead

        if self._records is None:
            self._records = RecordsRead(self.deployment)
        self._records.take(opened.lines(), opened.place)

    def records(self) -> list[Part]:
        """At most one part. Raises InputError where they are of several deployments."""
        return [] if self._records is None else [self._records.part()]

    def refuse_choice(self, names: Sequence[str]) -> None:
        """Among what has no deployments none can be chosen. Raises InputError."""
        if self.deployment is not None and self._records is None:
            raise InputError(
                ", ".join(names),
                "holds no records of requests, and --deployment chooses among those",
                "leave it out, or name what `pilothouse requests --all -o json` wrote",
            )


def beside_engines(records: Sequence[Part], others: Sequence[Part]) -> list[Part]:
    """`records` without what engines tell themselves in pages and logs that are read as well: they
    know it better, and of everybody who asks them."""
    if not records:
        return []
    from controlplane.diagnosis.sources.records.gathered import without_engines_own

    return [without_engines_own(part, others) for part in records]
