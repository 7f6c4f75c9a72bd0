"""What all tests share: property tests that are the same on every machine and at every run."""

import gc
import os
import shutil
import signal

# Threads of OpenMP and BLAS that wait by spinning take the core from the test beside them.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")
# pynndescent compiles anew in every process; tests of behavior need no optimized code.
os.environ.setdefault("NUMBA_OPT", "0")

import pytest
from hypothesis import HealthCheck, settings

from chromium import FLAGS, Browser
from cost_marks import SLOW, compiled_by_numba, mark, mark_later_cases
from examples import FULL
from recallatk.redaction import known

settings.register_profile(
    "recallatk",
    deadline=None,
    derandomize=True,
    max_examples=FULL,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
# For `make quick`: the same definitions, fewer examples of each.
settings.register_profile("quick", settings.get_profile("recallatk"), max_examples=10)
settings.load_profile("recallatk")


def pytest_ignore_collect(collection_path, config):
    """Do not even import slow modules where slow tests are left out: imports take half of that time."""
    return True if collection_path.stem in SLOW and "not slow" in config.option.markexpr else None


def pytest_collection_modifyitems(items):
    """Mark tests by their cost, and put those together that numba compiles for."""
    for item in items:
        mark(item)
    mark_later_cases(items)
    # The first tests of the list all go to one worker of xdist, which then compiles once.
    items.sort(key=lambda item: not compiled_by_numba(item))


def pytest_collection_finish():
    """Keep imported modules out of garbage collections: every measurement begins with several."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item, nextitem):
    """Do the same with all that a module of tests has imported or compiled."""
    if nextitem is None or nextitem.path != item.path:
        gc.collect()
        gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory):
    """Keep tests, and the processes that they start, out of the user's store of truths."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(autouse=True)
def _no_secrets_of_other_tests():
    """Values that a test has had remembered as secrets are no secrets to the next."""
    yield
    known._secrets.clear()
    known._expanded.clear()


@pytest.fixture
def interruptible():
    """Ctrl-C is an exception in this process, though whoever started it may have had it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    """Debian's Chromium; where there truly is none, what needs it is skipped."""
    programs = shutil.which("chromium"), shutil.which("chromedriver")
    if None in programs:
        pytest.skip("no chromium and chromedriver here: apt-get install chromium chromium-driver")
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    folder = tmp_path_factory.mktemp("browser")
    options = webdriver.ChromeOptions()
    options.binary_location = programs[0]
    for flag in (*FLAGS, f"--user-data-dir={folder / 'profile'}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(programs[1]))
    driver.execute_cdp_cmd(
        "Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(folder / "saved")}
    )
    # Else what the first tab of its own loads would count as a request of the first page.
    driver.get("about:blank")
    yield Browser(driver, folder)
    driver.quit()
