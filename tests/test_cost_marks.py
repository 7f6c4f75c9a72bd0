"""The lists of costly tests name modules and engines that exist."""

from cost_marks import QUICK_ENGINES, SERVER_ENGINES, SERVER_MODULES, SLOW, TESTS
from recallatk.adapters import registered


def test_every_module_that_is_listed_exists():
    found = {each.stem for each in TESTS.rglob("test_*.py")}
    assert SERVER_MODULES - found == SLOW - found == set()


def test_every_engine_that_is_listed_exists():
    assert not (QUICK_ENGINES | SERVER_ENGINES) - set(registered())
    assert not QUICK_ENGINES & SERVER_ENGINES
