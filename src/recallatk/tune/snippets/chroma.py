"""A collection of Chroma, in a folder or on a server."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from recallatk.tune.snippets.setting import INPUTS, lines

if TYPE_CHECKING:
    from recallatk.tune.snippets.setting import Setting


def write(setting: Setting) -> str:
    """Make the collection with its effort, which it fixes, add in portions, query."""
    build = setting.build
    return lines(
        "import chromadb",
        "",
        INPUTS,
        f"client = {_client(build['url'])}",
        "collection = client.create_collection(",
        '    "items",',
        '    configuration={"hnsw": {',
        f'        "space": "{setting.metric}",',
        f'        "max_neighbors": {build["M"]},',
        f'        "ef_construction": {build["ef_construction"]},',
        f'        "ef_search": {setting.search["ef_search"]},',
        "    }},",
        "    embedding_function=None,",
        ")",
        "step = client.get_max_batch_size()",
        "for start in range(0, len(vectors), step):",
        "    part = vectors[start : start + step]",
        "    collection.add(ids=[str(start + row) for row in range(len(part))], embeddings=part)",
        "",
        f"answers = collection.query(query_embeddings=queries, n_results={setting.k}, include=[])",
        'found = [[int(row) for row in ids] for ids in answers["ids"]]',
    )


def _client(url: str) -> str:
    if not url:
        return 'chromadb.PersistentClient("./chroma")'
    parts = urlsplit(url)
    secure = parts.scheme == "https"
    port = parts.port or (443 if secure else 8000)
    return f"chromadb.HttpClient(host={parts.hostname!r}, port={port}, ssl={secure})"
