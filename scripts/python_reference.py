"""The page of the Python API: every public name with its signature and docstring."""

from __future__ import annotations

import ast
import enum
import functools
import inspect
import itertools
import re
import sys
import textwrap
from typing import Any

import recallatk

INTRODUCTION = """# Python

Generated from the docstrings by `make docs`; do not edit.

`import recallatk` costs nothing: each name is imported when it is first used. What a command does, the
function of the same name does too. Names that are not on this page may change in any version.
"""
# What a reader looks for, in the order in which she needs it.
GROUPS = {
    "Measure": (
        "measure",
        "run",
        "explain",
        "read_settings",
        "Path",
        "Limits",
        "Load",
        "Quality",
        "QualityJudge",
    ),
    "Score answers": (
        *("score", "assess", "assess_stages", "compare", "read_answers", "parse_measure", "queries_to_tell"),
        *("SequentialTest", "Answers", "Assessment", "StagedAssessment", "Score", "Mean"),
    ),
    "Ground truth": ("ground_truth", "plan_truth", "verify_truth", "load_truth", "save_truth", "Truth"),
    "Tune": ("tune", "tune_effort", "Tuned", "TunedEffort"),
    "Collections in use": ("probe", "watch", "tap", "Probed"),
    "Compare and gate": ("compare_results", "gate_results", "accept_baseline", "Verdict"),
    "Check": ("audit_settings", "audit_run", "Finding"),
    "Data": (
        *(
            "open_dataset",
            "open_corpus",
            "open_queries",
            "open_demo",
            "make_corpus",
            "make_queries",
            "inspect",
        ),
        *("convert", "sample_corpus", "sample_queries", "split_queries", "queries_from_corpus", "workload"),
        *("read_qrels", "Corpus", "QuerySet", "Dataset", "Metric"),
    ),
    "Filters": ("parse_filter", "filter_from_json", "Filter"),
    "Runs and reports": (
        *("load_run", "save_run", "list_runs", "remember", "history", "to_text", "to_markdown", "to_html"),
        *("export", "run_to_dict", "assessment_to_dict", "assessment_to_text", "stages_to_dict"),
        *("stages_to_text", "Run", "Trial", "Trend"),
    ),
    "Extend": ("Engine", "EngineContract", "Knob", "RecallError"),
}
_WIDEST = 100
_SECTION = re.compile(r"^(Args|Returns|Raises|Yields):\n((?:    .*\n?|\n)*)", re.MULTILINE)


def python_page() -> str:
    """The whole page; a public name without a group is an error."""
    grouped = [name for names in GROUPS.values() for name in names]
    if sorted([*grouped, "__version__"]) != sorted(recallatk.__all__):
        strange = set(grouped) ^ (set(recallatk.__all__) - {"__version__"})
        sys.exit(f"{', '.join(sorted(strange))}: change GROUPS in scripts/python_reference.py")
    parts = [INTRODUCTION, contents()]
    for group, names in GROUPS.items():
        parts += [f"## {group}\n", *(entry(name, getattr(recallatk, name)) for name in names)]
    return "\n".join(parts)


def contents() -> str:
    """The names of each group, with links."""
    rows = (f"| {group} | {', '.join(map(linked, names))} |" for group, names in GROUPS.items())
    return "\n".join(["| | |", "|---|---|", *rows, ""])


def linked(name: str) -> str:
    """A link to the section of a name; a class may have the letters of a function."""
    kind = "class-" if isinstance(getattr(recallatk, name), type) else ""
    return f"[`{name}`](#{kind}{name.lower()})"


def entry(name: str, held: Any) -> str:
    """One section: signature, docstring and, for a class, what its objects have."""
    said = prose(inspect.getdoc(held) or "")
    if not isinstance(held, type):
        return f"### {name}\n\n{signature(name, held)}\n\n{said}\n"
    parts = [f"### class {name}", said, *members(held)]
    return "\n\n".join(each for each in parts if each) + "\n"


def signature(name: str, held: Any) -> str:
    """The call as in source, one parameter to a line where it is long."""
    found = inspect.signature(held)
    plain = [each.replace(annotation=_text(each.annotation)) for each in found.parameters.values()]
    found = found.replace(parameters=plain, return_annotation=_text(found.return_annotation))
    text = f"{name}{found}".replace("'", "")
    if len(text) > _WIDEST:
        inside = [_shown(each) for each in _with_marks(plain)]
        text = "\n".join(
            [f"{name}(", *(f"    {each}," for each in inside), f") -> {found.return_annotation}"]
        )
    return f"```py\n{text}\n```"


def _with_marks(parameters: list[inspect.Parameter]) -> list[inspect.Parameter | str]:
    marked: list[inspect.Parameter | str] = list(parameters)
    named = [each for each in parameters if each.kind is inspect.Parameter.KEYWORD_ONLY]
    if named and not any(each.kind is inspect.Parameter.VAR_POSITIONAL for each in parameters):
        marked.insert(parameters.index(named[0]), "*")
    return marked


def _shown(parameter: inspect.Parameter | str) -> str:
    return str(parameter).replace("'", "")


class _Text(str):
    """An annotation that prints as it is written in the source."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _text(annotation: Any) -> Any:
    return _Text(annotation) if isinstance(annotation, str) else annotation


def prose(doc: str) -> str:
    """A docstring as Markdown: its sections become lists."""
    text = _SECTION.sub(lambda found: f"{_heading(found[1])}{_items(found[2])}\n", f"{doc}\n")
    return re.sub(r"\n{3,}", "\n\n", text).strip()


def _heading(section: str) -> str:
    return "" if section == "Args" else f"{section}:\n\n"


def _items(body: str) -> str:
    lines = textwrap.dedent(body).strip().splitlines()
    joined: list[str] = []
    for line in lines:
        if line.startswith(" ") and joined:
            joined[-1] += f" {line.strip()}"
        elif line.strip():
            joined.append(line.strip())
    return "\n".join(
        re.sub(r"^([*\w, ]+):", r"- `\1`:", each) if ":" in each else f"- {each}" for each in joined
    )


def members(held: type) -> list[str]:
    """Fields, values, properties and methods that a class declares itself, as one list."""
    documented = field_docs(held)
    if issubclass(held, enum.Enum):
        return ["\n".join(f"- `{each.name}`" + _after(documented.get(each.name, "")) for each in held)]
    fields = [f"- `{name}`{_after(documented.get(name, ''))}" for name in field_names(held)]
    return ["\n".join([*fields, *_methods(held)])] if fields or _methods(held) else []


def field_names(held: type) -> list[str]:
    """Public fields, in order."""
    return [name for name in inspect.get_annotations(held) if not name.startswith("_")]


def field_docs(held: type) -> dict[str, str]:
    """The string below each field."""
    body = ast.parse(textwrap.dedent(inspect.getsource(held))).body[0].body  # type: ignore[attr-defined]
    found = {}
    for one, two in itertools.pairwise(body):
        target = one.target if isinstance(one, ast.AnnAssign) else getattr(one, "targets", [None])[0]
        said = two.value if isinstance(two, ast.Expr) and isinstance(two.value, ast.Constant) else None
        if isinstance(target, ast.Name) and said is not None and isinstance(said.value, str):
            found[target.id] = " ".join(said.value.split())
    return found


def _methods(held: type) -> list[str]:
    found = []
    for name, each in vars(held).items():
        if name.startswith("_") or name in inspect.get_annotations(held):
            continue
        doc = _first(getattr(each, "fget", None) or getattr(each, "__func__", each))
        if isinstance(each, (property, functools.cached_property)):
            found.append(f"- `{name}`{_after(doc)}")
        elif inspect.isroutine(each):
            found.append(f"- `{name}{_call(getattr(each, '__func__', each))}`{_after(doc)}")
    return found


def _call(function: Any) -> str:
    names = [
        f"{'*' * (each.kind is each.VAR_POSITIONAL)}{'**' * (each.kind is each.VAR_KEYWORD)}{each.name}"
        for each in inspect.signature(function).parameters.values()
        if each.name not in {"self", "cls"}
    ]
    return f"({', '.join(names)})"


def _first(held: Any) -> str:
    return " ".join((inspect.getdoc(held) or "").partition("\n\n")[0].split()) if held is not None else ""


def _after(said: str) -> str:
    return f": {said}" if said else ""
