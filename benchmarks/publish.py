"""How long a site of 200 runs takes to publish, and its first page to load in a real browser from disk.

The runs are copies of two small real ones under other names and dates, so pages have the size of real ones.
Wanted: the first page within 2 s.

    python benchmarks/publish.py [--runs 200] [--loads 5]
"""

import argparse
import dataclasses
import shutil
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np

import recallatk

FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking")
_DRAWN = "return document.documentElement.dataset.drawn"


def made_runs(folder, count):
    """Runs of two engines with twelve settings, each one day after the other."""
    random = np.random.default_rng(0)
    vectors, asked = (random.normal(size=(rows, 16)).astype("float32") for rows in (2_000, 300))
    dataset = recallatk.open_dataset(vectors, asked, metric="l2")
    efforts = [10, 20, 40, 80, 160, 320]
    found = [
        recallatk.measure(engine, dataset, search={knob: efforts}, at=[1, 10], rounds=2)
        for engine, knob in (("faiss-hnsw", "ef"), ("usearch", "expansion"))
    ]
    for place in range(count):
        day = f"2026-{1 + place // 28 % 12:02}-{1 + place % 28:02}T00:00:00+00:00"
        recallatk.save_run(
            dataclasses.replace(found[place % 2], begun=day), dataset, folder / f"run-{place:03}"
        )
    for each in sorted(folder.glob("run-*")):
        recallatk.remember(recallatk.load_run(each), folder / "history.db")


def loaded(page, times):
    """Seconds from the request to the end of scripts, in a fresh profile."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for flag in FLAGS:
        options.add_argument(flag)
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    try:
        found = []
        for _ in range(times):
            driver.get("about:blank")
            began = time.perf_counter()
            driver.get(page.as_uri())
            while not driver.execute_script(_DRAWN):
                time.sleep(0.005)
            found.append(time.perf_counter() - began)
        return found
    finally:
        driver.quit()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--loads", type=int, default=5)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        runs, site = Path(name, "runs"), Path(name, "site")
        runs.mkdir()
        made_runs(runs, chosen.runs)
        began = time.perf_counter()
        found = recallatk.publish(runs, site, history=runs / "history.db")
        seconds = time.perf_counter() - began
        size = sum(path.stat().st_size for path in site.rglob("*") if path.is_file())
        print(f"{found.runs} runs, {found.pages} pages, {size / 1e6:,.0f} MB: {seconds:.1f} s")
        print(f"of a run: {seconds / chosen.runs:.2f} s, {size / chosen.runs / 1e6:.2f} MB")
        for page in (site / "index.html", *site.glob("leaderboards/*.html"), site / "trends.html"):
            took = loaded(page, chosen.loads)
            print(
                f"{page.name}: {page.stat().st_size / 1e6:.2f} MB, loaded in {statistics.median(took):.2f} s "
                f"({min(took):.2f} to {max(took):.2f})"
            )


if __name__ == "__main__":
    main()
