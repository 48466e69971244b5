"""The wheel that pip builds, without a network and without other packages."""

import base64
import hashlib
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import driftbound

FOLDER = Path(__file__).resolve().parents[1]


@pytest.fixture
def backend(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER / "build_backend"))
    import backend

    return backend


def test_the_version_is_that_of_the_program():
    assert driftbound.__version__ == (FOLDER.parent / "VERSION").read_text().strip()


def test_the_wheel(backend, tmp_path):
    with zipfile.ZipFile(tmp_path / backend.build_wheel(tmp_path)) as wheel:
        names = wheel.namelist()
        record = wheel.read(f"driftbound-{driftbound.__version__}.dist-info/RECORD").decode().splitlines()
        for line in record[:-1]:
            name, digest, size = line.rsplit(",", 2)
            content = wheel.read(name)
            expected = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            assert digest == f"sha256={expected}" and int(size) == len(content)
        assert len(record) == len(names)
    assert {f"driftbound/{file.name}" for file in (FOLDER / "driftbound").glob("*.py")} < set(names)


def test_installed_from_the_wheel(backend, tmp_path):
    wheel = tmp_path / backend.build_wheel(tmp_path)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    code = "import driftbound, importlib.metadata as m; print(driftbound.__version__, *(e.value for e in " \
           "m.distribution('driftbound').entry_points))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path,
                          env={"PYTHONPATH": str(tmp_path / "site")})
    assert done.stdout.split() == [driftbound.__version__, "driftbound.pytest_plugin"], done.stderr
