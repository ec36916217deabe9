"""One JupyterLab and one Chromium for all the browser tests; a screenshot of what fails; the latencies at the end."""

from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from .lab import Lab, find_chromium, jupyterlab
from .page import LessonPage
from .pictures import take

LESSON = pytest.StashKey[LessonPage]()
LATENCIES = pytest.StashKey[list[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--pictures", type=Path, metavar="DIR", help="write the README's screenshots into DIR")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[LATENCIES] = []


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
def lab(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with jupyterlab(tmp_path_factory.mktemp("lab")) as running:
        yield running


@pytest.fixture(scope="module")
def lesson(request: pytest.FixtureRequest, lab: Lab, chromium: Browser) -> Iterator[LessonPage]:
    """The lesson of the test's parameter, its name and what makes its notebook, run to its end in the browser."""
    name, make = request.param
    opened = request.config.stash[LESSON] = LessonPage(chromium, lab, name, make())
    opened.run_all()
    if folder := request.config.getoption("pictures", None):
        take(opened, folder)
    yield opened
    opened.close()


@pytest.fixture
def report(pytestconfig: pytest.Config) -> list[str]:
    """Lines for the end of the report."""
    return pytestconfig.stash[LATENCIES]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    opened = item.config.stash.get(LESSON, None)
    if report.failed and opened and not opened.page.is_closed():
        path = opened.lab.notebooks.with_name(f"{item.name}.png")
        opened.page.screenshot(path=path)
        report.sections.append(("Screenshot", str(path)))
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if lines := config.stash[LATENCIES]:
        terminalreporter.section("explorers: median from key press to painted picture")
        terminalreporter.write("\n".join(lines) + "\n")
