"""The file of a tuning: the outcome and the linter's findings, there and back."""

import pytest
from made_tuned import made_tuned

from recallatk.core.judgments import Finding, Severity
from recallatk.errors import FormatError
from recallatk.reporting.tuned_file import read_tuned, tuned_text

FINDING = Finding("R01", Severity.ERROR, "Too few", "there is 1 query", 1.0, 100.0, "why", "remedy", "known")


def test_outcome_and_findings_read_back(tmp_path):
    (tmp_path / "tuned.json").write_text(tuned_text(made_tuned(), [FINDING]))
    assert read_tuned(tmp_path / "tuned.json") == (made_tuned(), [FINDING])


def test_that_nobody_looked_is_not_that_nothing_was_found(tmp_path):
    for findings in (None, []):
        (tmp_path / "tuned.json").write_text(tuned_text(made_tuned(), findings))
        assert read_tuned(tmp_path / "tuned.json")[1] == findings


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"audit": 3}'])
def test_another_file_is_refused(tmp_path, text):
    (tmp_path / "tuned.json").write_text(text)
    with pytest.raises(FormatError, match=r"tuned\.json: .*Accepted: a file written by recallatk tune"):
        read_tuned(tmp_path / "tuned.json")


def test_damaged_findings_are_refused(tmp_path):
    damaged = tuned_text(made_tuned(), [FINDING]).replace('"severity": "error"', '"severity": "doom"')
    (tmp_path / "tuned.json").write_text(damaged)
    with pytest.raises(FormatError, match="audit: 'doom'"):
        read_tuned(tmp_path / "tuned.json")
