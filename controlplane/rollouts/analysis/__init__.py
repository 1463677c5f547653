"""Comparing the two arms of a rollout, so that noise neither promotes nor aborts."""
