"""What a tuning found as text, Markdown and JSON: everything is said, and nothing is obeyed."""

import json
from dataclasses import fields, replace

import pytest
from made_tuned import made_candidate, made_tuned, missed_tuned

from recallatk.core import Mean
from recallatk.core.tuned import Candidate, Tuned
from recallatk.errors import FormatError
from recallatk.reporting.tuned import tuned_to_html, tuned_to_markdown
from recallatk.reporting.tuned import tuned_to_text as tuned_to_screen
from recallatk.reporting.tuned_file import tuned_from_dict, tuned_to_dict

KEYS = (
    *("met", "choice", "validated", "latency_ms", "trials", "builds", "seconds", "grid_seconds_estimate"),
    *("targets", "budgets", "runner_up", "front", "knee", "prices", "worst_segment", "attempts", "looks"),
    *("nearest", "binding", "snippet", "cautions", "qps", "memory_bytes", "build_seconds"),
)


def tuned_to_text(tuned):
    """Everything that a terminal can show."""
    return tuned_to_screen(tuned, verbose=True)


def test_the_verdict_is_the_first_sentence():
    first = tuned_to_text(made_tuned()).splitlines()[0]
    assert first == (
        "Met: run hnswlib (build M=16, ef_construction=200; search ef=52). Held out: recall@10 0.958 ±0.007 "
        "(1,000 queries), target recall@10 >= 0.95; p95 0.200 ms (budget p95 <= 5ms), 5,000 queries per "
        "second, memory 40.0 MiB (budget memory <= 2GiB), build 3.0 s."
    )


@pytest.mark.parametrize("width", [60, 80, 120, 200])
@pytest.mark.parametrize("tuned", [made_tuned(), missed_tuned()], ids=["met", "missed"])
def test_the_screen_has_the_result_and_fits_the_terminal(tuned, width):
    text = tuned_to_screen(tuned, width=width, files=["Report: runs/x/report.html"])
    lines = text.splitlines()
    assert max(map(len, lines)) <= width and len(lines) <= 50
    assert lines[-1] == "Report: runs/x/report.html"
    assert lines[0].startswith("Met: " if tuned.met else "Missed: ")
    assert "0.961 ±0.010" in text and "┤" in text
    for part in ("Runner-up", "Worst segment", "Tried and skipped"):
        assert part not in text


SEVERAL = ("recall@10", "recall@100 in lang='de'", "robust(0.8)@10", "recall@1", "recall@50")


def with_targets(tuned, names):
    """The outcome with a mean of each name for every setting: the first as it is, the others below it."""

    def measured(candidate):
        if candidate is None:
            return None
        (first,) = candidate.measures.values()
        means = {name: replace(first, value=first.value - place / 100) for place, name in enumerate(names)}
        return replace(candidate, measures=means)

    named = {name: measured(getattr(tuned, name)) for name in ("choice", "runner_up", "knee", "nearest")}
    targets = tuple(f"{name} >= 0.5" for name in names)
    return replace(tuned, targets=targets, front=tuple(map(measured, tuned.front)), **named)


@pytest.mark.parametrize("write", [tuned_to_text, tuned_to_markdown, tuned_to_html])
def test_the_front_has_the_measure_of_every_target(write):
    text = write(with_targets(made_tuned(), SEVERAL[:3])).replace("\\", "").replace("<wbr>", "")
    header = next(
        line for line in text.splitlines() if "p95" in line and "robust(0.8)@10" in line and "QPS" in line
    )
    assert header.index("recall@10") < header.index("recall@100 in lang=") < header.index("robust(0.8)@10")
    # The choice has 0.961 in the first, and one and two hundredths less in the others.
    assert all(value in text for value in ("0.961 ±0.010", "0.951 ±0.01", "0.941 ±0.02"))


@pytest.mark.parametrize("count", [2, 3, 5])
@pytest.mark.parametrize("width", [60, 80, 120])
def test_measures_of_several_targets_fit_the_terminal(width, count):
    tuned = with_targets(made_tuned(per_hour=3.6, currency="USD"), SEVERAL[:count])
    lines = tuned_to_screen(tuned, width=width).splitlines()
    assert max(map(len, lines)) <= width
    place = next(at for at, line in enumerate(lines) if "p95 ms" in line and "recall@10" in line)
    choice = next(line for line in lines[place:] if line.startswith("choice"))
    shown = sum(f"{0.961 - each / 100:.3f}" in choice for each in range(count))
    unshown, text = SEVERAL[shown:count], " ".join("\n".join(lines).split())
    said = f"No room for {', '.join(unshown)}; --verbose shows all columns."
    assert shown >= min(count, 3) and (said in text) == bool(unshown)
    assert all(f" {name}" in text for name in SEVERAL[:count])


def test_the_cost_of_queries_is_in_every_form():
    tuned = made_tuned(prefer="cost", per_hour=3.6, currency="USD")
    said = tuned_to_dict(tuned)
    # 5,000 queries per second are 18 million an hour.
    assert said["prefer"] == "cost"
    assert said["cost"] == {"per_hour": 3.6, "currency": "USD", "cost_per_million": pytest.approx(0.2)}
    again = tuned_from_dict(json.loads(json.dumps(said)))
    assert (again.prefer, again.per_hour, again.currency) == ("cost", 3.6, "USD")
    screen, page = tuned_to_screen(tuned, width=120), tuned_to_html(tuned)
    assert "0.2 USD per million queries" in " ".join(screen.split())
    assert "USD/1M queries" in screen and "QPS │" not in screen
    assert "cheapest by cost." in page and "Cost per million queries" in page
    assert ">USD/1M queries</th>" in page and "0.2 USD" in page
    assert "cost per query" in tuned_to_markdown(tuned)


def test_a_price_that_is_none_is_not_read():
    for cost in ({"per_hour": "a lot"}, {"per_hour": -1}, ["3"], None):
        assert tuned_from_dict({**tuned_to_dict(made_tuned()), "cost": cost}).per_hour is None


def test_a_long_front_keeps_the_choice_on_the_screen():
    front = tuple(made_candidate(each, each / 100, each / 10) for each in range(1, 60))
    text = tuned_to_screen(made_tuned(front=front, knee=None, choice=front[-1]), width=80)
    assert "choice  ef=59" in text and "--verbose shows" in text
    assert len(text.splitlines()) < 50


@pytest.mark.parametrize("write", [tuned_to_text, tuned_to_markdown])
def test_everything_is_said(write):
    text = write(made_tuned()).replace("\\", "")
    for part in (
        "index.set_ef(52)",
        "1.50× p95, 0.50× memory",
        "0.95 to 0.98: 2.10×",
        "Knee: ef=52",
        "category=noun.animal: 0.910 ±0.030 (44 queries)",
        "memory 3GiB is over budget",
        "42.0 s for 9 builds and 57 settings; the full grid would take about 609 s (14.5×).",
        "one below had passed",
        "All hnswlib settings: M=16, ef_construction=200.",
    ):
        assert part in text, part


def test_a_grid_that_is_cheaper_than_the_tuning_is_said_to_be():
    text = tuned_to_text(replace(made_tuned(), seconds=42.0, grid_seconds_estimate=19.0))
    assert "the full grid would take about 19 s, less than this tuning." in " ".join(text.split())


def test_attempts_of_a_kind_are_one_line():
    lines = [" ".join(line.split()) for line in tuned_to_text(made_tuned()).splitlines()]
    assert "hnswlib setting failed recall 2 2.5" in lines
    assert "hnswlib build skipped memory 3GiB is over budget 1 0.0" in lines
    assert "voyager setting on a sample passed - 1 0.0" in lines


def test_the_choice_and_the_knee_are_marked_on_the_front():
    lines = tuned_to_text(made_tuned()).splitlines()
    assert [line for line in lines if line.startswith("choice knee  ef=52 ")]


def test_a_look_too_many_is_said():
    assert "The held-out queries were used 3 times" in tuned_to_text(made_tuned(looks=3))


def test_where_nothing_meets_the_target_the_nearest_and_the_reason_come_first():
    lines = tuned_to_text(missed_tuned()).splitlines()
    assert lines[0] == (
        "Missed: no setting was shown to meet recall@10 >= 0.95 within p95 <= 5ms and memory <= 2GiB."
    )
    assert lines[1] == "recall@10 >= 0.95 is out of reach: the build is the limit."
    assert lines[2].startswith("Nearest miss: hnswlib (build M=16") and "0.940 ±0.010" in lines[2]
    assert "Code" not in lines and "Runner-up" not in lines


def test_of_a_loss_it_is_less_that_costs_more():
    tuned = made_tuned()

    def lossy(candidate):
        return replace(candidate, measures={"ndcg@10 loss": next(iter(candidate.measures.values()))})

    front, target = tuple(map(lossy, tuned.front)), "ndcg@10 loss <= 0.05"
    text = tuned_to_text(replace(tuned, targets=(target,), front=front, knee=lossy(tuned.knee)))
    assert "Lower ndcg@10 loss gets more expensive beyond it." in text


def test_little_that_was_found_is_little_to_say():
    bare = Tuned(("recall@10 >= 0.9",), (), "p95", False, None, {}, 0)
    assert tuned_to_text(bare).splitlines()[0] == "Missed: no setting was shown to meet recall@10 >= 0.9."
    assert tuned_to_markdown(bare).startswith("# Tuning\n")
    assert json.loads(json.dumps(tuned_to_dict(bare), allow_nan=False))["choice"] is None


def test_what_was_not_measured_is_no_number():
    unknown = Candidate("hnswlib", (), (("ef", 9),))
    text = tuned_to_text(made_tuned(choice=unknown, front=(unknown,), knee=None))
    assert "p95 not measured (budget p95 <= 5ms), memory not measured (budget memory <= 2GiB)" in text


def test_json_has_every_key_and_is_strict():
    given = tuned_to_dict(made_tuned(seconds=float("inf")))
    optional = {"per_hour", "currency", "weight", "effective_queries", "downstream", "downstream_notes"}
    optional |= {"churn", "churned", "churn_failure"}
    own = {each.name for each in fields(Tuned)} - optional
    assert {*KEYS, "cost"} <= set(given) and own <= set(given)
    again = json.loads(json.dumps(given, allow_nan=False))
    assert again["choice"]["search"] == {"ef": 52} and again["choice"]["engine"] == "hnswlib"
    assert again["validated"]["recall@10"] == {
        "value": 0.9576, "low": 0.951, "high": 0.9633, "n": 1000, "ids": 0.957
    }  # fmt: skip
    assert again["latency_ms"] == {"p50": 0.1, "p95": 0.2, "p99": None}
    assert again["worst_segment"]["name"] == "category=noun.animal"
    assert again["attempts"][2]["search"] is None
    assert again["seconds"] is None


def test_json_has_every_key_where_nothing_meets_the_target():
    given = tuned_to_dict(missed_tuned())
    assert set(KEYS) <= set(given)
    assert given["met"] is False and given["choice"] is None and given["latency_ms"] is None
    assert given["nearest"]["search"] == {"ef": 500} and "limit" in given["binding"]


def test_secrets_and_control_characters_do_not_get_out():
    hostile = Candidate(
        "http\x1b[31m",
        (("url", "https://me:hunter2@search.example"), ("api_key", "sesame")),
        (("ef", 1),),
        measures={"recall@10": Mean(0.9, None, 10)},
    )
    tuned = made_tuned(
        choice=hostile, runner_up=hostile, front=(hostile,), knee=hostile, snippet="x\x1b[31m\n```\ny"
    )
    for text in (tuned_to_text(tuned), tuned_to_markdown(tuned), json.dumps(tuned_to_dict(tuned))):
        assert "hunter2" not in text and "sesame" not in text and "\x1b" not in text
    assert "\n````\n" in tuned_to_markdown(tuned)


def test_what_is_written_reads_back_to_the_same():
    bare = Tuned(("recall@10 >= 0.9",), (), "p95", False, None, {}, 0)
    for tuned in (
        made_tuned(),
        missed_tuned(),
        bare,
        made_tuned(no_runner_up="There is none.", runner_up=None),
    ):
        plain = json.loads(json.dumps(tuned_to_dict(tuned)))
        assert tuned_from_dict(plain) == tuned
        assert tuned_to_dict(tuned_from_dict(plain)) == plain


def test_a_file_from_before_the_version_reads_too():
    plain = tuned_to_dict(made_tuned())
    older = {name: each for name, each in plain.items() if name not in ("format_version", "no_runner_up")}
    assert tuned_from_dict(older) == made_tuned()


@pytest.mark.parametrize(
    "change", [{"format_version": 99}, {"front": [{}]}, {"choice": 7}, {"attempts": None}]
)
def test_what_is_no_tuning_is_refused_by_name(change):
    with pytest.raises(FormatError, match=r"^here\.json: .*Accepted: "):
        tuned_from_dict({**tuned_to_dict(made_tuned()), **change}, "here.json")


def test_why_there_is_no_runner_up_is_said():
    text = tuned_to_text(made_tuned(runner_up=None, no_runner_up="No other build was proven."))
    assert "Runner-up\nNo other build was proven." in text


def test_secrets_in_messages_stay_inside():
    attempt = replace(made_tuned().attempts[0], why="https://me:hunter2@search.example refused")
    told = tuned_to_dict(made_tuned(attempts=(attempt,), binding="password=hunter2"))
    assert "hunter2" not in json.dumps(told) and "refused" in json.dumps(told)
