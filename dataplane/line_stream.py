"""Lines of a byte stream, as server-sent events and line-wise JSON mean them.

A line ends with CR, LF or both, and with nothing else. What text tools take for line ends
besides (U+2028, U+2029, U+0085) is content that JSON writes as it is: whoever splits there
tears an answer or a document apart.
"""

from collections.abc import AsyncIterator


class LineTooLongError(Exception):
    """A line is longer than its reader will hold."""

    def __init__(self, max_bytes: int) -> None:
        super().__init__(f"a line of the stream is longer than {max_bytes} bytes")
        self.max_bytes = max_bytes


async def read_lines(chunks: AsyncIterator[bytes], max_bytes: int) -> AsyncIterator[bytes]:
    """Each line without its end; what follows the last end counts as one, unless it is empty.

    Raises LineTooLongError before more than `max_bytes` of one line, and a chunk, are held.
    """
    begun: list[bytes] = []  # parts of a line that has not ended
    num_begun = 0
    is_after_cr = False
    async for chunk in chunks:
        if not chunk:
            continue
        whole = chunk.removeprefix(b"\n") if is_after_cr else chunk
        is_after_cr = chunk.endswith(b"\r")
        for part in whole.splitlines(keepends=True):  # of bytes: at CR and LF alone
            text = part.rstrip(b"\r\n")
            num_begun += len(text)
            if num_begun > max_bytes:
                raise LineTooLongError(max_bytes)
            begun.append(text)
            if len(text) < len(part):
                yield b"".join(begun)
                begun, num_begun = [], 0
    if num_begun:
        yield b"".join(begun)
