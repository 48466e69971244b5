#include <immintrin.h>

#include "num/kernels/double_double_kernel.hpp"

namespace driftbound::num {
namespace {

struct Vectors {
  static constexpr std::size_t lanes = 8;
  typedef double Doubles __attribute__((vector_size(64)));
  typedef std::int64_t Integers __attribute__((vector_size(64)));
  typedef std::uint64_t Naturals __attribute__((vector_size(64)));

  static Doubles fma(Doubles x, Doubles y, Doubles z) { return _mm512_fmadd_pd(x, y, z); }
  // Without a mask GCC 12 warns of its own header.
  static Doubles sqrt(Doubles x) { return _mm512_maskz_sqrt_pd(0xff, x); }
  static Doubles gather(const double* table, Integers index) {
    return _mm512_mask_i64gather_pd(_mm512_setzero_pd(), 0xff, __builtin_bit_cast(__m512i, index), table, 8);
  }
};

}  // namespace

const DoubleDoubleKernels double_double_avx512 = double_double_kernels<Vectors>("avx512");

}  // namespace driftbound::num
