"""Formats by name, detected by the first bytes of a file and then by its ending."""

from __future__ import annotations

import importlib
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from recallatk.datasets.call_sets import split_calls
from recallatk.datasets.in_memory import is_path, open_object
from recallatk.datasets.source import Format, OpenOptions, Source
from recallatk.errors import FormatError, UsageError, choices, unknown
from recallatk.files import PathLike, locate_all
from recallatk.redaction import without_secrets

if TYPE_CHECKING:
    from recallatk.files import Location

FORMATS = {
    "ann-benchmarks": "recallatk.datasets.formats.ann_benchmarks:AnnBenchmarks",
    "arrow": "recallatk.datasets.formats.arrow:Arrow",
    "beir": "recallatk.datasets.formats.beir:Beir",
    "bvecs": "recallatk.datasets.formats.vecs:Bvecs",
    "csv": "recallatk.datasets.formats.csv:Csv",
    "fbin": "recallatk.datasets.formats.xbin:Fbin",
    "folder": "recallatk.datasets.formats.pair:Pair",
    "fvecs": "recallatk.datasets.formats.vecs:Fvecs",
    "hbin": "recallatk.datasets.formats.xbin:Hbin",
    "i8bin": "recallatk.datasets.formats.xbin:I8bin",
    "ibin": "recallatk.datasets.formats.xbin:Ibin",
    "ivecs": "recallatk.datasets.formats.vecs:Ivecs",
    "jsonl": "recallatk.datasets.formats.jsonl:Jsonl",
    "npy": "recallatk.datasets.formats.npy:Npy",
    "npz": "recallatk.datasets.formats.npz:Npz",
    "parquet": "recallatk.datasets.formats.parquet:Parquet",
    "query-log": "recallatk.datasets.formats.query_log:QueryLog",
    "trec": "recallatk.datasets.formats.trec:Trec",
    "u8bin": "recallatk.datasets.formats.xbin:U8bin",
    "vectordbbench": "recallatk.datasets.formats.vectordbbench:VectorDBBench",
}

_PICKLE_PROTOCOLS = tuple(bytes([0x80, version]) for version in range(2, 6))
_PICKLE_SUFFIXES = (".pkl", ".pickle", ".joblib", ".pt", ".pth")
# Metadata files that libraries write next to their shards.
_SIDECAR_SUFFIX = ".json"


@cache
def get_format(name: str) -> Format:
    """The format of that name."""
    if name not in FORMATS:
        raise UsageError(unknown("format", name, FORMATS))
    module, _, attribute = FORMATS[name].partition(":")
    found: Format = getattr(importlib.import_module(module), attribute)()
    return found


def all_formats() -> list[Format]:
    """Every format."""
    return [get_format(name) for name in FORMATS]


def has_known_suffix(location: Location) -> bool:
    """Whether the name's ending is that of a format with vectors."""
    return any(location.suffix in each.suffixes for each in all_formats() if each.holds_vectors)


def format_for_writing(path: PathLike) -> Format:
    """The format that a file of this name is to have."""
    name = str(path).lower()
    for each in all_formats():
        if each.writable and name.endswith(each.suffixes):
            return each
    endings = sorted(suffix for each in all_formats() if each.writable for suffix in each.suffixes)
    raise UsageError(f"{path}: files with this ending cannot be written. Accepted: {choices(endings)}")


def detect(location: Location) -> Format:
    """The format of one file."""
    if location.size == 0:
        raise FormatError(location.text, "the file is empty", "a file with vectors")
    head = location.read_at(0, 64)
    by_suffix = next((each for each in all_formats() if location.suffix in each.suffixes), None)
    if by_suffix is not None and by_suffix.headerless:
        return by_suffix
    for each in all_formats():
        if head.startswith(each.magics):
            return each
    if head.startswith(_PICKLE_PROTOCOLS) or location.suffix in _PICKLE_SUFFIXES:
        raise FormatError(
            location.text,
            "it is a pickle, which can run code and is never loaded",
            "arrays saved with numpy.save, or any other format",
        )
    if by_suffix is not None and by_suffix.holds_vectors:
        return by_suffix
    if head.lstrip().startswith(b"{"):
        return get_format("jsonl")
    if by_suffix is not None:
        return by_suffix
    endings = sorted(suffix for each in all_formats() for suffix in each.suffixes)
    raise FormatError(
        location.text,
        f"neither its ending {location.suffix!r} nor its first bytes {head[:8]!r} are known",
        ", ".join(endings),
        hint="Name the format: --format NAME",
    )


def open_source(
    path: object,
    *,
    format: str | None = None,
    options: OpenOptions | None = None,
    name: str = "data",
) -> Source:
    """Open a file, a pattern of shards, a folder or a URL of any format, or an object in memory.

    Args:
        path: where the data are, or the data themselves.
        format: the format's name, if the ending and the first bytes do not tell.
        options: the columns of ids and vectors.
        name: what messages call an object in memory.
    """
    options = options or OpenOptions()
    if not is_path(path):
        if format is not None:
            raise UsageError(f"{name}: format={format!r} is for files, and this is an object in memory")
        return open_object(path, options, name)
    where, calls = split_calls(path)
    options = replace(options, calls=calls)
    locations = locate_all(where)
    if len(locations) > 1:
        return _open_shards(without_secrets(str(path)), locations, format, options)
    return open_location(locations[0], options, format)


def open_location(location: Location, options: OpenOptions, name: str | None = None) -> Source:
    """Open one file or folder."""
    if location.is_folder:
        return _open_folder(location, options, name)
    return _open_shards(location.text, [location], name, options)


def _open_folder(folder: Location, options: OpenOptions, name: str | None) -> Source:
    children = folder.children()
    for each in [get_format(name)] if name else all_formats():
        if each.recognizes_folder(children):
            return each.open([folder], options)
    if options.calls:
        raise FormatError(folder.text, f"not a query log, so ?{options.calls} selects nothing", "a query log")
    files = [child for child in children if not child.is_folder and has_known_suffix(child)]
    files = [file for file in files if file.suffix != _SIDECAR_SUFFIX] or files
    if not files:
        raise FormatError(folder.text, "a folder without vector files", "shards, or corpus.* and queries.*")
    return _open_shards(folder.text, files, name, options)


def _open_shards(text: str, files: list[Location], name: str | None, options: OpenOptions) -> Source:
    formats = {get_format(name)} if name else {detect(file) for file in files}
    chosen = min(formats, key=lambda each: each.name)
    if len(formats) > 1:
        listed = ", ".join(sorted(each.name for each in formats))
        raise FormatError(text, f"files of several formats: {listed}", "shards of one format")
    if not chosen.suffixes:
        raise FormatError(text, "files of another layout", f"a folder of the format {chosen.name}")
    if len(files) > 1 and not chosen.shardable:
        able = choices(each.name for each in all_formats() if each.shardable)
        raise FormatError(text, f"{len(files)} {chosen.name} files", f"one file, or {able} shards")
    opened = chosen.open(files, options)
    if len(files) == 1:
        return opened
    # The table is called what the user called it; a bad row is still named by its own shard.
    parts = {role: replace(records, name=text) for role, records in opened.parts.items()}
    return replace(opened, text=text, parts=parts)
