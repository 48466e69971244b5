"""A certified surface in Python: made by the program, read from its .ply file, and measured.

    python3 examples/surface_in_python/main.py MODEL [CELL]

Needs the package driftbound, its program, and numpy, by which `read_ply` follows the description of the format. Where
Open3D is installed it reads the file too, and shows the same triangles, closed and coloured.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import driftbound
import numpy as np

TYPES = {"uchar": "u1", "int": "<i4", "float": "<f4", "double": "<f8"}


def make_surface(model, cell, file):
    """Writes the surface as .ply and returns the report: components, genera, what is certified."""
    report = file.with_suffix(".json")
    command = [driftbound.find_program(), "mesh", model, "--cell", cell, "-o", file, "--json", report, "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode not in (0, 1):  # 1: some cells are uncertain
        sys.exit(done.stderr)
    return json.loads(report.read_text())


def read_ply(file):
    """Elements of a binary .ply file by name, each as a structured array; lists are of three."""
    data = Path(file).read_bytes()
    end = data.index(b"end_header\n") + len(b"end_header\n")
    elements = []
    for line in data[:end].decode().splitlines():
        words = line.split()
        if words[0] == "element":
            elements.append((words[1], int(words[2]), []))
        elif words[:2] == ["property", "list"]:
            elements[-1][2].extend([("count", TYPES[words[2]]), (words[4], TYPES[words[3]], 3)])
        elif words[0] == "property":
            elements[-1][2].append((words[2], TYPES[words[1]]))
    arrays, at = {}, end
    for name, count, properties in elements:
        arrays[name] = np.frombuffer(data, np.dtype(properties), count, at)
        at += arrays[name].nbytes
    if at != len(data) or np.any(arrays["face"]["count"] != 3):
        raise ValueError(f"{file}: something else than vertices and triangles")
    return arrays


def check_by_open3d(file, vertices, faces):
    """What Open3D makes of the file, where it is installed."""
    try:
        import open3d
    except ImportError:
        return
    mesh = open3d.io.read_triangle_mesh(str(file))
    is_same = np.array_equal(np.asarray(mesh.vertices), vertices) and np.array_equal(np.asarray(mesh.triangles), faces)
    closed = "closed" if mesh.is_edge_manifold(allow_boundary_edges=False) else "open"
    print(
        f"Open3D {open3d.__version__} reads {'the same' if is_same else 'ANOTHER'} mesh: {closed}, "
        f"{'with' if mesh.has_vertex_colors() else 'without'} colours"
    )


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "surface.ply"
        report = make_surface(sys.argv[1], sys.argv[2] if len(sys.argv) == 3 else "2^-4", file)
        arrays = read_ply(file)
        vertices = np.stack([arrays["vertex"][axis] for axis in "xyz"], axis=1).astype(np.float64)
        faces = arrays["face"]["vertex_indices"]
        if len(faces) == 0:
            sys.exit("no surface: the network is not 0 anywhere in the box")
        check_by_open3d(file, vertices, faces)
    print(f"{len(vertices)} vertices, {len(faces)} triangles, {'certified' if report['certified'] else 'UNDECIDED'}")

    directed = np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]]).astype(np.int64)
    numbers = directed[:, 0] * len(vertices) + directed[:, 1]
    against = directed[:, 1] * len(vertices) + directed[:, 0]
    is_closed = len(np.unique(numbers)) == len(numbers) and np.array_equal(np.sort(numbers), np.sort(against))
    euler = len(vertices) - len(numbers) // 2 + len(faces)
    print(f"{'closed' if is_closed else 'open'}, Euler characteristic {euler}; reported {report['euler_characteristic']}")
    corners = vertices[faces]
    volume = np.einsum("ij,ij->", corners[:, 0], np.cross(corners[:, 1], corners[:, 2])) / 6
    print(f"volume {volume:.4f}, largest distance of a vertex from the surface {arrays['vertex']['distance'].max():.1e}")
    shares = np.bincount(arrays["face"]["certified"], minlength=2)
    print(f"triangles of certified components: {shares[1]} of {len(faces)}")


if __name__ == "__main__":
    main()
