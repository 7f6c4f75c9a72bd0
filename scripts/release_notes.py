"""Prints the changes of a release, and fails if the tag, the version and the changelog do not agree.

python scripts/release_notes.py v1.2.3
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def notes(tag: str, root: Path = ROOT) -> str:
    """The section of the changelog that belongs to a tag."""
    version = tag.removeprefix("v")
    for name, found in stated(root).items():
        if found != version:
            sys.exit(f"{name} says {found}, and the tag {tag}")
    changes = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    section = re.search(
        rf"^## \[{re.escape(version)}\][^\n]*\n(.*?)(?=^## |\Z)", changes, re.MULTILINE | re.DOTALL
    )
    if section is None or not section[1].strip():
        sys.exit(f"CHANGELOG.md has no changes of {version}")
    return section[1].strip()


def stated(root: Path) -> dict[str, str]:
    """The version by the files that state it."""
    files = {"src/recallatk/version.py": r'^__version__ = "(.+)"', "CITATION.cff": r"^version: (.+)"}
    found = {}
    for name, pattern in files.items():
        line = re.search(pattern, (root / name).read_text(encoding="utf-8"), re.MULTILINE)
        found[name] = line[1] if line else "nothing"
    return found


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    print(notes(sys.argv[1]))
