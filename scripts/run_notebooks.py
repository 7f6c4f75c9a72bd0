"""Runs the notebooks in examples/ and keeps what they print.

    python scripts/run_notebooks.py [NOTEBOOK...]

Their outputs are committed, because readers see them on GitHub and on the site. Counts, timestamps and the
versions of the machine that ran them are not.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

EXAMPLES = Path(__file__).parent.parent / "examples"
SECONDS = 300


def executed(path: Path, folder: Path) -> Any:
    """The notebook after running every cell in a folder; the first error is raised."""
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(notebook, timeout=SECONDS, resources={"metadata": {"path": str(folder)}})
    return client.execute(env={**os.environ, "COLUMNS": "88", "PYDEVD_DISABLE_FILE_VALIDATION": "1"})


def stripped(notebook: Any) -> Any:
    """The notebook with its texts only."""
    notebook.metadata = {"language_info": {"name": "python"}}
    for number, cell in enumerate(notebook.cells, start=1):
        cell.id, cell.metadata = f"cell-{number}", {}
        if cell.cell_type == "code":
            cell.execution_count = None
            cell.outputs = [_text(each) for each in cell.outputs if _words(each)]
    return notebook


def _words(output: Any) -> str:
    if output.output_type == "stream":
        return "" if output.name == "stderr" else str(output.text)
    return str(output.get("data", {}).get("text/plain", ""))


def _text(output: Any) -> Any:
    return nbformat.v4.new_output("stream", name="stdout", text=_words(output).rstrip() + "\n")


def main() -> None:
    for path in map(Path, sys.argv[1:]) if sys.argv[1:] else sorted(EXAMPLES.glob("*.ipynb")):
        nbformat.write(stripped(executed(path, path.parent)), path)
        print(path)


if __name__ == "__main__":
    main()
