"""Builds the package's wheel by the standard library alone, so that pip needs neither a network nor other packages.

The version is that of the program: the repository's file VERSION, or the copy of it in a source archive.
"""

from __future__ import annotations

import base64
import hashlib
import io
import tarfile
import zipfile
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent
NAME = "driftbound"
SUMMARY = "Records the runs of neural networks and judges their rounding errors"
REQUIRES_PYTHON = ">=3.10"
REQUIREMENTS = ["numpy"]
ENTRY_POINTS = "[pytest11]\ndriftbound = driftbound.pytest_plugin\n"


def get_requires_for_build_wheel(config_settings=None):
    return []


get_requires_for_build_editable = get_requires_for_build_wheel
get_requires_for_build_sdist = get_requires_for_build_wheel


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """A wheel with the package's files."""
    files = {f"driftbound/{file.name}": file.read_bytes() for file in sorted((FOLDER / "driftbound").glob("*.py"))}
    return _write_wheel(Path(wheel_directory), files)


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    """A wheel that refers to this folder."""
    return _write_wheel(Path(wheel_directory), {"driftbound.pth": f"{FOLDER}\n".encode()})


def build_sdist(sdist_directory, config_settings=None):
    """A source archive, with a copy of VERSION."""
    root = f"{NAME}-{_version()}"
    files = {"VERSION": (_version() + "\n").encode(), "PKG-INFO": _metadata().encode()}
    for pattern in ("pyproject.toml", "README.md", "build_backend/*.py", "driftbound/*.py"):
        for file in sorted(FOLDER.glob(pattern)):
            files[str(file.relative_to(FOLDER))] = file.read_bytes()
    with tarfile.open(Path(sdist_directory) / f"{root}.tar.gz", "w:gz", format=tarfile.PAX_FORMAT) as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(f"{root}/{name}")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return f"{root}.tar.gz"


def _version():
    for file in (FOLDER.parent / "VERSION", FOLDER / "VERSION"):
        if file.is_file():
            return file.read_text().strip()
    raise RuntimeError(f"there is no file VERSION in {FOLDER.parent} or {FOLDER}: install from a whole checkout")


def _metadata():
    lines = [
        "Metadata-Version: 2.1",
        f"Name: {NAME}",
        f"Version: {_version()}",
        f"Summary: {SUMMARY}",
        f"Requires-Python: {REQUIRES_PYTHON}",
        "License: MIT",
        *(f"Requires-Dist: {requirement}" for requirement in REQUIREMENTS),
        "Description-Content-Type: text/markdown",
    ]
    return "\n".join(lines) + "\n\n" + (FOLDER / "README.md").read_text()


def _write_wheel(folder, files):
    info = f"{NAME}-{_version()}.dist-info"
    files = {
        **files,
        f"{info}/METADATA": _metadata().encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: driftbound\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": ENTRY_POINTS.encode(),
    }
    record = [f"{name},sha256={_digest(content)},{len(content)}" for name, content in files.items()]
    files[f"{info}/RECORD"] = ("\n".join([*record, f"{info}/RECORD,,"]) + "\n").encode()
    name = f"{NAME}-{_version()}-py3-none-any.whl"
    with zipfile.ZipFile(folder / name, "w", zipfile.ZIP_DEFLATED) as wheel:
        for path, content in files.items():
            wheel.writestr(zipfile.ZipInfo(path, (2020, 1, 1, 0, 0, 0)), content, zipfile.ZIP_DEFLATED)
    return name


def _digest(content):
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
