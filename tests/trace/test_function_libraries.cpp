#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "driftbound/num/errors.hpp"
#include "driftbound/trace/function_libraries.hpp"

using namespace driftbound;

TEST_CASE("every entry of every library names a function that ops call, once, with a source") {
  const auto known = functions_with_accuracy();
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
  CHECK(function_library("cuda").functions.size() == functions_with_accuracy().size());
  CHECK_THROWS_WITH_AS(function_library("libm"), doctest::Contains("cuda, xla-gpu"), InvalidArgument);
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
