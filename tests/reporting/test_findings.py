"""Findings as text, Markdown and plain values, with nothing in them that a reader's program would obey."""

import json

from made_runs import HOSTILE

from recallatk.core.judgments import Finding, Severity
from recallatk.reporting.findings import findings_to_dict, findings_to_markdown, findings_to_text


def made(rule="R01", severity=Severity.ERROR, message="there are 30 queries", waived=None):
    return Finding(
        rule, severity, "Too few queries", message, 30.0, 100.0, "One. Two.", "Use `more`.", waived
    )


def test_text_has_the_finding_why_it_matters_and_what_to_do():
    text = findings_to_text([made()])
    assert text.splitlines() == [
        "error R01: Too few queries: there are 30 queries",
        "    One. Two.",
        "    Use `more`.",
        "The linter found 1 error.",
    ]
    assert len(findings_to_text([made()], short=True).splitlines()) == 2


def test_reasons_are_given_once_for_several_findings_of_a_rule():
    assert findings_to_text([made(), made(message="another")]).count("One. Two.") == 1
    assert findings_to_markdown([made(), made("R02")]).count("One. Two.") == 2


def test_a_waived_finding_shows_its_reason_and_is_counted_apart():
    findings = [made(waived="all there are"), made("R02", Severity.NOTE), made("R03", Severity.WARNING)]
    text = findings_to_text(findings)
    assert "(waived: all there are)" in text
    assert text.endswith("The linter found 1 warning, 1 note and 1 waived.")
    assert findings_to_dict(findings)["counts"] == {"error": 0, "warning": 1, "note": 1, "waived": 1}


def test_nothing_is_said_to_be_nothing():
    assert findings_to_text([]) == "The linter found nothing."
    assert "found nothing" in findings_to_markdown([])
    assert findings_to_dict([])["findings"] == []


def test_hostile_text_stays_text():
    hostile = [made(message=HOSTILE, waived=HOSTILE)]
    text = findings_to_text(hostile)
    assert all(sign.isprintable() or sign == "\n" for sign in text)
    assert len(text.splitlines()) == 2
    assert "\\<script\\>" in findings_to_markdown(hostile)
    assert "\n" not in findings_to_markdown(hostile).splitlines()[2]


def test_plain_values_are_json():
    found = json.loads(json.dumps(findings_to_dict([made()]), allow_nan=False))
    assert found["findings"][0]["severity"] == "error"
    assert found["findings"][0]["measured"] == 30.0
