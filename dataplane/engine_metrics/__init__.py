"""What engines export of themselves, in one vocabulary: names old and new, units, traps.

`resolve` finds the series that an engine of some version has; `scrape` reads their samples.
"""
