#include <doctest/doctest.h>

#include <string>

#include "simd/dispatch.hpp"
#include "simd/kernels/operations.hpp"

namespace {

using namespace driftbound;
using simd::Target;

struct Numbered {
  int number;
};
constexpr Numbered first{1}, second{2}, third{3};
constexpr simd::Build<Numbered> all_run[] = {
    {Target::baseline, &first}, {Target::baseline, &second}, {Target::baseline, &third}};

}  // namespace

TEST_CASE("every processor runs the baseline, and what an instruction set includes") {
  CHECK(simd::is_usable(Target::baseline));
  if (simd::is_usable(Target::avx512)) CHECK(simd::is_usable(Target::avx2));
  if (simd::is_usable(Target::vnni)) CHECK(simd::is_usable(Target::avx512));
  if (simd::is_usable(Target::amx)) CHECK(simd::is_usable(Target::vnni));
}

TEST_CASE("builds that are usable stay in order, and the fastest is the last") {
  const auto kernels = simd::usable<all_run>();
  REQUIRE(kernels.size() == 3);
  for (std::size_t i = 0; i < kernels.size(); ++i) CHECK(kernels[i] == all_run[i].kernels);
  CHECK(&simd::fastest<all_run>() == &third);
}

TEST_CASE("a table is compiled for the instruction set under which it is listed") {
  const auto kernels = simd::usable<simd_test::operations_builds>();
  REQUIRE(!kernels.empty());
  CHECK(std::string(kernels.front()->name) == "baseline");
  CHECK(&simd::fastest<simd_test::operations_builds>() == kernels.back());
  std::size_t usable = 0;
  for (const auto& build : simd_test::operations_builds) {
    const char* const expected = build.target == Target::baseline ? "baseline"
                                 : build.target == Target::avx2   ? "avx2"
                                                                  : "avx512";
    CHECK(std::string(build.kernels->name) == expected);
    usable += simd::is_usable(build.target) ? 1U : 0U;
  }
  CHECK(kernels.size() == usable);
}
