"""What the test command runs: the steps of its three forms, each with the seconds that it adds on two quiet cores."""

from dataclasses import dataclass
from pathlib import Path

from residual_edu.course.changed import readers_of_changes
from residual_edu.course.turns import due

COURSE = ["residual_edu.course"]
NBVAL = ["-p", "residual_edu.course.nbval_plugin", "--nbval", "--nbval-current-env", "--nbval-cell-timeout=600"]
PYTEST = ["pytest", "-q", "-rs"]
TWO_AT_A_TIME = ["-n2", "--dist=loadfile"]
QUICK = ["-m", "not slow"]
NO_APPENDIX = ["--ignore-glob=*_more.ipynb"]
IN_ORDER = "--no-loadscope-reorder"  # of the files: by the number of tests, the longest would come last
BY_GROUP = ["-n2", "--dist=loadgroup", IN_ORDER]  # groups: tests/conftest.py
PATIENT = ["--timeout=1800"]  # a slow test takes up to 100 s, many times that on a busy machine; stored runs: a mark
BROWSER = [*PYTEST, "--timeout=600"]
STYLE = {
    "ruff": ["ruff", "check"],
    "format": ["ruff", "format", "--check"],
    "types": ["mypy"],
    "promote": [*COURSE, "promote", "--check"],
    "build": [*COURSE, "build", "--check"],
    "lessons": [*COURSE, "lint"],
}
# The delays of explorers are read off the clock: by --all alone, last, with nothing beside them.
RUN = {
    "units": [*PYTEST, "tests", "--ignore=tests/browser", *BY_GROUP],
    "notebooks": [*PYTEST, *NBVAL, "--timeout=900", "notebooks", *TWO_AT_A_TIME],
    "browser": [*BROWSER, "tests/browser", "--ignore=tests/browser/test_delays.py", *TWO_AT_A_TIME, IN_ORDER],
    "delays": [*BROWSER, "tests/browser/test_delays.py"],
}
SECONDS = {  # as the command takes them, and with --all where that is more; the first six run two at a time
    "ruff": (1, 1),
    "format": (1, 1),
    "types": (25, 25),
    "promote": (1, 1),
    "build": (1, 1),
    "lessons": (4, 4),
    "units": (255, 1030),
    "notebooks": (285, 340),
    "browser": (85, 655),
    "delays": (90, 90),
}


@dataclass(frozen=True)
class Step:
    """A step: its name, the module that it runs with its words, and about how many seconds it adds."""

    name: str
    command: list[str]
    seconds: int

    @property
    def on_one_core(self) -> bool:
        """Whether it leaves a core to another; pytest takes both."""
        return self.command[0] != "pytest"


def usual() -> list[Step]:
    """Return what an ordinary change can break."""
    steps = STYLE | {name: [*command, *QUICK] for name, command in RUN.items() if name != "delays"}
    steps["notebooks"] += NO_APPENDIX
    return [Step(name, command, SECONDS[name][0]) for name, command in steps.items()]


def everything(root: Path) -> list[Step]:
    """Return every check there is; of the appendices a third is executed, and those that were changed lately."""
    appendices = {path.relative_to(root): {path} for path in sorted((root / "notebooks").glob("*_more.ipynb"))}
    others = [f"--ignore={path}" for path in sorted(appendices.keys() - due(appendices, 3, root))]
    steps = STYLE | RUN | {"units": [*RUN["units"], *PATIENT], "notebooks": [*RUN["notebooks"], *others]}
    return [Step(name, command, SECONDS[name][1]) for name, command in steps.items()]


def fast(root: Path) -> list[Step]:
    """Return style, types and the lessons' form, and the unit tests of what differs from the last commit."""
    steps, files = usual()[: len(STYLE)], readers_of_changes(root)
    command = [*PYTEST, *map(str, files), *QUICK, *TWO_AT_A_TIME]
    return [*steps, Step("units", command, 5 + 3 * len(files))] if files else steps
