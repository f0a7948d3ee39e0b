"""Conditions in files of their own: a folder of them, or one.

The end of a file's name says in which language its condition is written, where it says that at all; the id of a
subscription is the path of its file without that end. A Sigma file may hold several rules, each with an id of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any, Final

from palio.errors import InputError
from palio.files.line import SubscriptionLine

LANGUAGES: Final = {".sql": "sql", ".yml": "sigma", ".yaml": "sigma", ".json": None, ".txt": None}
_ENDINGS: Final = ", ".join(LANGUAGES)
_LONGEST: Final = 4_000_000  # bytes of one condition

Report = Callable[[InputError], None]


def is_of_conditions(path: str | Path) -> bool:
    """Whether this is a folder, or a file that is itself a condition."""
    return (bool(str(path)) and Path(path).is_dir()) or Path(path).suffix in (".sql", ".yml", ".yaml")


def read_conditions(path: str | Path, language: str | None, report: Report) -> Generator[SubscriptionLine, None, None]:
    """The subscriptions of a folder, in the order of their paths, or of a file that is a condition."""
    root = Path(path)
    files = _files(root) if root.is_dir() else [root]
    if not files:
        raise InputError(str(path), f"there is no file in it whose name ends in {_ENDINGS}")
    for number, file in enumerate(files, start=1):
        text = _text(file, report)
        if text is None:
            continue
        own = LANGUAGES[file.suffix] or language
        if own == "sigma":
            yield from _rules(file, text, number, report)
        else:
            name = file.relative_to(root) if root.is_dir() else Path(file.name)
            yield SubscriptionLine(name.with_suffix("").as_posix(), text.strip(), own, line=number, place=str(file))


def _files(root: Path) -> list[Path]:
    """The files below a folder that may hold conditions; nothing hidden."""
    found = (path for path in root.rglob("*") if path.suffix in LANGUAGES and path.is_file())
    return sorted(path for path in found if not any(part.startswith(".") for part in path.relative_to(root).parts))


def _text(file: Path, report: Report) -> str | None:
    try:
        if file.stat().st_size > _LONGEST:
            report(InputError(str(file), f"it has more than the {_LONGEST:,} bytes that a condition may have"))
            return None
        return file.read_bytes().decode("utf-8-sig")
    except OSError as error:
        report(InputError(str(file), error.strerror or str(error)))
    except UnicodeDecodeError as error:
        report(InputError(str(file), f"invalid UTF-8 at byte {error.start}"))
    return None


def _rules(file: Path, text: str, number: int, report: Report) -> Generator[SubscriptionLine, None, None]:
    """The Sigma rules of a file; each has an id, a title and a level of its own."""
    from palio.languages.sigma.documents import DocumentError, read_documents

    try:
        documents = read_documents(text)
    except ImportError:
        raise InputError(str(file), "Sigma rules need the extra sigma; run: pip install 'palio[sigma]'") from None
    except DocumentError as error:
        report(InputError(str(file), error.reason, text.count("\n", 0, error.position) + 1))
        return
    if not documents:
        report(InputError(str(file), "there is no rule in it"))
    for place, document in enumerate(documents, start=1):
        alone = len(documents) == 1
        header = document if isinstance(document, dict) else {}
        id = str(header.get("id") or (file.stem if alone else f"{file.stem}/{place}"))
        # A rule of several is written anew: the others are not part of it.
        rule = text if alone else _yaml(document)
        yield SubscriptionLine(id, rule, "sigma", metadata=_about(header), line=number, place=str(file))


def _about(rule: dict[str, Any]) -> dict[str, Any]:
    about: dict[str, Any] = {name: str(rule[name]) for name in ("title", "level", "status") if rule.get(name)}
    tags = rule.get("tags")
    return {**about, "tags": [str(tag) for tag in tags]} if isinstance(tags, list) else about


def _yaml(document: Any) -> str:
    import yaml

    return str(yaml.safe_dump(document, sort_keys=False, allow_unicode=True))
