"""What a tally can keep as a histogram; a dialect says which, and with which bounds."""

from enum import StrEnum


class Measure(StrEnum):
    """Seconds, unless it says tokens. Of one sequence, unless it says step."""

    TTFT = "ttft"
    """From submission until the first token; kept when it is selected."""
    ITL = "itl"
    """Between two tokens; kept at the second."""
    E2E = "e2e"
    """From submission until the last token. This and all below are kept when it finishes."""
    QUEUE = "queue"
    """From submission until it was scheduled last."""
    PREFILL = "prefill"
    """From when it was scheduled last, before its first token, until that token."""
    DECODE = "decode"
    """From the first token until the last."""
    INFERENCE = "inference"
    """From when it was scheduled last, before its first token, until the last token."""
    TPOT = "tpot"
    """Mean time between its tokens."""
    PROMPT_TOKENS = "prompt_tokens"
    COMPUTED_TOKENS = "computed_tokens"
    """Prompt tokens that the prefix cache did not spare."""
    OUTPUT_TOKENS = "output_tokens"
    MAX_OUTPUT_TOKENS = "max_output_tokens"
    NUM_PREEMPTIONS = "num_preemptions"
    STEP_TOKENS = "step_tokens"
    """Tokens that a step selected, and all computed of the prompts that it ended. Kept of steps
    that selected something: a chunk counts when the last one of its prompt does."""
    STEP = "step"
    """How long a step took."""
    CANCEL_TO_RELEASE = "cancel_to_release"
    """From a cancel until the blocks are free."""
