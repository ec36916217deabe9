"""Linux's Landlock: from here on a process opens only files of the folders that it is given."""

import ctypes
import os
import struct
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

CREATE, ADD, RESTRICT = 444, 445, 446  # the same on every machine
READ_FILE, READ_FOLDER, WRITE_FILE = 1 << 2, 1 << 3, 1 << 1
RIGHTS = {1: 0x1FFF, 2: 0x3FFF, 3: 0x7FFF, 4: 0x7FFF}  # all rights that the kernel's version knows
LATEST = 0xFFFF
NO_NEW_PRIVILEGES = 38


def open_only(readable: Iterable[Path], writable: Iterable[Path]) -> str:
    """Restrict this process, for good; return an empty text, or what is not to be had."""
    libc = ctypes.CDLL(None, use_errno=True)
    version = libc.syscall(CREATE, None, 0, 1)
    if version < 1:
        return "no Landlock (files)"
    every = RIGHTS.get(version, LATEST)
    rules = libc.syscall(CREATE, ctypes.create_string_buffer(struct.pack("Q", every)), 8, 0)
    for path in readable:
        add(libc, rules, path, READ_FILE | READ_FOLDER)
    for path in writable:
        add(libc, rules, path, every)
    failed = libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0) or libc.syscall(RESTRICT, rules, 0)
    os.close(rules)
    return "no Landlock (files)" if failed else ""


def add(libc: ctypes.CDLL, rules: int, path: Path, rights: int) -> None:
    """Allow ``rights`` below ``path``; a path that is not there needs no rule."""
    if not path.exists():
        return
    place = os.open(path, os.O_PATH)
    rights &= LATEST if path.is_dir() else READ_FILE | WRITE_FILE
    libc.syscall(ADD, rules, 1, ctypes.create_string_buffer(struct.pack("=Qi", rights, place)), 0)
    os.close(place)


def around(folder: Path, hidden: Sequence[Path]) -> Iterator[Path]:
    """Yield ``folder``, or of a folder that holds something ``hidden`` the parts that do not."""
    if any(folder.is_relative_to(each) for each in hidden):
        return
    if not any(each.is_relative_to(folder) for each in hidden):
        yield folder
        return
    for part in sorted(folder.iterdir()):
        yield from around(part, hidden) if part.is_dir() and not part.is_symlink() else [part] * (part not in hidden)
