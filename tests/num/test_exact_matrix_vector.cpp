#include <doctest/doctest.h>

#include <algorithm>
#include <cfenv>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "driftbound/num/errors.hpp"
#include "num/doubles.hpp"
#include "num/exact_matrix_vector.hpp"
#include "num/exact_product_data.hpp"
#include "support/approach.hpp"

#ifdef __SSE2__
#include <xmmintrin.h>
#endif

using namespace driftbound;
using namespace driftbound::num;
using test::fixed;
using test::FloatMatrices;
using test::FloatMatrix;
using test::rows_of;

namespace {

void check(const FloatMatrix& w, const FloatMatrix& x, const ExactProduct& y) {
  REQUIRE(y.high.size() == w.rows);
  for (std::size_t i = 0; i < w.rows; ++i) {
    CAPTURE(i);
    CHECK(y.high[i] + y.low[i] == y.high[i]);
    const test::Fixed error = abs(fixed(y.high[i]) + fixed(y.low[i]) - test::exact_dot(w.row(i), x.row(0), w.length));
    CHECK(error <= fixed(y.radius_of(0, i)));
  }
}

/// A build that streams float32 weights, and one that adds up integers, or none.
struct Build {
  const ExactKernels* stream;
  const IntegerKernels* integers;
  std::string name;
};

std::vector<Build> usable_builds() {
  std::vector<Build> builds;
  for (const ExactKernels* stream : usable_exact_kernels()) builds.push_back({stream, nullptr, stream->name});
  for (const IntegerKernels* integers : usable_integer_kernels())
    builds.push_back({&fastest_exact_kernels(), integers, std::string("integers, ") + integers->name});
  return builds;
}

ExactMatrix matrix_of(const FloatMatrix& w, const Build& build) {
  return ExactMatrix(rows_of(w), 1, *build.stream, build.integers);
}

}  // namespace

TEST_CASE("exact matrix-vector products are exact where they say so, for every kind and length") {
  FloatMatrices matrices(16);
  for (const std::string& kind : FloatMatrices::kinds()) {
    for (const std::size_t k : {1u, 3u, 8u, 63u, 130u, 500u}) {
      const FloatMatrix w = matrices.draw(kind, 1 + k % 9, k), x = matrices.draw(kind, 1, k);
      for (const Build& build : usable_builds()) {
        CAPTURE(kind);
        CAPTURE(k);
        CAPTURE(build.name);
        const ExactMatrix matrix = matrix_of(w, build);
        ExactProduct y;
        exact_matrix_vector(matrix, x.values.data(), y);
        check(w, x, y);
        if (FloatMatrices::is_tame(kind)) CHECK(y.radius.empty());
        exact_matrix_vector(matrix, x.values.data(), y, 2, Doubtful::radius);
        check(w, x, y);
      }
    }
  }
}

TEST_CASE("exact matrix-vector products of any data, sizes up to 4097 and builds") {
  FloatMatrices matrices(24);
  std::mt19937_64 generator(25);
  const auto extent = [&](double most) {
    return static_cast<std::size_t>(std::exp2(std::uniform_real_distribution<double>(0.0, std::log2(most))(generator)));
  };
  const auto kind = [&]() -> const std::string& {
    return FloatMatrices::kinds()[generator() % FloatMatrices::kinds().size()];
  };
  std::size_t outputs = 0, exact = 0;
  const std::vector<Build> usable = usable_builds();
  for (int round = 0; round < driftbound_tests::scaled_by_multiplier(100); ++round) {
    const std::size_t k = extent(4098), n = extent(std::min(4098.0, 60000.0 / static_cast<double>(k)));
    const std::string& of_matrix = kind();
    const FloatMatrix w = matrices.draw(of_matrix, n, k),
                      x = matrices.draw(generator() % 2 == 0 ? of_matrix : kind(), 1, k);
    const Build& build = usable[generator() % usable.size()];
    CAPTURE(build.name);
    CAPTURE(of_matrix);
    CAPTURE(n);
    CAPTURE(k);
    ExactProduct y;
    const Doubtful doubtful = generator() % 2 == 0 ? Doubtful::radius : Doubtful::third_accumulator;
    exact_matrix_vector(matrix_of(w, build), x.values.data(), y, 1 + static_cast<int>(generator() % 2), doubtful);
    check(w, x, y);
    outputs += n;
    for (std::size_t i = 0; i < n; ++i) exact += y.radius_of(0, i) == 0.0 ? 1u : 0u;
  }
  MESSAGE("outputs " << outputs << ", of which certified exact " << exact);
}

// What fills L as fast as it can, in every lane: with eight lanes it is renormalised every 4088 steps, with two every
// 1022.
TEST_CASE("the lanes of a long matrix-vector product are renormalised in time") {
  for (const std::size_t k : {511u, 1025u, 2044u, 2046u, 4090u, 4104u, 9000u}) {
    FloatMatrix w(5, k), x(1, k);
    std::fill(w.values.begin(), w.values.end(), 0x3fffffp-48f);
    std::fill(x.values.begin(), x.values.end(), 0x400001p-48f);
    for (std::size_t i = 0; i < w.rows; ++i) w.values[i * k] = 0.9f, w.values[i * k + 1] = 0.0f;
    x.values[0] = 0.0f;
    x.values[1] = 0.9f;
    for (const Build& build : usable_builds()) {
      CAPTURE(build.name);
      CAPTURE(k);
      ExactProduct y;
      exact_matrix_vector(matrix_of(w, build), x.values.data(), y, 1, Doubtful::radius);
      CHECK_EXACT("T-85", y.radius.empty());
      check(w, x, y);
    }
  }
}

// Halves of products as large as they can be, which fill 64 bits with 4096 of them.
TEST_CASE("sums of products of integers are those of plain integers") {
  std::mt19937_64 generator(27);
  for (const std::size_t length : {8u, 64u, 4096u}) {
    for (const std::uint64_t most : std::initializer_list<std::uint64_t>{0xffffffffffff, 1, 0}) {
      std::vector<std::uint8_t> a(length / integer_lanes * integer_step + integer_overrun, 0);
      std::vector<std::uint64_t> b(length, 0xfffffffffffff), elements(integer_rows * length);
      for (std::size_t i = 0; i < elements.size(); ++i) {
        const std::uint64_t element = most == 0 ? generator() >> 16 : most;
        const std::size_t r = i / length, l = i % length;
        elements[i] = element;
        std::uint8_t* const bytes = a.data() + integer_place(r, l) + l % integer_lanes * integer_bytes;
        for (std::size_t k = 0; k < integer_bytes; ++k) bytes[k] = static_cast<std::uint8_t>(element >> 8 * k);
      }
      if (most == 0) std::generate(b.begin(), b.end(), [&] { return generator() >> 12; });
      for (const IntegerKernels* kernels : usable_integer_kernels()) {
        CAPTURE(kernels->name);
        std::uint64_t low[integer_rows], high[integer_rows];
        kernels->dot(a.data(), b.data(), length, low, high);
        for (std::size_t r = 0; r < integer_rows; ++r) {
          test::Fixed sum = 0;
          for (std::size_t l = 0; l < length; ++l) sum += test::Fixed(elements[r * length + l]) * b[l];
          CHECK((test::Fixed(high[r]) << 52) + low[r] == sum);
        }
      }
    }
  }
}

// 2^-1 and a number of as many bits as integers hold, and one bit more.
TEST_CASE("rows and vectors are taken as integers down to their last bits, and exact beyond") {
  for (const IntegerKernels* kernels : usable_integer_kernels()) {
    for (const int row_bit : {row_unit, row_unit - 1}) {
      for (const int vector_bit : {vector_unit, vector_unit - 1}) {
        CAPTURE(kernels->name);
        CAPTURE(row_bit);
        CAPTURE(vector_bit);
        FloatMatrix w(5, 9), x(1, 9);
        for (std::size_t i = 0; i < w.rows; ++i) {
          w.values[i * 9 + i] = i % 2 == 0 ? 0.5f : -0.5f;
          w.values[i * 9 + 8] = std::ldexp(-3.0f, row_bit);
        }
        x.values[1] = -0.5f;
        x.values[2] = std::ldexp(0x7fffffp0f, vector_bit);
        x.values[8] = std::ldexp(-1.0f, vector_bit);
        const ExactMatrix matrix(rows_of(w), 1, fastest_exact_kernels(), kernels);
        CHECK(matrix.integers().has_group_of(4) == (row_bit == row_unit));
        ExactProduct y;
        exact_matrix_vector(matrix, x.values.data(), y, 1, Doubtful::radius);
        check(w, x, y);
        if (row_bit == row_unit && vector_bit == vector_unit) CHECK_EXACT("T-126", y.radius.empty());
      }
    }
  }
}

TEST_CASE("rows with elements that are not finite have no exact product, nor has any with such a vector") {
  FloatMatrices matrices(17);
  FloatMatrix w = matrices.draw("normal", 7, 30), x = matrices.draw("normal", 1, 30);
  w.values[2 * 30 + 5] = std::numeric_limits<float>::infinity();
  ExactProduct y;
  exact_matrix_vector(ExactMatrix(rows_of(w)), x.values.data(), y);
  for (std::size_t i = 0; i < 7; ++i) {
    CHECK(std::isnan(y.high[i]) == (i == 2));
    CHECK(y.radius[i] == (i == 2 ? std::numeric_limits<double>::infinity() : 0.0));
  }
  x.values[29] = std::numeric_limits<float>::quiet_NaN();
  exact_matrix_vector(ExactMatrix(rows_of(w)), x.values.data(), y);
  for (std::size_t i = 0; i < 7; ++i) CHECK(y.radius[i] == std::numeric_limits<double>::infinity());
}

TEST_CASE("exact matrix-vector products of nothing, and what they refuse") {
  const FloatMatrix none(0, 4), empty(3, 0), w(3, 4);
  ExactProduct y;
  exact_matrix_vector(ExactMatrix(rows_of(none)), w.values.data(), y);
  CHECK(y.high.empty());
  exact_matrix_vector(ExactMatrix(rows_of(empty)), w.values.data(), y);
  CHECK(y.high == std::vector<double>(3, 0.0));
  CHECK_THROWS_AS(ExactMatrix({w.values.data(), 4, 3, 1, 4}), InvalidArgument);
  CHECK_THROWS_AS(ExactMatrix({nullptr, 1, (std::size_t{1} << 26) + 1, 0, 1}), InvalidArgument);
  const ExactMatrix matrix(rows_of(w));
  CHECK_THROWS_AS(exact_matrix_vector(matrix, w.values.data(), y, 0), InvalidArgument);
  std::fesetround(FE_TOWARDZERO);
  CHECK_THROWS_AS(exact_matrix_vector(matrix, w.values.data(), y), UnsoundEnvironment);
  CHECK_THROWS_AS(ExactMatrix(rows_of(w)), UnsoundEnvironment);
  std::fesetround(FE_TONEAREST);
#ifdef __SSE2__
  for (const unsigned flushes : {0x8000u, 0x0040u}) {
    const unsigned before = _mm_getcsr();
    _mm_setcsr(before | flushes);
    CHECK_THROWS_AS(exact_matrix_vector(matrix, w.values.data(), y), UnsoundEnvironment);
    CHECK_THROWS_AS(ExactMatrix(rows_of(w)), UnsoundEnvironment);
    _mm_setcsr(before);
  }
#endif
}
