#include "linalg/kernels/residue_product_avx512.hpp"

namespace driftbound::linalg {
namespace {

__m512i four_steps_of_all_rows(const std::uint8_t* b) {
  return _mm512_loadu_si512(b);
}

void multiply_panels(const std::uint8_t* a, const std::uint8_t* b, std::size_t chunks, const Reduction& reduction,
                     std::int16_t* residues) {
  __m512i sum[residue_rows];
#pragma GCC unroll 16
  for (std::size_t r = 0; r < residue_rows; ++r) sum[r] = _mm512_setzero_si512();
  for (std::size_t left_over = chunks; left_over > 0;) {
    const std::size_t now = left_over < chunks_at_once ? left_over : chunks_at_once;
    left_over -= now;
    for (std::size_t chunk = 0; chunk < now; ++chunk, a += chunk_size, b += chunk_size) {
      // Rows of thousands do not stay in the first cache.
      const std::size_t next = chunk + 1 < now ? chunk_size : 0;
      for (std::size_t l = 0; l < residue_steps; l += 4) {
        __builtin_prefetch(a + next + l * residue_rows);
        __builtin_prefetch(b + next + l * residue_rows);
        const __m512i right = four_steps_of_all_rows(b + l * residue_rows);
#pragma GCC unroll 16
        for (std::size_t r = 0; r < residue_rows; ++r)
          add_products(sum[r], four_bytes_everywhere(a + r * residue_steps + l), right);
      }
    }
#pragma GCC unroll 16
    for (std::size_t r = 0; r < residue_rows; ++r) sum[r] = reduction.near_zero(sum[r]);
  }
#pragma GCC unroll 16
  for (std::size_t r = 0; r < residue_rows; ++r) store_residues(residues + r * residue_rows, sum[r]);
}

void multiply(const std::uint8_t* a, const std::uint8_t* b, std::size_t b_pair, std::size_t chunks,
              const ResidueBasis& basis, std::size_t pairs, std::int16_t* residues) {
  const std::size_t panel = chunks * chunk_size;
  for (std::size_t s = 0; s < basis.count; ++s) {
    const Reduction reduction(basis.modulus[s]);
    for (std::size_t q = 0; q < pairs; ++q, residues += 4 * tile_size) {
      for (std::size_t j = 0; j < 2; ++j) {
        for (std::size_t i = 0; i < 2; ++i)
          multiply_panels(a + (2 * s + i) * panel, b + q * b_pair + (2 * s + j) * panel, chunks, reduction,
                          residues + (2 * i + j) * tile_size);
      }
    }
  }
}

}  // namespace

const ResidueKernels DRIFTBOUND_SIMD_NAME(residue) = vector_kernels(&multiply);

}  // namespace driftbound::linalg
