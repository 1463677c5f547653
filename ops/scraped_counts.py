"""Counts of one metric by one of its labels, read from the text that Prometheus scrapes."""

import re
from collections import Counter


def counts_by_label(text: str, metric: str, label: str) -> Counter[str]:
    """By the label's value, added up over all other labels. A series that is not there has no
    count: it is not one of zero."""
    counts: Counter[str] = Counter()
    series = rf'^{re.escape(metric)}{{(?:.*,)?{label}="([^"]*)"[^}}]*}} (\S+)$'
    for value, number in re.findall(series, text, re.MULTILINE):
        counts[value] += int(float(number))
    return counts
