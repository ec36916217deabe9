"""The models that are compiled and exported at this commit; all of them take six minutes."""

from pathlib import Path

from residual_course.commands.turns import due

from .models import MODELS

ROOT = Path(__file__).parents[3]
ROOMS = (".", "parts", "mixers", "blocks", "networks", "configurable")
LIBRARY = {path for room in ROOMS for path in (ROOT / "residual_edu" / room).glob("*.py")}
OF_THIS_TURN = due(dict.fromkeys(MODELS, LIBRARY), 3, ROOT)  # a third, and all where the library was changed lately
DUE = [name for name in MODELS if name in OF_THIS_TURN]
