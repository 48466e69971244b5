#include <doctest/doctest.h>
#include <mpfr.h>

#include <cfenv>
#include <limits>

#include "driftbound/num/errors.hpp"
#include "linalg/exact_product.hpp"
#include "linalg/exact_product_data.hpp"
#include "linalg/exact_product_kernels.hpp"
#include "num/doubles.hpp"
#include "support/approach.hpp"

#ifdef __SSE2__
#include <xmmintrin.h>
#endif

using namespace driftbound;
using namespace driftbound::linalg;
using test::Fixed;
using test::fixed;
using test::FloatMatrices;
using test::FloatMatrix;
using test::rows_of;
using test::worst;

namespace {

ExactProduct product(const FloatMatrix& a, const FloatMatrix& b, const ExactKernels& kernels,
                     Doubtful doubtful = Doubtful::third_accumulator, int threads = 1) {
  const ExactOperand left(rows_of(a), Side::left, threads, kernels), right(rows_of(b), Side::right, threads, kernels);
  ExactProduct y;
  exact_product(left, right, y, threads, doubtful);
  return y;
}

}  // namespace

TEST_CASE("exact products are exact where they say so and within their radius elsewhere, for every kind of data") {
  FloatMatrices matrices(6);
  for (const std::string& kind : FloatMatrices::kinds()) {
    for (const std::size_t k : {1u, 2u, 63u, 130u}) {
      const FloatMatrix a = matrices.draw(kind, 13, k), b = matrices.draw(kind, 33, k);
      for (const ExactKernels* kernels : usable_exact_kernels()) {
        CAPTURE(kind);
        CAPTURE(k);
        CAPTURE(kernels->name);
        const ExactProduct y = product(a, b, *kernels);
        CHECK(worst(a, b, y) <= 1.0);
        CHECK(worst(a, b, product(a, b, *kernels, Doubtful::radius)) <= 1.0);
        if (FloatMatrices::is_tame(kind)) CHECK(y.radius.empty());
      }
    }
  }
}

TEST_CASE("exact products of any two kinds of data") {
  FloatMatrices matrices(7);
  for (const std::string& left : FloatMatrices::kinds()) {
    for (const std::string& right : FloatMatrices::kinds()) {
      const FloatMatrix a = matrices.draw(left, 7, 20), b = matrices.draw(right, 17, 20);
      CAPTURE(left);
      CAPTURE(right);
      for (const ExactKernels* kernels : usable_exact_kernels()) CHECK(worst(a, b, product(a, b, *kernels)) <= 1.0);
    }
  }
}

TEST_CASE("exact products of ragged sizes, with any number of threads") {
  FloatMatrices matrices(8);
  std::mt19937_64 generator(9);
  for (int round = 0; round < 60; ++round) {
    const std::size_t m = 1 + generator() % 130, n = 1 + generator() % (round % 10 == 0 ? 130 : 20),
                      k = 1 + generator() % 130;
    const FloatMatrix a = matrices.draw(round % 3 == 0 ? "mixed rows" : "normal", m, k),
                      b = matrices.draw("normal", n, k);
    const auto usable = usable_exact_kernels();
    const ExactKernels& kernels = *usable[static_cast<std::size_t>(round) % usable.size()];
    CAPTURE(kernels.name);
    CAPTURE(m);
    CAPTURE(n);
    CAPTURE(k);
    const ExactProduct y = product(a, b, kernels);
    CHECK(worst(a, b, y) <= 1.0);
    const ExactProduct again = product(a, b, kernels, Doubtful::third_accumulator, 3);
    CHECK(y.high == again.high);
    CHECK(y.low == again.low);
    CHECK(y.radius == again.radius);
  }
}

TEST_CASE("exact products of many blocks are the same with four threads") {
  FloatMatrices matrices(16);
  constexpr std::size_t m = 397, n = 503, k = 29;
  const FloatMatrix a = matrices.draw("mixed rows", m, k), b = matrices.draw("normal", n, k);
  const ExactProduct y = product(a, b, fastest_exact_kernels(), Doubtful::third_accumulator, 4),
                     alone = product(a, b, fastest_exact_kernels());
  CHECK(y.high == alone.high);
  CHECK(y.low == alone.low);
  CHECK(y.radius == alone.radius);
  for (std::size_t place = 0; place < m * n; place += 97) {
    const std::size_t i = place / n, j = place % n;
    const Fixed error = abs(fixed(y.high[place]) + fixed(y.low[place]) - test::exact_dot(a.row(i), b.row(j), k));
    CHECK(error <= fixed(y.radius_of(i, j)));
  }
}

TEST_CASE("exact products of any data, sizes up to 4097 and builds") {
  FloatMatrices matrices(18);
  std::mt19937_64 generator(19);
  const auto extent = [&](double most) {
    return static_cast<std::size_t>(std::exp2(std::uniform_real_distribution<double>(0.0, std::log2(most))(generator)));
  };
  std::size_t outputs = 0, exact = 0;
  const auto usable = usable_exact_kernels();
  for (int round = 0; round < driftbound_tests::scaled_by_multiplier(150); ++round) {
    const std::size_t k = extent(4098), m = extent(std::min(4098.0, 60000.0 / static_cast<double>(k)));
    const std::size_t n = extent(std::min(4098.0, 60000.0 / static_cast<double>(k * m)) + 1.0);
    const std::string& left = FloatMatrices::kinds()[generator() % FloatMatrices::kinds().size()];
    const std::string& right = FloatMatrices::kinds()[generator() % FloatMatrices::kinds().size()];
    const FloatMatrix a = matrices.draw(left, m, k), b = matrices.draw(generator() % 2 == 0 ? left : right, n, k);
    const ExactKernels& kernels = *usable[generator() % usable.size()];
    CAPTURE(kernels.name);
    CAPTURE(left);
    CAPTURE(right);
    CAPTURE(m);
    CAPTURE(n);
    CAPTURE(k);
    const Doubtful doubtful = generator() % 2 == 0 ? Doubtful::radius : Doubtful::third_accumulator;
    const ExactProduct y = product(a, b, kernels, doubtful, 1 + static_cast<int>(generator() % 2));
    CHECK(worst(a, b, y) <= 1.0);
    outputs += m * n;
    for (std::size_t i = 0; i < m * n; ++i) exact += y.radius.empty() || y.radius[i] == 0.0 ? 1u : 0u;
  }
  MESSAGE("outputs " << outputs << ", of which certified exact " << exact);
}

TEST_CASE("normal data stay exact in long sums") {
  FloatMatrices matrices(10);
  for (const std::size_t k : {511u, 512u, 513u, 1024u, 4096u}) {
    const FloatMatrix a = matrices.draw("normal", 7, k), b = matrices.draw("normal", 17, k);
    for (const ExactKernels* kernels : usable_exact_kernels()) {
      CAPTURE(k);
      const ExactProduct y = product(a, b, *kernels);
      CHECK(y.radius.empty());
      CHECK(worst(a, b, y) <= 1.0);
    }
  }
}

namespace {

/// Products just below 2^-52, odd multiples of 2^unit, from step `from` on: nothing of them enters S at first, and L
/// grows as fast as it can. Every other column has a product before them that leaves half as much in L.
void check_growing_low(std::size_t k, std::size_t from, int unit) {
  const float left = 0x3fffffp-48f, right = unit == -96 ? 0x400001p-48f : 0x800001p-49f;
  FloatMatrix a(6, k), b(16, k);
  for (std::size_t i = 0; i < 6; ++i) {
    for (std::size_t l = from; l < k; ++l) a.values[i * k + l] = left;
    a.values[i * k] = 0.9f;  // the norm; b is 0 there
    a.values[i * k + 2] = 0x200001p-48f;
  }
  for (std::size_t j = 0; j < 16; ++j) {
    for (std::size_t l = from; l < k; ++l) b.values[j * k + l] = right;
    b.values[j * k + 1] = 0.9f;
    if (j % 2 == 1) b.values[j * k + 2] = 0x400001p-48f;
  }
  for (const ExactKernels* kernels : usable_exact_kernels()) {
    CAPTURE(kernels->name);
    CAPTURE(k);
    CAPTURE(from);
    CAPTURE(unit);
    const ExactProduct y = product(a, b, *kernels, Doubtful::radius);
    CHECK(y.radius.empty() == (unit == -96));
    CHECK(worst(a, b, y) <= 1.0);
  }
}

}  // namespace

// Without renormalising L, or one step later than T-83 says, bits fall off; so they do with last bits half as large.
TEST_CASE("L is renormalised before its last bits fall off, and not trusted where that is too late") {
  for (const std::size_t k : {512u, 513u, 600u, 1022u, 1023u, 1024u, 1025u, 2100u}) {
    for (const int unit : {-96, -97}) {
      check_growing_low(k, 3, unit);
      check_growing_low(k, k < 1024 ? k / 2 : 512, unit);
    }
  }
}

TEST_CASE("the norms stay below the powers of two that rows are divided by, with the margin of the theorem") {
  for (const float x :
       {0x1.fffffep-1f, 1.0f, 0x1.000002p0f, 0x1.6a09e6p-1f, 0x1.6a09e4p-1f, 0x1.fffff0p-1f, 0x1p-149f}) {
    for (const std::size_t k : {1u, 2u, 4u, 16u, 64u, 127u, 128u}) {
      FloatMatrix a(1, k);
      std::fill(a.values.begin(), a.values.end(), x);
      const ExactOperand operand(rows_of(a), Side::left, 1);
      const Fixed squares = test::exact_dot(a.row(0), a.row(0), k),
                  scale = fixed(operand.scales(0)[0] * operand.scales(0)[0]);
      CHECK(squares + squares / (1 << 21) <= scale);
      CHECK(scale <= 5 * squares);
    }
  }
}

namespace {

/// A row b for a row of 2^24 - 1: products just below 2^-52, last bits 2^-100, that make every addition to L lose as
/// much as it can, always upward.
FloatMatrix costly_row(std::size_t k) {
  FloatMatrix b(1, k);
  double low = 0.0;
  for (std::size_t l = 2; l < k; ++l) {
    double most = -1.0;
    double sum = low;
    for (int last = 1; last < 512; last += 2) {
      const double candidate = 0x1p24 - last, t = std::ldexp(candidate * 0x1.fffffep23, -100);
      const double loss = (low + t - low) - t;
      if (loss > most) most = loss, sum = low + t, b.values[l] = static_cast<float>(std::ldexp(candidate, -50));
    }
    low = sum;
  }
  return b;
}

}  // namespace

TEST_CASE("the radius of two accumulators holds, and half of it would not") {
  constexpr std::size_t k = 512;
  FloatMatrix a(1, k), b = costly_row(k);
  std::fill(a.values.begin(), a.values.end(), std::ldexp(0x1.fffffep23f, -50));
  a.values[0] = b.values[1] = 0.9f;  // each where the other is 0: norms just below 1
  a.values[1] = b.values[0] = 0.0f;
  for (const ExactKernels* kernels : usable_exact_kernels()) {
    CAPTURE(kernels->name);
    const double ratio = worst(a, b, product(a, b, *kernels, Doubtful::radius));
    CHECK_APPROACH("T-83", ratio, 0.548);
    CHECK(ratio > 0.5);
  }
}

TEST_CASE("three accumulators resolve what two cannot") {
  FloatMatrices matrices(11);
  double closest = 0.0;
  for (const char* kind : {"spread 30", "spread 60", "outlier"}) {
    const FloatMatrix a = matrices.draw(kind, 6, 100), b = matrices.draw(kind, 16, 100);
    for (const ExactKernels* kernels : usable_exact_kernels()) {
      CAPTURE(kind);
      CAPTURE(kernels->name);
      const ExactProduct two = product(a, b, *kernels, Doubtful::radius), three = product(a, b, *kernels);
      REQUIRE(two.radius.size() == 96);
      REQUIRE(three.radius.size() == 96);
      for (std::size_t i = 0; i < 96; ++i) {
        if (two.radius[i] > 0.0)
          CHECK(three.radius[i] <= std::max(two.radius[i] * 0x1p-30, std::fabs(three.high[i]) * 0x1p-104));
      }
      closest = std::max(closest, worst(a, b, three));
    }
  }
  CHECK_APPROACH("T-84", closest, 0.99);
}

TEST_CASE("every build is within its certificate of the plain one, and MPFR with 1200 bits within both") {
  FloatMatrices matrices(12);
  mpfr_t sum, term;
  mpfr_inits2(1200, sum, term, nullptr);
  for (const std::string& kind : FloatMatrices::kinds()) {
    const FloatMatrix a = matrices.draw(kind, 8, 77), b = matrices.draw(kind, 19, 77);
    const ExactProduct plain = product(a, b, *usable_exact_kernels().front());
    for (const ExactKernels* kernels : usable_exact_kernels()) {
      CAPTURE(kind);
      CAPTURE(kernels->name);
      const ExactProduct y = product(a, b, *kernels);
      for (std::size_t i = 0; i < 8; ++i) {
        for (std::size_t j = 0; j < 19; ++j) {
          const std::size_t place = i * 19 + j;
          const double radius = y.radius_of(i, j) + plain.radius_of(i, j);
          CHECK(abs(fixed(y.high[place]) + fixed(y.low[place]) - fixed(plain.high[place]) - fixed(plain.low[place])) <=
                fixed(radius));
          mpfr_set_zero(sum, 1);
          for (std::size_t l = 0; l < 77; ++l) {
            mpfr_set_flt(term, a.row(i)[l], MPFR_RNDN);
            mpfr_mul_d(term, term, static_cast<double>(b.row(j)[l]), MPFR_RNDN);
            mpfr_add(sum, sum, term, MPFR_RNDN);
          }
          mpfr_sub_d(sum, sum, y.high[place], MPFR_RNDN);
          mpfr_sub_d(sum, sum, y.low[place], MPFR_RNDN);
          mpfr_abs(sum, sum, MPFR_RNDN);
          CHECK(mpfr_cmp_d(sum, y.radius_of(i, j)) <= 0);
        }
      }
    }
  }
  mpfr_clears(sum, term, nullptr);
}

TEST_CASE("operands with strides, of no rows and of no length") {
  FloatMatrices matrices(13);
  const FloatMatrix source = matrices.draw("normal", 40, 30), b = matrices.draw("normal", 5, 40);
  FloatMatrix transposed(30, 40);
  for (std::size_t i = 0; i < 30; ++i) {
    for (std::size_t l = 0; l < 40; ++l) transposed.values[i * 40 + l] = source.values[l * 30 + i];
  }
  ExactProduct y;
  exact_product(ExactOperand({source.values.data(), 30, 40, 1, 30}, Side::left, 1),
                ExactOperand(rows_of(b), Side::right, 1), y, 1);
  CHECK(worst(transposed, b, y) <= 1.0);

  const FloatMatrix none(0, 40), short_rows(3, 0), short_columns(2, 0);
  exact_product(ExactOperand(rows_of(none), Side::left, 1), ExactOperand(rows_of(b), Side::right, 1), y, 2);
  CHECK(y.high.empty());
  exact_product(ExactOperand(rows_of(short_rows), Side::left, 1), ExactOperand(rows_of(short_columns), Side::right, 1),
                y, 2);
  CHECK(y.high == std::vector<double>(6, 0.0));
  CHECK(y.radius.empty());
}

TEST_CASE("an element that is not finite leaves its row or column without values, and nothing else") {
  FloatMatrices matrices(14);
  for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    for (const ExactKernels* kernels : usable_exact_kernels()) {
      FloatMatrix a = matrices.draw("normal", 9, 50), b = matrices.draw("normal", 20, 50);
      a.values[4 * 50 + 7] = bad;
      b.values[11 * 50 + 49] = -bad;
      b.values[3 * 50 + 7] = 0.0f;  // 0 times infinity is not 0
      const ExactProduct y = product(a, b, *kernels);
      for (std::size_t i = 0; i < 9; ++i) {
        for (std::size_t j = 0; j < 20; ++j) {
          const double high = y.high[i * 20 + j];
          CHECK(std::isnan(high) == (i == 4 || j == 11));
          CHECK(y.radius_of(i, j) == (i == 4 || j == 11 ? std::numeric_limits<double>::infinity() : 0.0));
          if (!std::isnan(high))
            CHECK(fixed(high) + fixed(y.low[i * 20 + j]) == test::exact_dot(a.row(i), b.row(j), 50));
        }
      }
    }
  }
}

TEST_CASE("exact products refuse operands that do not fit") {
  const FloatMatrix a(3, 4), b(3, 5);
  const ExactOperand left(rows_of(a), Side::left, 1), right(rows_of(a), Side::right, 1),
      longer(rows_of(b), Side::right, 1);
  ExactProduct y;
  CHECK_THROWS_AS(exact_product(left, longer, y, 1), InvalidArgument);
  CHECK_THROWS_AS(exact_product(right, left, y, 1), InvalidArgument);
  CHECK_THROWS_AS(exact_product(left, right, y, 0), InvalidArgument);
  CHECK_THROWS_AS(ExactOperand({nullptr, 1, (std::size_t{1} << 26) + 1, 0, 1}, Side::left, 1), InvalidArgument);
  const auto usable = usable_exact_kernels();
  if (usable.size() > 1) {
    const ExactOperand other(rows_of(a), Side::right, 1, *usable.front());
    CHECK_THROWS_AS(exact_product(left, other, y, 1), InvalidArgument);
  }
}

TEST_CASE("exact products refuse a thread that rounds elsewhere or flushes subnormal numbers") {
  FloatMatrices matrices(15);
  const FloatMatrix a = matrices.draw("subnormal", 40, 20);
  const ExactOperand left(rows_of(a), Side::left, 1), right(rows_of(a), Side::right, 1);
  ExactProduct y;
  std::fesetround(FE_UPWARD);
  CHECK_THROWS_AS(exact_product(left, right, y, 1), UnsoundEnvironment);
  CHECK_THROWS_AS(ExactOperand(rows_of(a), Side::left, 1), UnsoundEnvironment);
  std::fesetround(FE_TONEAREST);
#ifdef __SSE2__
  const unsigned before = _mm_getcsr();
  for (const unsigned flag : {0x40u, 0x8000u}) {
    _mm_setcsr(before | flag);
    CHECK_THROWS_AS(exact_product(left, right, y, 2), UnsoundEnvironment);
    CHECK_THROWS_AS(ExactOperand(rows_of(a), Side::left, 2), UnsoundEnvironment);
    _mm_setcsr(before);
  }
#endif
}
