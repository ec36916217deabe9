"""Linux's filter of system calls: what an answer's process may no longer ask the kernel for.

No new process, thread or program, no network, no signal to another process, no change of mounts, owners or limits.
"""

import ctypes
import platform
import struct

# The number of each refused call on x86-64 and on arm64; None where there is no such call.
REFUSED: dict[str, tuple[int | None, int | None]] = {
    "clone": (56, 220),
    "clone3": (435, 435),
    "fork": (57, None),
    "vfork": (58, None),
    "execve": (59, 221),
    "execveat": (322, 281),
    "socket": (41, 198),
    "ptrace": (101, 117),
    "kill": (62, 129),
    "tkill": (200, 130),
    "tgkill": (234, 131),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "pidfd_open": (434, 434),
    "pidfd_send_signal": (424, 424),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
    "umount2": (166, 39),
    "move_mount": (429, 429),
    "open_tree": (428, 428),
    "fsopen": (430, 430),
    "mount_setattr": (442, 442),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "io_uring_setup": (425, 425),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "shmget": (29, 194),
    "msgget": (68, 186),
    "semget": (64, 190),
    "mq_open": (240, 180),
    "prctl": (157, 167),
    "prlimit64": (302, 261),
    "setrlimit": (160, 164),
    "chmod": (90, None),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "chown": (92, None),
    "fchown": (93, 55),
    "lchown": (94, None),
    "fchownat": (260, 54),
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "open_by_handle_at": (304, 265),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "kexec_load": (246, 104),
    "reboot": (169, 142),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "sethostname": (170, 161),
}
MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}  # the column above, and the kernel's name for it
LOAD, EQUAL, AT_LEAST, RETURN = 0x20, 0x15, 0x35, 0x06  # of the filter's little language
ALLOW, REFUSE, KILL = 0x7FFF0000, 0x00050001, 0x80000000  # REFUSE is EPERM: to the answer, a PermissionError
OTHER_ABI = 0x40000000  # x86-64 has the same calls a second time from here on
NO_NEW_PRIVILEGES, SECCOMP, FILTER = 38, 22, 2


def refuse_calls() -> str:
    """Refuse the calls for this process, for good; return an empty text, or what is not to be had."""
    if platform.machine() not in MACHINES:
        return f"no filter of system calls for {platform.machine()}"
    steps = program(*MACHINES[platform.machine()])
    filters = ctypes.create_string_buffer(b"".join(steps))
    whole = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(steps), ctypes.addressof(filters)))
    libc = ctypes.CDLL(None, use_errno=True)
    failed = libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0) or libc.prctl(SECCOMP, FILTER, whole, 0, 0)
    return "no filter of system calls (processes and network)" if failed else ""


def program(column: int, machine: int) -> list[bytes]:
    """Return the filter: another machine's calls kill, the refused ones fail, the others pass."""
    numbers = [number for calls in REFUSED.values() if (number := calls[column]) is not None]
    steps = [step(LOAD, 4), step(EQUAL, machine, 1, 0), step(RETURN, KILL), step(LOAD, 0)]
    steps += [step(AT_LEAST, OTHER_ABI, len(numbers) + 1, 0)]
    steps += [step(EQUAL, number, len(numbers) - at, 0) for at, number in enumerate(numbers)]
    return [*steps, step(RETURN, ALLOW), step(RETURN, REFUSE)]


def step(code: int, value: int, yes: int = 0, no: int = 0) -> bytes:
    """Return one instruction: how many to skip where it holds, and where it does not."""
    return struct.pack("HBBI", code, yes, no, value)
