"""Builds the documentation site from docs/, the guides at the root and the notebooks.

    python scripts/build_site.py [FOLDER]

The same Markdown is read on GitHub, so links lead from file to file; here they are changed to lead from page
to page. Each section of docs/index.md becomes a part of the menu, and a page that it does not list is an
error, as is any other warning. The site is read from disk or from any server.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sphinx.application import Sphinx
from sphinx.util.docutils import docutils_namespace, patch_docutils

from recallatk.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parent.parent
DEFAULT = ROOT / "build" / "site"
GUIDES = {
    "CONTRIBUTING.md": "contributing.md",
    "ARCHITECTURE.md": "architecture.md",
    "CHANGELOG.md": "changes.md",
    "SECURITY.md": "security.md",
    "CODE_OF_CONDUCT.md": "code-of-conduct.md",
}
SETTINGS = {
    "project": "recallatk",
    "copyright": "the authors of recallatk, Apache-2.0",
    "release": __version__,
    "extensions": ["myst_parser"],
    "html_theme": "furo",
    "html_title": f"recallatk {__version__}",
    "html_show_sphinx": False,
    "html_copy_source": False,
    # Summaries are fetched, which browsers refuse to pages on disk.
    "html_show_search_summary": False,
    "html_theme_options": {"footer_icons": []},
    "myst_heading_anchors": 4,
    "nitpicky": True,
    "language": "en",
    "exclude_patterns": ["files/**"],
    # JSON with … in it is JSON to readers.
    "suppress_warnings": ["misc.highlighting_failure"],
}
_PAGES = (".md", ".ipynb")
_LINK = re.compile(r"(!?\[[^\]]*\]\()([^)\s#]+)?(#[^)\s]*)?(\))")
_FENCE = re.compile(r"^(```.*?^```)", re.MULTILINE | re.DOTALL)
_SECTION = re.compile(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)


class Pages:
    """The files of the repository that are pages, and the folder in which Sphinx reads them."""

    def __init__(self, folder: Path, root: Path) -> None:
        self.folder, self.root = folder, root
        docs = {path: path.relative_to(root / "docs").as_posix() for path in (root / "docs").rglob("*.md")}
        guides = {root / name: target for name, target in GUIDES.items() if (root / name).exists()}
        notebooks = {path: f"examples/{path.stem}.md" for path in (root / "examples").glob("*.ipynb")}
        self.names = {**docs, **guides, **notebooks}

    def write(self) -> None:
        """Write every page, with its links; a page that the first page does not list is an error."""
        index = self.root / "docs" / "index.md"
        listed = {link[2] for link in _LINK.finditer(index.read_text(encoding="utf-8"))}
        for path, name in self.names.items():
            if path != index and not name.startswith("rules/") and _from(index, path) not in listed:
                sys.exit(f"{path.relative_to(self.root)} is not listed in docs/index.md")
        for path, name in self.names.items():
            text = notebook_text(path) if path.suffix == ".ipynb" else path.read_text(encoding="utf-8")
            if name == "index.md":
                text += menus(text, partial(self._of, path, name))
            if name == "rules.md":
                text += menu("", sorted(each for each in self.names.values() if each.startswith("rules/")))
            target = self.folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(self.linked(text, path, name), encoding="utf-8")

    def linked(self, text: str, path: Path, name: str) -> str:
        """The text with links that lead to pages, outside of code."""
        parts = _FENCE.split(text)
        parts[::2] = [
            _LINK.sub(
                lambda link: f"{link[1]}{self._of(path, name, link[2] or '')}{link[3] or ''}{link[4]}", each
            )
            for each in parts[::2]
        ]
        return "".join(parts)

    def _of(self, path: Path, name: str, target: str) -> str:
        """Where a link of a page leads; a file that is no page is copied, to be opened as it is."""
        if not target or re.match(r"[a-z]+:", target):
            return target
        file = (path.parent / target).resolve()
        if not file.is_relative_to(self.root) or not file.is_file():
            sys.exit(
                f"{path.relative_to(self.root)} links to {target}, which is not a file of this repository"
            )
        found = self.names.get(file)
        if found is None:
            found = f"files/{file.relative_to(self.root).as_posix()}"
            (self.folder / found).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, self.folder / found)
        return Path(os.path.relpath(found, Path(name).parent)).as_posix()


def _from(page: Path, file: Path) -> str:
    """A link from one file to another."""
    return Path(os.path.relpath(file, page.parent)).as_posix()


def menus(text: str, page: Callable[[str], str]) -> str:
    """A menu for each section of the first page, from the links in its list."""
    found = []
    for title, body in _SECTION.findall(text):
        links = [(link[1][1:-2], page(link[2])) for link in _LINK.finditer(body) if link[2].endswith(_PAGES)]
        found.append(menu(title, [f"{said} <{name.removesuffix('.md')}>" for said, name in links]))
    return "".join(found)


def menu(title: str, names: list[str]) -> str:
    """A menu that is shown at the side only."""
    caption = f":caption: {title}\n" if title else ""
    listed = "\n".join(names)
    return f"\n```{{toctree}}\n:hidden:\n{caption}\n{listed}\n```\n"


def notebook_text(path: Path) -> str:
    """A notebook as Markdown: its code with what it printed."""
    parts = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"]).strip()
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```py\n{source}\n```")
        printed = "".join("".join(each.get("text", [])) or _plain(each) for each in cell["outputs"]).rstrip()
        if printed:
            parts.append(f"```text\n{printed}\n```")
    return "\n\n".join([*parts, f"[This page as a notebook]({path.name})"]) + "\n"


def _plain(output: dict[str, Any]) -> str:
    return "".join(output.get("data", {}).get("text/plain", []))


def build(target: Path, root: Path = ROOT) -> int:
    """Write the site; the number of its pages. The first warning ends it."""
    source = target.parent / f"{target.name}-source"
    for each in (source, target):
        shutil.rmtree(each, ignore_errors=True)
        each.mkdir(parents=True)
    Pages(source, root).write()
    with patch_docutils(), docutils_namespace():
        made = Sphinx(
            source,
            None,
            target,
            target.parent / f"{target.name}-doctrees",
            "html",
            SETTINGS,
            status=None,
            freshenv=True,
            warningiserror=True,
        )
        made.build()
    shutil.rmtree(source)
    if made.statuscode:
        sys.exit(made.statuscode)
    return len(made.env.found_docs)


if __name__ == "__main__":
    folder = Path(sys.argv[1]).resolve() if sys.argv[1:] else DEFAULT
    print(f"{folder / 'index.html'}: {build(folder)} pages")
