#!/bin/sh
# Functions in double-double against MPFR with 700 bits: scripts/double_double_campaign.sh [COUNT] [SEED] [THREADS]
# The recorded result is in docs/campaigns.md. Needs g++ on x86-64, MPFR and doctest.
set -eu
cd "$(dirname "$0")/.."
mkdir -p build/campaigns
build() { ${CXX:-g++} -std=c++20 -O3 -Wno-psabi -ffp-contract=off -Iinclude -Isrc -Itests "$@"; }
kernel=src/num/kernels/double_double
objects=build/campaigns/double_double
build -c ${kernel}_baseline.cpp -o ${objects}_baseline.o
build -mavx2 -mfma -c ${kernel}_avx2.cpp -o ${objects}_avx2.o
build -mavx512f -c ${kernel}_avx512.cpp -o ${objects}_avx512.o
build -DDRIFTBOUND_X86_KERNELS -DDOCTEST_CONFIG_DISABLE scripts/double_double_campaign.cpp src/num/double_double.cpp src/num/environment.cpp \
  ${objects}_*.o -lmpfr -lgmp -pthread -o build/campaigns/double_double_campaign
exec build/campaigns/double_double_campaign "$@"
