"""A class that arrives at once: every account logs in, pulls the course, opens lesson 00 and runs all of it.

On the hub's own machine, as root, with the accounts.txt of docs/hub.md:

    python -m benchmarks.hub_load accounts.txt --origin http://127.0.0.1:8000 --within 60

Each user does what a browser does: login, server, link, contents, a kernel, and each cell when the one before is done.
"""

import argparse
import asyncio
import json
import os
import statistics
import time
import uuid
from pathlib import Path

import aiohttp
import psutil

LESSON = "residual_edu/notebooks/00_residual_connection.ipynb"
PULL = {"repo": "file:///srv/residual_edu", "branch": "main", "targetpath": "residual_edu"}
PATIENCE = 1500  # seconds for one user


class User:
    """One account at its own browser."""

    def __init__(self, origin: str, name: str, password: str) -> None:
        self.origin, self.name, self.password = origin, name, password
        self.home, self.failed, self.cells = f"{origin}/user/{name}", list[str](), 0

    async def work(self, delay: float) -> float:
        """Arrive after ``delay`` seconds, run the lesson, and return how long that took."""
        await asyncio.sleep(delay)
        start, jar = time.monotonic(), aiohttp.CookieJar(unsafe=True)  # unsafe: cookies of an address without a name
        try:
            # The proxy ends a connection that rests; unlike a browser, aiohttp does not ask again on a new one.
            every = aiohttp.TCPConnector(force_close=True)
            async with asyncio.timeout(PATIENCE), aiohttp.ClientSession(connector=every, cookie_jar=jar) as self.http:
                await self.log_in()
                await self.run(await self.pull())
        except (OSError, TimeoutError, aiohttp.ClientError, AssertionError) as error:
            self.failed.append(repr(error))
        print(f"{self.name}: {self.cells} cells, {time.monotonic() - start:.0f} s, failed: {self.failed}", flush=True)
        return time.monotonic() - start

    def token(self, path: str) -> str:
        """Return the token that a form or a request to ``path`` carries beside its cookie."""
        return self.http.cookie_jar.filter_cookies(aiohttp.client.URL(self.origin + path))["_xsrf"].value

    async def log_in(self) -> None:
        """Log in, start the server, and wait until it answers."""
        await self.http.get(f"{self.origin}/hub/login")
        form = {"username": self.name, "password": self.password, "_xsrf": self.token("/hub/")}
        async with self.http.post(f"{self.origin}/hub/login", data=form) as answer:
            assert "/hub/login" not in str(answer.url), "not logged in"
        while True:
            async with self.http.get(f"{self.home}/lab") as answer:
                if answer.status == 200 and answer.url.path.startswith(f"/user/{self.name}/lab"):
                    return
            await asyncio.sleep(2)

    async def pull(self) -> list[str]:
        """Follow the link, and return the code of the lesson's cells."""
        async with self.http.get(f"{self.home}/git-pull/api", params=PULL) as answer:
            assert '"finished"' in await answer.text(), "not pulled"
        async with self.http.get(f"{self.home}/api/contents/{LESSON}") as answer:
            cells = (await answer.json())["content"]["cells"]
        return [cell["source"] for cell in cells if cell["cell_type"] == "code"]

    async def run(self, sources: list[str]) -> None:
        """Run the cells in a kernel of the lesson's folder; what fails is noted, and the rest goes on."""
        asks = {"path": LESSON, "name": "", "type": "notebook", "kernel": {"name": "python3"}}
        headers = {"X-XSRFToken": self.token(f"/user/{self.name}/")}
        async with self.http.post(f"{self.home}/api/sessions", json=asks, headers=headers) as answer:
            kernel = (await answer.json())["kernel"]["id"]
        async with self.http.ws_connect(f"{self.home}/api/kernels/{kernel}/channels", max_msg_size=0) as socket:
            for source in sources:
                await self.run_cell(socket, source)
                self.cells += 1

    async def run_cell(self, socket: aiohttp.ClientWebSocketResponse, source: str) -> None:
        """Run one cell, and return when the kernel rests."""
        header = {"msg_id": uuid.uuid4().hex, "msg_type": "execute_request", "session": self.name, "version": "5.3"}
        content = {"code": source, "silent": False, "store_history": True, "allow_stdin": False, "stop_on_error": False}
        rest = {"parent_header": {}, "metadata": {}, "channel": "shell", "buffers": []}
        await socket.send_str(json.dumps({"header": header, "content": content, **rest}))
        async for message in socket:
            said = json.loads(message.data) if message.type == aiohttp.WSMsgType.TEXT else {"parent_header": {}}
            if said["parent_header"].get("msg_id") != header["msg_id"]:
                continue
            if said["msg_type"] == "error":
                self.failed.append(f"{source[:40]!r}: {said['content']['ename']}")
            if said["msg_type"] == "status" and said["content"]["execution_state"] == "idle":
                return
        raise TimeoutError("the connection to the kernel ended")


def processes(names: list[str]) -> list[psutil.Process]:
    """Return what runs under the accounts."""
    every = psutil.process_iter(["environ"])
    return [each for each in every if (each.info["environ"] or {}).get("JUPYTERHUB_USER") in names]


async def watch(names: list[str], seen: list[tuple[float, float]]) -> None:
    """Note every five seconds the gigabytes and the processor seconds of all processes of the accounts."""
    while True:
        memory = seconds = 0.0
        for each in processes(names):
            try:
                memory += each.memory_full_info().pss / 1e9
                seconds += sum(each.cpu_times()[:4])
            except psutil.Error:  # it has just ended
                continue
        seen.append((memory, seconds))
        await asyncio.sleep(5)


async def main() -> None:
    """Let all users work, and print what it took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("accounts", type=Path)
    parser.add_argument("--origin", default="http://127.0.0.1:8000")
    parser.add_argument("--within", type=float, default=60, metavar="SECONDS", help="in which all arrive, evenly")
    given = parser.parse_args()
    users = [User(given.origin, *line.split(":")[:2]) for line in given.accounts.read_text().splitlines()]
    users = [user for user in users if user.name != "teacher"]
    print(f"{len(users)} users; load average before: {os.getloadavg()[0]:.1f}", flush=True)
    seen = list[tuple[float, float]]()
    watching, start = asyncio.create_task(watch([user.name for user in users], seen)), time.monotonic()
    delays = [given.within * place / len(users) for place in range(len(users))]
    took = await asyncio.gather(*(user.work(delay) for user, delay in zip(users, delays, strict=True)))
    watching.cancel()
    memory, seconds = (max(column) for column in zip(*seen, strict=True))
    print(f"all were done after {time.monotonic() - start:.0f} s; one user: median {statistics.median(took):.0f} s")
    print(f"failed: {sum(len(user.failed) for user in users)}; cells run: {sum(user.cells for user in users)}")
    print(f"at most {memory:.1f} GB, {seconds:.0f} processor seconds; load average after: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    asyncio.run(main())
