"""The version of the package, which is that of the program."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path


def checkout() -> Path | None:
    """Folder of the driftbound checkout that this package is used from, or ``None`` where it is installed."""
    folder = Path(__file__).resolve().parents[2]
    return folder if (folder / "VERSION").is_file() and (folder / "python" / "driftbound").is_dir() else None


def read_version() -> str:
    """The version: of the checkout, else of the installed package."""
    folder = checkout()
    return (folder / "VERSION").read_text().strip() if folder else metadata.version("driftbound")
