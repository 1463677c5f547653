"""What a page says."""

import html
import re

from fastapi.testclient import TestClient


def page(client: TestClient, path: str, status: int = 200) -> str:
    """Its markup."""
    response = client.get(path)
    assert response.status_code == status, response.text[:400]
    return response.text


def words(markup: str) -> str:
    """Its text, without tags."""
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", markup)).split())
