#include <immintrin.h>

#include "implicit/kernels/pair_blocks_kernel.hpp"

namespace driftbound::implicit {
namespace {

struct Vectors {
  static constexpr std::size_t lanes = 4, tile_vectors = 2, tile_outputs = 2;
  typedef double Doubles __attribute__((vector_size(32)));
  typedef std::int64_t Integers __attribute__((vector_size(32)));
  typedef std::uint64_t Naturals __attribute__((vector_size(32)));

  static Doubles fma(Doubles x, Doubles y, Doubles z) { return _mm256_fmadd_pd(x, y, z); }
};

}  // namespace

const PairBlockKernels pair_blocks_avx2 = PairBlocks<Vectors>::kernels("avx2");

}  // namespace driftbound::implicit
