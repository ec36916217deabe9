"""A figure as a small PNG: at most 256 colours, the same bytes on each run."""

import io

from matplotlib.figure import Figure
from PIL import Image

SHOWN = 100  # pixels on the page for an inch of the figure; the picture has those of the style's ``savefig.dpi``


def words(figure: Figure) -> str:
    """Return what ``figure`` says of itself: its label, or else its titles and the names of its axes."""
    said = [figure.get_suptitle()]
    for ax in figure.axes:
        said += [ax.get_title(), " against ".join(filter(None, (ax.get_ylabel(), ax.get_xlabel())))]
    return str(figure.get_label()) or "; ".join(filter(None, said)) or "A picture"


def shown_width(figure: Figure) -> int:
    """Return how many pixels wide ``figure`` stands on the page: 600 for the 6 inches of the lessons."""
    return round(SHOWN * figure.get_figwidth())


def figure_png(figure: Figure) -> bytes:
    """Return ``figure`` as a PNG of at most 256 colours, drawn with the style's ``savefig.dpi``."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", pil_kwargs={"compress_level": 1})
    with Image.open(buffer) as image:
        return palette_png(image)


def palette_png(image: Image.Image, colours: int = 256, kmeans: int = 0) -> bytes:
    """Return ``image`` as an opaque PNG of at most ``colours`` colours, which names no version and no date.

    ``kmeans`` moves the colours nearer to those of the image, with a threshold of so many pixels; 0 leaves them.
    """
    buffer = io.BytesIO()
    cut, plain = Image.Quantize.MEDIANCUT, Image.Dither.NONE
    few = image.convert("RGB").quantize(colours, method=cut, kmeans=kmeans, dither=plain)
    few.save(buffer, "PNG", optimize=True)
    return buffer.getvalue()
