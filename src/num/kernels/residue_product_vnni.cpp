#include "num/kernels/residue_product_avx512.hpp"

namespace driftbound::num {
namespace {

/// Rows of a left panel whose sums are held at a time.
constexpr std::size_t rows_at_once = 8;

__m512i four_steps_of_all_rows(const std::uint8_t* b) {
  return _mm512_loadu_si512(b);
}

/// Four steps of one row, in every lane.
__m512i four_steps(const std::uint8_t* a) {
  std::int32_t steps;
  __builtin_memcpy(&steps, a, sizeof steps);
  return _mm512_set1_epi32(steps);
}

/// sum += the products of unsigned bytes with signed ones, four at a time. gcc 12 copies sums to and fro around its
/// intrinsic.
void add_products(__m512i& sum, __m512i bytes, __m512i signed_bytes) {
  asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(bytes), "v"(signed_bytes));
}

void multiply_rows(const std::uint8_t* a, const std::uint8_t* b, std::size_t b_panel, std::size_t chunks,
                   std::int32_t* sums) {
  __m512i sum[rows_at_once][2];
#pragma GCC unroll 8
  for (std::size_t r = 0; r < rows_at_once; ++r) sum[r][0] = sum[r][1] = _mm512_setzero_si512();
  for (std::size_t chunk = 0; chunk < chunks; ++chunk, a += chunk_size, b += chunk_size) {
    for (std::size_t l = 0; l < residue_steps; l += 4) {
      const __m512i left = four_steps_of_all_rows(b + l * residue_rows);
      const __m512i right = four_steps_of_all_rows(b + b_panel + l * residue_rows);
#pragma GCC unroll 8
      for (std::size_t r = 0; r < rows_at_once; ++r) {
        const __m512i factor = four_steps(a + r * residue_steps + l);
        add_products(sum[r][0], factor, left);
        add_products(sum[r][1], factor, right);
      }
    }
  }
#pragma GCC unroll 8
  for (std::size_t r = 0; r < rows_at_once; ++r) {
    _mm512_storeu_si512(sums + r * residue_rows, sum[r][0]);
    _mm512_storeu_si512(sums + tile_sums + r * residue_rows, sum[r][1]);
  }
}

void multiply(const std::uint8_t* a, const std::uint8_t* b, std::size_t b_pair, std::size_t chunks, std::size_t count,
              std::size_t pairs, std::int32_t* sums) {
  const std::size_t panel = chunks * chunk_size;
  for (std::size_t s = 0; s < count; ++s) {
    for (std::size_t q = 0; q < pairs; ++q, sums += 4 * tile_sums) {
      for (std::size_t i = 0; i < 2; ++i) {
        for (std::size_t r = 0; r < residue_rows; r += rows_at_once) {
          multiply_rows(a + (2 * s + i) * panel + r * residue_steps, b + q * b_pair + 2 * s * panel, panel, chunks,
                        sums + 2 * i * tile_sums + r * residue_rows);
        }
      }
    }
  }
}

}  // namespace

const ResidueKernels residue_vnni = residue_kernels<Doubles>("vnni", &multiply);

}  // namespace driftbound::num
