#!/usr/bin/env python3
"""Counts the parts of a mesh and their genera, with nothing of driftbound but the triangles of a .ply file.

    scripts/count_mesh.py MESH.ply...

Every edge must belong to two triangles that pass it in opposite directions, or to one, on the border; all triangles
around a vertex must be one fan. A part is a set of triangles that share edges. Prints vertices, edges, triangles,
Euler characteristic, border curves and genus of each; exit status 1 where the triangles are no oriented surface.
"""

import struct
import sys

SIZES = {"char": "b", "uchar": "B", "short": "h", "ushort": "H", "int": "i", "uint": "I", "float": "f", "double": "d"}


def read_triangles(file):
    """Vertices of a binary little-endian .ply file, counted, and its triangles."""
    with open(file, "rb") as stream:
        data = stream.read()
    end = data.index(b"end_header\n") + len(b"end_header\n")
    elements = []
    for line in data[:end].decode().splitlines():
        words = line.split()
        if words[0] == "element":
            elements.append((words[1], int(words[2]), []))
        elif words[0] == "property":
            elements[-1][2].append(words[1:])
    at, vertices, triangles = end, 0, []
    for name, count, properties in elements:
        if name == "vertex":
            vertices = count
            at += count * sum(struct.calcsize("<" + SIZES[kind]) for kind, _ in properties)
            continue
        assert properties[0][0] == "list" and SIZES[properties[0][1]] == "B" and SIZES[properties[0][2]] == "i"
        row = struct.Struct("<Biii" + "".join(SIZES[kind] for kind, _ in properties[1:]))
        for numbers in row.iter_unpack(data[at : at + count * row.size]):
            assert numbers[0] == 3
            triangles.append(numbers[1:4])
        at += count * row.size
    assert at == len(data)
    return vertices, triangles


def root_of(parent, x):
    while parent[x] != x:
        parent[x] = parent[parent[x]]
        x = parent[x]
    return x


def count(file):
    vertices, triangles = read_triangles(file)
    triangle_of = {}  # by directed edge
    for t, (a, b, c) in enumerate(triangles):
        for edge in ((a, b), (b, c), (c, a)):
            if edge in triangle_of:
                raise ValueError(f"{file}: two triangles pass the edge {edge} in one direction")
            triangle_of[edge] = t
    # The corners of triangles are one fan a vertex: corners at a vertex are joined across edges.
    fan = list(range(3 * len(triangles)))
    part = list(range(len(triangles)))
    place = [{v: 3 * t + i for i, v in enumerate(triangle)} for t, triangle in enumerate(triangles)]
    border = {}
    for (a, b), t in triangle_of.items():
        other = triangle_of.get((b, a))
        if other is None:
            border[b] = a
            continue
        part[root_of(part, t)] = root_of(part, other)
        for v in (a, b):
            fan[root_of(fan, place[t][v])] = root_of(fan, place[other][v])
    fans = {}
    for t, triangle in enumerate(triangles):
        for i, v in enumerate(triangle):
            if fans.setdefault(v, root_of(fan, 3 * t + i)) != root_of(fan, 3 * t + i):
                raise ValueError(f"{file}: the triangles around vertex {v} are several fans")
    if len(fans) != vertices:
        raise ValueError(f"{file}: {vertices - len(fans)} vertices belong to no triangle")
    parts = {}
    for t, triangle in enumerate(triangles):
        numbers = parts.setdefault(root_of(part, t), {"triangles": 0, "vertices": set(), "border": 0})
        numbers["triangles"] += 1
        numbers["vertices"].update(triangle)
        numbers["border"] += sum((b, a) not in triangle_of for a, b in zip(triangle, triangle[1:] + triangle[:1]))
    part_of_vertex = {v: root_of(part, triangle_of[(v, w)]) for v, w in triangle_of}
    curves, seen = dict.fromkeys(parts, 0), set()
    for v in border:
        if v in seen:
            continue
        curves[part_of_vertex[v]] += 1
        while v not in seen:
            seen.add(v)
            v = border[v]
    print(f"{file}: {len(parts)} parts")
    for number, numbers in parts.items():
        edges = (3 * numbers["triangles"] + numbers["border"]) // 2
        euler = len(numbers["vertices"]) - edges + numbers["triangles"]
        print(
            f"  {len(numbers['vertices'])} vertices, {edges} edges, {numbers['triangles']} triangles: "
            f"Euler characteristic {euler}, {curves[number]} border curves, genus {(2 - euler - curves[number]) // 2}"
        )


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    try:
        for file in sys.argv[1:]:
            count(file)
    except ValueError as error:
        sys.exit(str(error))


main()
