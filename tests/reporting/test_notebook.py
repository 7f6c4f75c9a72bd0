"""Runs and scores in a notebook."""

import sys

import pyarrow as pa
import pytest
from made_runs import HOSTILE, large_run, make_run, scored_run, varied_run

from recallatk.errors import UsageError
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


def test_a_run_as_a_data_frame_has_the_columns_of_the_arrow_table(monkeypatch):
    run = varied_run()
    frame = run.to_pandas()
    assert list(frame.columns) == run_to_arrow(run).column_names
    assert frame["recall@10"][0] == 0.7
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UsageError, match="pip install pandas"):
        run.to_pandas()


def test_a_run_plots_its_curve():
    run = scored_run()[0]
    chart = run.plot().to_dict()
    assert "recall@10" in chart["description"]
    assert "against its queries per second" in run.plot("qps").to_dict()["description"]
    with pytest.raises(UsageError, match="Did you mean latency"):
        run.plot("latenc")
    with pytest.raises(UsageError, match="nothing to plot"):
        make_run([]).plot()


def test_the_best_setting_is_the_cheapest_that_meets_the_goals():
    run = scored_run()[0]
    recalls = {each.trial: each.score["recall@10"] for each in run.measurements}
    best = run.best("recall@10 >= 0.05")
    assert recalls[best.trial] >= 0.05
    assert run.best(["recall@10 >= 0.05"], budget="p50 <= 10s").trial == best.trial
    with pytest.raises(UsageError, match=r"no measured setting meets .*\. Nearest: .* missed at"):
        run.best("recall@10 >= 0.05", budget="p50 <= 0.000001ms")
    with pytest.raises(UsageError, match="no goal given"):
        run.best([])
    with pytest.raises(UsageError, match=r"recall@50 >= 0\.5: not measured"):
        run.best("recall@50 >= 0.5")
