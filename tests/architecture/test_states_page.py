"""docs/states.md is what the table of transitions says."""

from tenure.core.machine import TRANSITIONS, Event
from tenure.core.task import State
from tools import draw_states


def test_the_page_is_current():
    current = draw_states.PAGE.read_text(encoding="utf-8")
    assert current == draw_states.page(), "run: python -m tools.draw_states"


def test_every_state_and_every_event_is_explained():
    assert set(draw_states.STATES) == set(State)
    assert set(draw_states.EVENTS) == set(Event)


def test_the_picture_and_the_table_of_exits_leave_no_transition_out():
    """What moves a task from one state into another is in one of them; a reopened refusal is told in words."""
    picture = draw_states.picture()
    for (source, event), target in TRANSITIONS.items():
        early = event in draw_states.ENDINGS and source is not State.LEASED
        if source in (target, State.CANCELLED) or early:
            continue
        assert any(
            line.strip().startswith(f"{source or '[*]'} --> {target}:") and event.value in line
            for line in picture.splitlines()
        ), (source, event)
