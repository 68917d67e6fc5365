#!/usr/bin/env python3
"""Four hosts on one machine: network namespaces, each with one interface, on a bridge, with as much
bandwidth as a slow network has. All of it is in a network namespace of its own and gone with this
process. Used by the tests of this folder; by itself it says what the kernel allows.

    namespaces.py            prints what there is; exit status 77 where it is not enough
"""
import os
import pathlib
import shutil
import signal
import subprocess
import sys

HOSTS = 4
RATE = "200mbit"
INTERFACE = "eth0"
SKIP = 77


def skip(why):
    print("skipped:", why)
    sys.exit(SKIP)


def enter():
    """Starts this program again where it may make interfaces; does nothing in there."""
    if os.environ.get("GP_IN_NAMESPACE") == "1":
        return
    for program in ("unshare", "ip", "tc"):
        if not shutil.which(program, path=os.environ["PATH"] + ":/usr/sbin:/sbin"):
            skip(f"there is no {program}; install iproute2 and util-linux")
    # --kill-child: whoever ends this process ends all that is in there.
    as_root = [] if os.geteuid() == 0 else ["--map-root-user"]
    inside = ["unshare", "--net", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child",
              *as_root]
    if subprocess.run([*inside, "true"], capture_output=True, check=False).returncode != 0:
        skip("the kernel gives this user no network namespace (unshare --net)")
    environment = {**os.environ, "GP_IN_NAMESPACE": "1",
                   "PATH": os.environ["PATH"] + ":/usr/sbin:/sbin"}
    status = subprocess.run([*inside, sys.executable, *sys.argv], env=environment,
                            check=False).returncode
    sys.exit(status)


def run(*words, check=True):
    return subprocess.run(words, check=check, capture_output=True, text=True)


def address(host):
    return f"10.77.0.{host + 1}"


def name(host):
    return f"host{host}"


def inside(host, *words):
    return ["ip", "netns", "exec", name(host), *words]


def add_host(host):
    run("ip", "netns", "add", name(host))
    run("ip", "link", "add", f"v{host}", "type", "veth", "peer", "name", INTERFACE, "netns",
        name(host))
    run("ip", "link", "set", f"v{host}", "master", "br0", "up")
    run("ip", "-n", name(host), "address", "add", f"{address(host)}/24", "dev", INTERFACE)
    run("ip", "-n", name(host), "link", "set", INTERFACE, "up")
    run("ip", "-n", name(host), "link", "set", "lo", "up")


def take_host_away(host):
    """With all that runs there."""
    for process in run("ip", "netns", "pids", name(host)).stdout.split():
        try:
            os.kill(int(process), signal.SIGKILL)
        except ProcessLookupError:
            pass
    run("ip", "link", "del", f"v{host}")
    run("ip", "netns", "del", name(host))


def write_hostfile(folder, hosts=HOSTS):
    """Hosts by their addresses, and what stands in for ssh. Returns train's flags for them."""
    hostfile = pathlib.Path(folder) / "hostfile"
    hostfile.write_text(
        "".join(f"{address(host)} slots=1\n" for host in range(hosts)))
    shell = pathlib.Path(folder) / "shell"
    shell.write_text('#!/bin/sh\n# 10.77.0.N is hostN-1\n'
                     'exec ip netns exec "host$((${1##*.} - 1))" sh -c "$2"\n')
    shell.chmod(0o700)
    return ["--hostfile", str(hostfile), "--ssh", str(shell), "--interface", INTERFACE]


def set_up(hosts=HOSTS, rate=RATE):
    """Makes the hosts. Returns a sentence on what limits their links."""
    try:
        run("mount", "-t", "tmpfs", "tmpfs", "/run")
        run("ip", "link", "set", "lo", "up")
        run("ip", "link", "add", "br0", "type", "bridge")
        run("ip", "link", "set", "br0", "up")
        for host in range(hosts):
            add_host(host)
    except subprocess.CalledProcessError as error:
        skip(f"the kernel does not allow it: {' '.join(error.cmd)}: {error.stderr.strip()}")
    shape = ("root", "tbf", "rate", rate, "burst", "64kb", "latency", "400ms")
    for host in range(hosts):
        for side in (("tc", "qdisc", "add", "dev", f"v{host}"),
                     ("tc", "-n", name(host), "qdisc", "add", "dev", INTERFACE)):
            if run(*side, *shape, check=False).returncode != 0:
                return "links are not limited: this kernel has no token bucket (tc ... tbf)"
    return f"links of {rate} each way"


def bytes_sent(host):
    """{interface: bytes} since the host is there."""
    text = run(*inside(host, "cat", "/proc/net/dev")).stdout
    lines = [line.split(":") for line in text.splitlines() if ":" in line]
    return {interface.strip(): int(numbers.split()[8]) for interface, numbers in lines}


def listeners(host):
    """Addresses, in hexadecimal as the kernel has them, on which something listens there."""
    found = set()
    for file in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in run(*inside(host, "cat", file)).stdout.splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A":
                found.add(fields[1].split(":")[0])
    return found


def main():
    enter()
    print(f"{HOSTS} network namespaces;", set_up())


if __name__ == "__main__":
    main()
