"""A change plan: what applying documents would do, before anybody does it.

The modules here are pure: they compare what stands now with what would stand, reckon what that does
to replicas and memory, and replay recorded traffic by the policy that would be enforced. What they
cannot know they say, and never guess.
"""
