"""Examples at the end of a command's help."""


def examples(*lines: tuple[str, str]) -> str:
    """Each a command that can be pasted, and what it shows."""
    shown = "\n".join(f"  {command}\n      {says}" for command, says in lines)
    return f"\b\nExamples:\n{shown}"
