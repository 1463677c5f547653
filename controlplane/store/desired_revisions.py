"""The exact revisions that a deployment stands for."""

from dataclasses import dataclass

from controlplane.store.revision import Revision


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredRevisions:
    """The exact revisions that a deployment stands for."""

    deployment: Revision
    model: Revision
    engine_config: Revision
    policy: Revision
    contract: Revision | None

    @property
    def all(self) -> list[Revision]:
        """Those that there are."""
        found = (self.deployment, self.model, self.engine_config, self.policy, self.contract)
        return [each for each in found if each is not None]
