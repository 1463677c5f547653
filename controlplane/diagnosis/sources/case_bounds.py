"""How large a case may be: one of some hundred bytes can name itself into billions of values."""

from collections.abc import Iterator

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

MOST_CHARACTERS = 8 * 2**20
"""Of its file, and of all its values together."""
MOST_VALUES = 10_000
"""Of all tables and lists, one that is named by an alias as often as it is named. A thousand
scrapes of a page are four thousand; to judge as many told figures takes some seconds."""
_LARGE = 200_000
"""Characters. Of such a file the values are counted before it is loaded, which takes longer: a key
is an event of its own."""


def why_too_large(text: str) -> str | None:
    """Of a file before it is loaded; None where it may be. What is no YAML is for others to say."""
    if len(text) > MOST_CHARACTERS:
        return f"it has more than {MOST_CHARACTERS // 2**20} million characters"
    if len(text) < _LARGE:
        return None
    try:
        for number, _ in enumerate(YAML(typ="base", pure=True).parse(text)):
            if number > 2 * MOST_VALUES:
                return _TOO_MANY
    except YAMLError:
        return None
    return None


def why_too_much(document: object) -> str | None:
    """Of what was loaded; None where it may be."""
    num_characters = 0
    for number, text in enumerate(_values(document)):
        num_characters += len(text)
        if number > MOST_VALUES:
            return _TOO_MANY
        if num_characters > MOST_CHARACTERS:
            return f"its values have more than {MOST_CHARACTERS // 2**20} million characters"
    return None


_TOO_MANY = f"it has more than {MOST_VALUES} values, each alias counted with what it stands for"


def _values(document: object) -> Iterator[str]:
    """The text of each, empty for a table or a list, as often as it is reached. Without end where
    one holds itself."""
    waiting = [document]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
        yield value if isinstance(value, str) else ""
