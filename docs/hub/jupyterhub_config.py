"""A JupyterHub for one class on one Linux machine, with the accounts of that machine; docs/hub.md is about it.

`python course.py hub` runs it as root. A test runs this file as it stands, with a machine's accounts and folders.
"""

import os
import pwd
import sys
from pathlib import Path

TEACHER = "teacher"  # the account that hands out and grades
MEMORY = 2 * 1024**3  # bytes for each process: the largest lesson takes a third of it
HIGHEST = 6 * 1024**3  # up to which a process may raise that: `residual-edu grade` does
IDLE = 3600  # seconds after which a kernel, then a server, is stopped
STATE = Path("/srv/hub")  # root's own
HERE, PYTHON = Path(__file__).parent, Path(sys.executable)
SETTINGS = HERE.parents[1] / "residual_course" / "commands" / "lab_settings"  # as `residual-edu lab` has them
CONNECTION = "residual_course.commands.connection.PromptConnection"

if os.geteuid():
    sys.exit("The hub starts each server as the account of its user, which root alone can: sudo python3 course.py hub")

c = get_config()


def port_of_its_own(spawner):
    """Give an account's server a port that no program is given by chance while the server is still starting."""
    spawner.port = 10_000 + pwd.getpwnam(spawner.user.name).pw_uid % 20_000


c.JupyterHub.authenticator_class = "pam"  # every account of this machine that has a password
c.Authenticator.allow_all = True
c.Authenticator.admin_users = {TEACHER}

c.JupyterHub.db_url = f"sqlite:///{STATE}/hub.sqlite"
c.JupyterHub.cookie_secret_file = f"{STATE}/cookie_secret"
c.ConfigurableHTTPProxy.pid_file = f"{STATE}/proxy.pid"
c.ConfigurableHTTPProxy.command = [str(PYTHON.with_name("configurable-http-proxy"))]

# Each server is a process of its account. This spawner only tells mem_limit and cpu_limit to the server: prlimit is
# what holds, for each process of memory, for each account of processes and threads. "systemd" holds both (docs/hub.md).
c.JupyterHub.spawner_class = "localprocess"
c.Spawner.mem_limit, c.Spawner.cpu_limit = MEMORY, 1
c.Spawner.cmd = ["prlimit", f"--data={MEMORY}:{HIGHEST}", "--nproc=1000", "--core=0", "--"]
c.Spawner.cmd += [str(PYTHON), "-m", "jupyterhub.singleuser"]
c.Spawner.start_timeout = c.Spawner.http_timeout = 300  # thirty that start at once on two cores
c.Spawner.default_url = "/lab"
c.Spawner.pre_spawn_hook = port_of_its_own
c.Spawner.args = [
    f"--LabApp.app_settings_dir={SETTINGS}",
    "--LabApp.extension_manager=readonly",
    f"--ServerApp.kernel_websocket_connection_class={CONNECTION}",
    "--ServerApp.terminado_settings=shell_command=bash",  # a login shell would forget the PATH below
    "--KernelManager.transport=ipc",  # what a kernel prints goes through its owner's home and not through a port
    f"--MappingKernelManager.cull_idle_timeout={IDLE}",
    "--MappingKernelManager.cull_connected=True",  # a tab that was left open
]
c.Spawner.environment = {
    "OMP_NUM_THREADS": "1",
    "PATH": f"{PYTHON.parent}:{os.environ['PATH']}",
    # nbgrader's settings lie beside this file; for students, its panels for teachers are switched off.
    "JUPYTER_CONFIG_PATH": lambda spawner: f"{HERE}" if spawner.user.name == TEACHER else f"{HERE}/students:{HERE}",
}

CULL = [str(PYTHON), "-m", "jupyterhub_idle_culler", f"--timeout={IDLE}"]
RIGHTS = ["list:users", "read:users:activity", "read:servers", "delete:servers"]
c.JupyterHub.services = [{"name": "idle-culler", "command": CULL}]
c.JupyterHub.load_roles = [{"name": "idle-culler", "scopes": RIGHTS, "services": ["idle-culler"]}]
