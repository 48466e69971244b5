#include "num/kernels/residue_product_avx512.hpp"

namespace driftbound::num {
namespace {

/// Eight tiles of 16 rows of 64 bytes.
struct alignas(64) TileShapes {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

void multiply_pairs(const std::uint8_t* left, const std::uint8_t* right, std::size_t chunks, std::int32_t* sums) {
  const std::size_t panel = chunks * chunk_size;
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
  _tile_stored(1, sums + tile_sums, 64);
  _tile_stored(2, sums + 2 * tile_sums, 64);
  _tile_stored(3, sums + 3 * tile_sums, 64);
}

void multiply(const std::uint8_t* a, const std::uint8_t* b, std::size_t b_pair, std::size_t chunks, std::size_t count,
              std::size_t pairs, std::int32_t* sums) {
  static constexpr TileShapes shapes;  // GCC 12 does not know that the instruction reads all of it
  _tile_loadconfig(&shapes);
  const std::size_t both = 2 * chunks * chunk_size;
  for (std::size_t s = 0; s < count; ++s) {
    for (std::size_t q = 0; q < pairs; ++q, sums += 4 * tile_sums)
      multiply_pairs(a + s * both, b + q * b_pair + s * both, chunks, sums);
  }
  _tile_release();
}

}  // namespace

const ResidueKernels residue_amx = residue_kernels<Doubles>("amx", &multiply);

}  // namespace driftbound::num
