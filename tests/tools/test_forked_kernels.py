"""A forked kernel is what jupyter_client would have started, and can be interrupted, killed and missed like it."""

import os
import time

import pytest
from jupyter_client.manager import start_new_kernel
from jupyter_client.provisioning import local_provisioner

from tools.forked_kernels import launch

pytestmark = pytest.mark.slow
STATE = {
    "folder": "__import__('os').getcwd()",
    "variables": "sorted((k, v) for k, v in __import__('os').environ.items() if k not in ('JPY_PARENT_PID', '_'))",
    "group": "__import__('os').getpgrp() == __import__('os').getpid()",
    "package": "__import__('residual_course').__file__",
    "names": "sorted(name for name in globals() if name[0] != '_')",
    "output": "__import__('os').path.realpath('/proc/self/fd/1')",
}


@pytest.fixture(params=[launch, local_provisioner.launch_kernel], ids=["forked", "new"])
def start(request, monkeypatch):
    monkeypatch.setattr(local_provisioner, "launch_kernel", request.param)
    started = []

    def make(**options):
        started.append(start_new_kernel(startup_timeout=120, stderr=-3, stdout=-3, **options))
        return started[-1]

    yield make
    for manager, client in started:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def test_it_has_the_state_of_a_new_process(start, tmp_path, monkeypatch):
    package = tmp_path / "site" / "residual_course"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    monkeypatch.setenv("PYTHONPATH", str(package.parent))
    monkeypatch.setenv("OF_THIS_TEST", "é")
    _, client = start(cwd=str(tmp_path))
    reply = client.execute("", silent=True, user_expressions=STATE, reply=True, timeout=60)["content"]
    found = {name: value["data"]["text/plain"] for name, value in reply["user_expressions"].items()}
    assert ("OF_THIS_TEST", "é") in eval(found.pop("variables"))
    assert found == {
        "folder": repr(str(tmp_path)),
        "group": "True",
        "package": repr(str(package / "__init__.py")),
        "names": "['In', 'Out', 'exit', 'get_ipython', 'open', 'quit']",
        "output": "'/dev/null'",
    }


def test_it_is_interrupted_and_its_death_is_noticed(start):
    manager, client = start()
    request = client.execute("while True: pass")
    time.sleep(1)
    manager.interrupt_kernel()
    while (reply := client.get_shell_msg(timeout=60))["parent_header"].get("msg_id") != request:
        continue
    assert reply["content"]["ename"] == "KeyboardInterrupt"
    client.execute("import os\nos._exit(3)")
    end = time.monotonic() + 60
    while manager.is_alive() and time.monotonic() < end:
        time.sleep(0.1)
    assert not manager.is_alive()
    assert os.getpgid(0) != manager.provisioner.pgid
