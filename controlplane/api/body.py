"""Request bodies, read within a bound."""

from fastapi import HTTPException, Request


async def read_body(request: Request, max_bytes: int, remedy: str) -> bytes:
    """The whole body. Raises a 413 with `remedy` as soon as it is larger than `max_bytes`."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > max_bytes:
            raise HTTPException(413, detail=f"larger than {max_bytes} bytes; {remedy}")
    return bytes(body)
