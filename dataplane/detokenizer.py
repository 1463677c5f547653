"""Token ids to text, one piece at a time.

A byte-level token may end in the middle of a character. Text leaves here only in whole
characters, so nothing that was sent has to be taken back; U+FFFD stands only for bytes
that no later token can complete.
"""

import codecs

from dataplane.tokenizer import Tokenizer


class Detokenizer:
    """The output text of one sequence. All pieces together equal `Tokenizer.decode` of all ids."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def add(self, token_id: int) -> str:
        """The characters that this token completes; none for a control token.

        Raises ValueError for an id outside the vocabulary.
        """
        return self._decoder.decode(self._tokenizer.get_bytes(token_id))

    def flush(self) -> str:
        """What is left when no token follows: U+FFFD where a character stayed incomplete."""
        return self._decoder.decode(b"", final=True)
