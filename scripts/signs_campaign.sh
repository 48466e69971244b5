#!/bin/sh
# Certified signs against the certified reference, MPFR and exact rationals (docs/campaigns.md). It goes on where it stopped.
# Usage: scripts/signs_campaign.sh [ROUNDS [SEED]]
# Networks: the bundled ones and, where DRIFTBOUND_TEST_DATA says where they are, fox and bunny; or MODELS (files, separated by
# spaces). Results, one line a unit of work: RESULTS, else build/signs_campaign.jsonl.
# Quick look: RESULTS=/tmp/quick.jsonl MODELS=examples/models/oscillator_d2_w16.onnx scripts/signs_campaign.sh 1
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
# shellcheck source=scripts/campaigns.sh
. "$root/scripts/campaigns.sh"

build_campaign signs_campaign
choose_networks
# shellcheck disable=SC2086
exec nice -n 15 "$build/signs_campaign" "${RESULTS:-$root/build/signs_campaign.jsonl}" "${1:-20}" "${2:-20261122}" $MODELS
