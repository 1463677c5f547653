"""Who makes a call to the control plane, once that is known."""

from dataclasses import dataclass

from dataplane.access import Role


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """A person or a program. What it does is recorded under its name."""

    name: str
    role: Role
    tenant: str | None = None
    """Not None: it sees and does nothing beyond this tenant."""
    csrf_token: str | None = None
    """Of a browser's session: what its forms must carry."""
    key_id: str | None = None

    def may(self, role: Role) -> bool:
        """Whether it may do what needs `role`."""
        return self.role.includes(role)


LOCAL = Principal(name="local", role=Role.ADMIN)
"""Everybody, where authentication is off."""


def actor_of(principal: Principal, said: str | None = None) -> str:
    """The name for the audit. What a caller says of itself counts only where nobody can know."""
    return (said or principal.name) if principal is LOCAL else principal.name
