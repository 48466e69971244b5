"""The example that makes a surface, reads its .ply file by numpy, and measures it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import driftbound
import pytest

ROOT = Path(__file__).resolve().parents[2]


def run_example(*arguments):
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "DRIFTBOUND": str(driftbound.find_program())}
    command = [sys.executable, str(ROOT / "examples" / "surface_in_python" / "main.py"), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True)


# A torus of radii 0.5 and 0.2 has the volume 0.395, a cube less an eighth of a ball of radius 0.4 has 0.966.
@pytest.mark.parametrize(
    "model, euler, least, most",
    [("torus_sdf_softplus", 0, 0.37, 0.42), ("sphere_cut_sdf_relu", 2, 0.94, 0.99)],
)
def test_the_surface_is_closed_and_what_the_report_says(model, euler, least, most):
    done = run_example(str(ROOT / "examples" / "models" / f"{model}.onnx"))
    assert done.returncode == 0, done.stderr
    assert f"closed, Euler characteristic {euler}; reported {euler}\n" in done.stdout
    assert re.match(r"\d+ vertices, (\d+) triangles, certified\n", done.stdout)
    volume = float(re.search(r"volume (\d+\.\d+)", done.stdout)[1])
    assert least < volume < most
    certified, all_of_them = re.search(r"certified components: (\d+) of (\d+)", done.stdout).groups()
    assert certified == all_of_them != "0"


def test_a_model_that_is_not_there_is_said_to_be_missing():
    done = run_example("none.onnx")
    assert done.returncode == 1
    assert "none.onnx" in done.stderr
