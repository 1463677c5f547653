import pytest

from controlplane.diagnosis.rules.pace.slow_links import is_link_full, slow_path
from controlplane.diagnosis.views.argument import Argument
from tests.controlplane.diagnosis.rules.build_window import told, window


@pytest.mark.parametrize(
    ("values", "is_slow"),
    [
        ({"interconnect": "PCIe switch, no NVLink"}, True),
        ({"topology": "PHB"}, True),
        ({"nvlink_active": 0}, True),
        ({"p2p": False}, True),
        ({"network": "10 GbE"}, True),
        ({"nccl_busbw_gb_s": 1.9}, True),
        ({"nvlink": "NV18"}, False),
        ({"nccl_busbw_gb_s": 190}, False),
        ({"network": "no congestion"}, False),
        ({"network": "400 Gbit/s InfiniBand"}, False),
        ({"kv_transfer_link": "tcp"}, False),
    ],
)
def test_a_path_is_slow_by_its_name_or_by_what_it_carries(
    values: dict[str, object], is_slow: bool
) -> None:
    seen = window(told(0, **values))
    assert slow_path(Argument(seen), seen) is is_slow


def test_a_link_is_full_near_what_it_can_take_in_bits_or_in_bytes() -> None:
    full = window(told(0, nic_tx_gbit_s=9.3, nic_line_rate_gbit_s=10))
    assert is_link_full(Argument(full), full)
    half = window(told(0, pcie_rx_gb_s=11.9, pcie_link_max_gb_s=31.5))
    assert not is_link_full(Argument(half), half)
