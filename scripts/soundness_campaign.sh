#!/bin/sh
# Builds the library and runs the soundness campaign of docs/campaigns.md.
# Usage: scripts/soundness_campaign.sh [OUTPUTS [SEED [THREADS]]]
#        scripts/soundness_campaign.sh --ops[=FAMILY] [OUTPUTS [SEED [THREADS]]]      ops by family, with random attributes
#        scripts/soundness_campaign.sh --case FAMILY SEED      one case again, as a failure names it
# Quick look: scripts/soundness_campaign.sh 20000
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
build=${BUILD_DIR:-$root/build/campaign}

cmake -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release -DDRIFTBOUND_BUILD_TESTS=OFF \
  -DDRIFTBOUND_BUILD_PROGRAM=OFF -DDRIFTBOUND_INSTALL=OFF >/dev/null
cmake --build "$build" -j2 >/dev/null

sources=
for source in random_values random_networks random_ops foreign_sums matrix_unit_networks hill_climb soundness_check box_check bundled; do
  sources="$sources $root/tests/soundness/$source.cpp"
done
# shellcheck disable=SC2086
"${CXX:-g++}" -std=c++20 -O2 -ffp-contract=off -Wall -Wextra -I"$root/include" -I"$root/src" -I"$root" -I"$root/tests" \
  "$root/scripts/soundness_campaign.cpp" $sources -o "$build/soundness_campaign" \
  "$build/src/libdriftbound.a" -lmpfr -lgmp -lfmt -lzip -pthread

case "${1:-}" in
  --case) exec "$build/soundness_campaign" "$@" ;;
  --ops*) exec nice -n 10 "$build/soundness_campaign" "$@" ;;
esac
exec nice -n 10 "$build/soundness_campaign" "$root/examples/models" "$@"
