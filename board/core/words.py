"""The query language of `search`: words; a comma is OR, `&` is AND, quotes make a phrase.

People and models type whatever they see into a search box: `POL-358`, `src/a.py`, `don't`, an open quote, `OR`, `*`.
Nothing is an operator but the three above, and nothing is an error: what is not a letter or a digit only separates
words, so that each literal finds the note that holds it.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from schema.events import Note

_WORD: Final = re.compile(r"[^\W_]+")
_PARTS: Final = re.compile(r'"([^"]*)"?|([,&])|([^\s",&]+)')


class Query(msgspec.Struct, frozen=True):
    """Any of the alternatives must match; an alternative matches when all of its phrases do.

    A phrase is one word or several that must follow each other. No alternative at all matches everything.
    """

    alternatives: tuple[tuple[tuple[str, ...], ...], ...] = ()


def words_of(text: str) -> tuple[str, ...]:
    """Split text into the words that are searched for: runs of letters and digits, NFKC, folded, in order."""
    return tuple(_WORD.findall(unicodedata.normalize("NFKC", text).casefold()))


def parse(q: str) -> Query:
    """Read a query; every text is one. A part that holds no word at all, such as `*`, asks for nothing.

    Words side by side must all be there, as if `&` stood between them.
    """
    alternatives: list[list[tuple[str, ...]]] = [[]]
    for quoted, operator, bare in _PARTS.findall(q):
        if operator == ",":
            alternatives.append([])
        elif phrase := words_of(quoted or bare):
            alternatives[-1].append(phrase)
    return Query(tuple(tuple(phrases) for phrases in alternatives if phrases))


def matches(query: Query, text: str) -> bool:
    """Tell whether a text matches: the rule that every index must agree with."""
    words = words_of(text)
    return not query.alternatives or any(
        all(_holds(words, phrase) for phrase in phrases) for phrases in query.alternatives
    )


def _holds(words: tuple[str, ...], phrase: tuple[str, ...]) -> bool:
    size = len(phrase)
    return any(words[start : start + size] == phrase for start in range(len(words) - size + 1))


def searched_text(note: Note) -> str:
    """Give the text of a note that is searched: what it says, where, and under which labels; not its detail."""
    return "\n".join((note.text, note.idea, note.evidence, note.risk, note.task, *note.scope, *note.files, *note.tags))
