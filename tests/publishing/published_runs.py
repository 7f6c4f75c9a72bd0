"""Runs to publish, made without measuring anything, and what a site says of them."""

import dataclasses
import json
import re

from made_runs import make_measurement, make_run, scored_run

from recallatk import save_run
from recallatk.core import Load, Trial
from recallatk.publishing.comparable_data import comparable_data
from recallatk.publishing.published_run import published_run

PRINTS = {"vectors": "v" * 32, "ids": "i" * 32, "queries": "q" * 32, "truth": "t" * 32}
MACHINE = {"processor": "A Processor", "machine": "x86_64", "cores": 2, "memory_bytes": 8_000_000_000}


def trial(engine="hnswlib", ef=10, load=None, repeat=0):
    return Trial(engine, (("M", 16),), (("ef", ef),), load or Load(), repeat)


def measured(engine="hnswlib", ef=10, recall=0.96, scale=1.0, **others):
    """A setting whose recall has bounds 0.05 below and above."""
    load, repeat = others.pop("load", None), others.pop("repeat", 0)
    version = others.pop("version", f"{engine} 1")
    return make_measurement(trial(engine, ef, load, repeat), recall, scale, version=version, **others)


def run_of(*measurements, begun="2026-01-01T00:00:00+00:00", prints=PRINTS, **others):
    known = {"dataset": "data", "environment": MACHINE, "begun": begun, "fingerprints": prints}
    return make_run(measurements, **{**known, **others})


def kept(run, name="one"):
    return published_run(run, name, f"reports/{name}.html", [])


def compared(*runs, levels=(0.9,)):
    """The data sets of runs named one, two and so on, and why others are left out."""
    names = ("one", "two", "three", "four")
    found = [kept(run, name) for run, name in zip(runs, names, strict=False)]
    return comparable_data(found, levels)


def ranking(board):
    """Engine, effort and rank of every standing."""
    return [
        (each.engine, dict(each.contender.first.trial.search)["ef"], each.rank) for each in board.standings
    ]


def saved(folder, name="made", **changes):
    """A run folder with real recalls."""
    run, dataset, _ = scored_run(environment=MACHINE, begun="2026-01-01T00:00:00+00:00")
    run = dataclasses.replace(run, dataset=name, **changes)
    save_run(run, dataset, folder)
    return folder


def links(page):
    """Every address that a page leads to."""
    return re.findall(r'<a href="([^"#]+)"', page.read_text(encoding="utf-8"))


def results(site):
    return json.loads((site / "data" / "results.json").read_text())
