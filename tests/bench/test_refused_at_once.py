"""What cannot be measured here is refused with its reason, before or instead of being measured."""

import json
import os
import sys

import pytest

from commands import recallatk

MEASURE = "[measure]\nk = 10\nrounds = 1"
EXACT = '[[engine]]\nname = "exact"'


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux pins processes to cores")
@pytest.mark.parametrize("options", [(), ("--dry-run",)])
def test_cores_that_do_not_exist_are_refused_with_those_that_do(bench_file, tmp_path, options):
    path = bench_file(f"{MEASURE}\naffinity = [0, 999]", EXACT)
    ran = recallatk("run", path, *options, cwd=tmp_path)
    assert ran.returncode == 2
    assert "measure.affinity[1]: 999: no such core here. Accepted: 0" in ran.stderr
    assert "affinity[0]" not in ran.stderr
    assert not (tmp_path / "store").exists(), "nothing was computed"
    assert 999 not in os.sched_getaffinity(0)


@pytest.mark.parametrize("options", [(), ("--dry-run",)])
@pytest.mark.parametrize(
    ("goal", "said"),
    [
        ("recall@10 >= 0.9 in nope=a", "no query column 'nope'"),
        ("ndcg@10 loss <= 0.01", "needs relevance judgments (qrels), but the data have none"),
    ],
)
def test_goals_that_the_data_cannot_answer_are_refused(bench_file, tmp_path, goal, said, options):
    ran = recallatk("run", bench_file(MEASURE, f'[tune]\ntarget = "{goal}"', EXACT), *options, cwd=tmp_path)
    assert ran.returncode == 2 and said in ran.stderr
    assert not (tmp_path / "store").exists(), "nothing was computed"


@pytest.mark.parametrize(
    ("load", "said"),
    [
        ('mode = "throughput"\nclients = 1000000', "clients = 1000000. Accepted: from 1 to 10,000"),
        ('mode = "rate"\nrate = 1e300', "rate = 1e+300. Accepted: above 0, up to 1,000,000"),
    ],
)
def test_loads_that_no_machine_can_make_do_not_pass_a_dry_run(bench_file, load, said):
    ran = recallatk("run", bench_file(MEASURE, f"[[load]]\n{load}", EXACT), "--dry-run")
    assert ran.returncode == 2
    assert said in ran.stderr


@pytest.fixture
def without_apsw(tmp_path):
    """The environment of processes in which a module of an extra is missing."""
    folder = tmp_path / "absent"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text("import sys\nsys.modules['apsw'] = None")
    return {"PYTHONPATH": str(folder)}


def test_a_module_that_a_worker_misses_is_an_error_with_its_install_line(bench_file, without_apsw):
    path = bench_file(MEASURE, EXACT, '[[engine]]\nname = "sqlite-vec"')
    ran = recallatk("run", path, "--json", env=without_apsw)
    assert ran.returncode == 0, ran.stderr
    exact, missing = json.loads(ran.stdout)["trials"]
    assert exact["status"] == "done"
    line = "Install it: pip install 'recallatk[sqlite-vec]'"
    said = f"apsw, which the engine sqlite-vec needs, is not installed. {line}"
    assert missing["failure"]["message"] == said
    ran = recallatk("run", path, "--dry-run", env=without_apsw)
    assert f"sqlite-vec: a small build of it failed: {said}" in ran.stdout
