"""Names of engines and parameters in other tools, so that a message can suggest ours."""

from __future__ import annotations

ENGINES = {
    "hnsw": ("faiss-hnsw", "hnswlib"),
    "faiss": ("faiss-hnsw",),
    "ivf": ("faiss-ivf-flat",),
    "ivfflat": ("faiss-ivf-flat",),
    "ivfpq": ("faiss-ivf-pq",),
    "pq": ("faiss-ivf-pq",),
    "nsg": ("faiss-nsg",),
    "flat": ("exact",),
    "faissflat": ("exact",),
    "bruteforce": ("exact",),
    "knn": ("exact",),
    "pgvector": ("pgvector-hnsw",),
    "postgres": ("pgvector-hnsw",),
    "postgresql": ("pgvector-hnsw",),
    "nmslib": ("hnswlib",),
    "sqlite": ("sqlite-vec",),
    "rest": ("http",),
    "function": ("callable",),
    "python": ("callable",),
}
_SAME_PARAMETER = (
    ("ef", "ef_search", "hnsw_ef", "expansion", "search_L", "num_candidates", "expansion_search"),
    ("ef_construction", "ef_construct", "expansion_add", "ef_build", "efc"),
    ("M", "connectivity", "R", "max_connections", "max_degree", "graph_degree", "max_links"),
    ("nlist", "lists", "num_leaves", "partitions", "nlists", "n_lists", "num_lists", "num_partitions"),
    ("nprobe", "probes", "leaves_to_search", "nprobes", "n_probe", "n_probes", "num_probes"),
    ("n_trees", "trees", "num_trees"),
    ("k_factor", "refine", "reorder", "rerank", "refine_factor", "oversampling", "rescore"),
)
PARAMETERS = {
    "".join(sign for sign in name.lower() if sign.isalnum()): names
    for names in _SAME_PARAMETER
    for name in names
}
