"""Telling a webhook: the notice as JSON."""

from pathlib import Path

from controlplane.slo.notices.address import read_address
from controlplane.slo.notices.notice import Notice
from controlplane.slo.notices.posting import post_json


class Webhook:
    """The address is read anew for each notice, so that a new one needs no restart."""

    def __init__(self, file: Path) -> None:
        """Raises ValueError for a file that holds no address."""
        read_address(file)
        self._file = file

    def notify(self, notice: Notice) -> str:
        """See `controlplane.hooks.Notifier`."""
        return post_json(read_address(self._file), notice.as_json())
