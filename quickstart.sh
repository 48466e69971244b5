#!/usr/bin/env bash
# Installs what is missing, builds the program (not the tests), and reports on a bundled network.
set -euo pipefail
cd "$(dirname "$0")"
. scripts/packages.sh

install_packages $packages_to_build
echo "Building the program into build/release (needs neither CUDA nor a GPU)"
cmake --preset release >/dev/null
cmake --build --preset release
echo
echo "$ build/release/driftbound report examples/models/oscillator_d4_w64.onnx --domain -0.2:0.2 --backend cpu --explain"
build/release/driftbound report examples/models/oscillator_d4_w64.onnx --domain -0.2:0.2 --backend cpu --explain
