"""How long a page of the request list may be."""

MAX_LIMIT = 500
DEFAULT_LIMIT = 50
