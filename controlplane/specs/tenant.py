"""Tenant: identity and tier. Limits belong to the policy, objectives to the contract."""

from controlplane.specs.kind import SpecModel
from controlplane.specs.names import Name

DEFAULT_TENANT = "default"
"""Always exists: who names no tenant is this one."""


class TenantSpec(SpecModel):
    """Who is billed, limited and isolated."""

    tier: Name = "standard"
    """What a policy's `match` can tell tenants apart by."""
    records_content: bool = False
    """Opts in to prompts and outputs being stored."""
