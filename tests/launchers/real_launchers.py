#!/usr/bin/env python3
"""The launchers themselves, where they are installed: mpirun of Open MPI, PyTorch's torchrun, an sshd
of this test's own. Each starts the ranks on this machine, and the losses are, to the last digit,
those of one process that starts all ranks itself. Says which are not there.

    real_launchers.py GRAPHPIPE PYTHON_WITH_TORCH
"""
import os
import pathlib
import pwd
import re
import shutil
import subprocess
import sys
import tempfile
import time

from launchers import clean_environment, free_port, losses

RANKS = 3
SKIP = 77
# What is set of the matrix library decides how it rounds, and ssh passes nothing on by itself.
PASSED_ON = "OPENBLAS_CORETYPE"
TRAIN = ("train", "plan.json", "--data", "synthetic", "--iterations", "4", "--json")
MASTER = {"MASTER_ADDR": "127.0.0.1", "GRAPHPIPE_TOKEN": "of the test"}


def run(folder, *words, **variables):
    """Standard output of a command that must end well."""
    done = subprocess.run([str(word) for word in words], cwd=folder, timeout=120, check=False,
                          env={**clean_environment(), **variables}, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True)
    assert done.returncode == 0, (words, done.returncode, done.stdout, done.stderr)
    return done.stdout


def by_mpirun(program, folder):
    if not shutil.which("mpirun"):
        return None
    as_root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    return run(folder, "mpirun", *as_root, "--oversubscribe", "-np", RANKS, "-x", "GRAPHPIPE_TOKEN",
               "-x", "MASTER_ADDR", "-x", "MASTER_PORT", program, *TRAIN,
               MASTER_PORT=str(free_port()), **MASTER)


def by_torchrun(program, folder, python):
    known = subprocess.run([python, "-c", "import torch.distributed.run"], capture_output=True,
                           check=False)
    if known.returncode != 0:
        return None
    # Under Python 3.11 PyTorch 1.13 knows neither 0 (none) nor 3 (all) of these.
    logged = ("--redirects", 1, "--tee", 1, "--log_dir", folder)
    output = run(folder, python, "-m", "torch.distributed.run", "--no_python", "--nproc_per_node",
                 RANKS, "--master_port", free_port(), *logged, program, *TRAIN,
                 GRAPHPIPE_TOKEN="of the test")
    return re.sub(r"^\[default\d+\]:", "", output, flags=re.MULTILINE)


class OwnSshd:
    """On a port of its own, for this user, with keys that end with the folder."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.port = free_port()
        for name in ("host", "user"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f",
                            self.folder / name], check=True)
        shutil.copy(self.folder / "user.pub", self.folder / "authorized")
        if os.geteuid() == 0:
            pathlib.Path("/run/sshd").mkdir(exist_ok=True)  # where sshd separates its privileges
        self.process = subprocess.Popen(
            [shutil.which("sshd", path="/usr/sbin:/sbin"), "-D", "-e", "-f", "/dev/null",
             *self.options(Port=self.port, ListenAddress="127.0.0.1", UsePAM="no",
                           HostKey=self.folder / "host", PidFile="none", StrictModes="no",
                           AuthorizedKeysFile=self.folder / "authorized",
                           PermitRootLogin="prohibit-password", AcceptEnv=PASSED_ON)],
            stdin=subprocess.DEVNULL, stderr=open(self.folder / "sshd.log", "w", encoding="utf-8"))

    @staticmethod
    def options(**options):
        return [word for name, value in options.items() for word in ("-o", f"{name}={value}")]

    def command(self):
        user = pwd.getpwuid(os.geteuid()).pw_name
        return " ".join(["ssh", "-p", str(self.port), "-l", user, "-i", str(self.folder / "user"),
                         *self.options(BatchMode="yes", StrictHostKeyChecking="no",
                                       UserKnownHostsFile="/dev/null", LogLevel="ERROR",
                                       SendEnv=PASSED_ON)])

    def wait(self):
        """Until it answers."""
        for _ in range(100):
            if subprocess.run([*self.command().split(), "127.0.0.1", "true"], check=False,
                              capture_output=True).returncode == 0:
                return
            time.sleep(0.1)
        raise AssertionError((self.folder / "sshd.log").read_text(encoding="utf-8"))


def by_ssh(program, folder):
    if not shutil.which("ssh") or not shutil.which("sshd", path="/usr/sbin:/sbin"):
        return None
    with tempfile.TemporaryDirectory() as keys:
        sshd = OwnSshd(keys)
        try:
            sshd.wait()
            (pathlib.Path(folder) / "hosts.txt").write_text(f"127.0.0.1 slots={RANKS}\n")
            return run(folder, program, *TRAIN, "--hostfile", "hosts.txt", "--ssh", sshd.command(),
                       "--transport", "gloo")
        finally:
            sshd.process.terminate()
            sshd.process.wait()


def main():
    program, python = str(pathlib.Path(sys.argv[1]).resolve()), sys.argv[2]
    tried = []
    with tempfile.TemporaryDirectory() as folder:
        run(folder, program, "plan", "digits:hidden=16", "--cluster", f"local:{RANKS}",
            "--mini-batch", 32, "--micro-batch", 8, "--planner", "gpipe", "--options", "none", "-o",
            "plan.json")
        expected = losses(run(folder, program, *TRAIN))
        for name, output in (("mpirun", by_mpirun(program, folder)),
                             ("torchrun", by_torchrun(program, folder, python)),
                             ("ssh", by_ssh(program, folder))):
            if output is None:
                print(f"skipped: {name} is not installed")
                continue
            assert losses(output) == expected, (name, losses(output), expected)
            print(f"{name}: the same losses")
            tried.append(name)
    return 0 if tried else SKIP


if __name__ == "__main__":
    sys.exit(main())
