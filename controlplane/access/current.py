"""Who makes the call that is being answered: for templates, which are handed no request."""

from contextvars import ContextVar

from controlplane.access.principal import Principal

current_principal: ContextVar[Principal | None] = ContextVar("current_principal", default=None)
"""Set by the authentication around each call; None on pages for everybody, such as the login."""
