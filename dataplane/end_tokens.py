"""Tokens that end a turn or a text, by how common vocabularies spell them.

A model's files name one of them as its end token, and models still select the others.
"""

END_TOKENS = frozenset(
    {"<|im_end|>", "<|endoftext|>", "<|end_of_text|>", "<|eot_id|>", "<|eom_id|>", "</s>"}
)
