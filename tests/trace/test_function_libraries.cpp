#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "driftbound/num/errors.hpp"
#include "driftbound/trace/function_libraries.hpp"

using namespace driftbound;

namespace {

/// The functions that ops call: each has an accuracy in float64, where MPFR computes them all.
std::vector<std::string> functions_of_ops() {
  std::vector<std::string> names;
  for (const FunctionAccuracy& entry : cpu_arithmetic("fp64", {}).functions) names.push_back(entry.function);
  return names;
}

}  // namespace

TEST_CASE("every entry of every library names a function that ops call, once, with a source") {
  const std::vector<std::string> known = functions_of_ops();
  for (const FunctionLibrary& library : function_libraries()) {
    CAPTURE(library.name);
    std::set<std::string> names;
    for (const FunctionAccuracy& entry : library.functions) {
      CAPTURE(entry.function);
      CHECK(std::count(known.begin(), known.end(), entry.function) == 1);
      CHECK(names.insert(entry.function).second);
      CHECK(entry.units >= 1.0);
      CHECK_FALSE(entry.source.empty());
    }
  }
}

TEST_CASE("a library is found by name, or the names there are are listed") {
  CHECK(function_library("cuda").functions.size() == functions_of_ops().size());
  CHECK_THROWS_WITH_AS(function_library("libm"), doctest::Contains("cuda, pytorch-cuda, xla-gpu"), InvalidArgument);
}

TEST_CASE("an arithmetic may name a library, and have absolute terms and rounded parts") {
  const std::string head = R"({"name": "x", "input": "fp32", "accumulator": "fp32", "output": "fp32", )";
  const ArithmeticModel named = arithmetic_from_json(head + R"("functions": "xla-gpu"})");
  CHECK(named.accuracy("tanh").units == 11.0);
  CHECK_THROWS_WITH_AS(arithmetic_from_json(head + R"("functions": "libm"})"), doctest::Contains("no library"),
                       ParseError);
  CHECK_THROWS_AS(arithmetic_from_json(head + R"("functions": 3})"), ParseError);

  ArithmeticModel before = named;
  before.functions[0].absolute_units = 9.0;
  before.reduced_reduction = ReducedReduction{FormatId::fp16, 4};
  const ArithmeticModel after = arithmetic_from_json(to_json(before));
  CHECK(after.functions[0].absolute_units == 9.0);
  REQUIRE(after.reduced_reduction);
  CHECK(after.reduced_reduction->format == FormatId::fp16);
  CHECK(after.reduced_reduction->parts == 4);
  CHECK_THROWS_AS(arithmetic_from_json(head + R"("reduced_reduction": {"format": "fp16", "parts": 0}})"), ParseError);
  CHECK_THROWS_AS(
      arithmetic_from_json(head + R"("functions": [{"function": "exp", "units": 1, "absolute_units": -1}]})"),
      ParseError);
}

TEST_CASE("a sigmoid by its usual formula is within its entry where exp overflows too, for all libraries") {
  double least_needed = 0.0, beside = 0.0;
  for (std::uint32_t bits = std::bit_cast<std::uint32_t>(-1.0f); bits < std::bit_cast<std::uint32_t>(-110.0f);
       bits += 97) {
    const auto x = std::bit_cast<float>(bits);
    const double exact = 1.0 / (1.0 + std::exp(-static_cast<double>(x)));
    const double error = std::abs(static_cast<double>(1.0f / (1.0f + std::exp(-x))) - exact);
    const double units = error / (0x1p-24 * exact + 0x1p-150);
    const bool overflows = std::isinf(std::exp(-x));
    double& largest = overflows ? least_needed : beside;
    largest = std::max(largest, overflows ? error / 0x1p-24 : units);
  }
  CHECK(least_needed > 0x1p-105);
  for (const FunctionLibrary& library : function_libraries()) {
    CAPTURE(library.name);
    const auto entry = std::find_if(library.functions.begin(), library.functions.end(),
                                    [](const FunctionAccuracy& known) { return known.function == "sigmoid"; });
    REQUIRE(entry != library.functions.end());
    CHECK(least_needed <= entry->absolute_units);
  }
  CHECK(beside <= 5.0);  // of glibc
}
