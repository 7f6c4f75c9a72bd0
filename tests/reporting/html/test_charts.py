"""Charts: one definition for the page, SVG and PNG, with units on every axis."""

import itertools
import xml.etree.ElementTree as ET

import pytest
from made_runs import make_measurement, make_run, scored_run, varied_run

from recallatk.core import Load, Trial
from recallatk.reporting.charts import charts_of
from recallatk.reporting.charts.theme import COLORS, SHAPES, colors, shapes, specification, write_images
from recallatk.reporting.run_report import RunReport


def every(value, name):
    """All values of a key, however deep."""
    if isinstance(value, dict):
        found = [value[name]] if name in value else []
        return found + [each for inner in value.values() for each in every(inner, name)]
    return [each for inner in value for each in every(inner, name)] if isinstance(value, list) else []


def test_pictures_are_what_they_are_called(tmp_path):
    run, dataset, truth = scored_run(queries=40)
    charts = RunReport(run, truth, dataset).charts
    assert {"recall-latency", "recall-qps", "recall-across-k", "distribution", "cost"} <= set(charts)
    for path in write_images(charts, tmp_path, "png"):
        assert path.read_bytes().startswith(b"\x89PNG")
    for path in write_images(charts, tmp_path, "svg"):
        assert ET.parse(path).getroot().tag.endswith("svg")
    assert len(list(tmp_path.iterdir())) == 2 * len(charts)


def test_every_chart_keeps_to_the_schema():
    run, dataset, truth = scored_run(queries=40)
    made = RunReport(run, truth, dataset, others=[run], names=["one", "other"]).charts
    for name, chart in {**made, **{f"plain {name}": each for name, each in charts_of(run).items()}}.items():
        assert chart.to_dict(validate=True), name


@pytest.mark.parametrize("name", ["recall-latency", "recall-qps", "recall-across-k", "cost"])
def test_axes_have_titles_with_units(name):
    drawn = specification(charts_of(varied_run())[name])
    titles = {each["title"] for axis in ("x", "y") for each in every(drawn, axis) if isinstance(each, dict)}
    unit = ("(ms)", "ueries per second", "(share", "(s)", "(MB)", "(neighbors")
    assert all(any(each in title for each in unit) for title in titles if title)
    assert drawn["description"]


def test_bars_begin_at_zero():
    for each in every(specification(charts_of(varied_run())["cost"]), "x"):
        assert each["scale"]["zero"] is True


def test_engines_have_the_same_color_and_shape_everywhere_and_no_two_share_both():
    names = [f"engine {place}" for place in range(24)]
    pairs = list(zip(colors(names).values(), shapes(names).values(), strict=True))
    assert len(set(pairs)) == 24
    assert all(one[0] != other[0] or one[1] != other[1] for one, other in itertools.pairwise(pairs))
    assert len(set(COLORS)) == 8 and len(set(SHAPES)) == 6
    charts = charts_of(varied_run())
    scales = [
        (tuple(each["domain"]), tuple(each["range"]))
        for chart in charts.values()
        for each in every(specification(chart), "scale")
        if str(each.get("range", ""))[2:3] == "#"
    ]
    assert len(set(scales)) == 1


def test_latencies_far_apart_are_drawn_by_their_logarithm_and_near_ones_from_zero():
    def run(scale):
        return make_run(
            [
                make_measurement(Trial("e", (), (("ef", each),)), 0.5 + each / 10, scale**each)
                for each in (0, 1, 2)
            ]
        )

    for scale, kind in ((10, "log"), (1.01, None)):
        drawn = specification(charts_of(run(scale))["recall-latency"])
        found = {each["scale"].get("type") for each in every(drawn, "y") if "scale" in each}
        assert found == {kind}


def test_a_run_without_recall_or_time_has_no_curves():
    assert charts_of(make_run([])) == {}
    load = Load("rate", rate=5.0)
    only = make_run([make_measurement(Trial("e", (), (), load))])
    assert "recall-latency" in charts_of(only)
