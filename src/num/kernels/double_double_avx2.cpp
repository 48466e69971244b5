#include <immintrin.h>

#include "num/kernels/double_double_kernel.hpp"

namespace driftbound::num {
namespace {

struct Vectors {
  static constexpr std::size_t lanes = 4;
  typedef double Doubles __attribute__((vector_size(32)));
  typedef std::int64_t Integers __attribute__((vector_size(32)));
  typedef std::uint64_t Naturals __attribute__((vector_size(32)));

  static Doubles fma(Doubles x, Doubles y, Doubles z) { return _mm256_fmadd_pd(x, y, z); }
  static Doubles sqrt(Doubles x) { return _mm256_sqrt_pd(x); }
  static Doubles gather(const double* table, Integers index) {
    const __m256d every = _mm256_castsi256_pd(_mm256_set1_epi64x(-1));
    return _mm256_mask_i64gather_pd(_mm256_setzero_pd(), table, __builtin_bit_cast(__m256i, index), every, 8);
  }
};

}  // namespace

const DoubleDoubleKernels double_double_avx2 = double_double_kernels<Vectors>("avx2");

}  // namespace driftbound::num
