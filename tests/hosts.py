"""Several hosts on one computer: each has an address, processes and a /tmp/ray alone.

A host is a few namespaces of Linux with one process that reads from whoever made it.
When that one closes the pipe, or is gone, the kernel ends all that runs on the host
and takes its network away: there is nothing to clean up and no name to collide. Hosts
are joined by a switch, and a cable can be pulled.
"""

import shutil
import subprocess
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path

NETWORK = "10.77.0"
# What two hosts never share.
SPACES = ("--net", "--pid", "--mount", "--uts", "--ipc")
# Done by bash, which then takes in processes that are left alone there.
FIRST = """
set -e
mkdir -p /tmp/ray
mount -t tmpfs tmpfs /tmp/ray
mount -t tmpfs tmpfs /dev/shm
mount -t proc proc /proc
hostname "$1"
ip link set lo up
echo ready
read -r _ || true
"""


@cache
def why_not():
    """Say why no host can be made here; nothing if one can."""
    for tool in ("unshare", "nsenter", "ip"):
        if shutil.which(tool) is None:
            return f"there is no {tool} here"
    try:
        with switched(1):
            return ""
    except (RuntimeError, OSError, subprocess.SubprocessError) as error:
        return f"no hosts can be made here: {error}"


class Host:
    """A computer of its own, as far as programs can tell."""

    def __init__(self, name):
        first = ["bash", "-c", FIRST, "bash"]
        self._life = subprocess.Popen(
            ["unshare", *SPACES, "--fork", "--kill-child", *first, name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        if self._life.stdout.readline() != "ready\n":
            raise RuntimeError(self._life.communicate()[1].strip())
        # The first process there, by the number that it has here.
        pid = self._life.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text()
        self.first = int(children.split()[0])
        self.address = ""

    def words(self, *words, spaces=SPACES):
        """Return the command that runs a command on this host, or partly there."""
        enter = ["nsenter", "--target", str(self.first), *spaces]
        # A host has the same files, and would start in their root.
        return [*enter, f"--wd={Path.cwd()}", "--", *map(str, words)]

    def does(self, *words):
        """Carry a short command out, which has to end well."""
        done = subprocess.run(
            self.words(*words), check=False, capture_output=True, text=True, timeout=60
        )
        if done.returncode:
            raise RuntimeError(f"{words}: {done.stderr.strip()}")
        return done.stdout

    def processes(self):
        """Return the numbers of all that runs here, each with its command line."""
        found = {}
        ours = Path(f"/proc/{self.first}/ns/net").readlink()
        for one in Path("/proc").iterdir():
            if one.name.isdigit():
                try:
                    if (one / "ns" / "net").readlink() == ours:
                        line = (one / "cmdline").read_bytes()
                        found[int(one.name)] = line.replace(b"\0", b" ").decode()
                except OSError:
                    continue
        return found

    def end(self):
        """End all that runs here at once, and its network, as if power were lost."""
        if self._life.returncode is None:
            self._life.communicate()


class Switch(Host):
    """What joins hosts; a cable can be pulled there, and nobody is told."""

    def join(self, host, number):
        """Lay a cable to a host, whose address ends with this number."""
        cable = ["ip", "link", "add", f"port{number}", "type", "veth", "peer"]
        cable += ["name", "eth0", "netns", str(host.first)]
        # In its network only: outside, the host's first process has that number.
        subprocess.run(self.words(*cable, spaces=("--net",)), check=True, timeout=60)
        host.address = f"{NETWORK}.{number}"
        host.does("ip", "address", "add", f"{host.address}/24", "dev", "eth0")
        host.does("ip", "link", "set", "eth0", "up")
        # Programs find out who they are by asking which way leads out.
        host.does("ip", "route", "add", "default", "dev", "eth0")
        self.does("ip", "link", "set", f"port{number}", "up")
        self.plug(host)

    def plug(self, host):
        """Have packets of a host go to the others."""
        self.does("ip", "link", "set", f"port{self._port(host)}", "master", "br0")

    def unplug(self, host):
        """Cut a host off: packets are lost."""
        self.does("ip", "link", "set", f"port{self._port(host)}", "nomaster")

    @staticmethod
    def _port(host):
        return host.address.rpartition(".")[2]


@contextmanager
def switched(number):
    """Yield a switch and so many hosts, which reach each other and nobody else."""
    with ExitStack() as after:

        def made(kind, name):
            host = kind(name)
            after.callback(host.end)
            return host

        switch = made(Switch, "switch")
        switch.does("ip", "link", "add", "br0", "type", "bridge")
        switch.does("ip", "link", "set", "br0", "up")
        hosts = []
        for k in range(1, number + 1):
            hosts.append(made(Host, f"host{k}"))
            switch.join(hosts[-1], k)
        yield switch, *hosts
