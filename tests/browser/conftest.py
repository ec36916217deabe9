"""One JupyterLab for all browser tests, a Chromium for each worker; a picture of what fails."""

from collections.abc import Generator, Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from playwright.sync_api import Browser, sync_playwright

from .lab import Lab, find_chromium, jupyterlab
from .page import LessonPage
from .pictures import take

FIRST = ("test_book", "test_copy", "test_states", "test_lessons")  # the longest, so that the two workers end together
LESSON = pytest.StashKey[LessonPage]()
SHARED, RUNNING = pytest.StashKey[Lab](), pytest.StashKey[ExitStack]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--pictures", type=Path, metavar="DIR", help="write the README's screenshot into DIR")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: FIRST.index(item.path.stem) if item.path.stem in FIRST else len(FIRST))


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Before pytest-xdist starts a worker: start the JupyterLab that all of them share, and hand its address over."""
    stash = node.config.stash
    if SHARED not in stash and find_chromium():
        stash[RUNNING] = ExitStack()
        home = stash[RUNNING].enter_context(TemporaryDirectory(ignore_cleanup_errors=True))
        stash[SHARED] = stash[RUNNING].enter_context(jupyterlab(Path(home)))
    if SHARED in stash:
        node.workerinput["lab"] = [str(each) for each in stash[SHARED]]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Keep the tests of a lesson, whose name ends each test's own, with one worker, where it is open."""
    from xdist.scheduler import LoadScopeScheduling

    class ByLesson(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file, _, name = nodeid.rstrip("]").replace("[", "-").partition("-")
            return name.rpartition("-")[2] or file.partition("::")[0]

    return ByLesson(config, log)


def pytest_unconfigure(config: pytest.Config) -> None:
    if RUNNING in config.stash:
        config.stash[RUNNING].close()


@pytest.fixture(scope="package")
def chromium() -> Iterator[Browser]:
    if not (path := find_chromium()):
        pytest.skip("no Chromium here: install it, or name it in RESIDUAL_EDU_CHROMIUM")
    with sync_playwright() as playwright:
        flags = ["--disable-gpu", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"]
        browser = playwright.chromium.launch(executable_path=path, args=flags)
        yield browser
        browser.close()


@pytest.fixture(scope="package")
def lab(chromium: Browser, pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    if shared := getattr(pytestconfig, "workerinput", {}).get("lab"):
        yield Lab(*shared[:2], Path(shared[2]))
    else:
        with jupyterlab(tmp_path_factory.mktemp("lab")) as running:
            yield running


@pytest.fixture(scope="module")
def lesson(request: pytest.FixtureRequest, lab: Lab, chromium: Browser) -> Iterator[LessonPage]:
    """The lesson of the test's parameter, opened in the browser, and run to its end if it is to be."""
    name, make, runs = request.param
    opened = request.config.stash[LESSON] = LessonPage(chromium, lab, name, make())
    if runs:
        opened.run_all()
    if folder := request.config.getoption("pictures", None):
        take(opened, folder)
    yield opened
    opened.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    opened = item.config.stash.get(LESSON, None)
    if report.failed and opened and not opened.page.is_closed():
        path = Path(item.config.rootpath, ".pytest_cache", f"{item.name}.png")
        opened.page.screenshot(path=path)
        report.sections.append(("Screenshot", str(path)))
    return report
