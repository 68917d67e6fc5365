"""Running graphpipe from the benchmarks. They are run as files, so each puts this folder on its path."""
import subprocess


def graphpipe(program, *words, may_fail=False):
    """Standard output."""
    done = subprocess.run([program, *map(str, words)], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0 and not may_fail:
        raise SystemExit(f"graphpipe {' '.join(map(str, words))}: {done.stderr}")
    return done.stdout
