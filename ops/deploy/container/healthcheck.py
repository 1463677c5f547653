"""Whether the process in this container answers: exit code 0, or 1 with the reason.

PILOTHOUSE_HEALTH_URL says where. A gateway that drains is not healthy, so that nobody is sent
to it any more; one that answers otherwise is, also without a control plane.
"""

import json
import os
import sys
import urllib.error
import urllib.request

_TIMEOUT_SECONDS = 4.0


def find_fault(url: str) -> str | None:
    """What is wrong with the process behind `url`; None when nothing is."""
    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT_SECONDS) as response:
            body = response.read(65536)
    except urllib.error.HTTPError as error:
        return f"{error.code}: {error.read(500).decode(errors='replace').strip()}"
    except OSError as error:
        return f"no answer from {url}: {error}"
    if body.startswith(b"{") and json.loads(body).get("is_draining"):
        return "it is draining"
    return None


if __name__ == "__main__":
    fault = find_fault(os.environ.get("PILOTHOUSE_HEALTH_URL", "http://127.0.0.1:8700/healthz"))
    if fault is not None:
        sys.exit(fault)
