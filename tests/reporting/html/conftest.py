"""Pages to look at."""

import dataclasses
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))
from made_runs import HOSTILE, filtered_run, large_run, make_measurement, make_run, varied_run

from chromium import ATTACK, LONG, MIRRORED
from recallatk.core import Caution, Dataset, Failure, Metric, Trial
from recallatk.datasets import make_corpus, make_queries
from recallatk.reporting import to_html
from recallatk.reporting.document import Details, Document, Section, Table
from recallatk.reporting.html.page import render_html

_MOST_COLUMNS = 27


@pytest.fixture(scope="session")
def pages(tmp_path_factory):
    """A folder and a function that puts a page there, each run once."""
    folder, made = tmp_path_factory.mktemp("pages"), {}

    def page(name, make):
        if name not in made:
            made[name] = folder / f"{name}.html"
            made[name].write_text(make(), encoding="utf-8")
        return made[name]

    return page


@pytest.fixture(scope="session")
def measured(tmp_path_factory):
    """A real run on a part of the bundled data, kept in a folder with its truth."""
    from recallatk import bench
    from recallatk.bench.settings import open_data, settings_from
    from recallatk.datasets.demo import DEMO_FOLDER
    from recallatk.truths import ground_truth, save_truth

    folder = tmp_path_factory.mktemp("measured")
    data = {"corpus": str(DEMO_FOLDER), "metric": "cosine", "sample_corpus": 3000, "sample_queries": 150}
    plain = {
        "name": "wordnet-part",
        "data": data,
        "truth": {"file": str(folder / "truth.parquet")},
        "measure": {"at": [1, 10, 50], "rounds": 2},
        "engine": [
            {"name": "faiss-hnsw", "build": {"M": 4}, "search": {"ef": [10, 40]}},
            {"name": "faiss-ivf-flat", "build": {"nlist": 32}, "search": {"nprobe": [1, 2, 4]}},
        ],
    }
    settings = settings_from(plain)
    save_truth(ground_truth(open_data(settings), depth=50), folder / "truth.parquet")
    bench.run(settings, out=folder)
    return folder


@pytest.fixture(scope="session")
def real_page(measured, pages):
    from recallatk.storage import load_run

    return pages("real", lambda: to_html(load_run(measured)))


@pytest.fixture(scope="session")
def large_page(pages):
    return pages("large", lambda: to_html(large_run(400)))


@pytest.fixture(scope="session")
def endless_page(pages):
    return pages("endless", lambda: to_html(large_run(3_000)))


@pytest.fixture(scope="session")
def varied_page(pages):
    return pages("varied", lambda: to_html(varied_run()))


@pytest.fixture(scope="session")
def filtered_page(pages):
    def page():
        run, truth = filtered_run(engine="an-engine-with-a-very-long-name")
        return to_html(run, truth=truth)

    return pages("filtered", page)


@pytest.fixture(scope="session")
def tables_page(pages):
    """Tables of more and more columns, each in a section of its own; the last is closed."""

    def section(columns):
        numbers, names = ["0.965 ±0.005", "12,345", "0.0623", "-"], ["recall@100", "p95 (ms)", "memory"]
        row = ["faiss-hnsw M=8 ef=40", *(numbers[each % 4] for each in range(columns - 1))]
        header = ["setting", *(names[each % 3] for each in range(columns - 1))]
        table = Table(f"{columns} columns", header, [row] * 3, 1)
        blocks = [Details("More", [table])] if columns == _MOST_COLUMNS else [table]
        return Section(table.title, blocks, f"columns-{columns}")

    columns = (4, 10, 11, 15, 16, 22, _MOST_COLUMNS)
    return pages("tables", lambda: render_html(Document("Tables", [section(each) for each in columns])))


@pytest.fixture(scope="session")
def hostile():
    """A run in which every text that a user can choose attacks the page."""
    from recallatk.analysis import score
    from recallatk.truths import ground_truth

    random = np.random.default_rng(3)
    texts = [ATTACK, LONG, MIRRORED, HOSTILE]

    def columns(count):
        return {
            "text": [texts[each % 4] for each in range(count)],
            "category": [texts[each % 4][:500] for each in range(count)],
        }

    corpus = make_corpus(
        random.normal(size=(80, 4)).astype(np.float32), [f"{ATTACK}{each}" for each in range(80)], columns(80)
    )
    queries = make_queries(
        random.normal(size=(60, 4)).astype(np.float32), [f"{each}{ATTACK}" for each in range(60)], columns(60)
    )
    dataset = Dataset(corpus, queries, Metric.COSINE, name=ATTACK)
    truth = ground_truth(dataset, depth=20)
    measured = []
    for place, text in enumerate(texts):
        answers = truth.rows.copy()
        answers[random.random(answers.shape) < 0.1 * (1 + place)] = -1
        trial = Trial(f"engine {text}", (("path", text),), (("ef", 10 * (1 + place)), (text[:40], text)))
        made = make_measurement(
            trial, queries=60, answers=answers, scale=1 + place, version=text, evidence=text
        )
        found = score(truth, answers, (1, 10), eligibility=dataset.eligibility, row_numbers=True)
        built = dataclasses.replace(made.build, call=text)
        measured.append(dataclasses.replace(made, score=found, build=built))
    failed = Trial(ATTACK, ((ATTACK, ATTACK),), ())
    run = make_run(
        measured,
        dataset=ATTACK,
        environment={ATTACK: ATTACK, "processor": ATTACK, "cores": LONG},
        failures=(Failure(failed, ATTACK, ATTACK, ATTACK, ATTACK),),
        cautions=(Caution(ATTACK, ATTACK),),
        begun=ATTACK,
        settings={"name": ATTACK, ATTACK: ATTACK},
    )
    return run, dataset, truth


@pytest.fixture(scope="session")
def hostile_page(hostile, pages):
    from types import SimpleNamespace

    run, dataset, truth = hostile
    finding = SimpleNamespace(code=ATTACK, severity=ATTACK, title=ATTACK, message=LONG, remedy=MIRRORED)
    return pages(
        "hostile",
        lambda: to_html(
            run, truth=truth, dataset=dataset, findings=[finding], others=[run], names=[ATTACK] * 2
        ),
    )
