"""Who sends, how, and what a limit does about it."""
