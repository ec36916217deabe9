"""The book in Chromium, from the disk and without a network: each page at both widths, what answers and what moves."""

import re
import subprocess
import sys
from collections import defaultdict
from contextlib import contextmanager
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import unquote, urlsplit

import pytest
from playwright.sync_api import expect

from .book_page import BEYOND, BookPage, pages_of

pytestmark = [pytest.mark.browser, pytest.mark.slow]
ROOT = Path(__file__).parents[2]
BOTH = [(1280, "light"), (420, "dark")]
LOOKED_AT = ("index.html", "docs/labs.html", "notebooks/00_residual_connection.html", "reference/norms.html")
# Code and formulas look the same on every page, and are most of its elements: four pages stand for them. They stand
# for the colours of all but the notebooks too, which have colours of their own: that rule takes most of the time.
ALIKE = {"exclude": [["pre"], ["mjx-container"]]}
QUICK = {"resultTypes": ["violations"], "preload": False}
COLOURLESS = QUICK | {"rules": {"color-contrast": {"enabled": False}}}


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    out = tmp_path_factory.mktemp("site") / "book"
    command = [sys.executable, "-m", "residual_course", "book", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return out


@pytest.fixture
def opened(chromium, book):
    made = list[BookPage]()

    def make(width: int = 1280, look: str = "light", scripts: bool = True) -> BookPage:
        made.append(BookPage(chromium, book, width, look, scripts))
        return made[-1]

    yield make
    for each in made:
        each.context.close()


def lessons(book: Path) -> list[str]:
    return [name for name in pages_of(book) if re.match(r"notebooks/(investigations/)?\d", name)]


def serious(found: dict) -> list[str]:
    bad = [each for each in found["violations"] if each["impact"] in ("serious", "critical")]
    return [f"{each['id']}: {each['nodes'][0]['html'][:200]}" for each in bad]


@pytest.mark.timeout(1800)
def test_every_page_fits_both_widths_asks_for_nothing_and_is_accessible(opened, book):
    from axe_playwright_python.sync_playwright import Axe

    axe, found, names = Axe(), defaultdict[tuple, list[str]](list), pages_of(book)
    both = [opened(*look) for look in BOTH]  # one page opens wide, the next narrow
    assert len(names) > 80
    modules = [name for name in names if name.startswith("_modules/")]  # all alike, and long: one stands for them
    for at, name in enumerate(name for name in names if name not in modules[1:]):
        shown, looks, is_whole = both[at % 2], BOTH[:: -1 if at % 2 else 1], name in LOOKED_AT
        page = shown.open(name)
        found[name, looks[0]] += [*shown.asked_for(), *page.evaluate(BEYOND)]
        shown.turn(*looks[1])
        found[name, looks[1]] += page.evaluate(BEYOND)
        shown.unfold()
        for look in looks[::-1]:
            if look == looks[0]:
                shown.turn(*look)
            found[name, look] += shown.unread()
            if is_whole or look == looks[1]:  # others in one of both looks, for it takes a second
                options = QUICK if is_whole or name.startswith("notebooks/") else COLOURLESS
                found[name, look] += serious(axe.run(page, None if is_whole else ALIKE, options).response)
    assert {key: faults for key, faults in found.items() if faults} == {}


@contextmanager
def served(book: Path, **headers: str):
    """The address of a server with the book in each of its folders, as if they were editions."""

    class Handler(SimpleHTTPRequestHandler):
        def translate_path(self, path):
            return super().translate_path("/" + path.split("/", 2)[-1])

        def end_headers(self):
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            super().end_headers()

        def log_message(self, *words):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=book)) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_a_prediction_opens_its_answer_and_is_remembered(opened, book):
    shown, count = opened(), 0
    page = shown.page
    shown.context.set_offline(False)
    with served(book) as host:  # from a disk Chromium may lose what a page keeps that asks for it too early
        for name in lessons(book):
            page.goto(f"{host}/book/{name}")
            for at in range(page.locator(".prediction").count()):
                asked = page.locator(".prediction").nth(at)
                answer = page.locator(f"#{asked.get_attribute('data-answer')}")
                assert not answer.is_visible()
                choice = asked.locator("button").nth(at % asked.locator("button").count())
                choice.press("Enter")
                assert answer.locator("> summary").is_visible() and answer.get_attribute("open") is not None
                said = answer.locator(".said:visible").first.inner_text()
                assert "we measured" in said.lower()
                assert choice.inner_text() in said or choice.inner_text() == "show me"
                count += 1
            page.reload()
            expect(page.locator(".answer:visible")).to_have_count(page.locator(".prediction").count())
        assert count >= 3 * len(lessons(book))
        page.goto(f"{host}/book/index.html")
        assert f"{count} of {count} predictions" in page.locator(".answered").inner_text()


def test_two_editions_on_one_host_keep_their_own_answers(opened, book):
    shown, said = opened(), []
    page = shown.page
    shown.context.set_offline(False)
    with served(book) as host:
        for edition, clicks in (("2025", 1), ("2026", 0), ("2025", 0)):
            page.goto(f"{host}/{edition}/notebooks/00_residual_connection.html")
            for button in page.locator(".prediction button").all()[:clicks]:
                button.click()
            answers, counted = page.locator(".answer:visible").count(), page.locator(".answered").first.inner_text()
            page.goto(f"{host}/{edition}/index.html")
            said.append((answers, counted[:15], page.locator(".answered").inner_text()[:9]))
    one, none = (1, "On this page: 1", "So far: 1"), (0, "On this page: 0", "So far: 0")
    assert said == [one, none, one]


def test_where_nothing_may_be_kept_a_page_still_works(opened, book):
    shown = opened()
    shown.context.set_offline(False)
    with served(book, Content_Security_Policy="sandbox allow-scripts", Access_Control_Allow_Origin="*") as host:
        shown.page.goto(f"{host}/book/notebooks/00_residual_connection.html")
        shown.page.locator(".prediction button").first.click()
        shown.page.locator(".theme-toggle:visible").first.click()
        assert shown.page.locator(".answer:visible").count() == 1
        assert "1 of" in shown.page.locator(".answered").first.inner_text()
    assert shown.wrong == []


def test_nothing_of_an_answer_is_seen_where_no_script_runs(opened, book):
    shown = opened(scripts=False)
    for name in lessons(book):
        shown.page.goto((book / name).as_uri())
        inside = shown.page.locator(".answer :is(.said, pre, img, p)")
        assert inside.count() > 3 and inside.locator("visible=true").count() == 0
        assert shown.page.locator(".answer > summary:visible").count() > 0


def test_every_explorer_moves_by_keys(opened, book):
    shown, moved = opened(420, "dark"), 0
    for name in lessons(book):
        page = shown.open(name)
        for explorer in page.locator(".explorer").all():
            picture, reading = explorer.locator("img"), explorer.locator(".reading")
            for slider in explorer.locator("input").all():
                last = slider.input_value() == slider.get_attribute("max")
                before = picture.get_attribute("src"), reading.inner_text()
                slider.press("ArrowLeft" if last else "ArrowRight")
                after = picture.get_attribute("src"), reading.inner_text()
                assert before[0] != after[0] and picture.get_attribute("alt"), f"{name}: {slider}"
                assert picture.evaluate("async each => { await each.decode(); return each.naturalWidth; }") == 600
                moved += 1
        assert shown.wrong == []
    assert moved


def test_the_keyboard_brings_the_contents_onto_a_phone(opened):
    page = opened(420).open("notebooks/00_residual_connection.html")
    page.locator("a.skip-to-content").focus()
    for _ in range(8):
        page.keyboard.press("Tab")
    page.wait_for_timeout(500)  # the contents slide in
    where = "(e => [e.tagName, e.getBoundingClientRect().left, e.closest('.sidebar-drawer') !== null])"
    assert page.evaluate(f"{where}(document.activeElement)") == ["A", 0, True]


def test_the_search_shows_excerpts_and_leads_to_a_page_from_the_disk(opened, book):
    shown = opened()
    page = shown.open("search.html")
    page.goto((book / "search.html").as_uri() + "?q=LayerNorm")
    page.locator("ul.search li p.context", has_text="LayerNorm").first.wait_for()
    page.locator("ul.search li a").first.click()
    page.wait_for_url(re.compile(r"/(?!search)[^/]+\.html"))
    page.locator("h1").wait_for()
    assert shown.wrong == []


class Links(HTMLParser):
    """What a page leads to, and the places in it that can be led to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.to, self.places = list[str](), set[str]()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.to += [value for name in ("href", "src") if (value := found.get(name))]
        self.places |= {found["id"]} if found.get("id") else set()


def test_every_link_leads_to_a_page_and_a_place(book):
    pages = {name: Links((book / name).read_text(encoding="utf-8")) for name in pages_of(book)}
    assert broken(book, pages, "index.html", "nowhere.html") and broken(book, pages, "index.html", "#nowhere")
    assert {to: name for name, page in pages.items() for to in page.to if broken(book, pages, name, to)} == {}


def broken(book: Path, pages: dict[str, Links], name: str, to: str) -> bool:
    """Whether a link within the book leads nowhere."""
    parts = urlsplit(to)
    if parts.scheme or to in ("#", "searchindex.js"):
        return parts.scheme not in ("http", "https") if parts.scheme else False
    target = ((book / name).parent / unquote(parts.path)).resolve() if parts.path else book / name
    inside = pages.get(target.relative_to(book).as_posix()) if target.is_relative_to(book) else None
    missing = bool(parts.fragment and inside) and unquote(parts.fragment) not in inside.places
    return not target.is_file() or (missing and not parts.fragment.startswith("svg-"))
