"""Documents as YAML that can be applied again as it stands."""

import io
from collections.abc import Mapping
from typing import Any

from ruamel.yaml import YAML


def write_yaml(document: Mapping[str, Any], *, allow_unicode: bool = True) -> str:
    """Without `allow_unicode`, everything beyond ASCII is escaped; it reads back the same."""
    yaml = YAML()
    # Escaped text that is folded does not always read back the same.
    yaml.width = 100 if allow_unicode else 2**30
    yaml.allow_unicode = allow_unicode
    stream = io.StringIO()
    yaml.dump(document, stream)
    return stream.getvalue()
