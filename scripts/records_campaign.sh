#!/bin/sh
# Recorded runs of random calls against every bound, and false alarms of reports on them (docs/campaigns.md).
# Usage: scripts/records_campaign.sh [OUTPUTS [SEED [THREADS]]]
#        scripts/records_campaign.sh --case SEED      one run again, as a failure names it
# Quick look: scripts/records_campaign.sh 20000
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
build=${BUILD_DIR:-$root/build/campaign}

cmake -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release -DDRIFTBOUND_INSTALL=OFF -DDRIFTBOUND_CUDA=OFF >/dev/null
cmake --build "$build" -j2 --target records_campaign >/dev/null
exec nice -n 10 "$build/scripts/records_campaign" "$@"
