#include "linalg/kernels/residue_product_kernel.hpp"

namespace driftbound::linalg {
namespace {

void keep_digits(Vector integers, double* digits, std::size_t l) {
  integers.store(digits + l);
}
Vector widened(const std::int16_t* p) {
  return simd::converted<double>(simd::Vector<std::int16_t, lanes>::load(p));
}
Vector gathered(const double* p, const std::int32_t* places) {
  return simd::gathered(p, simd::converted<std::int64_t>(simd::Vector<std::int32_t, lanes>::load(places)));
}

/// x modulo p in [0, p).
std::int32_t from_zero(std::int64_t x, std::int32_t p) {
  const auto r = static_cast<std::int32_t>(x % p);
  return r < 0 ? r + p : r;
}

std::int32_t near_zero(std::int64_t x, std::int32_t p) {
  const std::int32_t r = from_zero(x, p);
  return 2 * r > p ? r - p : r;
}

template <bool is_left>
void residues(const double* digits, std::size_t count, std::size_t length, const Modulus& modulus, std::size_t step,
              std::uint8_t* bytes) {
  const std::int32_t p = modulus.p, unit = from_zero(std::int64_t{1} << limb_bits, p);
  for (std::size_t l = 0; l < length; ++l) {
    std::int64_t x = 0;
    for (std::size_t i = count; i-- > 0;)
      x = near_zero(x, p) * unit + static_cast<std::int64_t>(digits[i * length + l]);
    bytes[l / residue_steps * step + l % residue_steps] =
        static_cast<std::uint8_t>(is_left ? from_zero(x, p) : near_zero(x, p));
  }
}

void multiply_tile(const std::uint8_t* a, const std::uint8_t* b, std::size_t chunks, std::int32_t p,
                   std::int16_t* residues) {
  std::int32_t sums[tile_size] = {};
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
  for (std::size_t i = 0; i < tile_size; ++i) residues[i] = static_cast<std::int16_t>(near_zero(sums[i], p));
}

void multiply(const std::uint8_t* a, const std::uint8_t* b, std::size_t b_pair, std::size_t chunks,
              const ResidueBasis& basis, std::size_t pairs, std::int16_t* residues) {
  const std::size_t panel = chunks * chunk_size;
  for (std::size_t s = 0; s < basis.count; ++s) {
    for (std::size_t q = 0; q < pairs; ++q) {
      for (std::size_t tile = 0; tile < 4; ++tile, residues += tile_size) {
        multiply_tile(a + (2 * s + tile / 2) * panel, b + q * b_pair + (2 * s + tile % 2) * panel, chunks, moduli[s],
                      residues);
      }
    }
  }
}

}  // namespace

const ResidueKernels DRIFTBOUND_SIMD_NAME(residue) = residue_kernels(&residues<true>, &residues<false>, &multiply);

}  // namespace driftbound::linalg
