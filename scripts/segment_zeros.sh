#!/bin/sh
# Zeros of the oscillating classifiers on their line, certified, against those that sampling shows (docs/campaigns.md).
# Usage: scripts/segment_zeros.sh [SAMPLES [MODEL...]]; without models: all bundled ones, by depth and width.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
# shellcheck source=scripts/campaigns.sh
. "$root/scripts/campaigns.sh"

build_campaign segment_zeros

samples=${1:-100000}
if [ $# -gt 0 ]; then shift; fi
if [ $# -eq 0 ]; then
  for depth in 2 4 8; do
    for width in 16 64 128 256; do
      model=$root/examples/models/oscillator_d${depth}_w${width}.onnx
      if [ -f "$model" ]; then set -- "$@" "$model"; fi
    done
  done
fi
exec "$build/segment_zeros" "$samples" "$@"
