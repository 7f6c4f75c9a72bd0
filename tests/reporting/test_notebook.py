"""Runs and scores in a notebook."""

import pyarrow as pa
from made_runs import HOSTILE, large_run, make_run, scored_run, varied_run

from recallatk.reporting.notebook import run_repr_html, run_to_arrow, score_repr_html, score_to_arrow


def test_a_run_shows_its_verdict_and_its_best_settings():
    page = run_repr_html(varied_run())
    assert "No target" in page
    assert page.count("<tr>") == 12
    assert "… and 380 more settings." in run_repr_html(large_run(400))
    assert "No setting has both recall and latency" in run_repr_html(make_run([]))


def test_hostile_names_stay_texts():
    page = run_repr_html(varied_run(engines=(HOSTILE, "b")))
    assert "<script>" not in page
    assert "&lt;script&gt;" in page


def test_arrow_has_a_row_per_trial_with_every_number():
    run = varied_run()
    table = run_to_arrow(run)
    assert table.num_rows == len(run.planned)
    assert {"engine", "search.ef", "recall@10", "recall@10_low", "p95_ms", "memory_bytes"} <= set(
        table.column_names
    )
    assert table["recall@10"].to_pylist()[0] == 0.7
    assert b"recallatk.run" in table.schema.metadata


def test_a_score_is_a_row_per_measure():
    score = scored_run()[0].measurements[0].score
    table = score_to_arrow(score)
    assert table["measure"].to_pylist() == list(score.measures)
    assert table["value"].to_pylist() == [each.value for each in score.measures.values()]
    assert table["n"].type == pa.int64()
    assert "recall@10" in score_repr_html(score)
