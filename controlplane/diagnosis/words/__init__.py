"""The words by which rules find what somebody told and what a log says, by topic.

Regular expressions over the words of a key (`views.told.plain`), over a text that was told, or over
a line of a log. What two places look for is here once; what only one asks for stands in it. How a
key is read in the first place, its units and synonyms, is `sources.fact_words`, which rules do not
know.
"""
