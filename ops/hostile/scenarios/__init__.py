"""One hostile condition each: how it is brought about, and what must hold all the same."""
