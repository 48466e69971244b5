"""The example that makes a surface, reads its .ply file by numpy, and measures it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import driftbound

ROOT = Path(__file__).resolve().parents[2]


def run_example(*arguments):
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "DRIFTBOUND": str(driftbound.find_program())}
    command = [sys.executable, str(ROOT / "examples" / "surface_in_python" / "main.py"), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True)


def test_the_surface_is_closed_and_what_the_report_says():
    done = run_example(str(ROOT / "examples" / "models" / "torus_sdf_softplus.onnx"))
    assert done.returncode == 0, done.stderr
    assert "closed, Euler characteristic 0; reported 0\n" in done.stdout
    assert re.match(r"\d+ vertices, (\d+) triangles, certified\n", done.stdout)
    volume = float(re.search(r"volume (\d+\.\d+)", done.stdout)[1])
    assert abs(volume - 0.395) < 0.02  # of a torus of radii 0.5 and 0.2
    certified, all_of_them = re.search(r"certified components: (\d+) of (\d+)", done.stdout).groups()
    assert certified == all_of_them != "0"
    if "Open3D" in done.stdout:  # where it is installed
        assert re.search(r"Open3D [\d.]+ reads the same mesh: closed, with colours\n", done.stdout)


def test_a_model_that_is_not_there_is_said_to_be_missing():
    done = run_example("none.onnx")
    assert done.returncode == 1
    assert "none.onnx" in done.stderr
