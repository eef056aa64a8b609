"""What others may send: any JSON, and what is well formed but for some places of it."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

from hypothesis import strategies as st

TEXT = st.text(max_size=20)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | TEXT
    | st.sampled_from(["", " ", "\n", "\x00", "\ud800", "9" * 5000, "-1", "1e400", "٣", float("inf"), float("nan")])
)
ANY = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4), max_leaves=10
)
"""JSON, and the little more that Python's reader of it lets through."""

Path = tuple[Any, ...]


def paths(value: Any, at: Path = ()) -> Iterator[Path]:
    """Every place in a value, its own first."""
    yield at
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from paths(inner, (*at, name))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from paths(inner, (*at, number))


@st.composite
def mutated(draw: st.DrawFn, value: Any, places_max: int = 3) -> Any:
    """`value` with up to so many of its places gone, replaced by anything, or added to."""
    made = deepcopy(value)
    for _ in range(draw(st.integers(1, places_max))):
        at = draw(st.sampled_from(list(paths(made))))
        if not at:
            return draw(ANY)
        holder = made
        for step in at[:-1]:
            holder = holder[step]
        how = draw(st.sampled_from(["replace", "replace", "drop", "add"]))
        if how == "replace":
            holder[at[-1]] = draw(ANY)
        elif how == "drop":
            del holder[at[-1]]
        elif isinstance(holder, dict):
            holder[draw(TEXT)] = draw(ANY)
        else:
            holder.insert(at[-1], draw(ANY))
    return made


@st.composite
def damaged(draw: st.DrawFn, text: str, places_max: int = 4) -> str:
    """`text` with some characters replaced, some stretches cut out or doubled."""
    made = text
    for _ in range(draw(st.integers(1, places_max))):
        at = draw(st.integers(0, len(made)))
        to = min(len(made), at + draw(st.integers(0, 12)))
        made = made[:at] + draw(st.text(max_size=3) | st.just(made[at:to] * 2)) + made[to:]
    return made
