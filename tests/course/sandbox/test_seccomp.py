import re
from pathlib import Path

import pytest

from residual_edu.course.sandbox import seccomp
from residual_edu.course.sandbox.seccomp import ALLOW, KILL, MACHINES, OTHER_ABI, REFUSE, REFUSED, program, refuse_calls

HEADERS = {"x86_64": "/usr/include/x86_64-linux-gnu/asm/unistd_64.h", "aarch64": "/usr/include/asm-generic/unistd.h"}


def verdict(steps, machine, number):
    """Run the filter as the kernel does, on one call."""
    value, at = 0, 0
    while True:
        code, yes, no, k = (int.from_bytes(steps[at][a:b], "little") for a, b in ((0, 2), (2, 3), (3, 4), (4, 8)))
        if code == seccomp.RETURN:
            return k
        if code == seccomp.LOAD:
            value = machine if k == 4 else number
        elif code == seccomp.EQUAL:
            at += yes if value == k else no
        else:
            at += yes if value >= k else no
        at += 1


@pytest.mark.parametrize("name", MACHINES)
def test_the_filter_refuses_what_is_listed_and_nothing_else(name):
    column, machine = MACHINES[name]
    steps, listed = program(column, machine), {calls[column] for calls in REFUSED.values()}
    for number in range(600):
        assert verdict(steps, machine, number) == (REFUSE if number in listed else ALLOW)
    assert verdict(steps, machine, OTHER_ABI + 57) == REFUSE
    assert verdict(steps, machine + 1, 0) == KILL


def test_the_numbers_are_the_kernel_s_where_its_headers_are_installed():
    for name in filter(lambda name: Path(HEADERS[name]).exists(), MACHINES):
        known = dict(re.findall(r"#define __NR(?:3264)?_(\w+) (\d+)", Path(HEADERS[name]).read_text()))
        column = MACHINES[name][0]
        ours = {call: calls[column] for call, calls in REFUSED.items() if calls[column] is not None and call in known}
        assert ours == {call: int(known[call]) for call in ours} and len(ours) > 40


def test_a_machine_without_a_table_is_said_so(monkeypatch):
    monkeypatch.setattr("platform.machine", lambda: "vax")
    assert refuse_calls() == "no filter of system calls for vax"
