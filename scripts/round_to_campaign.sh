#!/bin/sh
# round_to against exact rounding: scripts/round_to_campaign.sh [COUNT] [SEED] [THREADS]
# The recorded result is in docs/campaigns.md. Needs a C++20 compiler and Boost headers.
set -eu
cd "$(dirname "$0")/.."
mkdir -p build/campaigns
${CXX:-g++} -std=c++20 -O2 -ffp-contract=off -Iinclude -Isrc -Itests \
  scripts/round_to_campaign.cpp src/num/round_to.cpp src/num/format.cpp src/num/rounding_decisions.cpp src/num/directed.cpp \
  src/num/environment.cpp -pthread -o build/campaigns/round_to_campaign
exec build/campaigns/round_to_campaign "$@"
