"""The files of the repository, as git sees them: what the house rules are held against."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def files(*suffixes: str) -> list[Path]:
    """Committed files and those about to be; with `suffixes`, only files whose names end in one of them.

    New files count before they are committed, so that a rule speaks when it is cheap to follow.
    """
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    paths = {ROOT / name for name in listing.split("\0") if name.endswith(suffixes or ("",))}
    return sorted(path for path in paths if path.is_file() and not path.is_symlink())


def texts(*suffixes: str) -> list[tuple[str, str]]:
    """(path from the root, text) of every file that is text."""
    found = []
    for path in files(*suffixes):
        raw = path.read_bytes()
        if b"\0" not in raw:
            found.append((path.relative_to(ROOT).as_posix(), raw.decode("utf-8")))
    return found
