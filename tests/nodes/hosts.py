"""Simulates two hosts on this machine. Each has its own network, name and /dev/shm; a virtual cable connects them. They
share files and processes, like hosts with a common folder. Open MPI starts its daemon on the other host like it would
over ssh."""

import os
import pathlib
import subprocess

AGENT = """#!/bin/sh
# mpirun calls this instead of ssh: HOST COMMAND...
host=$1
shift
ip -o link show dev cable | grep -q LOWER_UP || {{ echo "$host: no route to host" >&2; exit 255; }}
exec nsenter --target "$(cat {folder}/$host.pid)" --net --uts --mount sh -c "$*"
"""


class Host:
    """Processes run in its namespaces, which end when it is closed."""

    def __init__(self, folder, name, address):
        self.name, self.address = name, address
        # The shell says when its namespaces are set up; then it waits for the end of its standard input.
        setup = (f"hostname {name} && mount -t tmpfs tmpfs /dev/shm && mount --bind {folder}/hosts /etc/hosts && "
                 "ip link set lo up && echo ready && read end")
        self.keeper = subprocess.Popen(["unshare", "--net", "--uts", "--mount", "sh", "-c", setup], text=True,
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        if self.keeper.stdout.readline() != "ready\n":
            raise OSError(f"the namespaces of {name} could not be set up")
        (folder / f"{name}.pid").write_text(str(self.keeper.pid))

    def inside(self, *command):
        """The command line that runs it on this host."""
        return ["nsenter", "--target", str(self.keeper.pid), "--net", "--uts", "--mount", *map(str, command)]

    def close(self):
        self.keeper.stdin.close()
        self.keeper.stdout.close()
        self.keeper.wait()


class Hosts:
    """`alpha` and `beta`. Their cable can be pulled."""

    def __init__(self, folder):
        names = {"alpha": "10.78.0.1", "beta": "10.78.0.2"}
        (folder / "hosts").write_text("127.0.0.1 localhost\n" + "".join(f"{a} {n}\n" for n, a in names.items()))
        self.folder = folder
        self.hostfile = folder / "hostfile"
        self.hostfile.write_text("".join(f"{name} slots=1\n" for name in names))
        self.agent = folder / "agent"
        self.agent.write_text(AGENT.format(folder=folder))
        self.agent.chmod(0o755)
        self.alpha, self.beta = (Host(folder, name, address) for name, address in names.items())
        subprocess.run(["ip", "link", "add", "cable", "netns", str(self.alpha.keeper.pid), "type", "veth", "peer", "name",
                        "cable", "netns", str(self.beta.keeper.pid)], check=True)
        for host in (self.alpha, self.beta):
            self.ip(host, "address", "add", f"{host.address}/24", "dev", "cable")
            self.ip(host, "link", "set", "cable", "up")

    @staticmethod
    def ip(host, *arguments):
        subprocess.run(host.inside("ip", *arguments), check=True)

    def pull_the_cable(self):
        self.ip(self.beta, "link", "set", "cable", "down")

    def plug_the_cable_in(self):
        self.ip(self.beta, "link", "set", "cable", "up")

    def environment(self):
        """What tells Open MPI of them."""
        return {"OMPI_MCA_plm_rsh_agent": str(self.agent), "OMPI_MCA_orte_default_hostfile": str(self.hostfile),
                "OMPI_MCA_orte_tmpdir_base": str(self.folder), "OMPI_MCA_btl": "tcp,self",
                "OMPI_MCA_btl_tcp_if_include": "cable", "OMPI_MCA_oob_tcp_if_include": "cable"}

    def close(self):
        self.alpha.close()
        self.beta.close()


def processes_of(host, name):
    """Ids of the processes of that name on the host."""
    home = os.stat(f"/proc/{host.keeper.pid}/ns/net").st_ino
    found = []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if (process / "comm").read_text() == name + "\n" and os.stat(process / "ns/net").st_ino == home:
                found.append(int(process.name))
        except OSError:  # it ended
            pass
    return found
