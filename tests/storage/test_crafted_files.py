"""Trial files and files beside them with valid checksums and impossible content."""

import dataclasses
import json

import numpy as np
import pyarrow.parquet as pq
import pytest
from run_making import ROWS, make_measurement, make_run

from recallatk import load_run, save_run
from recallatk.core import Weights
from recallatk.core.filtering import FilterFacts, Refusals, RefusedFilter
from recallatk.core.judged import Judged
from recallatk.core.losses import COLUMNS, NOT_ASKED, LossEvidence
from recallatk.errors import FormatError
from recallatk.storage.checksums import CHECKSUM, column_checksums, sealed
from recallatk.testing import tiny_dataset

FACTS = FilterFacts(np.array([True, True, False]), np.array([2, 5, ROWS]), ROWS, np.array([1, 2, 4]), 4)
REFUSED = Refusals(np.array([0, -1, -1]), (RefusedFilter("size < 2", 1, "no index"),))
WEIGHTS = Weights("count", np.array([3.0, 0.0, 1.0]))
EVIDENCE = LossEvidence(
    k=4, **{name: np.array([0, 1]) for name in COLUMNS}, full_search={"ef": 9}, notes=("n",)
)

HALF = np.array([0.5, np.nan, 1.0])
JUDGED = Judged("qrels", {"nDCG@4": HALF}, {"nDCG@4": HALF + 1}, ("2 queries have no judgment",))


def reloaded(folder, **changes):
    """The measurement as saved with these changes and read again."""
    measurement = make_measurement(1)
    weights = changes.pop("weights", WEIGHTS)
    known = {"filters": FACTS, "refused": REFUSED, "loss": EVIDENCE, "judged": JUDGED}
    score = dataclasses.replace(measurement.score, weights=weights)
    changed = dataclasses.replace(measurement, score=score, **{**known, **changes})
    save_run(make_run(measurements=(changed,)), tiny_dataset(ROWS, 3), folder)
    return load_run(folder).measurements[0]


def test_what_is_possible_is_read_as_it_was_written(tmp_path):
    found = reloaded(tmp_path / "run")
    assert found.refused.filters == REFUSED.filters and found.filters.corpus_rows == ROWS
    assert found.filters.near.tolist() == [1, 2, 4] and found.score.weights.values.tolist() == [3.0, 0.0, 1.0]
    assert found.loss.full_search == {"ef": 9} and found.loss.notes == ("n",)
    judged = found.judged
    assert (judged.identity, judged.names, judged.notes) == ("qrels", ("nDCG@4",), JUDGED.notes)
    np.testing.assert_array_equal(judged.values["nDCG@4"], HALF)
    np.testing.assert_array_equal(judged.exact["nDCG@4"], HALF + 1)


def facts(**changes):
    return {"filters": dataclasses.replace(FACTS, **changes)}


def refusals(*filters, numbers=REFUSED.numbers):
    return {"refused": Refusals(np.array(numbers), filters)}


def weights(*values):
    return {"weights": Weights("count", np.array(values))}


def loss(**changes):
    return {"loss": dataclasses.replace(EVIDENCE, **changes)}


def judged(**changes):
    return {"judged": dataclasses.replace(JUDGED, **changes)}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (refusals(), "beyond the 0 with a reason"),
        (refusals(*REFUSED.filters, numbers=[0, 1, -1]), "beyond the 1 with a reason"),
        (refusals(RefusedFilter("a = 1", 1.5, "why")), "not a text with a number of queries"),
        (refusals(RefusedFilter("a = 1", 1, None)), "not a text with a number of queries"),
        (facts(corpus_rows="x"), "not numbers of rows"),
        (facts(corpus_rows=0), "not numbers of rows"),
        (facts(depth=2.5), "not numbers of rows"),
        (facts(eligible=FACTS.eligible * ROWS), "more than all"),
        (facts(near=FACTS.near * 2), "of 4 nearest rows, fewer than 0 or more than all"),
        (facts(near=-FACTS.near), "of 4 nearest rows, fewer than 0 or more than all"),
        (weights(3.0, -1.0, 1.0), "a weight is negative or not finite"),
        (weights(3.0, np.inf, 1.0), "a weight is negative or not finite"),
        (weights(0.0, 0.0, 0.0), "all weights are 0"),
        (loss(k="x"), "k has a value of the wrong type"),
        (loss(k=None), "k has a value of the wrong type"),
        (loss(scans=1), "scans has a value of the wrong type"),
        (loss(seconds="long"), "seconds has a value of the wrong type"),
        (loss(seconds=True), "seconds has a value of the wrong type"),
        (loss(full_search=["ef"]), "full_search has a value of the wrong type"),
        (loss(effort_knobs="ef"), "effort_knobs has a value of the wrong type"),
        (loss(notes=(1,)), "notes has a value of the wrong type"),
        (
            loss(returned=np.array([-2, 5])),
            "a filter removed fewer than 0 rows, or more",
        ),
        (
            loss(returned=np.array([0, 0])),
            "a filter removed fewer than 0 rows, or more",
        ),
        (
            loss(removed=np.array([0, -1])),
            "a filter removed fewer than 0 rows, or more",
        ),
        (loss(share=np.array([0.5, np.nan])), "a share of lost recall is not between 0 and 1"),
        (loss(share=np.array([0.5, -0.5])), "a share of lost recall is not between 0 and 1"),
        (judged(identity=None), "judged_by is not text"),
        (judged(notes=(1,)), "notes is not a list of texts"),
        (judged(values={"nDCG@4": HALF[:2]}, exact={"nDCG@4": HALF[:2]}), "2 values.* 3 queries"),
        (judged(values={"nDCG@4": HALF * np.inf}), "an infinite value"),
        (judged(exact={"RR@4": HALF}), "exact nDCG@4"),
    ],
)
def test_impossible_content_is_refused_by_file(tmp_path, changes, said):
    file = next((each for each in ("loss", "judged") if each in changes), "trial")
    with pytest.raises(FormatError, match=rf"{file}-1\.parquet.*{said}"):
        reloaded(tmp_path / "run", **changes)


def test_evidence_of_the_first_format_is_read_without_counts(tmp_path):
    reloaded(tmp_path / "run")
    path = tmp_path / "run" / "loss-1.parquet"
    table = pq.read_table(path).drop_columns(["returned", "removed"])
    header = json.loads(table.schema.metadata[b"recallatk.loss"])
    del header[CHECKSUM]
    header |= {"format_version": 1, "columns": column_checksums(table)}
    pq.write_table(table.replace_schema_metadata({b"recallatk.loss": sealed(header)}), path)
    found = load_run(tmp_path / "run").measurements[0].loss
    assert found.returned.tolist() == found.removed.tolist() == [NOT_ASKED] * 2
    assert found.deeper.tolist() == EVIDENCE.deeper.tolist()
