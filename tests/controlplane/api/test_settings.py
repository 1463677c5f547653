"""What a control plane is told when it starts."""

import pytest

from controlplane.api.settings import ControlPlaneSettings
from controlplane.slo.alerting_settings import AlertingSettings


@pytest.mark.parametrize(
    ("host", "leads_to"),
    [
        ("10.0.0.7", "http://10.0.0.7:8700"),
        ("0.0.0.0", "http://127.0.0.1:8700"),
        ("::", "http://[::1]:8700"),
    ],
)
def test_alerts_lead_to_an_address_that_can_be_called(host: str, leads_to: str) -> None:
    assert ControlPlaneSettings(host=host).console_url == leads_to
    told = AlertingSettings(console_url="https://console.example.com")
    assert ControlPlaneSettings(host=host, alerting=told).console_url == told.console_url
