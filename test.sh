#!/usr/bin/env bash
# Installs what is missing, builds the program and the tests, and runs the tests.
# DRIFTBOUND_TEST_MULTIPLIER=N makes the randomised tests N times longer. Arguments go to ctest.
set -euo pipefail
cd "$(dirname "$0")"
. scripts/packages.sh

install_packages $packages_to_build $packages_to_test
preset=${DRIFTBOUND_PRESET:-dev}
cmake --preset "$preset" >/dev/null
cmake --build --preset "$preset"
ctest --preset "$preset" "$@"
