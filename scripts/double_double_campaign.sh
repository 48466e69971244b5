#!/bin/sh
# Functions in double-double against MPFR with 700 bits: scripts/double_double_campaign.sh [COUNT] [SEED] [THREADS]
# The recorded result is in docs/campaigns.md. Needs g++ on x86-64, MPFR and doctest.
set -eu
cd "$(dirname "$0")/.."
mkdir -p build/campaigns
build() { ${CXX:-g++} -std=c++20 -O3 -Wno-psabi -ffp-contract=off -Iinclude -Isrc -Itests "$@"; }
kernel=src/num/kernels/double_double
objects=build/campaigns/double_double
build -DDRIFTBOUND_SIMD_TARGET=baseline -c ${kernel}.cpp -o ${objects}_baseline.o
build -DDRIFTBOUND_SIMD_TARGET=avx2 -mavx2 -mfma -c ${kernel}.cpp -o ${objects}_avx2.o
build -DDRIFTBOUND_SIMD_TARGET=avx512 -mavx2 -mfma -mavx512f -c ${kernel}.cpp -o ${objects}_avx512.o
build -DDOCTEST_CONFIG_DISABLE scripts/double_double_campaign.cpp src/num/double_double.cpp src/num/environment.cpp src/simd/target.cpp \
  ${objects}_*.o -lmpfr -lgmp -pthread -o build/campaigns/double_double_campaign
exec build/campaigns/double_double_campaign "$@"
