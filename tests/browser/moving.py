"""An explorer in the browser: each control is moved as a learner moves it, and the picture is seen to change."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from playwright.sync_api import FloatRect, Locator

PATIENCE = 20_000  # milliseconds after which a picture counts as unchanged, on a busy machine too
CONTROLS = ".widget-slider, .widget-toggle-buttons"

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
        self.clear = root.get_by_role("button", name="Clear what was tried")
        self.sliders = root.locator(".noUi-handle").all()

    def unknown(self) -> int:
        """Return how many controls there are that nothing here moves."""
        controls = self.root.locator(":scope > *").count() - 2 - self.clear.count()  # the picture and the reading
        return controls - self.root.locator(CONTROLS).count()

    def by_keyboard(self) -> list[Move]:
        """Return a move of each control by keys."""
        return [self.arrows(slider) for slider in self.sliders] + self.others(lambda c: partial(c.press, "Space"))

    def by_mouse(self) -> list[Move]:
        """Return a move of each control by the mouse."""
        return [self.pulls(slider) for slider in self.sliders] + self.others(lambda c: c.click)

    def others(self, press: Callable[[Locator], Callable[[], Any]]) -> list[Move]:
        """Return a move of each button of a choice."""
        moves = list[Move]()
        for group in self.root.locator(".widget-toggle-buttons").all():
            chosen, rest = buttons(group)
            moves += [Move(f"the button {other.inner_text()!r}", press(other), press(chosen)) for other in rest]
        return moves

    def arrows(self, slider: Locator) -> Move:
        """Return the arrow keys that move a slider to where there is room, and back."""
        now, end = (float(slider.get_attribute(f"aria-value{which}") or 0) for which in ("now", "max"))
        there, back = ("ArrowRight", "ArrowLeft") if now < end else ("ArrowLeft", "ArrowRight")
        return Move(f"the slider {label(slider)!r}", partial(slider.press, there), partial(slider.press, back))

    def pulls(self, slider: Locator) -> Move:
        """Return the drags of a slider by a third of its track, to where there is room and back."""
        track, handle = box(slider.locator("xpath=../..")), box(slider)
        far = track["width"] / 3 * (1 if handle["x"] < track["x"] + track["width"] / 2 else -1)
        return Move(f"the slider {label(slider)!r}", partial(self.pull, slider, far), partial(self.pull, slider, -far))

    def pull(self, slider: Locator, far: float) -> None:
        """Press the mouse on a slider, drag it ``far`` to the right, and let it go."""
        slider.scroll_into_view_if_needed()
        handle = box(slider)
        x, y = handle["x"] + handle["width"] / 2, handle["y"] + handle["height"] / 2
        self.page.mouse.move(x, y)
        self.page.mouse.down()
        self.page.mouse.move(x + far, y, steps=10)
        self.page.mouse.up()

    def changes(self, act: Callable[[], Any]) -> bool:
        """Do ``act`` and return whether the picture changed."""
        self.picture.evaluate(WATCH, PATIENCE)
        act()
        return self.page.evaluate("() => window.painted")

    def overflow(self, width: int) -> list[str]:
        """Return what reaches beyond the explorer's right edge where a page leaves it so many pixels."""
        return self.root.evaluate(OVERFLOW, width)

    def try_two(self) -> None:
        """By keyboard, move all sliders to their ends, then to their beginnings."""
        for key in ("End", "Home"):
            for slider in self.sliders:
                slider.press(key)
        self.settle()

    def settle(self) -> None:
        """Wait until the picture stands still."""
        self.picture.evaluate(SETTLED)

    def makes(self, move: Move) -> None:
        """Move there and back, and see the picture change twice."""
        self.settle()
        assert all(self.changes(act) for act in (move.there, move.back)), f"{move.what} moves nothing"


def buttons(group: Locator) -> tuple[Locator, list[Locator]]:
    """Return the pressed button of a choice, and the others."""
    pressed = [("mod-active" in (b.get_attribute("class") or ""), b) for b in group.locator("button").all()]
    return next(b for active, b in pressed if active), [b for active, b in pressed if not active]


def label(control: Locator) -> str:
    """Return the first words that stand beside a control, or on it."""
    widget = control.locator("xpath=ancestor-or-self::*[contains(@class, 'lm-Widget')][1]")
    return next(line for line in widget.inner_text().replace("\u200b", "").split("\n") if line)


def box(element: Locator) -> FloatRect:
    """Return where an element stands on the screen."""
    found = element.bounding_box()
    assert found, "the element is not on the page"
    return found
