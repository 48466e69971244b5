#include <doctest/doctest.h>

#include <algorithm>
#include <thread>
#include <utility>
#include <vector>

#include "driftbound/num/interval.hpp"
#include "num/mpfr_value.hpp"

using namespace driftbound;
using num::MpfrValue;

namespace {

double value_of(const MpfrValue& x) {
  return mpfr_get_d(x.get(), MPFR_RNDN);
}

}  // namespace

TEST_CASE("an MPFR value keeps its digits and precision when copied, moved and swapped") {
  MpfrValue x(1.5, 100);
  MpfrValue y(2.5, 200);
  const MpfrValue copy(x);
  x.swap(y);
  CHECK(value_of(copy) == 1.5);
  CHECK(value_of(x) == 2.5);
  CHECK(x.precision_bits() == 200);
  const MpfrValue moved(std::move(x));
  CHECK(value_of(moved) == 2.5);
  x = y;
  CHECK(value_of(x) == 1.5);
  CHECK(x.precision_bits() == 100);
  CHECK(mpfr_nan_p(MpfrValue(64).get()));
}

TEST_CASE("a vector of MPFR values can grow, sort and shrink") {
  std::vector<MpfrValue> values;
  for (int i = 0; i < 100; ++i) values.emplace_back(static_cast<double>(i * 37 % 100), 80);
  std::sort(values.begin(), values.end(),
            [](const MpfrValue& a, const MpfrValue& b) { return mpfr_less_p(a.get(), b.get()) != 0; });
  values.erase(values.begin(), values.begin() + 50);
  values.resize(60, MpfrValue(-1.0, 53));
  CHECK(value_of(values.front()) == 50.0);
  CHECK(value_of(values.back()) == -1.0);
}

TEST_CASE("threads that use MPFR give the same results and leave nothing behind") {
  const Interval expected = sin(Interval(1.0, 1.25));
  std::vector<Interval> results(8);
  std::vector<std::thread> threads;
  for (Interval& result : results) threads.emplace_back([&] { result = sin(Interval(1.0, 1.25)); });
  for (std::thread& thread : threads) thread.join();
  for (const Interval& result : results) CHECK(result == expected);
}
