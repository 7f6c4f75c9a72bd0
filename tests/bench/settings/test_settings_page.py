"""docs/bench-file.md has every key, and its examples are sound."""

import re
import tomllib
from pathlib import Path

import pytest

from recallatk.bench.settings import SettingsError, models, settings_from
from recallatk.bench.settings.grid import RangeSettings
from recallatk.bench.settings.problems import keys_of
from recallatk.bench.settings.settings import Settings

DOCS = Path(__file__).parents[3] / "docs"
PAGE, PATHS = ((DOCS / name).read_text() for name in ("bench-file.md", "paths.md"))
SECTIONS = {
    "At the top": Settings,
    "[data]": models.DataSettings,
    "[truth]": models.TruthSettings,
    "[measure]": models.MeasureSettings,
    "threads": models.ThreadSettings,
    "[[load]]": models.LoadSettings,
    "[limits]": models.LimitSettings,
    "[output]": models.OutputSettings,
    "[tune]": models.TuneSettings,
    "[quality]": models.QualitySettings,
    "[[engine]]": models.EngineSettings,
    "[[path]]": models.PathSettings,
    "[[waive]]": models.WaiverSettings,
}


def keys_under(heading):
    text = re.split(rf"^####? {re.escape(heading)}$", PAGE, flags=re.MULTILINE)[1]
    table = re.search(r"^\| key.*?(?=\n\n)", text, re.MULTILINE | re.DOTALL)[0]
    return re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)


@pytest.mark.parametrize("heading", SECTIONS)
def test_every_key_is_described_and_no_other(heading):
    assert keys_under(heading) == keys_of(SECTIONS[heading])


def test_the_keys_of_a_range_are_described():
    table = PAGE.partition("| key of a range |")[2].partition("\n\n")[0]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == keys_of(RangeSettings)


@pytest.mark.parametrize("block", re.findall(r"^```toml\n(.*?)^```", PAGE + PATHS, re.MULTILINE | re.DOTALL))
def test_examples_are_sound(block):
    settings = settings_from(tomllib.loads(block))
    assert settings_from(tomllib.loads(settings.to_toml())) == settings


def test_the_problems_that_are_shown_are_the_ones_that_are_said():
    shown = PAGE.partition("```text\nbench.toml: 5 problems\n")[2].partition("```")[0]
    values = {
        "data": {"corpus": "c", "metric": "cosin", "qeries": "q"},
        "measure": {"rounds": 2.5},
        "load": [{"mode": "rate"}],
        "engine": [{"name": "faiss-hnsw", "search": {"ef": 0}}],
    }
    with pytest.raises(SettingsError) as caught:
        settings_from(values)
    assert [line.strip() for line in shown.splitlines()] == list(caught.value.problems)
