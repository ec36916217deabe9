"""``residual-edu new``: an empty homework with every mark in place."""

import argparse
import re
from collections.abc import Sequence
from pathlib import Path

from residual_course.commands.checkout import Refusal

TEMPLATE = Path(__file__).with_name("new_homework.txt")


def run(argv: Sequence[str]) -> int:
    """Write the source of an empty homework into this folder."""
    parser = argparse.ArgumentParser(prog="residual-edu new", description="Write an empty homework with every mark.")
    parser.add_argument("name", metavar="NAME", help="such as hw_spring")
    parser.add_argument("--into", type=Path, default=Path(), metavar="FOLDER", help="where; this folder if not given")
    given = parser.parse_args(argv)
    if not re.fullmatch(r"hw_[a-z0-9_]+", given.name):
        raise Refusal(f"A homework's name is hw_ and small letters, digits or _, got {given.name!r}.")
    target = given.into / f"{given.name}.py"
    text = TEMPLATE.read_text(encoding="utf-8").replace("NAME", given.name.removeprefix("hw_").replace("_", "-"))
    try:
        given.into.mkdir(parents=True, exist_ok=True)
        with target.open("x", encoding="utf-8", newline="\n") as file:
            file.write(text)
    except FileExistsError:
        raise Refusal(f"{target} is there already, and is left as it is.") from None
    except OSError as error:
        raise Refusal(f"{target} cannot be written: {error.strerror}.") from None
    print(f"{target}: replace what stands in it, then `residual-edu assignment OUT --from {given.into}`.")
    return 0
