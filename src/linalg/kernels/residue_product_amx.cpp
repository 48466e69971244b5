#include "linalg/kernels/residue_product_avx512.hpp"

namespace driftbound::linalg {
namespace {

/// Eight tiles of 16 rows of 64 bytes.
struct alignas(64) TileShapes {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

void multiply_pairs(const std::uint8_t* left, const std::uint8_t* right, std::size_t panel, std::size_t chunks,
                    std::int32_t* sums) {
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (std::size_t chunk = 0; chunk < chunks; ++chunk, left += chunk_size, right += chunk_size) {
    _tile_loadd(4, left, 64);
    _tile_loadd(5, left + panel, 64);
    _tile_loadd(6, right, 64);
    _tile_loadd(7, right + panel, 64);
    _tile_dpbusd(0, 4, 6);
    _tile_dpbusd(1, 4, 7);
    _tile_dpbusd(2, 5, 6);
    _tile_dpbusd(3, 5, 7);
  }
  _tile_stored(0, sums, 64);
  _tile_stored(1, sums + tile_size, 64);
  _tile_stored(2, sums + 2 * tile_size, 64);
  _tile_stored(3, sums + 3 * tile_size, 64);
}

/// residues += sums, reduced.
void add_to(const std::int32_t* sums, const Reduction& reduction, std::int16_t* residues) {
  for (std::size_t i = 0; i < 4 * tile_size; i += residue_rows) {
    const __m256i before = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(residues + i));
    const __m512i sum = _mm512_add_epi32(_mm512_load_si512(sums + i), _mm512_maskz_cvtepi16_epi32(all_lanes, before));
    store_residues(residues + i, reduction.near_zero(sum));
  }
}

void multiply(const std::uint8_t* a, const std::uint8_t* b, std::size_t b_pair, std::size_t chunks,
              const ResidueBasis& basis, std::size_t pairs, std::int16_t* residues) {
  static constexpr TileShapes shapes;  // GCC 12 does not know that the instruction reads all of it
  _tile_loadconfig(&shapes);
  alignas(64) std::int32_t sums[4 * tile_size];
  const std::size_t panel = chunks * chunk_size;
  for (std::size_t s = 0; s < basis.count; ++s) {
    const Reduction reduction(basis.modulus[s]);
    for (std::size_t q = 0; q < pairs; ++q, residues += 4 * tile_size) {
      __builtin_memset(residues, 0, 4 * tile_size * sizeof *residues);
      for (std::size_t first = 0; first < chunks; first += chunks_at_once) {
        const std::size_t left_over = chunks - first, place = 2 * s * panel + first * chunk_size;
        multiply_pairs(a + place, b + q * b_pair + place, panel,
                       left_over < chunks_at_once ? left_over : chunks_at_once, sums);
        add_to(sums, reduction, residues);
      }
    }
  }
  _tile_release();
}

}  // namespace

const ResidueKernels DRIFTBOUND_SIMD_NAME(residue) = vector_kernels(&multiply);

}  // namespace driftbound::linalg
