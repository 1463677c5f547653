"""Random numbers by name: a stream that is added or taken away changes no other."""

import hashlib
import random


def random_stream(seed: int, *names: str | int) -> random.Random:
    """The stream called `names` of a scenario's seed: the same in every process."""
    text = "/".join(str(name) for name in (seed, *names))
    digest = hashlib.sha256(text.encode()).digest()
    return random.Random(int.from_bytes(digest[:16], "big"))
