"""YAML loader with limits on nesting and on the expansion of aliases; nothing in a text is executed.

PyYAML's fast parser recurses in C, and a text that nests some ten thousand levels deep ends the process. So the depth
is bounded first: by a cheap estimate, and exactly where the estimate is too large. Aliases that multiply each other are
refused before they are expanded.
"""

from __future__ import annotations

import re
from typing import Any, Final

from palio.errors import MissingExtra, PalioError

_MAX_LEVELS: Final = 100
_SAME_LINE: Final = re.compile(r"^(?:[ \t]*[-?:](?=[ \t]))+[ \t]*", re.MULTILINE)
_INDENT: Final = re.compile(r"^ +", re.MULTILINE)


class YamlError(PalioError, ValueError):
    """An error in a YAML text, with its position."""

    def __init__(self, position: int, reason: str) -> None:
        self.position = position
        self.reason = reason
        super().__init__(reason)


def load_documents(text: str) -> list[Any]:
    """The documents of a YAML text that are not empty."""
    try:
        import yaml
        from sigma.exceptions import SigmaError
        from sigma.rule.base import SigmaYAMLLoader, check_alias_expansion
    except ImportError:
        raise MissingExtra("Sigma rules", "sigma") from None
    try:
        if _may_be_deep(text):
            _check_levels(text)
        documents = [each for each in yaml.load_all(text, Loader=SigmaYAMLLoader) if each is not None]
        if "&" in text:  # without an anchor there is no alias
            for document in documents:
                check_alias_expansion(document)
    except YamlError:
        raise
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise YamlError(mark.index if mark else 0, f"this is no YAML: {error.problem or error.context}") from None
    except yaml.reader.ReaderError as error:
        raise YamlError(error.position, f"this is no YAML: {error.reason}") from None
    except (yaml.YAMLError, SigmaError) as error:
        raise YamlError(0, f"this is no YAML: {error}") from None
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        # An impossible date, an unhashable key, a number of a million digits.
        raise YamlError(0, f"this is no YAML that a rule can have: {error}") from None
    return documents


def _may_be_deep(text: str) -> bool:
    """Whether an upper estimate of the depth calls for an exact count, which costs a second parse."""
    # Each bracket may open a level, each column of indentation, and each of the `- - -` before the text of a line.
    levels = text.count("[") + text.count("{")
    levels += max(map(len, _INDENT.findall(text)), default=0)
    levels += max(map(len, _SAME_LINE.findall(text)), default=0)
    return levels > 4 * _MAX_LEVELS


def _check_levels(text: str) -> None:
    """Refuse a text that nests too deep, by its events, which are parsed without recursion."""
    import yaml

    levels = 0
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        if isinstance(event, yaml.CollectionStartEvent):
            levels += 1
            if levels > _MAX_LEVELS:
                mark = event.start_mark
                raise YamlError(0 if mark is None else mark.index, f"nested more than {_MAX_LEVELS} levels deep")
        elif isinstance(event, yaml.CollectionEndEvent):
            levels -= 1
