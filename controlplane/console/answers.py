"""Pages as answers: a template rendered, or what went wrong and what to do about it."""

from typing import Any

from fastapi.responses import HTMLResponse

from controlplane.console.templating import render

REMEDIES = {
    404: "See whether the address is complete, or start from one of the pages in the menu.",
    405: "Open the page by its address instead.",
    422: "Mend the value in the address, or start from the page without it.",
    500: "Read the control plane's log; what went wrong is in it with this address.",
    503: "See whether the database runs and its disk has room; the control plane's log has the "
    "whole error. Gateways serve on meanwhile.",
}


def page(template: str, status: int = 200, **values: Any) -> HTMLResponse:
    """A page that nobody keeps: all of them are about now."""
    return HTMLResponse(render(template, **values), status, headers={"cache-control": "no-store"})


def error_page(
    status_code: int, what: str, remedy: str | None = None, menu: str = ""
) -> HTMLResponse:
    """`what` is a sentence; `remedy` defaults to the usual one of its status."""
    return page(
        "error.html",
        status_code,
        page=menu,
        status_code=status_code,
        what=what,
        remedy=REMEDIES.get(status_code, "") if remedy is None else remedy,
    )


def sentence(error: Exception) -> str:
    """An error's message as a sentence."""
    text = str(error).rstrip(".")
    return f"{text[:1].upper()}{text[1:]}."
