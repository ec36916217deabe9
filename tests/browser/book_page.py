"""A page of the book in Chromium: what is asked of it, as it is read and as a script sees it."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

from playwright.sync_api import Browser, Page

SMALLEST = 7  # pixels of letters on a phone, in formulas, and in figures, where 11 points at 600 pixels are 15.3
CODE = 11  # pixels of letters of code, on a phone too
HEAVIEST = 3_000_000  # bytes of a page as it opens

# What is wider than the page or its box; of code, lines of at most 45 columns alone.
BEYOND = """() => {
    const width = document.documentElement.clientWidth, found = [];
    for (const each of document.querySelectorAll("article *")) {
        if (each.closest("pre, mjx-assistive-mml, .visually-hidden")) continue;
        const box = each.getBoundingClientRect();
        if (box.width && box.right > width + 1) found.push(each.outerHTML.slice(0, 120));
    }
    for (const each of document.querySelectorAll(".table-wrapper, .math-wrapper, .explorer"))
        if (each.scrollWidth > each.clientWidth + 1) found.push(each.outerHTML.slice(0, 120));
    for (const each of document.querySelectorAll("pre")) {
        if (each.scrollWidth <= each.clientWidth) continue;
        const columns = Math.max(...each.textContent.split("\\n").map(line => line.length));
        if (columns <= 45) found.push(`${columns} columns: ${each.textContent}`);
    }
    return found;
}"""
# Pictures without words, and pictures whose text is too small to read.
UNREAD = """smallest => [...document.querySelectorAll("article img")].filter(each => each.offsetWidth && (
    !each.alt.trim() || 15.3 * each.offsetWidth / (each.getAttribute("width") || 600) < smallest
)).map(each => each.outerHTML.slice(0, 200))"""
# Formulas that MathJax has not drawn, that take no room, or whose indices are too small to read.
UNDRAWN = """smallest => [...document.querySelectorAll("article .math")].filter(each => {
    const box = each.querySelector("mjx-math")?.getBoundingClientRect();
    const sizes = [...each.querySelectorAll("mjx-c")].map(letter => parseFloat(getComputedStyle(letter).fontSize));
    return !(box?.width && box.height && sizes.length && Math.min(...sizes) >= smallest);
}).map(each => each.textContent)"""
TINY = """smallest => [...document.querySelectorAll("article :is(pre, code)")].filter(
    each => each.offsetWidth && parseFloat(getComputedStyle(each).fontSize) < smallest
).map(each => each.outerHTML.slice(0, 120))"""
OPEN = """() => {
    for (const each of document.querySelectorAll("details")) { each.hidden = false; each.open = true; }
}"""
SETTLE = """async () => {  // folds fade in, and half faded text has half its contrast
    await new Promise(done => requestAnimationFrame(() => setTimeout(done, 100)));
    await Promise.all(document.getAnimations().map(each => each.finished.catch(() => null)));
}"""


def pages_of(book: Path) -> list[str]:
    """The names of all pages, in order."""
    return sorted(path.relative_to(book).as_posix() for path in book.rglob("*.html"))


class BookPage:
    """One context of the browser, without a network, in which page after page is opened from the disk."""

    def __init__(self, browser: Browser, book: Path, width: int, look: str, scripts: bool = True) -> None:
        self.context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=look, offline=True, java_script_enabled=scripts
        )
        self.page, self.book = self.context.new_page(), book
        self.wrong, self.asked = list[str](), list[str]()
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("requestfailed", lambda request: self.wrong.append(request.url))
        self.page.on("request", lambda request: self.asked.append(request.url))

    def open(self, name: str) -> Page:
        """Open a page and wait until its formulas and tables have their width."""
        self.wrong, self.asked = [], []
        self.page.goto((self.book / name).as_uri(), wait_until="load")
        self.page.evaluate(SETTLE)
        return self.page

    def turn(self, width: int, look: str) -> None:
        """Show the open page at another width and in another look, as if it had been opened so."""
        self.page.set_viewport_size({"width": width, "height": 900})
        self.page.emulate_media(color_scheme=look)
        self.page.evaluate(SETTLE)

    def unfold(self) -> None:
        """Open every fold."""
        self.page.evaluate(OPEN)
        self.page.evaluate(SETTLE)

    def asked_for(self) -> Iterator[str]:
        """What went wrong as the page was opened, and what it took from elsewhere, or too much of."""
        yield from self.wrong
        yield from (url for url in self.asked if not url.startswith(self.book.as_uri()))
        if (weight := sum(Path(unquote(urlsplit(url).path)).stat().st_size for url in set(self.asked))) > HEAVIEST:
            yield f"it weighs {weight} bytes"

    def unread(self) -> Iterator[str]:
        """What of the page, with every fold open, is too wide or too small."""
        yield from self.page.evaluate(BEYOND)
        yield from self.page.evaluate(TINY, CODE)
        yield from self.page.evaluate(UNREAD, SMALLEST)
        yield from self.page.evaluate(UNDRAWN, SMALLEST)
