#include "implicit/kernels/pair_blocks_kernel.hpp"

namespace driftbound::implicit {
namespace {

struct Vectors {
  static constexpr std::size_t lanes = 2, tile_vectors = 1, tile_outputs = 2;
  typedef double Doubles __attribute__((vector_size(16)));
  typedef std::int64_t Integers __attribute__((vector_size(16)));
  typedef std::uint64_t Naturals __attribute__((vector_size(16)));

  static Doubles fma(Doubles x, Doubles y, Doubles z) {
    return Doubles{__builtin_fma(x[0], y[0], z[0]), __builtin_fma(x[1], y[1], z[1])};
  }
};

}  // namespace

const PairBlockKernels pair_blocks_baseline = PairBlocks<Vectors>::kernels("baseline");

}  // namespace driftbound::implicit
