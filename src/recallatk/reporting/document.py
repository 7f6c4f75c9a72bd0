"""The document model: sections of blocks, built once from what was measured and rendered in every form.

A section builder says what a reader is told; `text`, `markdown` and `html.page` say how it looks. Blocks that
only a page can show (tiles, figures, widgets) are skipped by the other two.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Flag, auto
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from recallatk.reporting.charts.theme import Chart


class Form(Flag):
    """Rendered forms of a document."""

    SCREEN = auto()
    """The result alone, as text that fits a terminal."""
    TEXT = auto()
    """Everything, as text."""
    MARKDOWN = auto()
    HTML = auto()
    TERMINAL = SCREEN | TEXT
    PROSE = TEXT | MARKDOWN
    ALL = SCREEN | TEXT | MARKDOWN | HTML


class Block:
    """A part of a section, which each renderer shows in its own way or skips."""


@dataclass(frozen=True)
class Sentences(Block):
    """Paragraphs."""

    lines: Sequence[str]
    style: str = ""
    """The page's class: `note`, `bad`, or `noscript` for what is shown where scripts do not run."""


@dataclass(frozen=True)
class Items(Block):
    """A list, each item of which stands alone."""

    lines: Sequence[str]
    label: str = ""
    """Prefix of each line in a terminal, which shows no heading above them."""


@dataclass(frozen=True)
class Heading(Block):
    """A heading inside a section."""

    title: str
    anchor: str = ""
    """Anchor for links on the page."""


@dataclass(frozen=True)
class Table(Block):
    """Cells as text, not yet escaped; what was not measured is a dash.

    The title is shown where the heading above does not say the same.
    """

    title: str
    header: list[str]
    """Names of the columns; all empty where rows speak for themselves."""
    rows: list[list[str]]
    words: int
    """How many columns, from the left, are words and not numbers."""
    shape: str = ""
    """The page's class: `narrow`, or `tall` for what scrolls in itself."""
    links: Sequence[str] = ()
    """For each row the address that its first cell leads to on a page; empty for none."""


@dataclass(frozen=True)
class Code(Block):
    """Text to paste, line by line as it is."""

    text: str
    title: str = ""
    """Accessible name for screen readers."""


@dataclass(frozen=True)
class Remark:
    """One of the linter's findings as text."""

    code: str
    severity: str
    title: str
    message: str
    why: str
    remedy: str
    waived: str
    """The reason why it is accepted; empty where it is not."""
    explained: bool
    """Whether text and Markdown give reason and remedy here; a page always does."""

    @property
    def sentence(self) -> str:
        """The finding as one sentence."""
        waived = f" (waived: {self.waived})" if self.waived else ""
        return f"{self.title}: {self.message}{waived}"


@dataclass(frozen=True)
class Linted(Block):
    """The linter's findings, and how many there are in a sentence."""

    remarks: Sequence[Remark]
    count: str


@dataclass(frozen=True)
class Lead(Block):
    """The sentence that a reader must see, with its outcome in a word."""

    sentence: str
    word: str = ""
    good: bool = False
    why: str = ""
    """Text in bold before the sentence, on the page only."""


@dataclass(frozen=True)
class Drawing(Block):
    """Lines for terminals that are never wrapped: a chart drawn with characters, or paths."""

    lines: Sequence[str]


@dataclass(frozen=True)
class Figure(Block):
    """A chart; nothing is shown where it is None."""

    name: str
    caption: str
    chart: Chart | None
    on_page: bool = True
    """False: an image file only, where the page has something better."""


@dataclass(frozen=True)
class Links(Block):
    """Files and pages of the same site, on a page only: each a label and an address."""

    links: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Tiles(Block):
    """Large numbers: each a name, a value and what stands below it."""

    tiles: Sequence[tuple[str, str, str]]


@dataclass(frozen=True)
class Details(Block):
    """Blocks that a reader opens."""

    title: str
    blocks: Sequence[Block]
    open: bool = False


@dataclass(frozen=True)
class Columns(Block):
    """Blocks side by side, where there is room."""

    blocks: Sequence[Block]


@dataclass(frozen=True)
class Widget(Block):
    """A part of the page that has a macro of its own in `widgets.html.jinja`."""

    name: str
    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Section:
    """Blocks under a heading."""

    title: str
    blocks: Sequence[Block]
    name: str = ""
    """Its anchor on the page; without one, the blocks stand there alone."""
    link: str = ""
    """Entry in the table of contents of the page; empty for none."""
    headed: Form = Form.ALL
    """The forms that show the heading."""

    @property
    def empty(self) -> bool:
        """Whether there is nothing to show."""
        return not any(map(_says_something, self.blocks))


@dataclass(frozen=True)
class Document:
    """A report before it has a form."""

    title: str
    """Empty where the first section speaks for itself."""
    sections: Sequence[Section]
    about: Sequence[str] = ()
    engines: Sequence[str] = ()
    """Engines with the parameters that their settings share, which a page folds where they are many."""
    """Sentences that hold for the whole document."""
    window_title: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    """Files that the page can save."""
    parts: Sequence[Mapping[str, Any]] = ()
    """Detail of each setting for the script of the page, by number."""
    chosen: int | None = None
    """The number of the setting that is shown first."""
    brand: str = "recallatk report"
    """What stands above the title of a page."""
    home: str = ""
    """Address of the first page of the site that a page belongs to; empty for a page of its own."""

    @property
    def charts(self) -> dict[str, Chart]:
        """Every chart by name."""
        blocks = (block for section in self.sections for block in _inside(section.blocks))
        return {
            each.name: each.chart for each in blocks if isinstance(each, Figure) and each.chart is not None
        }


# What makes the sections of a document, in their order, each with the forms that show its sections.
Builders: TypeAlias = "Sequence[tuple[Form, Callable[[Any], Section | Sequence[Section] | None]]]"


def build_sections(builders: Builders, subject: Any, form: Form) -> list[Section]:
    """The sections of a form in the order of their builders, without empty ones.

    Args:
        builders: functions of the subject.
        subject: what builders take: a run's report, a tuning, an assessment.
        form: what the document is rendered as.
    """
    found: list[Section] = []
    for forms, build in builders:
        if form & forms:
            made = build(subject)
            found += [made] if isinstance(made, Section) else made or []
    return [each for each in found if not each.empty]


def _inside(blocks: Iterable[Block]) -> Iterator[Block]:
    for each in blocks:
        yield each
        if isinstance(each, Details | Columns):
            yield from _inside(each.blocks)


def _says_something(block: Block) -> bool:
    match block:
        case Sentences() | Items() | Drawing():
            return bool(block.lines)
        case Table():
            return bool(block.rows)
        case Code():
            return bool(block.text)
        case _:
            return True
