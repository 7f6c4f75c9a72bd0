"""A plain folder: corpus.* and queries.* in any format, perhaps with judgments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recallatk.datasets.qrels import find_qrels
from recallatk.datasets.registry import has_known_suffix, open_location
from recallatk.datasets.source import CORPUS, QUERIES, Format, OpenOptions, Source
from recallatk.errors import FormatError

if TYPE_CHECKING:
    from recallatk.files import Location


class Pair(Format):
    """For example corpus.parquet, queries.parquet and qrels.tsv."""

    name = "folder"

    def recognizes_folder(self, children: list[Location]) -> bool:
        """A folder with a file for each part."""
        return all(any(_is_part(child, role) for child in children) for role in (CORPUS, QUERIES))

    def open(self, shards: list[Location], options: OpenOptions) -> Source:
        """Open both parts."""
        (folder,) = shards
        parts = {role: sibling(folder, role, options).part(role) for role in (CORPUS, QUERIES)}
        return Source(folder.text, self.name, parts, qrels=find_qrels(folder))


def sibling(folder: Location, role: str, options: OpenOptions, without: str = "") -> Source:
    """The one vector file of a folder that is named after its part."""
    found = [c for c in folder.children() if _is_part(c, role) and c.suffix != without]
    if len(found) != 1:
        listed = ", ".join(child.name for child in found) or "none"
        raise FormatError(
            folder.text, f"files with the vectors of the {role}: {listed}", f"one file {role}.*"
        )
    return open_location(found[0], options)


def _is_part(child: Location, role: str) -> bool:
    return child.name.removesuffix(child.suffix) == role and has_known_suffix(child)
