"""The ratchet turns one way."""

from tests.architecture.ratchet import Size, complaints, load, measure, measure_repository, tighten


def test_the_repository_keeps_the_norms():
    wrong = complaints(measure_repository(), load())
    assert not wrong, "\n" + "\n".join(wrong)


def test_functions_are_measured_wherever_they_hide():
    source = """\
class A:
    def b(self):
        def c():
            pass
        return c
if True:
    async def d():
        pass
"""
    sizes = {size.what: size.lines for size in measure("m.py", source)}
    assert sizes == {"m.py": 8, "m.py::A.b": 4, "m.py::A.b.c": 2, "m.py::d": 2}


def test_a_new_excess_is_refused_with_the_way_out():
    (line,) = complaints([Size("m.py", 401, 400)], {})
    assert "m.py: 401 lines" in line
    assert "ratchet.json" in line


def test_a_listed_one_may_neither_grow_nor_keep_slack():
    record = {"m.py": {"lines": 500, "why": "a table"}}
    assert complaints([Size("m.py", 500, 400)], record) == []
    assert "grew from 500 to 501" in complaints([Size("m.py", 501, 400)], record)[0]
    assert "make ratchet" in complaints([Size("m.py", 450, 400)], record)[0]
    assert "no longer there" in complaints([], record)[0]
    assert "without a reason" in complaints([Size("m.py", 500, 400)], {"m.py": {"lines": 500, "why": "..."}})[0]


def test_tightening_lowers_and_forgets_but_never_raises():
    record = {
        "shrank": {"lines": 500, "why": "w"},
        "grew": {"lines": 500, "why": "w"},
        "mended": {"lines": 500, "why": "w"},
    }
    sizes = [Size("shrank", 450, 400), Size("grew", 600, 400), Size("mended", 300, 400)]
    assert tighten(sizes, record) == {"shrank": {"lines": 450, "why": "w"}, "grew": {"lines": 500, "why": "w"}}
