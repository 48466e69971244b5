#include "num/kernels/residue_product_kernel.hpp"

namespace driftbound::num {
namespace {

/// One double in plain C++.
struct Plain {
  static constexpr std::size_t lanes = 1;
  double v;

  static Plain load(const double* p) { return {*p}; }
  static Plain all(double x) { return {x}; }
  static Plain from_integers(const std::int32_t* p) { return {static_cast<double>(*p)}; }
  void store(double* p) const { *p = v; }
  void store_last_bytes(std::uint8_t* p) const {
    std::uint64_t bits;
    __builtin_memcpy(&bits, &v, sizeof bits);
    *p = static_cast<std::uint8_t>(bits);
  }
  friend Plain add(Plain x, Plain y) { return {x.v + y.v}; }
  friend Plain sub(Plain x, Plain y) { return {x.v - y.v}; }
  friend Plain mul(Plain x, Plain y) { return {x.v * y.v}; }
  friend Plain fma(Plain x, Plain y, Plain z) { return {__builtin_fma(x.v, y.v, z.v)}; }
  friend Plain fnma(Plain x, Plain y, Plain z) { return {__builtin_fma(-x.v, y.v, z.v)}; }
  friend Plain raised(Plain x, Plain p) { return {x.v < 0.0 ? x.v + p.v : x.v}; }
  friend Plain magnitude(Plain x) { return {x.v < 0.0 ? -x.v : x.v}; }
};

void multiply_tile(const std::uint8_t* a, const std::uint8_t* b, std::size_t chunks, std::int32_t* sums) {
  for (std::size_t i = 0; i < tile_sums; ++i) sums[i] = 0;
  for (std::size_t chunk = 0; chunk < chunks; ++chunk, a += chunk_size, b += chunk_size) {
    for (std::size_t r = 0; r < residue_rows; ++r) {
      for (std::size_t c = 0; c < residue_rows; ++c) {
        std::int32_t sum = 0;
        for (std::size_t l = 0; l < residue_steps; ++l) {
          const auto factor = static_cast<std::int8_t>(b[(l / 4 * residue_rows + c) * 4 + l % 4]);
          sum += std::int32_t{a[r * residue_steps + l]} * factor;
        }
        sums[r * residue_rows + c] += sum;
      }
    }
  }
}

void multiply(const std::uint8_t* a, const std::uint8_t* b, std::size_t b_pair, std::size_t chunks, std::size_t count,
              std::size_t pairs, std::int32_t* sums) {
  const std::size_t panel = chunks * chunk_size;
  for (std::size_t s = 0; s < count; ++s) {
    for (std::size_t q = 0; q < pairs; ++q) {
      for (std::size_t tile = 0; tile < 4; ++tile, sums += tile_sums)
        multiply_tile(a + (2 * s + tile / 2) * panel, b + q * b_pair + (2 * s + tile % 2) * panel, chunks, sums);
    }
  }
}

}  // namespace

const ResidueKernels residue_baseline = residue_kernels<Plain>("baseline", &multiply);

}  // namespace driftbound::num
