"""What gateways themselves export, taken apart by deployment."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from controlplane.diagnosis.always_on.page_readers import PageReaders
from controlplane.diagnosis.always_on.rolling_endpoint import RollingEndpoint
from controlplane.diagnosis.always_on.scraper import ScrapedPage
from controlplane.diagnosis.always_on.turns import Target
from controlplane.diagnosis.sources.part import Part
from dataplane import names
from dataplane.engine_metrics.exposition import NotMetricsError, Sample
from dataplane.report import GatewayReport

_REPORTED = frozenset(
    {
        names.GATEWAY_REQUESTS,
        names.GATEWAY_QUEUED,
        names.GATEWAY_OLDEST_QUEUED_SECONDS,
        names.GATEWAY_HELD_BACK_REPLICAS,
    }
)
"""Their reports say it more often."""
_SERVER = "server"
_MAX_HEADS = 20_000

FindKey = Callable[[str], str]
"""The key that opens the gateway of a name, and no other."""


def gateway_targets(
    reports: Iterable[GatewayReport], find_key: FindKey | None = None
) -> list[Target]:
    """Their metrics pages. `find_key` blocks; None: they ask for no key."""
    return [
        Target(
            replica_id=report.gateway_id,
            deployment="",
            address=report.address,
            page=f"{report.address.rstrip('/')}/metrics",
            bearer=None if find_key is None else find_key(report.name),
        )
        for report in reports
    ]


@dataclass(slots=True)
class _Gateway:
    """One process."""

    readers: PageReaders = field(default_factory=lambda: PageReaders(_MAX_HEADS))
    endpoints: dict[str, RollingEndpoint] = field(default_factory=dict)
    """By deployment."""


class GatewayHistory:
    """Of all gateways."""

    def __init__(self) -> None:
        self._gateways: dict[str, _Gateway] = {}

    def take(self, pages: Sequence[ScrapedPage], at: float, deployments: frozenset[str]) -> None:
        """What came of asking all of them; of those that were not asked nothing is kept, nor of
        other deployments."""
        asked = {page.target.replica_id for page in pages}
        self._gateways = {key: each for key, each in self._gateways.items() if key in asked}
        for page in pages:
            if page.text is None:
                continue
            gateway = self._gateways.setdefault(page.target.replica_id, _Gateway())
            gateway.readers.forget_if_many()
            try:
                read = gateway.readers.reader.read(page.text, page.place)
            except NotMetricsError:
                continue
            for name, samples in _by_deployment(read.samples).items():
                if name not in deployments:
                    continue
                endpoint = gateway.endpoints.get(name)
                if endpoint is None:
                    labels = {"gateway": page.target.replica_id}
                    endpoint = gateway.readers.create_endpoint(labels, page.place)
                    gateway.endpoints[name] = endpoint
                endpoint.take(samples, frozenset(), at)
            gateway.endpoints = {k: e for k, e in gateway.endpoints.items() if k in deployments}

    def forget_before(self, moment: float) -> None:
        """What was told earlier."""
        for gateway in self._gateways.values():
            for endpoint in gateway.endpoints.values():
                endpoint.forget_before(moment)

    def tell(self, deployment: str) -> Iterator[Part]:
        """What each of them tells of it."""
        for gateway in self._gateways.values():
            endpoint = gateway.endpoints.get(deployment)
            if endpoint is not None and endpoint.last_moment is not None:
                yield endpoint.tell()


def _by_deployment(samples: Iterable[Sample]) -> dict[str, list[Sample]]:
    """Of other boundaries than the server's the same requests are told again."""
    found: dict[str, list[Sample]] = {}
    for sample in samples:
        labels = sample.head.labels
        name = labels.get(names.LABEL_DEPLOYMENT)
        if not name or sample.head.name in _REPORTED:
            continue
        if labels.get(names.LABEL_BOUNDARY, _SERVER) == _SERVER:
            found.setdefault(name, []).append(sample)
    return found
