"""Which drafts a board admits: sizes, spelling, evidence. Every refusal names the value, the limit and the way out.

These checks need nothing but the draft and the settings; what depends on the log or on other claims is in `decide`.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import msgspec

from board.core.spelling import BadTarget, spell_all
from schema.codes import Problem, problem
from schema.events import BOARD_AUTHOR
from schema.limits import WORKER_NAME_PATTERN
from schema.notes import Claim, Draft, Fact, Fail, Observed, PatchSummary

if TYPE_CHECKING:
    from collections.abc import Sequence

    from board.core.scope import Target
    from schema.limits import Settings

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_WORKER: Final = re.compile(WORKER_NAME_PATTERN)
_LOOKALIKE: Final = str.maketrans({"0": "o", "4": "a", "@": "a", "-": "", "_": "", ".": ""})

_PLACEHOLDERS: Final = frozenset(
    [
        "tbd",
        "todo",
        "tba",
        "wip",
        "fixme",
        "xxx",
        "na",
        "n a",
        "none",
        "nil",
        "null",
        "pending",
        "later",
        "soon",
        "placeholder",
        "unknown",
        "untested",
        "not tested",
        "not tested yet",
        "not yet tested",
        "will test",
        "will test later",
        "to be tested",
        "to be determined",
        "to be done",
        "to do",
        "no evidence",
        "no tests",
        "should work",
        "should pass",
        "should be fine",
        "should be ok",
        "it should work",
        "this should work",
        "looks good",
        "lgtm",
        "trust me",
        "evidence",
        "see above",
        "see below",
        "works on my machine",
        "",
    ]
)
_OPENERS: Final = re.compile(r"^(tbd|todo|tba|pending|(it |this )?should (work|pass|be (fine|ok)))( \w+){0,3}$")


class Places(msgspec.Struct, frozen=True, gc=False):
    """A scope as it is spelt: parsed, and as text."""

    targets: tuple[Target, ...] = ()
    texts: tuple[str, ...] = ()


class Admitted(msgspec.Struct, frozen=True, gc=False):
    """A draft that was admitted: its scope and files as they are spelt. A `bare` one has a text, a scope, a task at most."""

    scope: Places
    files: Places
    bare: bool = False


_NOWHERE: Final = Places()
_PLAIN: Final = frozenset((Observed, Fact, Fail))


def admit(draft: Draft, settings: Settings, root: str | None) -> Admitted | Problem:
    """Check a draft against the settings, and spell its scope and files.

    Gives the first thing that is wrong as a Problem; a draft at every limit is admitted.
    """
    bare = type(draft) in _PLAIN and not (
        draft.refs
        or draft.evidence
        or draft.run
        or draft.commit
        or draft.pr
        or draft.tags
        or draft.to
        or draft.detail
        or draft.key
    )
    if not (bare and _is_within(draft, settings)) and (found := _check_all(draft, settings)) is not None:
        return found
    scope = _places(draft.scope, settings, root, "scope") if draft.scope else _NOWHERE
    files = _places(draft.files, settings, root, "files") if type(draft) is PatchSummary else _NOWHERE
    if isinstance(scope, Problem):
        return scope
    return files if isinstance(files, Problem) else Admitted(scope, files, bare)


def _is_within(draft: Draft, settings: Settings) -> bool:
    """Say whether nothing is wrong with a bare draft: most drafts are bare, and one test of all takes half the time."""
    text, task = draft.text, draft.task  # type: ignore[union-attr] -- no patch is bare
    return (
        len(text) <= settings.text_chars
        and "\0" not in text
        and bool(text.strip())
        and len(draft.scope) <= settings.targets
        and len(task) <= settings.name_chars
        and (not task or task.isprintable())
    )


def _check_all(draft: Draft, settings: Settings) -> Problem | None:
    texts = _texts(draft)
    return (
        _check_texts(texts, settings)
        or _check_names(draft, settings)
        or _check_counts(draft, settings)
        or _check_detail(draft, settings)
        or _check_type(draft, texts, settings)
    )


def spell_scope(
    scope: Sequence[str], settings: Settings, root: str | None, *, field: str = "scope"
) -> tuple[Target, ...] | Problem:
    """Spell targets by the board's rule; the Problem names the one that cannot be."""
    places = _places(scope, settings, root, field)
    return places if isinstance(places, Problem) else places.targets


def _places(scope: Sequence[str], settings: Settings, root: str | None, field: str) -> Places | Problem:
    try:
        if len(scope) == 1:
            return _one_place(scope[0], root, settings.case_insensitive, settings.target_chars)
        return _all_places(scope, root, settings.case_insensitive, settings.target_chars)
    except BadTarget as error:
        limit = {} if error.limit is None else {"limit": error.limit, "unit": "characters"}
        return problem("bad_target", str(error), field=field, value=_shown(error.target), reason=error.reason, **limit)


@lru_cache(maxsize=16_384)
def _one_place(text: str, root: str | None, case_insensitive: bool, max_chars: int) -> Places:  # noqa: FBT001 -- a cache's key
    # Most notes are about one place, and many about the same one.
    return _all_places((text,), root, case_insensitive, max_chars)


def _all_places(scope: Sequence[str], root: str | None, case_insensitive: bool, max_chars: int) -> Places:  # noqa: FBT001
    targets = spell_all(scope, root=root, case_insensitive=case_insensitive, max_chars=max_chars)
    return Places(targets, tuple([target.text for target in targets]))


def check_worker_name(name: str) -> Problem | None:
    """Tell what is wrong with a worker's name: not of the pattern, or a look-alike of the board's own."""
    if not _WORKER.fullmatch(name):
        sentence = f"{_shown(name)!r} is no worker's name: 1 to 64 of A-Z a-z 0-9 . _ @ -, a letter or digit first."
        return problem("reserved_name", sentence, value=_shown(name), pattern=WORKER_NAME_PATTERN)
    if name.casefold().translate(_LOOKALIKE) == BOARD_AUTHOR:
        return problem("reserved_name", f"{name!r} is kept for the board itself.", value=name)
    return None


def check_text(field: str, text: str, limit: int) -> Problem | None:
    """Check one text: at most `limit` characters, no NUL."""
    if len(text) > limit:
        sentence = f"`{field}` has {len(text)} characters; the limit is {limit}. Put long text into `detail`."
        return problem("over_limit", sentence, field=field, value=len(text), limit=limit, unit="characters")
    if "\0" in text:
        return problem("invalid_field", f"`{field}` holds a NUL character.", field=field)
    return None


def check_name(field: str, value: str, limit: int) -> Problem | None:
    """Check one short label: at most `limit` characters, none of them a control character."""
    if len(value) > limit:
        sentence = f"`{field}` has {len(value)} characters; the limit is {limit}."
        return problem("over_limit", sentence, field=field, value=len(value), limit=limit, unit="characters")
    if value and not value.isprintable() and _CONTROL.search(value):
        return problem("invalid_field", f"`{field}` holds a control character.", field=field, value=_shown(value))
    return None


def _shown(value: str) -> str:
    return value if len(value) <= 80 else f"{value[:60]}… ({len(value)} characters)"


def _texts(draft: Draft) -> tuple[tuple[str, str], ...]:
    if isinstance(draft, PatchSummary):
        return (("idea", draft.idea), ("evidence", draft.evidence), ("risk", draft.risk))
    return (("text", draft.text), ("evidence", draft.evidence)) if draft.evidence else (("text", draft.text),)


def _check_texts(texts: tuple[tuple[str, str], ...], settings: Settings) -> Problem | None:
    for field, text in texts:
        if (found := check_text(field, text, settings.text_chars)) is not None:
            return found
        if not text.strip() and field != "risk":
            return problem("invalid_field", f"`{field}` is empty.", field=field, value=_shown(text))
    return None


def _check_names(draft: Draft, settings: Settings) -> Problem | None:
    labels = [("task", draft.task), ("commit", draft.commit), ("pr", draft.pr), ("key", draft.key)]
    if isinstance(draft, PatchSummary):
        labels.append(("work", draft.work))
    for field, value in labels:
        if value and (found := check_name(field, value, settings.name_chars)) is not None:
            return found
    for tag in draft.tags:
        if (found := check_name("tags", tag, settings.tag_chars)) is not None:
            return found
    if draft.run is not None:
        return check_text("run.command", draft.run.command, settings.text_chars)
    return None


def _check_counts(draft: Draft, settings: Settings) -> Problem | None:
    counts = [
        ("scope", len(draft.scope), settings.targets, "targets"),
        ("refs", len(draft.refs), settings.refs, "refs"),
        ("tags", len(draft.tags), settings.tags, "tags"),
        ("to", len(draft.to), settings.recipients, "workers"),
    ]
    if isinstance(draft, PatchSummary):
        counts.append(("files", len(draft.files), settings.files, "files"))
    for field, count, limit, unit in counts:
        if count > limit:
            sentence = f"`{field}` has {count} {unit}; the limit is {limit}."
            return problem("over_limit", sentence, field=field, value=count, limit=limit, unit=unit)
    return None


def _check_detail(draft: Draft, settings: Settings) -> Problem | None:
    if not draft.detail:
        return None
    size = len(draft.detail.encode())
    if size > settings.detail_bytes:
        sentence = f"`detail` has {size} bytes; the limit is {settings.detail_bytes}."
        return problem("over_limit", sentence, field="detail", value=size, limit=settings.detail_bytes, unit="bytes")
    return problem("invalid_field", "`detail` holds a NUL character.", field="detail") if "\0" in draft.detail else None


def _check_type(draft: Draft, texts: tuple[tuple[str, str], ...], settings: Settings) -> Problem | None:
    match draft:
        case Claim():
            return _check_claim(draft, settings)
        case PatchSummary():
            return _check_patch(draft, texts, settings)
        case _:
            return None


def _check_claim(draft: Claim, settings: Settings) -> Problem | None:
    if not draft.scope:
        return problem("invalid_field", "A CLAIM needs a `scope` of one target or more.", field="scope", limit=1)
    return None if draft.ttl_s is None else check_ttl(draft.ttl_s, settings)


def check_ttl(ttl_s: int, settings: Settings) -> Problem | None:
    """Check the length of a lease against the board's bounds."""
    if settings.ttl_s_min <= ttl_s <= settings.ttl_s_max:
        return None
    sentence = f"`ttl_s` is {ttl_s}; it must be from {settings.ttl_s_min} to {settings.ttl_s_max} seconds."
    return problem(
        "over_limit", sentence, field="ttl_s", value=ttl_s, limit=settings.ttl_s_max, least=settings.ttl_s_min,
        unit="seconds",
    )  # fmt: skip


def _check_patch(draft: PatchSummary, texts: tuple[tuple[str, str], ...], settings: Settings) -> Problem | None:
    if not draft.files:
        return problem("invalid_field", "A PATCH_SUMMARY needs `files`: one or more.", field="files", limit=1)
    whole = sum(len(text) for _, text in texts)
    if settings.patch_chars is not None and whole > settings.patch_chars:
        sentence = f"idea, evidence and risk have {whole} characters together; the limit is {settings.patch_chars}."
        limit = settings.patch_chars
        return problem("over_limit", sentence, field="idea", value=whole, limit=limit, unit="characters")
    if is_placeholder(draft.evidence):
        sentence = f"{_shown(draft.evidence)!r} is no evidence: say what was run and what it showed."
        return problem("placeholder_evidence", sentence, field="evidence", value=_shown(draft.evidence))
    return None


def is_placeholder(evidence: str) -> bool:
    """Tell whether a text only stands where evidence should, such as `tbd`, `pending` or `should work`.

    Compared without case and punctuation; a placeholder followed by at most three words counts as well.
    """
    words = " ".join(re.findall(r"\w+", unicodedata.normalize("NFKC", evidence).casefold()))
    return words in _PLACEHOLDERS or _OPENERS.match(words) is not None
