"""An explorer in the browser: each control is moved by keyboard, and the picture is seen to change."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from playwright.sync_api import Locator

PATIENCE = 20_000  # milliseconds after which a picture counts as unchanged, on a busy machine too

# Promises whether the picture changes and is painted.
WATCH = """(picture, patience) => {
    window.painted = new Promise(resolve => {
        setTimeout(() => resolve(false), patience);
        new MutationObserver(async (_, observer) => {
            observer.disconnect();
            await picture.decode().catch(() => {});  // a newer picture is on its way
            requestAnimationFrame(() => setTimeout(() => resolve(true)));
        }).observe(picture, {attributeFilter: ["src"]});
    });
}"""

# Resolves once the picture stands still and the kernel is idle: the answers to an earlier move have all arrived.
SETTLED = """picture => new Promise(resolve => {
    const kernel = window.jupyterapp.shell.currentWidget.sessionContext.session.kernel;
    let changed = performance.now();
    const observer = new MutationObserver(() => changed = performance.now());
    observer.observe(picture, {attributeFilter: ["src"]});
    const look = setInterval(() => {
        if (kernel.status !== "idle") changed = performance.now();
        if (performance.now() - changed < 100) return;
        clearInterval(look);
        observer.disconnect();
        resolve();
    }, 20);
})"""

# Gives an explorer a width, and returns what of it is seen beyond that; the picture may not be smaller than need be.
OVERFLOW = """async (root, width) => {
    root.style.width = `${width}px`;
    await new Promise(resolve => requestAnimationFrame(() => setTimeout(resolve)));
    const edge = root.getBoundingClientRect().left + width + 0.5;
    const seen = [...root.querySelectorAll("label, button, select, input, img, .widget-readout, .noUi-handle")];
    const beyond = seen.filter(each => each.getBoundingClientRect().right > edge).map(each => each.outerHTML);
    const picture = root.querySelector("img").getBoundingClientRect().width;
    if (picture < Math.min(width, 600) - 8) beyond.push(`the picture has ${picture} pixels`);
    if (root.scrollWidth > root.clientWidth) beyond.push(`it scrolls over ${root.scrollWidth} pixels`);
    root.style.width = "";
    return beyond;
}"""


class Move(NamedTuple):
    """A move of one control: what it is called, and what to do there and back."""

    what: str
    there: Callable[[], Any]
    back: Callable[[], Any]


class MovedExplorer:
    """The explorer whose widget is ``root``."""

    def __init__(self, root: Locator) -> None:
        self.root, self.page = root, root.page
        self.picture = root.locator("img.widget-image")

    def unknown(self) -> int:
        """Return how many controls there are that nothing here moves."""
        controls = self.root.locator(":scope > *").count() - 2  # the picture and the reading
        return controls - self.root.locator(".widget-slider").count()

    def moves(self) -> list[Move]:
        """Return a move of each slider by arrow keys."""
        return [arrows(slider) for slider in self.root.locator(".noUi-handle").all()]

    def changes(self, act: Callable[[], Any]) -> bool:
        """Do ``act`` and return whether the picture changed."""
        self.picture.evaluate(WATCH, PATIENCE)
        act()
        return self.page.evaluate("() => window.painted")

    def overflow(self, width: int) -> list[str]:
        """Return what reaches beyond the explorer's right edge where a page leaves it so many pixels."""
        return self.root.evaluate(OVERFLOW, width)

    def makes(self, move: Move) -> None:
        """Move there and back, and see the picture change twice."""
        self.picture.evaluate(SETTLED)
        assert all(self.changes(act) for act in (move.there, move.back)), f"{move.what} moves nothing"


def arrows(slider: Locator) -> Move:
    """Return the arrow keys that move a slider to where there is room, and back."""
    now, end = (float(slider.get_attribute(f"aria-value{which}") or 0) for which in ("now", "max"))
    there, back = ("ArrowRight", "ArrowLeft") if now < end else ("ArrowLeft", "ArrowRight")
    return Move(f"a slider from {now} to {end}", partial(slider.press, there), partial(slider.press, back))
