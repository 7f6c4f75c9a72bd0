"""Normalization of golden outputs: the one list of what may differ between two machines or two calls."""

import json
import re
from html.parser import HTMLParser

# Lines of standard error that appear after two seconds, and so on slow machines only.
PROGRESS = re.compile(
    r"^(?:.* …|.*: [\d,]+ of [\d,]+ \(\d+%\).*|(?:trial )?\d+ of \d+: .*|tune, .*)\n", re.MULTILINE
)

# Every output. Files that a command writes are compared like its output.
ALWAYS = (
    (re.compile(r"\b(computed|store/\S+|scanned, \d+ queries redone,) in [\d,.]+ s"), r"\1 in N s"),
    # The cores of the machine, as a proposal for a bench file.
    (re.compile(r"threads = \{ build = \d+,"), "threads = { build = N,"),
    # The size of a page depends on the scripts of the chart library.
    (re.compile(r"(\.html: .*), [\d.]+ MB"), r"\1, N MB"),
    # The version of recallatk itself, as a JSON value and in words.
    (re.compile(r'("(?:tool_version|recallatk)": )"[^"]*"'), r'\1"VERSION"'),
    (re.compile(r"\brecallatk \d+\.\d+\.\d+\S*"), "recallatk VERSION"),
)

# Outputs of commands that measure time or memory now; `live` cases alone.
LIVE_KEYS = frozenset(
    {
        *("begun", "environment", "seconds", "build_seconds", "build_cpu_seconds", "search_seconds"),
        *("latency_ms", "latency_intervals_ms", "qps", "qps_low", "qps_high", "pareto", "cautions", "audit"),
        *("memory_bytes", "peak_bytes", "size_bytes", "build_threads", "timed", "version", "evidence", "log"),
        "warm_up",
    }
)
LIVE_TEXT = ((re.compile(r"[\d,]*\d\.\d+|at least \d+ s|about \d+ s"), "N"), (re.compile(r" +"), " "))

_LONG_NUMBER = re.compile(r"-?\d+\.\d{12,}(?:e[+-]?\d+)?|-?\d\.\d+e[+-]?\d+")
# Every other element begins a line of its own.
_INLINE = frozenset(
    {"a", "b", "bdi", "code", "em", "i", "kbd", "mark", "small", "span", "strong", "sub", "sup", "wbr"}
)
_CELLS = frozenset({"td", "th"})
_HIDDEN = frozenset({"script", "style", "svg", "template"})
_HEADINGS = {f"h{level}": "#" * level for level in range(1, 7)}


def normalized(text, folder, *, live=False):
    """An output without what differs between machines and calls.

    Args:
        text: what a command wrote.
        folder: where it was called.
        live: whether it measured anything.
    """
    text = text.replace(str(folder), "FOLDER")
    if live:
        text = "\n".join(_without_times(line) for line in text.split("\n"))
    for pattern, instead in ALWAYS:
        text = pattern.sub(instead, text)
    return text


def rounded(text):
    """The text with floats to 12 digits: processors differ in the last bits of sums and logarithms."""
    return _LONG_NUMBER.sub(lambda found: f"{float(found[0]):.12g}", text)


def _without_times(line):
    if line.startswith(("{", "[")):
        return json.dumps(_blanked(json.loads(line)), ensure_ascii=False)
    for pattern, instead in LIVE_TEXT:
        line = pattern.sub(instead, line)
    return line


def _blanked(value):
    """The value with null for everything that depends on the clock or the machine."""
    if isinstance(value, list):
        return [_blanked(each) for each in value]
    if isinstance(value, dict):
        return {key: None if key in LIVE_KEYS else _blanked(each) for key, each in value.items()}
    return value


class _VisibleText(HTMLParser):
    """Lines of a page: one per block, cells of a row side by side; scripts, styles and drawings left out."""

    def __init__(self):
        super().__init__()
        self.lines, self.line, self.hidden = [], [], 0

    def handle_starttag(self, tag, attributes):
        self.hidden += tag in _HIDDEN
        if tag not in _INLINE | _CELLS:
            self.end_line()
        if tag in _HEADINGS:
            self.line.append(f"{_HEADINGS[tag]} ")
        if tag in _CELLS and self.line:
            self.line.append(" | ")

    def handle_endtag(self, tag):
        self.hidden -= tag in _HIDDEN
        if tag not in _INLINE | _CELLS:
            self.end_line()

    def handle_data(self, text):
        if not self.hidden:
            self.line.append(text)

    def end_line(self):
        """Keep the line, unless it is blank."""
        line = " ".join("".join(self.line).split())
        self.lines += [line] if line else []
        self.line = []


def visible_text(page):
    """What a reader of an HTML page sees before any script has run, line by line."""
    parser = _VisibleText()
    parser.feed(page)
    parser.close()
    parser.end_line()
    return "\n".join(parser.lines) + "\n"
