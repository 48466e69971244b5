#!/bin/sh
# Ranges over boxes against the certified reference and float32 runs at 1,000 points of every box, and first hits of rays
# against certified signs along them (docs/campaigns.md). It goes on where it stopped.
# Usage: scripts/regions_campaign.sh [BOXES [RAYS [SEED]]], of every network
# Networks: the bundled ones and, where DRIFTBOUND_TEST_DATA says where they are, fox and bunny; or MODELS (files, separated by
# spaces). Results, one line a unit of work: RESULTS, else build/regions_campaign.jsonl.
# Quick look: RESULTS=/tmp/quick.jsonl MODELS=examples/models/oscillator_d2_w16.onnx scripts/regions_campaign.sh 100 10000
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
# shellcheck source=scripts/campaigns.sh
. "$root/scripts/campaigns.sh"

build_campaign regions_campaign
choose_networks
# shellcheck disable=SC2086
exec nice -n 15 "$build/regions_campaign" "${RESULTS:-$root/build/regions_campaign.jsonl}" "${1:-100000}" "${2:-1000000}" \
  "${3:-20261129}" $MODELS
