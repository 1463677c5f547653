"""Parts of a whole."""

SHARE = r"share|percent|pct|fraction|\bratio\b|%"
