#include <doctest/doctest.h>

#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "driftbound/num/errors.hpp"
#include "driftbound/trace/arithmetic.hpp"
#include "support/text.hpp"

using namespace driftbound;

namespace {

using Lengths = std::vector<std::int64_t>;

std::string message_of(const std::string& json) {
  try {
    arithmetic_from_json(json);
  } catch (const ParseError& error) {
    return error.what();
  }
  return "no ParseError";
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("summation orders survive printing and parsing") {
  for (const std::string text : {"sequential",
                                 "pairwise",
                                 "blocked:8",
                                 "split-k:3",
                                 "unknown",
                                 "blocked:8+fma",
                                 "pairwise+fma",
                                 "height:6",
                                 "height:1+fma",
                                 "slices:64/neighbours",
                                 "slices:8",
                                 "balanced:384:8+fma",
                                 "lanes:32x2/halves+fma",
                                 "lanes:4x1",
                                 "lanes:2x1:8",
                                 "slices:256/lanes:2x1/halves+fma",
                                 "balanced:320:1/lanes:2x1:8",
                                 "lanes:8x1:8:last",
                                 "halved",
                                 "cascade:8x4",
                                 "lanes:8x1:4:sum:front/fours",
                                 "slices:8:4:last/lanes:2x1"}) {
    CHECK(to_string(parse_summation_order(text)) == text);
  }
  CHECK(parse_summation_order("blocked:12+fma") == SummationOrder{SummationOrder::Kind::blocked, 12, true});
}

TEST_CASE("what is no summation order is refused") {
  for (const std::string text : {"",
                                 "sequentiall",
                                 "blocked",
                                 "blocked:",
                                 "blocked:0",
                                 "blocked:-1",
                                 "blocked:8x",
                                 "blocked: 8",
                                 "split-k:99999999999999999999",
                                 "+fma",
                                 "pairwise:2",
                                 "sequential+fma+fma",
                                 "height",
                                 "height:",
                                 "height:0",
                                 "height:-3",
                                 "height:6x",
                                 "lanes:32",
                                 "lanes:0x2",
                                 "lanes:2x2/third",
                                 "slices:4/lanes:2x1/slices:2",
                                 "lanes:2x1:last",
                                 "cascade:8",
                                 "halved/halves",
                                 "balanced:8",
                                 "slices:0",
                                 "slices:/halves"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(parse_summation_order(text), InvalidArgument);
  }
}

TEST_CASE("chains cover every product once, in order") {
  CHECK(chain_lengths(parse_summation_order("sequential"), 7) == Lengths{7});
  CHECK(chain_lengths(parse_summation_order("blocked:3"), 7) == Lengths{3, 3, 1});
  CHECK(chain_lengths(parse_summation_order("blocked:8"), 7) == Lengths{7});
  CHECK(chain_lengths(parse_summation_order("split-k:3"), 7) == Lengths{3, 3, 1});
  CHECK(chain_lengths(parse_summation_order("split-k:4"), 6) == Lengths{2, 2, 2});
  CHECK(chain_lengths(parse_summation_order("split-k:9"), 2) == Lengths{1, 1});
  CHECK(chain_lengths(parse_summation_order("pairwise"), 7).empty());
  CHECK(chain_lengths(parse_summation_order("height:6"), 7).empty());
  CHECK(chain_lengths(parse_summation_order("unknown"), 7).empty());
  CHECK(chain_lengths(parse_summation_order("sequential"), 0).empty());
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  CHECK(chain_lengths(SummationOrder{SummationOrder::Kind::split_k, most, false}, 5) == Lengths{1, 1, 1, 1, 1});
  CHECK(chain_lengths(SummationOrder{SummationOrder::Kind::blocked, most, false}, 5) == Lengths{5});
  for (const std::string text : {"blocked:5", "split-k:5"}) {
    for (std::int64_t n = 1; n < 60; ++n) {
      const Lengths lengths = chain_lengths(parse_summation_order(text), n);
      CHECK(std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0}) == n);
    }
  }
}

TEST_CASE("CPU arithmetics have the formats they are named after") {
  const SummationOrder order = parse_summation_order("blocked:8+fma");
  const ArithmeticModel bf16 = cpu_arithmetic("bf16", order);
  CHECK(bf16.input == FormatId::bf16);
  CHECK(bf16.accumulator == FormatId::fp32);
  CHECK(bf16.output == FormatId::fp32);
  CHECK(bf16.order == order);
  CHECK(cpu_arithmetic("fp64", order).accumulator == FormatId::fp64);
  CHECK_THROWS_AS(cpu_arithmetic("fp8", order), InvalidArgument);
  for (const std::string name : {"fp64", "fp32", "tf32", "bf16", "fp16", "fp8_e4m3", "fp8_e5m2"}) {
    const ArithmeticModel arithmetic = cpu_arithmetic(name, order);
    for (const std::string function : {"exp", "expm1", "tanh", "sigmoid", "softplus", "sin", "cos", "erf", "sqrt"}) {
      CHECK(arithmetic.accuracy(function).units >= 1.0);
    }
    CHECK_THROWS_AS(arithmetic.accuracy("gamma"), Unsupported);
  }
  CHECK(cpu_arithmetic("fp64", order).accuracy("exp").units == 1.0);
  CHECK(cpu_arithmetic("fp32", order).accuracy("sqrt").units == 1.0);
}

TEST_CASE("an order of which the height is known survives JSON, and one that is none is refused by its field") {
  const std::string text = to_json(cpu_arithmetic("fp32", parse_summation_order("height:7+fma")));
  CHECK(arithmetic_from_json(text).order == SummationOrder{SummationOrder::Kind::height, 7, true});
  CHECK_THROWS_WITH_AS(arithmetic_from_json(replaced(text, "height:7", "height:0")), doctest::Contains("order"),
                       ParseError);
}

TEST_CASE("an arithmetic survives JSON") {
  ArithmeticModel before = cpu_arithmetic("tf32", parse_summation_order("split-k:4+fma"));
  before.rounding = Rounding::toward_zero;
  before.flushes_subnormals = true;
  before.evidence = Evidence::measured;
  before.source = "a \"quoted\" source\nwith two lines";
  before.functions[0].units = 0x1.23456789abcdep+1;

  const ArithmeticModel after = arithmetic_from_json(to_json(before));

  CHECK(after.name == before.name);
  CHECK(after.input == before.input);
  CHECK(after.accumulator == before.accumulator);
  CHECK(after.output == before.output);
  CHECK(after.rounding == before.rounding);
  CHECK(after.order == before.order);
  CHECK(after.flushes_subnormals == before.flushes_subnormals);
  CHECK(after.evidence == before.evidence);
  CHECK(after.source == before.source);
  REQUIRE(after.functions.size() == before.functions.size());
  for (std::size_t i = 0; i < before.functions.size(); ++i) {
    CHECK(after.functions[i].function == before.functions[i].function);
    CHECK(after.functions[i].units == before.functions[i].units);
    CHECK(after.functions[i].evidence == before.functions[i].evidence);
    CHECK(after.functions[i].source == before.functions[i].source);
  }
}

TEST_CASE("a matrix unit survives JSON, and is written only where there is one") {
  ArithmeticModel before = cpu_arithmetic("tf32", {});
  CHECK_FALSE(contains(to_json(before), "tensor_core"));
  CHECK_FALSE(contains(to_json(before), "products_may_flush"));
  before.tensor_core = TensorCore{25, 8};
  before.products_may_flush = true;
  const ArithmeticModel after = arithmetic_from_json(to_json(before));
  REQUIRE(after.tensor_core.has_value());
  CHECK(after.tensor_core->fraction_bits == 25);
  CHECK(after.tensor_core->block == 8);
  CHECK(after.tensor_core->sum_bits == 23);
  CHECK(after.tensor_core->promotion == 0);
  CHECK(after.products_may_flush);
  CHECK_FALSE(contains(to_json(before), "sum_bits"));
  CHECK_FALSE(contains(to_json(before), "promotion"));
  CHECK_FALSE(contains(to_json(before), "cuts_operands"));
  before.tensor_core = TensorCore{13, 32, 12, 128, true};
  const ArithmeticModel promoted = arithmetic_from_json(to_json(before));
  CHECK(promoted.tensor_core->fraction_bits == 13);
  CHECK(promoted.tensor_core->sum_bits == 12);
  CHECK(promoted.tensor_core->promotion == 128);
  CHECK(promoted.tensor_core->cuts_operands);
  CHECK_FALSE(arithmetic_from_json(to_json(cpu_arithmetic("tf32", {}))).tensor_core.has_value());
}

TEST_CASE("a broken matrix unit names the field") {
  ArithmeticModel arithmetic = cpu_arithmetic("bf16", {});
  arithmetic.tensor_core = TensorCore{25, 8};
  const std::string good = to_json(arithmetic);
  for (const std::string bits : {"0", "-1", "23.0", "\"23\"", "2147483648", "99999999999999999999", "null"}) {
    CAPTURE(bits);
    CHECK(contains(message_of(replaced(good, "\"fraction_bits\":25", "\"fraction_bits\":" + bits)), "'fraction_bits'"));
    CHECK(contains(message_of(replaced(good, "\"block\":8", "\"block\":" + bits)), "'block'"));
    for (const std::string field : {"sum_bits", "promotion", "cuts_operands"}) {
      const std::string text = replaced(good, "\"block\":8", "\"block\":8,\"" + field + "\":" + bits);
      CHECK(contains(message_of(text), "'" + field + "'"));
    }
  }
  CHECK(contains(message_of(replaced(good, "\"block\":8", "\"block\":8,\"sum_bits\":24")), "'sum_bits'"));
  CHECK(contains(message_of(replaced(good, "\"block\":8", "\"block\":8,\"promotion\":7")), "'promotion'"));
  CHECK(contains(message_of(replaced(good, "\"block\":8,", "")), "'block'"));
  CHECK(contains(message_of(replaced(good, "\"block\":", "\"width\":1,\"block\":")), "'width'"));
  CHECK(contains(message_of(replaced(good, "{\"block\":8,\"fraction_bits\":25}", "8")), "tensor_core"));
  CHECK(contains(message_of(replaced(good, "\"accumulator\":\"fp32\"", "\"accumulator\":\"fp16\"")), "'tensor_core'"));
  const std::string plain = to_json(cpu_arithmetic("bf16", {}));
  CHECK(
      contains(message_of(replaced(plain, "\"name\":", "\"products_may_flush\":1,\"name\":")), "'products_may_flush'"));
}

TEST_CASE("broken arithmetic JSON names the field") {
  const std::string good = to_json(cpu_arithmetic("fp32", parse_summation_order("pairwise")));
  CHECK(contains(message_of(replaced(good, "\"input\":\"fp32\"", "\"input\":\"fp33\"")), "'input'"));
  CHECK(contains(message_of(replaced(good, "\"input\":\"fp32\"", "\"input\":32")), "'input'"));
  CHECK(contains(message_of(replaced(good, "\"order\":\"pairwise\"", "\"order\":\"blocked\"")), "'order'"));
  CHECK(contains(message_of(replaced(good, "nearest_even", "stochastic")), "'rounding'"));
  CHECK(contains(message_of(replaced(good, "\"flushes_subnormals\":false", "\"flushes_subnormals\":0")),
                 "'flushes_subnormals'"));
  CHECK(contains(message_of(replaced(good, "\"units\":", "\"units\":-")), "'units'"));
  CHECK(contains(message_of(replaced(good, "\"units\":", "\"unit\":")), "'unit'"));
  CHECK(contains(message_of(replaced(good, "\"name\":", "\"surprise\":1,\"name\":")), "'surprise'"));
  CHECK(contains(message_of(replaced(good, "\"name\":\"fp32\",", "")), "'name'"));
  CHECK(contains(message_of(replaced(good, "\"name\":", "\"name\":\"fp16\",\"name\":")), "twice"));
  CHECK(contains(message_of("[1]"), "object"));
}

TEST_CASE("arithmetic JSON cut short anywhere, or nested without end, is a ParseError") {
  const std::string good = to_json(cpu_arithmetic("fp32", parse_summation_order("pairwise")));
  for (std::size_t length = 0; length < good.size(); ++length) {
    CHECK_THROWS_AS(arithmetic_from_json(std::string_view(good).substr(0, length)), ParseError);
  }
  CHECK_THROWS_AS(arithmetic_from_json(std::string(1'000'000, '[')), ParseError);
}
