"""What engines, and what stands around them, export of themselves, read in one way.

`signal` names what can be known, `tables` the names under which each exporter tells it. A page goes
through `exposition` (text into samples), `targets` (what a sample tells) and `gathering` (one value
of each series); `scrape` is a few figures of one page, for who attaches an engine. The diagnosis
reads whole pages over time.
"""
