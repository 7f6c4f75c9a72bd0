"""One module per file format; `recallatk.datasets.registry` knows them by name."""
