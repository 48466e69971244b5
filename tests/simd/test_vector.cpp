// Vectors of every instruction set that this processor has, against scalar code.

#include <doctest/doctest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "simd/dispatch.hpp"
#include "simd/kernels/operations.hpp"

namespace {

using namespace driftbound;
using simd_test::Operations;
using simd_test::OperationTable;

template <class T>
bool same(T a, T b) {
  return (std::isnan(a) && std::isnan(b)) || std::memcmp(&a, &b, sizeof a) == 0;
}

/// Zeros, subnormal numbers, the limits of the format, infinities, NaN and random numbers of all sizes.
template <class T>
std::vector<T> numbers(std::size_t count, std::uint64_t seed) {
  using Limits = std::numeric_limits<T>;
  const T special[] = {0,
                       -T{0},
                       1,
                       -1,
                       Limits::denorm_min(),
                       -Limits::denorm_min(),
                       Limits::min(),
                       std::nextafter(Limits::min(), T{0}),
                       Limits::max(),
                       Limits::lowest(),
                       Limits::infinity(),
                       -Limits::infinity(),
                       Limits::quiet_NaN(),
                       1 + Limits::epsilon()};
  std::mt19937_64 random(seed);
  std::vector<T> result;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t bits = random();
    const int exponent =
        static_cast<int>(bits % static_cast<unsigned>(2 * Limits::max_exponent)) - Limits::max_exponent;
    const T number = std::ldexp(static_cast<T>(1 + 0x1p-52 * static_cast<double>(bits >> 12)), exponent / 2);
    result.push_back(bits % 3 == 0 ? special[(bits >> 8) % std::size(special)] : (bits & 64) != 0 ? number : -number);
  }
  return result;
}

/// check(build, operations) for every width of every build that is usable.
template <class T, class Check>
void for_all(const Check& check) {
  for (const OperationTable* build : simd::usable<simd_test::operations_builds>()) {
    const auto& tables = [&]() -> const Operations<T>(&)[4] {
      if constexpr (sizeof(T) == sizeof(double)) {
        return build->doubles;
      } else {
        return build->floats;
      }
    }();
    for (const Operations<T>& operations : tables) {
      CAPTURE(build->name);
      CAPTURE(operations.lanes);
      for (std::uint64_t seed = 0; seed < 100; ++seed) check(*build, operations, seed);
    }
  }
}

/// The first lane where a result is not what scalar code finds; `lanes` if there is none.
template <class T, class Scalar>
std::size_t first_other(const std::vector<T>& y, const Scalar& scalar) {
  for (std::size_t i = 0; i < y.size(); ++i)
    if (!same(y[i], static_cast<T>(scalar(i)))) return i;
  return y.size();
}

}  // namespace

TEST_CASE_TEMPLATE("arithmetic is that of scalars, lane by lane", T, float, double) {
  for_all<T>([](const OperationTable&, const Operations<T>& o, std::uint64_t seed) {
    const std::vector<T> a = numbers<T>(o.lanes, 3 * seed), b = numbers<T>(o.lanes, 3 * seed + 1);
    std::vector<T> y(o.lanes);
    const auto unary = [&](const char* name, typename Operations<T>::Unary operation, const auto& scalar) {
      CAPTURE(name);
      operation(a.data(), y.data());
      CHECK(first_other(y, [&](std::size_t i) { return scalar(a[i]); }) == o.lanes);
    };
    unary("copy", o.copy, [](T x) { return x; });
    unary("negative", o.negative, [](T x) { return -x; });
    unary("magnitude", o.magnitude, [](T x) { return std::fabs(x); });
    unary("root", o.root, [](T x) { return std::sqrt(x); });
    const auto binary = [&](const char* name, typename Operations<T>::Binary operation, const auto& scalar) {
      CAPTURE(name);
      operation(a.data(), b.data(), y.data());
      CHECK(first_other(y, [&](std::size_t i) { return scalar(a[i], b[i]); }) == o.lanes);
    };
    binary("sum", o.sum, [](T x, T z) { return x + z; });
    binary("difference", o.difference, [](T x, T z) { return x - z; });
    binary("product", o.product, [](T x, T z) { return x * z; });
    binary("quotient", o.quotient, [](T x, T z) { return x / z; });
    binary("smaller", o.smaller, [](T x, T z) { return x < z ? x : z; });
    binary("larger", o.larger, [](T x, T z) { return x > z ? x : z; });
    binary("with_sign_of", o.with_sign_of, [](T x, T z) { return std::copysign(x, z); });
    o.constant(a[0], y.data());
    CHECK(first_other(y, [&](std::size_t) { return a[0]; }) == o.lanes);
  });
}

TEST_CASE_TEMPLATE("fma rounds once everywhere, multiply_add where the processor can", T, float, double) {
  for_all<T>([](const OperationTable& build, const Operations<T>& o, std::uint64_t seed) {
    const std::vector<T> a = numbers<T>(o.lanes, 5 * seed), b = numbers<T>(o.lanes, 5 * seed + 1);
    std::vector<T> c = numbers<T>(o.lanes, 5 * seed + 2), y(o.lanes);
    for (std::size_t i = 0; i < o.lanes; i += 2) c[i] = -a[i] * b[i];  // what rounding lost is left
    o.fma(a.data(), b.data(), c.data(), y.data());
    CHECK(first_other(y, [&](std::size_t i) { return std::fma(a[i], b[i], c[i]); }) == o.lanes);
    o.multiply_add(a.data(), b.data(), c.data(), y.data());
    CHECK(first_other(y, [&](std::size_t i) {
            const T product = a[i] * b[i];
            return build.has_fma ? std::fma(a[i], b[i], c[i]) : product + c[i];
          }) == o.lanes);
  });
}

TEST_CASE_TEMPLATE("comparisons are -1 or 0 in each lane, and choose", T, float, double) {
  using Integer = typename Operations<T>::Integer;
  for_all<T>([](const OperationTable&, const Operations<T>& o, std::uint64_t seed) {
    const std::vector<T> a = numbers<T>(o.lanes, 7 * seed);
    std::vector<T> b = numbers<T>(o.lanes, 7 * seed + 1), y(o.lanes);
    for (std::size_t i = 0; i < o.lanes; i += 3) b[i] = a[i];
    std::vector<Integer> mask(o.lanes);
    const auto comparison = [&](const char* name, typename Operations<T>::Comparison operation, const auto& scalar) {
      CAPTURE(name);
      operation(a.data(), b.data(), mask.data());
      std::size_t right = 0, holds = 0;
      for (std::size_t i = 0; i < o.lanes; ++i) {
        right += mask[i] == (scalar(a[i], b[i]) ? -1 : 0) ? 1U : 0U;
        holds += scalar(a[i], b[i]) ? 1U : 0U;
      }
      CHECK(right == o.lanes);
      CHECK(o.any(mask.data()) == (holds > 0));
      CHECK(o.every(mask.data()) == (holds == o.lanes));
      o.where(mask.data(), a.data(), b.data(), y.data());
      CHECK(first_other(y, [&](std::size_t i) { return scalar(a[i], b[i]) ? a[i] : b[i]; }) == o.lanes);
    };
    comparison("==", o.equal, [](T x, T z) { return x == z; });
    comparison("!=", o.unequal, [](T x, T z) { return x != z; });
    comparison("<", o.less, [](T x, T z) { return x < z; });
    comparison("<=", o.at_most, [](T x, T z) { return x <= z; });
    comparison(">", o.greater, [](T x, T z) { return x > z; });
    comparison(">=", o.at_least, [](T x, T z) { return x >= z; });
  });
}

TEST_CASE_TEMPLATE("one lane that differs is found by any and every", T, float, double) {
  using Integer = typename Operations<T>::Integer;
  for_all<T>([](const OperationTable&, const Operations<T>& o, std::uint64_t seed) {
    std::vector<Integer> mask(o.lanes, 0);
    CHECK_FALSE(o.any(mask.data()));
    mask[seed % o.lanes] = -1;
    CHECK(o.any(mask.data()));
    for (Integer& lane : mask) lane = ~lane;
    CHECK_FALSE(o.every(mask.data()));
    mask[seed % o.lanes] = -1;
    CHECK(o.every(mask.data()));
  });
}

TEST_CASE_TEMPLATE("sums go by halves, the largest passes NaN over, halves swap", T, float, double) {
  for_all<T>([](const OperationTable&, const Operations<T>& o, std::uint64_t seed) {
    const std::vector<T> a = numbers<T>(o.lanes, seed);
    std::vector<T> left = a, y(o.lanes);
    for (std::size_t half = o.lanes / 2; half > 0; half /= 2)
      for (std::size_t i = 0; i < half; ++i) left[i] += left[i + half];
    CHECK(same(o.sum_of(a.data()), left[0]));
    T largest = 0;
    for (const T x : a) largest = x > largest ? x : largest;
    CHECK(same(o.largest_of(a.data()), largest));
    o.halves_swapped(a.data(), y.data());
    CHECK(first_other(y, [&](std::size_t i) { return a[(i + o.lanes / 2) % o.lanes]; }) == o.lanes);
  });
}

TEST_CASE_TEMPLATE("conversions round to nearest, and cut towards 0 to integers", T, float, double) {
  using O = Operations<T>;
  for_all<T>([](const OperationTable&, const O& o, std::uint64_t seed) {
    const std::vector<T> a = numbers<T>(o.lanes, seed);
    std::vector<typename O::Other> other(o.lanes);
    o.converted(a.data(), other.data());
    CHECK(first_other(other, [&](std::size_t i) { return static_cast<typename O::Other>(a[i]); }) == o.lanes);
    std::mt19937_64 random(seed);
    std::vector<typename O::Integer> integers(o.lanes), cut(o.lanes);
    for (auto& x : integers) x = static_cast<typename O::Integer>(random()) >> (random() % (8 * sizeof(T)));
    std::vector<T> y(o.lanes), small(o.lanes);
    o.from_integers(integers.data(), y.data());
    CHECK(first_other(y, [&](std::size_t i) { return static_cast<T>(integers[i]); }) == o.lanes);
    for (T& x : small) x = static_cast<T>(static_cast<double>(random() % 2000) / 16 - 60);
    o.truncated(small.data(), cut.data());
    for (std::size_t i = 0; i < o.lanes; ++i) CHECK(cut[i] == static_cast<typename O::Integer>(small[i]));
  });
}

TEST_CASE_TEMPLATE("bits are moved and joined as those of integers", T, float, double) {
  using Integer = typename Operations<T>::Integer;
  for_all<T>([](const OperationTable&, const Operations<T>& o, std::uint64_t seed) {
    std::mt19937_64 random(seed);
    std::vector<Integer> a(o.lanes), b(o.lanes), y(6 * o.lanes);
    for (Integer& x : a) x = static_cast<Integer>(random());
    for (Integer& x : b) x = static_cast<Integer>(random());
    const int places = static_cast<int>(random() % (8 * sizeof(T)));
    o.bits(a.data(), b.data(), places, y.data());
    std::size_t right = 0;
    for (std::size_t i = 0; i < o.lanes; ++i) {
      const Integer expected[] = {a[i] & b[i], a[i] | b[i], a[i] ^ b[i], ~a[i], a[i] << places, a[i] >> places};
      for (std::size_t k = 0; k < 6; ++k) right += y[k * o.lanes + i] == expected[k] ? 1U : 0U;
    }
    CHECK(right == y.size());
  });
}

TEST_CASE("a table is read at eight places") {
  std::vector<double> table = numbers<double>(100, 1);
  for (const OperationTable* build : simd::usable<simd_test::operations_builds>()) {
    CAPTURE(build->name);
    std::mt19937_64 random(2);
    for (int round = 0; round < 100; ++round) {
      std::vector<std::int64_t> index(8);
      for (std::int64_t& place : index) place = static_cast<std::int64_t>(random() % table.size());
      std::vector<double> y(8);
      build->gathered(table.data(), index.data(), y.data());
      CHECK(first_other(y, [&](std::size_t i) { return table[static_cast<std::size_t>(index[i])]; }) == 8);
    }
  }
}

namespace {

/// Memory that ends where no memory is.
class Cliff {
public:
  Cliff() : page_(static_cast<std::size_t>(::sysconf(_SC_PAGESIZE))) {
    start_ = static_cast<char*>(::mmap(nullptr, 2 * page_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    REQUIRE(static_cast<void*>(start_) != MAP_FAILED);
    REQUIRE(::mprotect(start_ + page_, page_, PROT_NONE) == 0);
  }
  ~Cliff() { ::munmap(start_, 2 * page_); }
  Cliff(const Cliff&) = delete;
  Cliff& operator=(const Cliff&) = delete;

  /// The last `count` numbers before the end.
  template <class T>
  T* last(std::size_t count) const {
    return reinterpret_cast<T*>(start_ + page_) - count;
  }

private:
  std::size_t page_;
  char* start_ = nullptr;
};

}  // namespace

TEST_CASE_TEMPLATE("parts of vectors are read and written up to the end of memory, and no further", T, float, double) {
  const Cliff cliff;
  for_all<T>([&](const OperationTable&, const Operations<T>& o, std::uint64_t seed) {
    const std::vector<T> a = numbers<T>(o.lanes, seed);
    for (std::size_t count = 0; count <= o.lanes; ++count) {
      CAPTURE(count);
      T* const end = cliff.last<T>(count);
      std::copy_n(a.begin(), count, end);
      std::vector<T> y(o.lanes, T{7});
      o.load_part(end, count, y.data());
      CHECK(first_other(y, [&](std::size_t i) { return i < count ? a[i] : T{0}; }) == o.lanes);
      std::fill_n(end, count, T{0});
      T* const before = cliff.last<T>(count + 1);
      *before = T{3};
      o.store_part(a.data(), count, end);
      const std::vector<T> stored(before, end + count);
      CHECK(first_other(stored, [&](std::size_t i) { return i == 0 ? T{3} : a[i - 1]; }) == count + 1);
    }
  });
}

TEST_CASE_TEMPLATE("loops by vectors do every element once", T, float, double) {
  const Cliff cliff;
  for_all<T>([&](const OperationTable&, const Operations<T>& o, std::uint64_t seed) {
    const std::size_t n = seed % (3 * o.lanes + 1);
    const std::vector<T> a = numbers<T>(n, seed);
    T* const y = cliff.last<T>(n);
    std::copy(a.begin(), a.end(), y);
    o.add_up(y, a.data(), n, y);
    const std::vector<T> sums(y, y + n);
    CHECK(first_other(sums, [&](std::size_t i) { return a[i] + a[i]; }) == n);
  });
}
