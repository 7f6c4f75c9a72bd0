"""Options that name the files of a run, the same in every command that looks at one."""

from __future__ import annotations

from typing import Annotated

import typer

TruthPath = Annotated[
    str | None, typer.Option("--truth", help="Truth of the run, if it has moved or is at a URL.")
]
CorpusPath = Annotated[
    str | None,
    typer.Option("--corpus", help="Corpus of the run, if it has moved or is at a URL."),
]
QueriesPath = Annotated[
    str | None,
    typer.Option("--queries", help="Queries of the run, if they are not in the corpus file."),
]
