"""The figures of the book: files of their own, which a page loads when they are looked at."""

import base64
import hashlib
import html
import struct
from pathlib import Path

from nbformat import NotebookNode

FOLDER = "pictures"  # beside the lessons' pages


class Pictures:
    """The pictures of all lessons in ``folder``, each named by what it holds."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.folder = folder

    def html(self, output: NotebookNode, up: str = "") -> str:
        """Write an output's picture, and return what shows it, as wide as in JupyterLab, with its alternative text.

        ``up`` leads from the page to the lessons' folder.
        """
        data, about = base64.b64decode(output.data["image/png"]), output.metadata.get("image/png", {})
        name = f"{hashlib.sha256(data).hexdigest()[:16]}.png"
        (self.folder / name).write_bytes(data)
        return image(f"{up}{FOLDER}/{name}", about.get("alt", ""), data, about.get("width"))


def image(source: str, alt: str, data: bytes, width: int | None = None) -> str:
    """Return the HTML of a PNG; with its size, so that the page does not move when it comes."""
    pixels, rows = struct.unpack(">II", data[16:24])  # of the PNG's header
    shown = width or pixels
    size = f'width="{shown}" height="{round(rows * shown / pixels)}"'
    return f'<img src="{source}" alt="{html.escape(alt)}" {size} loading="lazy" decoding="async">'
