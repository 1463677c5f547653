"""Forms that change something: what they carry shows that a page of ours sent them."""

import hmac
from typing import Annotated

from fastapi import Form, HTTPException, Request

from controlplane.api.authentication import principal_of


def check_form(request: Request, csrf_token: Annotated[str, Form(max_length=128)] = "") -> None:
    """A dependency. Raises HTTPException with 403.

    Without authentication there is no session to steal; that the form comes from this site was
    checked by then in either case.
    """
    expected = principal_of(request).csrf_token
    if expected is not None and not hmac.compare_digest(
        expected.encode(), csrf_token.encode("utf-8", "replace")
    ):
        raise HTTPException(403, "This form is out of date. Open its page again and repeat it.")
