"""The program: where it is, and how it is called."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import warnings
from collections.abc import Sequence
from pathlib import Path

from .errors import DriftboundWarning, Error
from .version import checkout, read_version


def find_program() -> Path:
    """The program ``driftbound``: that of the variable DRIFTBOUND, else of PATH, else of this checkout's build folders.

    Raises ``Error`` where there is none. Warns where its version is not that of this package.
    """
    program = _find()
    _check_version(program)
    return program


def run_program(arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Calls the program and returns what it printed, with its exit status.

    Raises ``Error`` with the program's message for bad input (3), a missing device (4), and where it was ended.
    """
    program = find_program()
    done = subprocess.run([str(program), *arguments], capture_output=True, text=True, errors="replace")
    if done.returncode not in (0, 1, 2):
        message = done.stderr.strip() or done.stdout.strip() or f"ended with status {done.returncode}"
        raise Error(message.removeprefix("driftbound: "), done.returncode)
    return done


def _find() -> Path:
    named = os.environ.get("DRIFTBOUND")
    if named:
        path = Path(named)
        if not (path.is_file() and os.access(path, os.X_OK)):
            raise Error(f"the variable DRIFTBOUND names '{named}', which is no program; name the file 'driftbound'")
        return path
    found = shutil.which("driftbound")
    if found:
        return Path(found)
    folder = checkout()
    builds = [folder / "build" / name / "driftbound" for name in ("release", "dev")] if folder else []
    for path in builds:
        if path.is_file() and os.access(path, os.X_OK):
            return path
    looked = "".join(f", {path}" for path in builds)
    raise Error(f"there is no program driftbound (looked for in DRIFTBOUND, PATH{looked}): build it by ./test.sh or "
                "cmake, or set the variable DRIFTBOUND to the file")


@functools.cache
def _check_version(program: Path) -> None:
    done = subprocess.run([str(program), "--version"], capture_output=True, text=True)
    version = done.stdout.strip().removeprefix("driftbound ")
    if done.returncode != 0:
        raise Error(f"{program} is not driftbound: '--version' ends with status {done.returncode}")
    if version != read_version():
        warnings.warn(f"{program} has version {version}, this package {read_version()}: install both from one checkout",
                      DriftboundWarning, stacklevel=4)
