#include <doctest/doctest.h>

#include <atomic>
#include <cfenv>
#include <stdexcept>
#include <vector>

#include "driftbound/num/errors.hpp"
#include "num/parallel.hpp"

namespace {

using driftbound::parallel_for;

TEST_CASE("parallel_for visits every item once whatever the number of threads") {
  for (const int threads : {1, 2, 3, 8}) {
    for (const std::int64_t count : {0, 1, 2, 7, 100}) {
      std::vector<std::atomic<int>> visits(static_cast<std::size_t>(count));
      parallel_for(count, threads, [&](std::int64_t first, std::int64_t last) {
        for (std::int64_t i = first; i < last; ++i) ++visits[static_cast<std::size_t>(i)];
      });
      for (const auto& visit : visits) CHECK(visit == 1);
    }
  }
}

TEST_CASE("parallel_for hands on the exception of the lowest range") {
  const auto fail = [](std::int64_t first, std::int64_t) { throw std::runtime_error(std::to_string(first)); };
  CHECK_THROWS_WITH(parallel_for(10, 5, fail), "0");
  const auto fail_late = [](std::int64_t first, std::int64_t) {
    if (first > 0) throw std::runtime_error(std::to_string(first));
  };
  CHECK_THROWS_WITH(parallel_for(10, 5, fail_late), "2");
}

TEST_CASE("parallel_for refuses an unsound environment in any thread and fewer threads than one") {
  const auto nothing = [](std::int64_t, std::int64_t) {};
  const int mode = std::fegetround();
  std::fesetround(FE_DOWNWARD);  // threads inherit the environment of the thread that starts them
  CHECK_THROWS_AS(parallel_for(4, 2, nothing), driftbound::UnsoundEnvironment);
  std::fesetround(mode);
  CHECK_THROWS_AS(parallel_for(4, 0, nothing), driftbound::InvalidArgument);
}

}  // namespace
