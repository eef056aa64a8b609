"""The one grammar by which tasks are picked, in the CLI, the SDK, replays and the console.

    state:dead_lettered task:render_* tenant:acme,globex error:PDFError since:24h -queue:ledger

Terms are `field:value`, separated by blanks; all must hold. A comma means any of these, `*` stands for anything, a
leading `-` excludes, and a value with blanks is quoted: error:"bad image". `since` and `before` count back from now to
the last thing that happened to a task: its end, else its last start, else its submission.
"""

from __future__ import annotations

import difflib
import fnmatch
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tenure.core.durations import exact_text_of, seconds_of
from tenure.core.errors import InvalidFilter, UsageError
from tenure.core.task import Row, State

_Values = Callable[[Row], Sequence[str]]


def _error_names(row: Row) -> Sequence[str]:
    """An error is called by its full name (shop.render.PDFError) or by its last part alone."""
    return (row.error.type, row.error.type.rpartition(".")[2]) if row.error else ("",)


FIELDS: Mapping[str, _Values] = {
    "state": lambda row: (row.state.value,),
    "task": lambda row: (row.task,),
    "queue": lambda row: (row.queue,),
    "pool": lambda row: (row.pool,),
    "priority": lambda row: (row.tier,),
    "tenant": lambda row: (row.tenant,),
    "key": lambda row: (row.ordering_key,),
    "error": _error_names,
    "fingerprint": lambda row: (row.error.fingerprint if row.error else "",),
    "reason": lambda row: (row.reason,),
    "id": lambda row: (row.id,),
}
"""Field -> what of a row it is compared with; any of them may match."""

TIMES = ("since", "before")
"""Fields whose value is a duration, counted back from now."""


@dataclass(frozen=True, slots=True)
class Term:
    """One `field:value`. It holds if any value matches, or, excluding, if none does."""

    field: str
    values: tuple[str, ...]
    excluding: bool = False

    def holds(self, row: Row) -> bool:
        """Whether the row fits this term."""
        found = FIELDS[self.field](row)
        matched = any(fnmatch.fnmatchcase(text, value) for value in self.values for text in found)
        return matched is not self.excluding

    @property
    def text(self) -> str:
        """The term as it is written."""
        values = ",".join(f'"{value}"' if "," in value or value.split() != [value] else value for value in self.values)
        return f"{'-' if self.excluding else ''}{self.field}:{values}"


@dataclass(frozen=True, slots=True)
class Filter:
    """Picks rows. Without any term it picks all."""

    terms: tuple[Term, ...] = ()
    since_seconds: float | None = None
    before_seconds: float | None = None

    def matches(self, row: Row, now_ms: int) -> bool:
        """Whether the row is picked. `now_ms` is what `since` and `before` count back from."""
        at_ms = happened_at_ms(row)
        if self.since_seconds is not None and at_ms < now_ms - self.since_seconds * 1000:
            return False
        if self.before_seconds is not None and at_ms >= now_ms - self.before_seconds * 1000:
            return False
        return all(term.holds(row) for term in self.terms)

    def admits(self, field: str, value: str) -> bool:
        """Whether a row whose `field` is `value` can match at all: spares reading what cannot."""
        terms = [term for term in self.terms if term.field == field]
        return all(any(fnmatch.fnmatchcase(value, v) for v in t.values) is not t.excluding for t in terms)

    @property
    def text(self) -> str:
        """The filter as it is written; parses back to itself."""
        parts = [term.text for term in self.terms]
        if self.since_seconds is not None:
            parts.append(f"since:{exact_text_of(self.since_seconds)}")
        if self.before_seconds is not None:
            parts.append(f"before:{exact_text_of(self.before_seconds)}")
        return " ".join(parts)


def happened_at_ms(row: Row) -> int:
    """When something last happened to a task: its end, else its last start, else its submission."""
    return row.ended_at_ms or row.last_started_at_ms or row.submitted_at_ms


def parse(texts: str | Sequence[str]) -> Filter:
    """The filter in one text, or in several that all must hold. Raises InvalidFilter, which says what to write."""
    words = [word for text in ([texts] if isinstance(texts, str) else texts) for word in _words(text)]
    terms: list[Term] = []
    times: dict[str, float] = {}
    for word in words:
        field, values, excluding = _split(word)
        if field in TIMES:
            times[field] = _duration(field, values, excluding)
        else:
            terms.append(Term(field, tuple(_checked(field, value) for value in values), excluding))
    return Filter(tuple(terms), times.get("since"), times.get("before"))


_Word = list[tuple[str, bool]]
"""Characters, each with whether it stood in quotes."""


def _words(text: str) -> list[_Word]:
    words: list[_Word] = []
    word: _Word = []
    quoted = False
    for character in text:
        if character == '"':
            quoted = not quoted
        elif character.isspace() and not quoted:
            words.append(word)
            word = []
        else:
            word.append((character, quoted))
    if quoted:
        raise InvalidFilter(f'filter {text!r}: a quote is never closed. Write for example error:"bad image".')
    return [word for word in [*words, word] if word]


def _split(word: _Word) -> tuple[str, list[str], bool]:
    """(field, values, excluding) of a word. Raises InvalidFilter."""
    text = "".join(character for character, _ in word)
    head, colon, _ = text.partition(":")
    excluding = head.startswith("-")
    field = head.removeprefix("-")
    if not colon:
        raise InvalidFilter(
            f"filter: {text!r} is not a term. Write field:value, for example task:{text}, and quote values with blanks."
        )
    if field not in FIELDS and field not in TIMES:
        raise InvalidFilter(f"filter: no field is called {field!r}. {_suggest(field, [*FIELDS, *TIMES])}")
    values = [""]
    for character, quoted in word[len(head) + 1 :]:
        if character == "," and not quoted:
            values.append("")
        else:
            values[-1] += character
    if any(not value for value in values):
        raise InvalidFilter(f"filter: {text!r} has an empty value. Write {head}:value, or leave the term out.")
    return field, values, excluding


def _duration(field: str, values: list[str], excluding: bool) -> float:
    if len(values) != 1 or excluding:
        other = "before" if field == "since" else "since"
        raise InvalidFilter(f"filter: {field} takes one duration, for example {field}:24h; its opposite is {other}.")
    try:
        return seconds_of(values[0], f"filter {field}")
    except UsageError as error:
        raise InvalidFilter(str(error)) from None


def _checked(field: str, value: str) -> str:
    known = [state.value for state in State]
    if field == "state" and not fnmatch.filter(known, value):
        raise InvalidFilter(f"filter: there is no state {value!r}. {_suggest(value, known)}")
    return value


def _suggest(word: str, known: Sequence[str]) -> str:
    begun = [name for name in known if word and name.startswith(word)]
    near = begun or difflib.get_close_matches(word, known, n=1)
    return f"Did you mean {near[0]!r}? There are: {', '.join(known)}." if near else f"There are: {', '.join(known)}."
