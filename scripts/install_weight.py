"""Prints what `pip install recallatk` puts on the disk, package by package, as a Markdown table.

    python scripts/install_weight.py [EXTRA...]

With names of extras, the table has what they add.
"""

from __future__ import annotations

import re
import sys
from importlib import metadata

from packaging.requirements import Requirement

MEGABYTE = 1_000_000
SMALL = 2.0


def name_of(text: str) -> str:
    """The normalized name of a distribution."""
    return re.sub(r"[-_.]+", "-", text).lower()


def closure(name: str, extras: frozenset[str] = frozenset()) -> dict[str, set[str]]:
    """Installed distributions that one needs, itself included, each with those that ask for it."""
    found: dict[str, set[str]] = {}
    seen: set[tuple[str, frozenset[str]]] = set()
    waiting = [(name_of(name), extras, "")]
    while waiting:
        wanted, chosen, asking = waiting.pop()
        found.setdefault(wanted, set()).update({asking} - {"", wanted})
        if (wanted, chosen) in seen:
            continue
        seen.add((wanted, chosen))
        needed = [each for each in map(Requirement, metadata.requires(wanted) or ()) if applies(each, chosen)]
        waiting.extend((name_of(each.name), frozenset(each.extras), wanted) for each in needed)
    return found


def applies(requirement: Requirement, extras: frozenset[str]) -> bool:
    """Whether this machine needs it, with these extras."""
    marker = requirement.marker
    return marker is None or any(marker.evaluate({"extra": each}) for each in {"", *extras})


def weight(name: str) -> float:
    """Megabytes of the files of a distribution, with compiled Python."""
    files = [each.locate() for each in metadata.files(name) or ()]
    return sum(each.stat().st_size for each in files if each.is_file()) / MEGABYTE


def table(chosen: dict[str, set[str]]) -> str:
    """One line for each distribution of at least two megabytes, one for all others, and their sum."""
    weights = {each: weight(each) for each in chosen}
    heavy = sorted((each for each in chosen if weights[each] >= SMALL), key=lambda each: -weights[each])
    small = [each for each in chosen if each not in heavy]
    rows = [
        f"| `{each}` {metadata.version(each)} | {weights[each]:.0f} | {asked(chosen[each])} |"
        for each in heavy
    ]
    rest = sum(weights[each] for each in small)
    return "\n".join(
        [
            "| package | MB | needed by |",
            "|---|---|---|",
            *rows,
            f"| {len(small)} smaller ones | {rest:.0f} | |",
            f"| **{len(chosen)} packages** | **{sum(weights.values()):.0f}** | |",
        ]
    )


def asked(names: set[str]) -> str:
    """Who needs it, in words."""
    return ", ".join(sorted(f"`{each}`" for each in names)) or "you"


def main() -> None:
    core, extras = closure("recallatk"), frozenset(sys.argv[1:])
    if extras:
        print(table({name: by for name, by in closure("recallatk", extras).items() if name not in core}))
    else:
        print(table(core))


if __name__ == "__main__":
    main()
