#include <doctest/doctest.h>

#include <bit>
#include <limits>
#include <numeric>

#include "driftbound/num/errors.hpp"
#include "linalg/exact_product_data.hpp"
#include "linalg/residue_basis.hpp"
#include "linalg/residue_product.hpp"
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

bool product(const FloatMatrix& a, const FloatMatrix& b, const ResidueKernels& kernels, ExactProduct& y,
             int threads = 1) {
  const ResidueOperand right(rows_of(b), Side::right, threads, most_residue_bits(), kernels);
  const ResidueOperand left(rows_of(a), Side::left, threads, right.bits(), kernels);
  return residue_product(left, right, y, threads);
}

Fixed integer(const std::array<double, most_limbs>& limbs) {
  Fixed sum = 0;
  for (std::size_t i = most_limbs; i-- > 0;) sum = (sum << limb_bits) + static_cast<std::int64_t>(limbs[i]);
  return sum;
}

}  // namespace

TEST_CASE("moduli have no common factor, and integers come out of their residues") {
  for (std::size_t i = 0; i < moduli.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) CHECK(std::gcd(moduli[i], moduli[j]) == 1);
  for (std::size_t count = 1; count <= moduli.size(); ++count) {
    const ResidueBasis& basis = residue_basis(count);
    Fixed all = 1;
    for (std::size_t s = 0; s < count; ++s) all *= moduli[s];
    CHECK(integer(basis.product) == all);
    CHECK((Fixed(1) << basis.bits) <= all);
    CHECK(all < (Fixed(2) << basis.bits));
    CHECK(all < (Fixed(1) << (limb_bits * static_cast<int>(basis.limbs))));
    CHECK(fixed(basis.size) <= (all << 700));
    CHECK(fixed(basis.size) >= (all << 700) - (all << 651));
    const double most = basis.size / (2.0 * (1.0 + 0x1p-18));
    CHECK(moduli_for_integers(most * (1.0 - 0x1p-50)) == count);
    CHECK(moduli_for_integers(most * (1.0 + 0x1p-50)) == count + 1);
    for (std::size_t s = 0; s < count; ++s) {
      const Fixed weight = integer(basis.weight[s]);
      CHECK(weight < all);
      for (std::size_t t = 0; t < count; ++t) CHECK(weight % moduli[t] == (s == t ? 1 : 0));
      const Modulus& modulus = basis.modulus[s];
      CHECK(modulus.p == moduli[s]);
      for (std::size_t k = 0; k < bytes_of_digits; ++k) {
        CHECK(2 * std::abs(modulus.byte[k]) <= modulus.p);
        CHECK(((Fixed(1) << (8 * static_cast<int>(k))) - modulus.byte[k]) % modulus.p == 0);
      }
      Fixed zeros = 0;
      for (std::size_t i = 0; i < most_digits; ++i) {
        zeros += Fixed(bits_of_zero) << (limb_bits * static_cast<int>(i));
        CHECK(std::abs(modulus.offset[i]) < modulus.p);
        CHECK((zeros + modulus.offset[i]) % modulus.p == 0);
      }
    }
  }
  CHECK(std::bit_cast<std::uint64_t>(to_integer) == bits_of_zero);
  CHECK(moduli_for(1) == 1);
  CHECK(moduli_for(8) == 1);
  CHECK(moduli_for(9) == 2);
  CHECK(moduli_for(most_residue_bits()) == moduli.size());
  CHECK(moduli_for(most_residue_bits() + 1) == moduli.size() + 1);
}

TEST_CASE("products by residues are exact for every kind of data that has residues enough (T-100)") {
  FloatMatrices matrices(21);
  double closest = 0.0;
  for (const ResidueKernels* kernels : usable_residue_kernels()) {
    std::size_t done = 0;
    for (const std::string& left : FloatMatrices::kinds()) {
      for (const std::string& right : FloatMatrices::kinds()) {
        const FloatMatrix a = matrices.draw(left, 5, 70), b = matrices.draw(right, 37, 70);
        CAPTURE(kernels->name);
        CAPTURE(left);
        CAPTURE(right);
        ExactProduct y;
        if (!product(a, b, *kernels, y)) {
          CHECK_FALSE((FloatMatrices::is_tame(left) && FloatMatrices::is_tame(right)));
          continue;
        }
        ++done;
        const double ratio = worst(a, b, y);
        CHECK(ratio <= 1.0);
        closest = std::max(closest, ratio);
        if (FloatMatrices::is_tame(left) && FloatMatrices::is_tame(right)) CHECK(y.radius.empty());
      }
    }
    CHECK(done > 160);
  }
  CHECK_APPROACH("T-100", closest, 0.99);
}

TEST_CASE("sums as large as their rows' norms allow come out right with as few moduli as tell them apart (T-100)") {
  std::mt19937_64 generator(27);
  std::uniform_real_distribution<double> spread(0.0, 40.0);
  double closest = 0.0;
  for (int round = 0; round < driftbound_tests::scaled_by_multiplier(3000); ++round) {
    FloatMatrix a(2, 1 + generator() % 3);
    const double bits = spread(generator);
    for (float& x : a.values)
      x = static_cast<float>(static_cast<double>(generator() % (1U << 24U)) * std::exp2(std::floor(bits)));
    a.values.back() = 1.0f;
    std::transform(a.values.begin(), a.values.end() - 1, a.values.begin(), [](float x) { return -x; });
    const ResidueKernels& kernels = *usable_residue_kernels().back();
    const ResidueOperand right(rows_of(a), Side::right, 1, most_residue_bits(), kernels);
    const double most = right.size_of_pair(0) * right.size_of_pair(0);
    closest = std::max(closest, 2.0 * most / residue_basis(moduli_for_integers(most)).size);
    ExactProduct y;
    REQUIRE(product(a, a, kernels, y));
    CHECK(worst(a, a, y) <= 1.0);
  }
  CHECK(closest > 0.99);
}

TEST_CASE("products by residues of any data, sizes up to 4097, any number of threads and every build") {
  FloatMatrices matrices(22);
  std::mt19937_64 generator(23);
  const auto extent = [&](double most) {
    return static_cast<std::size_t>(std::exp2(std::uniform_real_distribution<double>(0.0, std::log2(most))(generator)));
  };
  const auto any_kind = [&] { return FloatMatrices::kinds()[generator() % FloatMatrices::kinds().size()]; };
  std::size_t outputs = 0, without = 0;
  for (int round = 0; round < driftbound_tests::scaled_by_multiplier(100); ++round) {
    const std::size_t k = extent(4098), m = extent(std::min(4098.0, 60000.0 / static_cast<double>(k)));
    const std::size_t n = extent(std::min(4098.0, 60000.0 / static_cast<double>(k * m)) + 1.0);
    const FloatMatrix a = matrices.draw(any_kind(), m, k), b = matrices.draw(any_kind(), n, k);
    ExactProduct first;
    const bool has_product = product(a, b, residue_baseline, first, 1 + round % 3);
    (has_product ? outputs : without) += m * n;
    if (has_product) CHECK(worst(a, b, first) <= 1.0);
    for (const ResidueKernels* kernels : usable_residue_kernels()) {
      CAPTURE(kernels->name);
      CAPTURE(m);
      CAPTURE(n);
      CAPTURE(k);
      ExactProduct y;
      REQUIRE(product(a, b, *kernels, y) == has_product);
      CHECK(y.high == first.high);
      CHECK(y.low == first.low);
      CHECK(y.radius == first.radius);
    }
  }
  MESSAGE("outputs " << outputs << ", and " << without << " of rows with too many bits");
}

TEST_CASE("columns come back in order where rows changed places, window by window") {
  FloatMatrices matrices(31);
  for (const auto& [k, n] : {std::pair{std::size_t{2100}, std::size_t{300}}, {std::size_t{5}, std::size_t{1300}}}) {
    const FloatMatrix a = matrices.draw("lognormal", 37, k), b = matrices.draw("lognormal", n, k);
    const ResidueOperand right(rows_of(b), Side::right, 1, most_residue_bits(), residue_baseline);
    CHECK(right.window_rows() < n);
    const std::span first = right.rows_of_window(1);
    CHECK_FALSE(std::is_sorted(first.begin(), first.end()));
    CHECK(*std::min_element(first.begin(), first.end()) == right.window_rows());
    for (const ResidueKernels* kernels : usable_residue_kernels()) {
      CAPTURE(kernels->name);
      ExactProduct y;
      REQUIRE(product(a, b, *kernels, y, 2));
      CHECK(worst(a, b, y) <= 1.0);
    }
  }
}

// Limbs of 2^39, which may as well be -2^39 and one more of the next, of sums that two doubles cannot hold.
TEST_CASE("an element depends on its own rows alone, to the bit, whatever lies beside them and multiplies them") {
  for (float highest = 32.0f; highest < 64.0f; highest += 1.0f) {
    for (const std::size_t length : {std::size_t{7}, std::size_t{8193}}) {
      FloatMatrix a(1, length), b(1, length);
      const std::initializer_list<float> left = {highest * 0x1p60f, 0x1p59f, 0x1p36f, 0x1.cp33f, 0x1.ep9f, 1.0f, 0.0f};
      const std::initializer_list<float> right = {0x1p60f, 0x1p60f, 0x1p36f, 0x1p32f, 0x1p9f, 0.0f, 1.0f};
      std::copy(left.begin(), left.end(), a.values.begin());
      std::copy(right.begin(), right.end(), b.values.begin());
      for (std::size_t l = 7; l < length; ++l) {
        a.values[l] = l % 2 == 0 ? 1.0f : -1.0f;
        b.values[l] = 86.0f;
      }
      ExactProduct alone;
      REQUIRE(product(a, b, residue_baseline, alone));
      CHECK(alone.radius.front() > 0.0);
      for (const ResidueKernels* kernels : usable_residue_kernels()) {
        for (const float beside : {0.0f, 0x1p75f, 0x1p85f}) {
          CAPTURE(kernels->name);
          CAPTURE(highest);
          CAPTURE(beside);
          FloatMatrix both(2, length);
          std::copy(a.values.begin(), a.values.end(), both.values.begin());
          both.values[length] = beside;
          both.values[length + 1] = 1.0f;
          ExactProduct y;
          REQUIRE(product(both, b, *kernels, y));
          CHECK(y.high.front() == alone.high.front());
          CHECK(y.low.front() == alone.low.front());
          CHECK(y.radius.front() == alone.radius.front());
        }
      }
    }
  }
}

// 255 is the largest left residue of 256 and 128 the largest right one in magnitude, which only 256 has.
TEST_CASE("sums of residues of the longest rows stay within 32 bits") {
  for (const std::size_t k : {std::size_t{1}, std::size_t{64}, std::size_t{65}, longest_residue_row}) {
    FloatMatrix a(1, k), b(2, k);
    std::fill(a.values.begin(), a.values.end(), 255.0f);
    std::fill(b.values.begin(), b.values.end(), 128.0f);
    b.values[0] = b.values[k] = 1.0f;  // the unit
    for (std::size_t l = 1; l < k; ++l) b.values[k + l] = -127.0f;
    for (const ResidueKernels* kernels : usable_residue_kernels()) {
      CAPTURE(kernels->name);
      ExactProduct y;
      REQUIRE(product(a, b, *kernels, y));
      const auto rest = static_cast<double>(k - 1);
      CHECK(y.high == std::vector<double>{255.0 + 255.0 * 128.0 * rest, 255.0 - 255.0 * 127.0 * rest});
      CHECK(y.radius.empty());
    }
  }
}

// The widest rows that one, two and three digits hold, and all the moduli there are.
TEST_CASE("rows of many bits, and rows of too many") {
  for (int bits = 20; bits <= 124; ++bits) {
    FloatMatrix a(3, 2), b(2, 2);
    const float most = std::ldexp(0x1.fffffep-1f, bits - 60), least = std::ldexp(1.0f, -60);
    a.values = {most, least, most, -least, -most, 3 * least};
    b.values = {1.0f, 1.0f, 0x1.8p0f, -0x1.000002p0f};
    for (const ResidueKernels* kernels : usable_residue_kernels()) {
      CAPTURE(kernels->name);
      CAPTURE(bits);
      ExactProduct y;
      const bool fits = product(a, b, *kernels, y);
      CHECK(fits == (bits <= 121));
      if (fits) CHECK(worst(a, b, y) <= 1.0);
    }
  }
}

TEST_CASE("what has no residues is left as it was") {
  FloatMatrices matrices(24);
  const ResidueKernels& kernels = *usable_residue_kernels().back();
  const FloatMatrix b = matrices.draw("normal", 20, 30);
  ExactProduct y;
  y.high = {7.0};
  for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    FloatMatrix a = matrices.draw("normal", 9, 30);
    a.values[40] = bad;
    CHECK_FALSE(product(a, b, kernels, y));
    CHECK_FALSE(product(b, a, kernels, y));
  }
  const FloatMatrix a = matrices.draw("normal", 9, 30);
  const ResidueOperand few(rows_of(b), Side::right, 1, 8, kernels);
  CHECK_FALSE(residue_product(ResidueOperand(rows_of(a), Side::left, 1, few.bits(), kernels), few, y, 1));
  CHECK(y.high == std::vector<double>{7.0});
}

TEST_CASE("residues of rows with strides, of no rows and of no length") {
  FloatMatrices matrices(25);
  const FloatMatrix source = matrices.draw("normal", 40, 30), b = matrices.draw("normal", 5, 40);
  FloatMatrix transposed(30, 40);
  for (std::size_t i = 0; i < 30; ++i)
    for (std::size_t l = 0; l < 40; ++l) transposed.values[i * 40 + l] = source.values[l * 30 + i];
  const ResidueKernels& kernels = *usable_residue_kernels().back();
  ExactProduct y;
  const ResidueOperand right(rows_of(b), Side::right, 1, most_residue_bits(), kernels);
  const ResidueOperand left({source.values.data(), 30, 40, 1, 30}, Side::left, 1, right.bits(), kernels);
  REQUIRE(residue_product(left, right, y, 1));
  CHECK(worst(transposed, b, y) == 0.0);

  REQUIRE(product(FloatMatrix(0, 40), b, kernels, y, 2));
  CHECK(y.high.empty());
  REQUIRE(product(FloatMatrix(3, 0), FloatMatrix(2, 0), kernels, y));
  CHECK(y.high == std::vector<double>(6, 0.0));
}

TEST_CASE("operands that do not belong together, and environments that flush, are refused") {
  FloatMatrices matrices(26);
  const FloatMatrix a = matrices.draw("normal", 4, 10), longer = matrices.draw("normal", 4, 11);
  const auto usable = usable_residue_kernels();
  const ResidueKernels& kernels = *usable.back();
  const ResidueOperand left(rows_of(a), Side::left, 1, 60, kernels), right(rows_of(a), Side::right, 1, 60, kernels);
  ExactProduct y;
  CHECK_THROWS_AS(residue_product(right, left, y, 1), InvalidArgument);
  CHECK_THROWS_AS(residue_product(left, ResidueOperand(rows_of(longer), Side::right, 1, 60, kernels), y, 1),
                  InvalidArgument);
  const FloatMatrix long_row(1, longest_residue_row + 1);
  CHECK_THROWS_AS(ResidueOperand(rows_of(long_row), Side::left, 1, 60, kernels), InvalidArgument);
  if (usable.size() > 1)
    CHECK_THROWS_AS(residue_product(left, ResidueOperand(rows_of(a), Side::right, 1, 60, *usable.front()), y, 1),
                    InvalidArgument);
#ifdef __SSE2__
  const unsigned state = _mm_getcsr();
  _mm_setcsr(state | 0x8000u);
  CHECK_THROWS_AS(residue_product(left, right, y, 1), UnsoundEnvironment);
  CHECK_THROWS_AS(ResidueOperand(rows_of(a), Side::left, 1, 60, kernels), UnsoundEnvironment);
  _mm_setcsr(state);
#endif
}

namespace {

/// Rows of numbers high + low.
struct PairMatrix {
  std::size_t rows, length;
  std::vector<double> high, low;

  PairMatrix(std::size_t m, std::size_t k) : rows(m), length(k), high(m * k), low(m * k) {}
  explicit PairMatrix(const FloatMatrix& x)
      : rows(x.rows), length(x.length), high(x.values.begin(), x.values.end()), low(high.size()) {}
  PairRows view() const { return {high.data(), low.data(), rows, length, static_cast<std::ptrdiff_t>(length), 1}; }
};

PairMatrix pairs_of(FloatMatrices& matrices, const std::string& kind, std::size_t m, std::size_t k) {
  PairMatrix x(matrices.draw(kind, m, k));
  const FloatMatrix more = matrices.draw("normal", m, k), least = matrices.draw("normal", m, k);
  for (std::size_t i = 0; i < x.high.size(); ++i) {
    const double high = x.high[i];
    x.high[i] = high + high * 0x1p-26 * static_cast<double>(more.values[i]);
    x.low[i] = x.high[i] * 0x1p-56 * static_cast<double>(least.values[i]);
    if (!(x.high[i] + x.low[i] == x.high[i])) x.low[i] = 0.0;
  }
  return x;
}

/// x y as a multiple of 2^-700; what lies below is cut off.
Fixed times(double x, double y) {
  const Fixed product = abs(fixed(x)) * abs(fixed(y));
  const Fixed multiple = product >> 700;
  return (x < 0) == (y < 0) ? multiple : -multiple;
}

/// Largest error in units of the radius, and largest radius in units of the product of the norms; infinite where the
/// radius is exceeded.
struct Findings {
  double ratio = 0.0, radius = 0.0;
};

Findings findings(const PairMatrix& a, const PairMatrix& b, const ResidueKernels& kernels, int bits, int threads = 1) {
  const ResidueOperand right(b.view(), Side::right, threads, bits, 60, kernels);
  const ResidueOperand left(a.view(), Side::left, threads, right.bits(), bits, kernels);
  REQUIRE(has_residue_product(left, right));
  const std::size_t size = a.rows * b.rows;
  std::vector<double> high(size), low(size), radius(size);
  residue_product(left, right, {high.data(), low.data(), radius.data()}, threads);
  Findings found;
  for (std::size_t i = 0; i < a.rows; ++i) {
    for (std::size_t j = 0; j < b.rows; ++j) {
      Fixed sum = 0;
      double norm_a = 0.0, norm_b = 0.0;
      for (std::size_t l = 0; l < a.length; ++l) {
        const std::size_t x = i * a.length + l, y = j * b.length + l;
        sum += times(a.high[x], b.high[y]) + times(a.high[x], b.low[y]) + times(a.low[x], b.high[y]) +
               times(a.low[x], b.low[y]);
        norm_a = std::hypot(norm_a, a.high[x]);
        norm_b = std::hypot(norm_b, b.high[y]);
      }
      const std::size_t place = i * b.rows + j;
      const Fixed error = abs(fixed(high[place]) + fixed(low[place]) - sum);
      if (!(high[place] + low[place] == high[place]) || error > fixed(radius[place]))
        found.ratio = std::numeric_limits<double>::infinity();
      if (radius[place] == 0.0) continue;
      found.ratio = std::max(found.ratio, error.convert_to<double>() / fixed(radius[place]).convert_to<double>());
      found.radius = std::max(found.radius, radius[place] / (norm_a * norm_b));
    }
  }
  return found;
}

}  // namespace

TEST_CASE("numbers of two doubles are cut off where they were to be, and the radius says so (T-101)" *
          doctest::test_suite("campaign")) {
  FloatMatrices matrices(27);
  for (const std::string& kind : FloatMatrices::kinds()) {
    if (kind == "subnormal" || kind == "huge" || kind == "largest") continue;  // beyond the integers of this test
    for (const std::size_t k : {1u, 67u}) {
      const PairMatrix a = pairs_of(matrices, kind, 7, k), b(matrices.draw("normal", 35, k));
      const PairMatrix c = pairs_of(matrices, "normal", 5, k);
      for (const ResidueKernels* kernels : usable_residue_kernels()) {
        CAPTURE(kernels->name);
        CAPTURE(kind);
        CAPTURE(k);
        for (const int bits : {30, 50, 82, 83, 100}) {
          CAPTURE(bits);
          const Findings one = findings(a, b, *kernels, bits), two = findings(a, c, *kernels, std::min(bits, 90));
          CHECK(one.ratio <= 1.0);
          CHECK(two.ratio <= 1.0);
          CHECK(one.radius <= std::ldexp(4.0 * std::sqrt(static_cast<double>(k)), -bits));
        }
      }
    }
  }
}

TEST_CASE("the radius of numbers cut off is reached but for how norms are rounded up") {
  constexpr std::size_t k = 256;
  PairMatrix a(1, k), b(1, k);
  std::fill(a.high.begin(), a.high.end(), 0.9999 + 0x1.8p-51 - 0x1p-52);
  std::fill(b.high.begin(), b.high.end(), static_cast<double>(0.9999f));
  double closest = 0.0;
  for (int bits = 40; bits < 60; ++bits) {
    const Findings found = findings(a, b, *usable_residue_kernels().back(), bits);
    CHECK(found.ratio <= 1.0);
    closest = std::max(closest, found.ratio);
  }
  CHECK_APPROACH("T-101", closest, 0.999);
}

TEST_CASE("pairs that are float32 numbers stay exact, with strides too") {
  FloatMatrices matrices(28);
  const FloatMatrix source = matrices.draw("normal", 40, 30), weights = matrices.draw("normal", 5, 40);
  FloatMatrix transposed(30, 40);
  for (std::size_t i = 0; i < 30; ++i)
    for (std::size_t l = 0; l < 40; ++l) transposed.values[i * 40 + l] = source.values[l * 30 + i];
  const PairMatrix a(source), b(weights);
  const ResidueKernels& kernels = *usable_residue_kernels().back();
  const ResidueOperand right(b.view(), Side::right, 1, 70, 70, kernels);
  const ResidueOperand left({a.high.data(), nullptr, 30, 40, 1, 30}, Side::left, 1, right.bits(), 70, kernels);
  ExactProduct y;
  REQUIRE(residue_product(left, right, y, 1));
  CHECK(y.radius.empty());
  CHECK(worst(transposed, weights, y) == 0.0);
}

TEST_CASE("pairs that are not finite, or far from 1, have no residues") {
  FloatMatrices matrices(29);
  const ResidueKernels& kernels = *usable_residue_kernels().back();
  for (const double bad :
       {0x1p500, 0x1p-500, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    PairMatrix a(2, 3);
    std::fill(a.high.begin(), a.high.begin() + 3, bad);
    a.high[4] = 3.0;
    const ResidueOperand left(a.view(), Side::left, 1, 60, 80, kernels);
    CHECK_FALSE(left.all_fit());
    PairMatrix b(1, 3);
    std::fill(b.high.begin(), b.high.end(), 2.0);
    double high[2], low[2], radius[2];
    residue_product(left, ResidueOperand(b.view(), Side::right, 1, 80, 80, kernels), {high, low, radius}, 1);
    CHECK(high[0] == 0.0);
    CHECK(radius[0] == std::numeric_limits<double>::infinity());
    CHECK(high[1] == 6.0);
    CHECK(radius[1] == 0.0);
  }
  for (const double bad :
       {0x1p-51, 1.0, -0x1p200, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    PairMatrix a(1, 3);
    a.high = {1.25, 0.5, 0.25};
    a.low = {0x1p-60, bad, 0.0};
    CHECK_FALSE(ResidueOperand(a.view(), Side::left, 1, 60, 80, kernels).all_fit());
  }
  const PairMatrix zeros(2, 3);
  CHECK(ResidueOperand(zeros.view(), Side::left, 1, 60, 80, kernels).all_fit());
  CHECK_THROWS_AS(ResidueOperand(zeros.view(), Side::left, 1, 60, 123, kernels), InvalidArgument);
  const ResidueOperand wide(zeros.view(), Side::left, 1, 60, 80, kernels);
  PairMatrix many = pairs_of(matrices, "normal", 2, 3);
  const ResidueOperand right(many.view(), Side::right, 1, 0, 100, kernels);
  double sums[4];
  CHECK_THROWS_AS(
      residue_product(ResidueOperand(many.view(), Side::left, 1, 100, 100, kernels), right, {sums, sums, sums}, 1),
      InvalidArgument);
}
