"""Answers that were given, or not."""

ANSWERED = r"\b(answers?|answered|delivered|completions?|completed|finished|served)\b"
NO_ANSWER = r"no (whole )?answer|bytes of an answer within|time ?d? ?out|timeout"
"""What became of something that was asked."""
