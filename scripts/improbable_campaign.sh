#!/bin/sh
# False alarms and detections of verdicts by chance (docs/campaigns.md).
# Usage: scripts/improbable_campaign.sh [ROUNDS [SEED]]
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
build=${BUILD_DIR:-$root/build/campaign}

cmake -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release -DDRIFTBOUND_INSTALL=OFF -DDRIFTBOUND_CUDA=OFF >/dev/null
cmake --build "$build" -j2 --target improbable_campaign >/dev/null
exec "$build/scripts/improbable_campaign" "$@"
