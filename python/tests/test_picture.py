"""Pictures that the program writes as PNG hold the pixels of those that it writes as PPM: read by zlib."""

import struct
import subprocess
import zlib
from pathlib import Path

import driftbound

MODEL = Path(__file__).resolve().parents[2] / "examples" / "models" / "sphere_cut_sdf_relu.onnx"


def pixels_of_png(data):
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    chunks, at = {}, 8
    while at < len(data):
        (size,) = struct.unpack(">I", data[at : at + 4])
        name, content = data[at + 4 : at + 8], data[at + 8 : at + 8 + size]
        assert struct.unpack(">I", data[at + 8 + size : at + 12 + size])[0] == zlib.crc32(name + content)
        chunks[name] = content
        at += 12 + size
    width, height = struct.unpack(">II", chunks[b"IHDR"][:8])
    assert chunks[b"IHDR"][8:] == b"\x08\x02\x00\x00\x00"
    rows = zlib.decompress(chunks[b"IDAT"])
    pixels = b""
    for row in range(height):
        line = bytearray(rows[row * (3 * width + 1) : (row + 1) * (3 * width + 1)])
        assert line.pop(0) == 1  # each byte less that of the pixel before
        for i in range(3, len(line)):
            line[i] = (line[i] + line[i - 3]) % 256
        pixels += bytes(line)
    return width, height, pixels


def test_png_and_ppm_hold_the_same_pixels(tmp_path):
    for ending in ("png", "ppm"):
        command = [driftbound.find_program(), "render", MODEL, "--depth", "3", "--size", "70x33"]
        subprocess.run([*command, "--quiet", "-o", tmp_path / f"s.{ending}"], check=True, capture_output=True)
    width, height, pixels = pixels_of_png((tmp_path / "s.png").read_bytes())
    assert (width, height) == (70, 33)
    assert (tmp_path / "s.ppm").read_bytes() == b"P6\n70 33\n255\n" + pixels
