"""A large installation stays within what one Prometheus keeps without effort."""

import re

from dataplane.admission.admit import RejectionKind
from dataplane.lifecycle import Disposition
from ops.bench.bench_cardinality import MAX_SERIES, shares
from ops.bench.slo import exposed
from ops.bench.slo.installation import Installation

TENTH = Installation(num_deployments=5, num_classes=8, num_tenants=200)
"""Of the large installation that the bench counts whole: but for the control plane's own series,
which do not grow, every series belongs to one deployment."""
SMALL = Installation(num_deployments=2, num_classes=2, num_tenants=200)


def test_exporters_and_rules_of_fifty_deployments_stay_under_a_hundred_thousand_series() -> None:
    found = list(shares(TENTH))
    assert all(share.num_series > 0 for share in found)
    assert sum(share.num_series for share in found) < MAX_SERIES / 10


def test_tenants_add_no_series_and_none_names_one() -> None:
    sent = {record.tenant for record in exposed.requests(TENTH)}
    assert sent == set(TENTH.tenants)
    of_many = exposed.series_of(exposed.gateway(SMALL))
    lonely = Installation(num_deployments=2, num_classes=2, num_tenants=1)
    assert set(exposed.series_of(exposed.gateway(lonely))) == set(of_many)
    everywhere = [
        *of_many,
        *exposed.control_plane(SMALL),
        *exposed.series_of(exposed.replica("deployment-00")),
    ]
    assert not [series for series in everywhere if re.search("tenant-|tenant=", series)]


def test_every_class_has_met_whatever_can_become_of_a_request() -> None:
    series = exposed.series_of(exposed.gateway(SMALL))
    of_class = [each for each in series if 'request_class="class-1"' in each]
    reasons = {word for each in of_class for word in re.findall('reason="([a-z_]+)"', each)}
    ends = {word for each in of_class for word in re.findall('disposition="([a-z_]+)"', each)}
    assert reasons == {kind.value for kind in RejectionKind}
    assert ends == {end.value for end in Disposition} - {"invalid"}  # it never had a class
