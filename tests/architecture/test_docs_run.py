"""The documents' Python runs. Each block says how it is held, in a comment on the line before its fence:

`<!-- run -->`: executed, in order, in one namespace per document; `<!-- compile -->`: only compiled, because it shows a
fragment. A block that says neither fails: a document that nothing holds is a document that drifts.
"""

import ast
import asyncio
import inspect
import linecache
import re
import sys
import textwrap
import types
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.architecture import repository

FENCE = re.compile(r"^(?P<indent> *)(?P<ticks>`{3,}|~{3,}) *(?P<language>[\w+-]*)")
HELD = re.compile(r"^\s*<!-- (run|compile) -->\s*$")


@dataclass(frozen=True)
class Block:
    document: str
    line: int  # of the first line of code, counted from 1
    code: str
    held: str | None

    @property
    def place(self) -> str:
        return f"{self.document}:{self.line}"

    def compiled(self) -> types.CodeType:
        """With the document's own name and line numbers, so that a traceback points into the document."""
        shifted = "\n" * (self.line - 1) + self.code
        linecache.cache[self.place] = (len(shifted), None, shifted.splitlines(keepends=True), self.place)
        return compile(shifted, self.place, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)


def blocks(document: str, text: str) -> Iterator[Block]:
    """The Python blocks of one document."""
    lines = text.splitlines()
    number = 0
    while number < len(lines):
        opening = FENCE.match(lines[number])
        if opening is None:
            number += 1
            continue
        end = number + 1
        while end < len(lines) and not lines[end].strip().startswith(opening["ticks"]):
            end += 1
        if opening["language"].lower() in ("python", "py", "python3"):
            held = HELD.match(lines[number - 1]) if number else None
            code = textwrap.dedent("\n".join(lines[number + 1 : end])) + "\n"
            yield Block(document, number + 2, code, held and held[1])
        number = end + 1


def documents() -> list[Path]:
    """README.md and its siblings, and everything under docs."""
    root = repository.ROOT
    return [path for path in repository.files(".md") if path.parent == root or root / "docs" in path.parents]


def named(path: Path) -> str:
    return path.relative_to(repository.ROOT).as_posix()


def execute(block: Block, namespace: dict[str, object]) -> None:
    """Run one block; a block that awaits runs on a loop of its own."""
    outcome = eval(block.compiled(), namespace)
    if inspect.iscoroutine(outcome):
        asyncio.run(outcome)


@pytest.mark.parametrize("path", documents(), ids=named)
def test_the_python_of_a_document_runs(path, tmp_path, monkeypatch):
    found = list(blocks(named(path), path.read_text(encoding="utf-8")))
    unheld = [block.place for block in found if block.held is None]
    assert not unheld, f"write <!-- run --> or <!-- compile --> on the line before the fence: {unheld}"
    # A real module, because pydantic and typing look names up in the module that a class says it is from.
    module = types.ModuleType("document_" + re.sub(r"\W", "_", named(path)))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.chdir(tmp_path)
    for block in found:
        if block.held == "run":
            execute(block, vars(module))
        else:
            block.compiled()


def test_make_targets_that_documents_name_exist():
    makefile = (repository.ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z][a-z-]*):", makefile, re.MULTILINE))
    missing = {
        f"{named(path)}: make {target}"
        for path in documents()
        for target in re.findall(r"(?:^|`)make ([a-z][a-z-]*)", path.read_text(encoding="utf-8"), re.MULTILINE)
        if target not in targets
    }
    assert missing == set()


def test_each_decision_has_a_number_of_its_own():
    """A reference by number leads to one record, and its heading says the same number."""
    records = sorted((repository.ROOT / "docs" / "adr").glob("[0-9]*.md"))
    numbers = [path.name[:4] for path in records]
    assert sorted(set(numbers)) == numbers
    headed = [path.read_text(encoding="utf-8").startswith(f"# {path.name[:4]}") for path in records[1:]]  # not 0000
    assert all(headed), [path.name for path, fits in zip(records[1:], headed, strict=True) if not fits]


DOCUMENT = """\
Text.

<!-- run -->
```python
x = 1
```

<!-- compile -->
~~~py
await x
~~~

1. In a list:
   ```python
   y = 2
   ```

```bash
not python
```
"""


def test_blocks_are_found_with_their_lines_and_how_they_are_held():
    found = [(block.line, block.code, block.held) for block in blocks("d.md", DOCUMENT)]
    assert found == [(5, "x = 1\n", "run"), (10, "await x\n", "compile"), (15, "y = 2\n", None)]


def test_a_failing_block_points_into_its_document():
    block = Block("d.md", 7, "raise RuntimeError('as written')\n", "run")
    with pytest.raises(RuntimeError, match="as written") as raised:
        execute(block, {})
    assert raised.traceback[-1].lineno == 6  # pytest counts from 0


def test_a_block_may_await():
    namespace: dict[str, object] = {}
    execute(Block("d.md", 1, "import asyncio\nawait asyncio.sleep(0)\nz = 3\n", "run"), namespace)
    assert namespace["z"] == 3
