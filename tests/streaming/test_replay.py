"""Replays on real engines and on one with moods: recall against an independent scan, faults, resumption."""

import json

import numpy as np
import pytest

from recallatk import churn
from recallatk.core.churned import NO_MAINTENANCE, Operation
from recallatk.errors import EngineError, MismatchError, UsageError
from recallatk.reporting.churn import churn_to_dict, churn_to_html, churn_to_markdown, churn_to_text
from recallatk.streaming.generators import Generator

BOOK = "random-replacement:steps=3,share=10%"


def steps_of(found):
    (curve,) = found.curves
    return curve.searches


def recalls(found, k=5):
    return [each.measures[f"recall@{k}"].value for each in steps_of(found)]


def replayed(arrays, *arguments, **options):
    return churn(BOOK, *arrays, metric="l2", at=5, **{"engines": "moody", **options})


def test_an_exact_engine_finds_everything_at_every_step(moody, arrays):
    found = replayed(arrays, goals=["recall@5 >= 0.5", "p50 <= 10s"])
    assert recalls(found) == [1.0] * 6
    assert found.outcome == "PASS"
    (curve,) = found.curves
    assert curve.decay.value == 0
    assert [str(each.operation) for each in curve.recoveries] == ["maintain", "rebuild"]
    assert [each.changed for each in steps_of(found)] == [0, 64, 128, 192, 192, 192]


@pytest.mark.parametrize("engine", ["usearch", "faiss-ivf-flat", "hnswlib"])
def test_recall_is_that_of_an_independent_scan(arrays, engine):
    search = {"usearch": {"expansion": 4}, "faiss-ivf-flat": {"nprobe": 2}, "hnswlib": {"ef": 5}}[engine]
    found = churn(BOOK, *arrays, metric="cosine", at=(5, 1), engines=engine, search=search)
    (curve,) = found.curves
    assert curve.failure is None
    for step in curve.searches:
        values = step.per_query["recall@5"]
        assert step.measures["recall@5"].value == pytest.approx(values.mean())
        # Every value is a number of hits of five.
        assert np.isin(np.round(values * 5), range(6)).all()
        assert step.live == 320
        assert step.stale == 0
        assert step.unknown == 0
    assert any(each.note == NO_MAINTENANCE for each in curve.changes)
    assert min(recalls(found)) < 1


def test_full_effort_is_exact_at_every_step(arrays):
    found = churn(
        BOOK, *arrays, metric="ip", at=5, engines="faiss-ivf-flat", build={"nlist": 8}, search={"nprobe": 8}
    )
    assert recalls(found) == [1.0] * 6


def test_deleted_rows_that_come_back_are_no_hits(moody, arrays):
    found = replayed(arrays, build={"mood": "forgets"}, recover=False)
    first, *others = steps_of(found)
    assert first.stale == 0
    assert all(each.stale > 0 and each.stale_queries > 0 for each in others)
    assert recalls(found)[-1] < 1
    assert [each.stale for each in others] == sorted(each.stale for each in others)


def test_short_answers_are_counted_until_maintenance(moody, arrays):
    found = replayed(arrays, build={"mood": "short"})
    assert [each.short for each in steps_of(found)] == [30, 30, 30, 30, 0, 30]
    (maintained, rebuilt) = found.curves[0].recoveries
    assert maintained.gain.value == pytest.approx(0.2)
    assert rebuilt.gain.value == pytest.approx(-0.2)


@pytest.mark.parametrize(("mood", "kind"), [("raises", "exception"), ("ends", "crash")])
def test_an_engine_that_fails_costs_its_own_curve(moody, arrays, mood, kind):
    found = churn(
        BOOK, *arrays, metric="l2", at=5, engines=["moody", "usearch"], build={"mood": mood, "after": 3}
    )
    failed, whole = found.curves
    assert failed.failure.kind == kind
    # Three changes went well: delete and insert, and the next delete.
    assert failed.failure.step == 7
    assert [each.step for each in failed.searches] == [2, 5]
    assert whole.failure is None
    assert len(whole.searches) == 6
    assert "failed at step 7" in churn_to_text(found)


def test_searches_during_writes_see_one_state_each(moody, arrays):
    """An exact engine whose writes are atomic has recall 1 against one of the two states, and no mixture."""
    found = replayed(arrays, build={"mood": "waits"}, concurrent=True)
    parts = [each.overlap for each in steps_of(found) if each.overlap is not None]
    assert len(parts) == 4
    assert recalls(found) == [1.0] * 6
    assert sum(each.one_write for each in parts) > 0
    changing = parts[:3]
    assert any(each.before.value < 1 for each in changing) or any(each.after.value < 1 for each in changing)
    assert sum(each.stale for each in steps_of(found)) == 0
    assert "one write" in churn_to_text(found)


def test_engines_are_refused_before_anything_is_built(arrays):
    with pytest.raises(EngineError, match="faiss-hnsw or exact cannot insert and delete rows"):
        churn(BOOK, *arrays, metric="l2", engines=["faiss-hnsw", "usearch", "exact"])
    with pytest.raises(EngineError, match="hnswlib cannot be searched while another thread writes"):
        churn(BOOK, *arrays, metric="l2", engines="hnswlib", concurrent=True)


def test_an_interrupted_replay_goes_on_and_says_so(moody, arrays, tmp_path):
    class StopError(Exception):
        pass

    def stop_at(progress):
        if progress.step == 8:
            raise StopError

    out = tmp_path / "out"
    with pytest.raises(StopError):
        replayed(arrays, out=out, watch=stop_at)
    lines = (out / "journal.jsonl").read_text().splitlines()
    (out / "journal.jsonl").write_text("\n".join(lines) + '\n{"key": "torn')
    found = replayed(arrays, out=out)
    assert recalls(found) == [1.0] * 6
    assert found.curves[0].resumed == (8,)
    kept = (out / "journal.jsonl").read_text().splitlines()
    assert kept[: len(lines)] == lines
    watched = []
    again = replayed(arrays, out=out, watch=watched.append)
    assert not watched
    assert recalls(again) == recalls(found)
    whole = replayed(arrays)
    assert [each.changed for each in steps_of(found)] == [each.changed for each in steps_of(whole)]


def test_a_folder_of_another_replay_is_refused(moody, arrays, tmp_path):
    replayed(arrays, out=tmp_path)
    corpus, queries = arrays
    with pytest.raises(MismatchError, match=r"differs in queries\. Choose another folder"):
        replayed((corpus, queries[:10]), out=tmp_path)
    with pytest.raises(MismatchError, match="differs in runbook"):
        churn("growth:steps=2", *arrays, metric="l2", at=5, engines="moody", out=tmp_path)
    replayed((corpus, queries[:10]), out=tmp_path, fresh=True)
    (tmp_path / "plan.json").write_text("{}")
    with pytest.raises(UsageError, match="no replay wrote it"):
        replayed(arrays, out=tmp_path)


def test_a_corpus_that_changed_since_is_refused(arrays, tmp_path):
    book = tmp_path / "book.toml"
    book.write_text('[data]\nfingerprint = "abc"\n[generate]\nkind = "growth"\n')
    with pytest.raises(MismatchError, match="the corpus changed"):
        churn(book, *arrays, metric="l2")


def test_data_that_cannot_be_replayed_are_refused(arrays):
    corpus, queries = arrays
    with pytest.raises(UsageError, match="no corpus"):
        churn(Generator("growth"))
    with pytest.raises(UsageError, match="no such runbook"):
        churn("gorwth", *arrays, metric="l2")
    with pytest.raises(MismatchError, match="dimension"):
        churn(BOOK, corpus, queries[:, :4], metric="l2")
    with pytest.raises(UsageError, match="'ef'"):
        churn(BOOK, *arrays, metric="l2", engines="usearch", search={"ef": 3})
    with pytest.raises(UsageError, match="at = 0"):
        churn(BOOK, *arrays, metric="l2", at=0)
    with pytest.raises(UsageError, match="a replay judges recall"):
        churn(BOOK, *arrays, metric="l2", goals="ndcg@10 loss <= 0.1")


def test_k_beyond_the_corpus_and_one_query(moody, arrays):
    corpus, queries = arrays
    found = churn(BOOK, corpus, queries[:1], metric="cosine", at=500, engines="moody")
    assert recalls(found, 500) == [1.0] * 6
    assert all(each.short == 0 for each in steps_of(found))


def test_a_missed_goal_is_missed_at_the_end(moody, arrays):
    found = replayed(arrays, build={"mood": "forgets"}, goals="recall@5 >= 0.99")
    assert found.outcome == "FAIL"
    assert "FAIL. moody" in churn_to_text(found)


def test_every_form_says_the_same(moody, arrays):
    found = churn(BOOK, *arrays, metric="l2", at=5, engines=["moody", "usearch"])
    text, markdown, page = churn_to_text(found, width=200), churn_to_markdown(found), churn_to_html(found)
    plain = json.loads(json.dumps(churn_to_dict(found), allow_nan=False))
    assert [each["engine"] for each in plain["curves"]] == ["moody", "usearch"]
    assert [len(each["searches"]) for each in plain["curves"]] == [6, 6]
    for form in (text, markdown, page):
        assert "rebuild" in form
        assert "No maintenance of its own: usearch" in form
    changes = [each["operation"] for each in plain["curves"][0]["changes"]]
    assert changes == ["delete", "insert"] * 3 + ["maintain", "rebuild"]
    assert Operation("maintain").recovers
