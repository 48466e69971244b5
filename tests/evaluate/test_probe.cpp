#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "driftbound/evaluate/probe.hpp"
#include "driftbound/num/errors.hpp"
#include "driftbound/trace/matrix_units.hpp"
#include "driftbound/trace/product_kernel.hpp"
#include "support/load_errors.hpp"
#include "support/text.hpp"

using namespace driftbound;

namespace {

ProductCall kernel_in(const std::string& arithmetic, const std::string& order) {
  return product_call(cpu_evaluator(cpu_arithmetic(arithmetic, parse_summation_order(order))));
}

/// A kernel that computes every element by itself.
template <class Element>
ProductCall by_element(Element element) {
  return [element](const ProductShape& shape, std::span<const float> a, std::span<const float> b) {
    std::vector<float> c, row(static_cast<std::size_t>(shape.k)), column(row.size());
    for (std::int64_t i = 0; i < shape.m; ++i)
      for (std::int64_t j = 0; j < shape.n; ++j) {
        for (std::int64_t k = 0; k < shape.k; ++k) {
          row[static_cast<std::size_t>(k)] = a[static_cast<std::size_t>(i * shape.k + k)];
          column[static_cast<std::size_t>(k)] = b[static_cast<std::size_t>(k * shape.n + j)];
        }
        c.push_back(element(row, column, i, j));
      }
    return c;
  };
}

using Row = std::vector<float>;

float from_left(const Row& a, const Row& b) {
  float sum = 0.0F;
  for (std::size_t k = 0; k < a.size(); ++k) sum += a[k] * b[k];
  return sum;
}

}  // namespace

TEST_CASE("every order of the CPU is found as it is declared") {
  for (const std::string order : {"sequential", "pairwise", "blocked:8", "blocked:3", "split-k:2", "split-k:7"})
    for (const std::string fma : {"", "+fma"})
      for (const std::int64_t n : {1, 2, 3, 5, 8, 17, 64, 100}) {
        CAPTURE(order + fma);
        CAPTURE(n);
        const SummationOrder declared = parse_summation_order(order + fma);
        ProbeOptions options;
        options.expected = declared;
        const ProbeFindings found = probe_product(kernel_in("fp32", order + fma), {32, n, 2}, options);
        CHECK(found.tree() == tree_of(declared, n));
        CHECK(to_string(found.order) == order + fma);
        CHECK(found.is_confirmed());
        CHECK(found.classes.size() == 1);
        if (n > 1) CHECK(found.additions.value().precision == 24);
        if (n > 1) CHECK(found.additions.value().rounding == Rounding::nearest_even);
      }
}

TEST_CASE("trees of orders that are dealt have these orders") {
  for (const std::string order :
       {"lanes:8x1/neighbours", "lanes:4x2/halves", "lanes:2x1+fma", "balanced:20:8+fma", "slices:25/neighbours",
        "lanes:16x4/halves+fma", "slices:40/lanes:2x1", "balanced:40:1/lanes:2x1:8+fma", "lanes:4x1:8"}) {
    CAPTURE(order);
    for (const std::int64_t n : {90, 128}) {
      const SummationTree tree = tree_of(parse_summation_order(order), n);
      CHECK(tree_of(order_of(tree), n) == tree);
      CHECK(order_of(tree).kind != SummationOrder::Kind::height);
    }
  }
}

TEST_CASE("trees of steps have the order that a matrix unit adds in") {
  ArithmeticModel unit;
  for (const int block : {4, 8, 32})
    for (const char* order : {"sequential", "split-k:2", "split-k:4", "blocked:64", "blocked:96"})
      for (const std::int64_t n : {1, 2, 3, 30, 100, 512}) {
        CAPTURE(block);
        CAPTURE(order);
        CAPTURE(n);
        unit.tensor_core = TensorCore{23, block};
        unit.order = parse_summation_order(order);
        const SummationTree tree = tree_of(kernel_of(unit, n), n);
        CHECK(tree.products_at_once() == (n == 1 ? 0 : std::min<std::int64_t>(block, n)));
        CHECK(order_of(tree, unit.order) == unit.order);
        unit.order = order_of(tree);
        CHECK(unit.order.gives_partial_sums());
        CHECK(tree_of(kernel_of(unit, n), n).same_sums(tree));
      }
  CHECK(tree_of(kernel_of(unit, 40), 40).nodes.size() == 2);
  CHECK(order_of(canonical_tree(8, {{0, 1, 2, 3}, {4, 5, 6}, {8, 9}, {10, 7}})) == SummationOrder{});
}

TEST_CASE("orders over many products" * doctest::test_suite("campaign")) {
  for (const std::string order : {"sequential+fma", "pairwise", "blocked:8+fma", "split-k:7"}) {
    CAPTURE(order);
    ProbeOptions options;
    options.expected = parse_summation_order(order);
    const ProbeFindings found = probe_product(kernel_in("fp32", order), {256, 1000, 1}, options);
    CHECK(found.tree() == tree_of(parse_summation_order(order), 1000));
    CHECK(to_string(found.order) == order);
  }
  const ProbeFindings found = probe_product(kernel_in("fp32", "pairwise+fma"), {256, 4096, 1});
  CHECK(found.tree() == tree_of(parse_summation_order("pairwise+fma"), 4096));
}

TEST_CASE("the operands of narrow arithmetics are found to be rounded, and their products to be exact") {
  struct Case {
    const char* name;
    FormatId format;
  };
  for (const Case& one : {Case{"fp32", FormatId::fp32}, Case{"tf32", FormatId::tf32}, Case{"bf16", FormatId::bf16},
                          Case{"fp16", FormatId::fp16}}) {
    CAPTURE(one.name);
    const ProbeFindings found = probe_product(kernel_in(one.name, "blocked:8"), {16, 40, 3});
    CHECK(found.left.format() == one.format);
    CHECK(found.right.format() == one.format);
    CHECK(found.left.keeps_subnormals() == true);
    if (one.format != FormatId::fp32) CHECK(found.right.rounding == Rounding::nearest_even);
    CHECK(found.tree().same_sums(tree_of(parse_summation_order("blocked:8"), 40)));
    CHECK(found.is_confirmed());
  }
}

namespace {

/// A matrix unit in integers: `block` products and the running sum are cut behind F bits of the largest of them, added
/// exactly, and cut to 24 bits.
__extension__ using Wide = __int128;

struct IntegerUnit {
  std::size_t block;
  int fraction_bits;

  struct Exact {
    Wide significand = 0;
    int exponent = 0;  ///< of its last bit
    int leading = std::numeric_limits<int>::min();
  };

  static Exact exact(float x) {
    if (x == 0.0F) return {};
    int exponent = 0;
    const float fraction = std::frexp(x, &exponent);
    return {static_cast<Wide>(std::ldexp(fraction, 24)), exponent - 24, exponent - 1};
  }
  static Exact product(float a, float b) {
    const Exact x = exact(a), y = exact(b);
    if (x.significand == 0 || y.significand == 0) return {};
    return {x.significand * y.significand, x.exponent + y.exponent, x.leading + y.leading};
  }
  static Wide aligned(const Exact& x, int quantum) {
    const int shift = quantum - x.exponent;
    const Wide size = x.significand < 0 ? -x.significand : x.significand;
    const Wide moved = shift > 120 ? 0 : shift >= 0 ? size >> shift : size << -shift;
    return x.significand < 0 ? -moved : moved;
  }
  static float cut(Wide sum, int quantum) {
    const bool is_negative = sum < 0;
    if (is_negative) sum = -sum;
    while (sum >= (static_cast<Wide>(1) << 24)) {
      sum >>= 1;
      ++quantum;
    }
    const float size = std::ldexp(static_cast<float>(static_cast<std::int64_t>(sum)), quantum);
    return is_negative ? -size : size;
  }

  float operator()(const Row& a, const Row& b) const {
    float sum = 0.0F;
    for (std::size_t first = 0; first < a.size(); first += block) {
      std::vector<Exact> addends = {exact(sum)};
      for (std::size_t k = first; k < std::min(a.size(), first + block); ++k) addends.push_back(product(a[k], b[k]));
      int largest = std::numeric_limits<int>::min();
      for (const Exact& one : addends) largest = std::max(largest, one.leading);
      if (largest == std::numeric_limits<int>::min()) continue;
      Wide total = 0;
      for (const Exact& one : addends)
        if (one.significand != 0) total += aligned(one, largest - fraction_bits);
      sum = cut(total, largest - fraction_bits);
    }
    return sum;
  }
};

float bf16_cut(float x) {
  int exponent = 0;
  const float fraction = std::frexp(x, &exponent);
  return std::ldexp(std::trunc(std::ldexp(fraction, 8)), exponent - 8);
}

}  // namespace

TEST_CASE("a matrix unit's block, bits and rounding are found") {
  struct Case {
    IntegerUnit unit;
    std::int64_t n;
  };
  for (const Case& one : {Case{{4, 23}, 64}, Case{{8, 24}, 64}, Case{{8, 25}, 61}, Case{{16, 25}, 100},
                          Case{{8, 24}, 65}, Case{{4, 13}, 64}}) {
    CAPTURE(one.unit.block);
    CAPTURE(one.unit.fraction_bits);
    CAPTURE(one.n);
    const auto kernel = by_element([&](Row a, Row b, std::int64_t, std::int64_t) {
      for (float& x : a) x = bf16_cut(x);
      for (float& x : b) x = bf16_cut(x);
      return one.unit(a, b);
    });
    const ProbeFindings found = probe_product(kernel, {32, one.n, 2});
    CHECK(found.left.format() == FormatId::bf16);
    CHECK(found.left.rounding == Rounding::toward_zero);
    REQUIRE(found.steps.has_value());
    CHECK(found.steps->block == static_cast<std::int64_t>(one.unit.block));
    CHECK(found.steps->fraction_bits == one.unit.fraction_bits);
    if (one.unit.fraction_bits >= 23) CHECK(found.steps->sums.precision == 24);
    if (one.unit.fraction_bits >= 23) CHECK(found.steps->sums.rounding == Rounding::toward_zero);
    CHECK(found.is_confirmed());
    const ArithmeticModel model = arithmetic_of(found, "unit");
    CHECK(model.tensor_core.value().fraction_bits == one.unit.fraction_bits);
    CHECK(model.tensor_core.value().cuts_operands);
  }
}

TEST_CASE("where one operand cannot mask, both do") {
  for (const char* arithmetic : {"fp8_e4m3", "fp8_e5m2"}) {
    for (const char* order : {"pairwise", "sequential+fma", "blocked:16"}) {
      CAPTURE(arithmetic);
      CAPTURE(order);
      const ProbeFindings found =
          probe_product(kernel_in(arithmetic, order), {6, 100, 9}, {.expected = parse_summation_order(order)});
      CHECK(found.left.format() == find_format(arithmetic));
      REQUIRE(found.additions.has_value());
      CHECK(found.additions->precision == 24);
      CHECK(found.additions->rounding == Rounding::nearest_even);
      CHECK(found.order.kind == parse_summation_order(order).kind);
      CHECK(found.is_confirmed());
    }
  }
}

TEST_CASE("simulated matrix units are found as they are declared") {
  for (const auto& [device, arithmetic] : {std::pair("v100", "fp16"),
                                           {"a100", "tf32"},
                                           {"a100", "fp16"},
                                           {"h100", "bf16"},
                                           {"h100", "fp16"},
                                           {"l40s", "fp8_e4m3"},
                                           {"h100", "fp8_e4m3"},
                                           {"h100", "fp8_e5m2"},
                                           {"b200", "fp8_e4m3"}}) {
    CAPTURE(device);
    CAPTURE(arithmetic);
    const ArithmeticModel declared = simulated_arithmetic(device, arithmetic, parse_summation_order("sequential"));
    const ProbeFindings found = probe_product(product_call(cpu_evaluator(declared)), {64, 100, 2});
    CHECK(found.left.format() == declared.input);
    REQUIRE(found.steps.has_value());
    CHECK(found.steps->block == declared.tensor_core->block);
    CHECK(found.steps->fraction_bits == declared.tensor_core->fraction_bits);
    CHECK(found.steps->sums.rounding == Rounding::toward_zero);
    CHECK(found.is_confirmed());
  }
}

TEST_CASE("sums in double, toward zero, of rows, and rows of a call that are computed in other orders") {
  const auto in_double = by_element([](const Row& a, const Row& b, std::int64_t, std::int64_t) {
    double sum = 0.0;
    for (std::size_t k = 0; k < a.size(); ++k) sum += static_cast<double>(a[k]) * static_cast<double>(b[k]);
    return static_cast<float>(sum);
  });
  const ProbeFindings wide = probe_product(in_double, {16, 50, 1});
  CHECK(wide.additions.value().precision == 53);
  CHECK(wide.is_confirmed());
  CHECK(arithmetic_of(wide, "wide").accumulator == FormatId::fp64);

  const auto by_row = by_element([](Row a, Row b, std::int64_t row, std::int64_t) {
    if (row >= 12) {
      std::reverse(a.begin(), a.end());
      std::reverse(b.begin(), b.end());
    }
    return from_left(a, b);
  });
  const ProbeFindings rows = probe_product(by_row, {16, 40, 3});
  REQUIRE(rows.classes.size() == 2);
  CHECK(rows.classes[0].elements == 36);
  CHECK(rows.classes[1].first_row == 12);
  CHECK(rows.is_confirmed());
  CHECK(words_for(*rows.classes[0].tree) == "40 terms added from left to right");
  CHECK(words_for(*rows.classes[1].tree) == "40 terms added from right to left");
  CHECK(to_string(arithmetic_of(rows, "rows").order) == "height:39");

  const auto rows_in_turn = [](std::int64_t count, std::int64_t length, std::span<const float> values) {
    std::vector<float> sums(static_cast<std::size_t>(count), 0.0F);
    for (std::size_t i = 0; i < sums.size(); ++i)
      for (std::int64_t k = 0; k < length; ++k)
        sums[i] += values[i * static_cast<std::size_t>(length) + static_cast<std::size_t>(k)];
    return sums;
  };
  const ProbeFindings sums = probe_sum(rows_in_turn, 20, 30);
  CHECK(to_string(sums.order) == "sequential");
  CHECK(sums.is_confirmed());
  CHECK(sums.keeps_subnormal_results == true);
}

TEST_CASE("columns hold masks where there are more of them, and the last column may have a tree of its own") {
  const auto by_column = by_element([](Row a, Row b, std::int64_t, std::int64_t column) {
    if (column == 40) std::rotate(a.begin(), a.begin() + 3, a.end()), std::rotate(b.begin(), b.begin() + 3, b.end());
    return from_left(a, b);
  });
  const ProbeFindings found = probe_product(by_column, {1, 24, 41});
  REQUIRE(found.classes.size() == 2);
  CHECK(found.classes[0].elements == 40);
  CHECK(to_string(found.order) == "sequential");
  CHECK(found.is_confirmed());
}

TEST_CASE("patterns are named") {
  const auto lanes = [](std::size_t count, bool pairwise, std::size_t length) {
    return by_element([=](const Row& a, const Row& b, std::int64_t, std::int64_t) {
      Row sums(count, 0.0F);
      const std::size_t whole = a.size() / count * count;
      for (std::size_t k = 0; k < std::min(length, whole); ++k) sums[k % count] += a[k] * b[k];
      for (std::size_t half = count / 2; half > 0; half /= 2)
        for (std::size_t i = 0; i < half; ++i)
          sums[i] = pairwise ? sums[2 * i] + sums[2 * i + 1] : sums[i] + sums[i + half];
      for (std::size_t k = whole; k < a.size(); ++k) sums[0] += a[k] * b[k];
      return sums[0];
    });
  };
  CHECK(words_for(probe_product(lanes(8, true, 1000), {8, 64, 1}).tree()) ==
        "64 terms: 8 chains, term k in chain k mod 8, each added from left to right; the chains are added "
        "pairwise");
  CHECK(words_for(probe_product(lanes(4, false, 1000), {8, 42, 1}).tree()) ==
        "42 terms: the first 40: 4 chains, term k in chain k mod 4, each added from left to right; the chains are "
        "added in pairs half of their number apart; then the last 2 are added one by one");
  CHECK(words_for(tree_of(parse_summation_order("blocked:8"), 64)) ==
        "64 terms: 8 blocks, 8 consecutive terms in each, each added from left to right; the blocks are added from "
        "left to right");
  CHECK(words_for(tree_of(parse_summation_order("blocked:8"), 60)) ==
        "60 terms: 8 blocks, 8 consecutive terms in each but the last, which has 4, each added from left to right; "
        "the blocks are added from left to right");
  // OpenBLAS: two chains, what is left over goes to the first of them; blocks whose last two share what is left.
  const auto odd_and_even = by_element([](const Row& a, const Row& b, std::int64_t, std::int64_t) {
    float even = 0.0F, odd = 0.0F;
    const std::size_t whole = a.size() / 8 * 8;
    for (std::size_t k = 0; k < whole; k += 2) even += a[k] * b[k], odd += a[k + 1] * b[k + 1];
    for (std::size_t k = whole; k < a.size(); ++k) even += a[k] * b[k];
    return even + odd;
  });
  CHECK(words_for(probe_product(odd_and_even, {8, 20, 1}).tree()) ==
        "20 terms: the first 16: 2 chains, term k in chain k mod 2, each added from left to right; the chains are "
        "added to each other; the last 4 are added to the chain of term 0 first, one by one");
  const auto uneven = by_element([](const Row& a, const Row& b, std::int64_t, std::int64_t) {
    float sum = 0.0F;
    for (std::size_t first = 0, next = 0; first < a.size(); first = next) {
      const std::size_t left = a.size() - first;
      next = first + (left >= 40 ? 20 : left > 20 ? (left + 1) / 2 : left);
      float block = a[first] * b[first];
      for (std::size_t k = first + 1; k < next; ++k) block += a[k] * b[k];
      sum = first == 0 ? block : sum + block;
    }
    return sum;
  });
  CHECK(words_for(probe_product(uneven, {8, 90, 1}).tree()) ==
        "90 terms: 5 blocks of consecutive terms (3 of 20, 2 of 15), each added from left to right; the blocks are "
        "added from left to right");
  CHECK(words_for(tree_of(parse_summation_order("pairwise"), 60)) == "60 terms added pairwise");
  ArithmeticModel unit;
  unit.tensor_core = TensorCore{25, 8};
  unit.order = parse_summation_order("lanes:4x8");
  CHECK(words_for(tree_of(kernel_of(unit, 64), 64)) ==
        "64 terms: 4 lanes of 8 terms in turn (4 of 16), each added in steps of 8, from left to right; the lanes are "
        "added from left to right");
  CHECK(words_for(canonical_tree(1, {})) == "1 term");
  CHECK(words_for(canonical_tree(5, {{0, 3}, {1, 4}, {5, 2}, {7, 6}})) ==
        "5 terms, added in no pattern that has a name here; each passes through 3 additions at most");
}

float stored(float x, FormatId id, Rounding rounding = Rounding::nearest_even) {
  return static_cast<float>(round_to(static_cast<double>(x), format(id), rounding));
}

TEST_CASE("results that are stored in bf16 or fp16 hide neither the tree nor the arithmetic") {
  for (const FormatId id : {FormatId::bf16, FormatId::fp16})
    for (const Rounding rounding : {Rounding::nearest_even, Rounding::toward_zero})
      for (const std::int64_t n : {2, 3, 40, 300, 600}) {
        CAPTURE(format(id).name);
        CAPTURE(n);
        const auto kernel = by_element([&](const Row& a, const Row& b, std::int64_t, std::int64_t) {
          return stored(from_left(a, b), id, rounding);
        });
        const ProbeFindings found = probe_product(kernel, {32, n, 2});
        CHECK(found.result.format == id);
        CHECK(found.result.rounding == rounding);
        CHECK(found.left.format() == FormatId::fp32);
        CHECK(found.right.format() == FormatId::fp32);
        CHECK(to_string(found.order) == "sequential");
        CHECK(found.additions.value().is_hidden == (n == 2));
        if (n > 2) CHECK(found.additions->precision == 24);
        if (n > 2) CHECK(found.additions->rounding == Rounding::nearest_even);
        CHECK(found.keeps_subnormal_results == std::nullopt);
        CHECK(found.left.keeps_subnormals() == true);
        CHECK(found.is_confirmed());
        if (rounding == Rounding::nearest_even)
          CHECK(arithmetic_of(found, "narrow").output == id);
        else
          CHECK_THROWS_AS(arithmetic_of(found, "narrow"), Unsupported);
      }
  CHECK(probe_product(kernel_in("fp32", "sequential"), {32, 40, 2}).result.format == FormatId::fp32);
  CHECK(probe_product(kernel_in("fp8_e4m3", "sequential"), {32, 2, 2}).result.format == FormatId::fp32);
}

TEST_CASE("units of narrow operands and narrow results are found, counts beyond the bits of a result too") {
  for (const auto& [device, arithmetic, result] : {std::tuple("h100", "bf16", FormatId::bf16),
                                                   {"a100", "fp16", FormatId::fp16},
                                                   {"v100", "fp16", FormatId::fp16},
                                                   {"a100", "tf32", FormatId::bf16},
                                                   {"h100", "fp8_e4m3", FormatId::bf16},
                                                   {"h100", "fp8_e5m2", FormatId::fp16}})
    for (const char* order : {"sequential", "split-k:2"})
      for (const std::int64_t n : {64, 300}) {
        CAPTURE(device);
        CAPTURE(arithmetic);
        CAPTURE(order);
        CAPTURE(n);
        ArithmeticModel declared = simulated_arithmetic(device, arithmetic, parse_summation_order(order));
        declared.output = result;
        const ProbeFindings found = probe_product(product_call(cpu_evaluator(declared)), {40, n, 40},
                                                  {.expected = parse_summation_order(order)});
        CHECK(found.result.format == result);
        CHECK(found.result.rounding == Rounding::nearest_even);
        CHECK(found.left.format() == declared.input);
        REQUIRE(found.steps.has_value());
        CHECK(found.steps->block == declared.tensor_core->block);
        CHECK(found.steps->fraction_bits == declared.tensor_core->fraction_bits);
        CHECK(to_string(found.order) == order);
        CHECK(found.is_confirmed());
        CHECK(arithmetic_of(found, "unit").output == result);
      }
}

/// A product of operands in a narrow format whose sums are made by sum(a, b).
template <class Sum>
ProductCall of_narrow(FormatId id, const Sum& sum) {
  return by_element([=](const Row& a, const Row& b, std::int64_t, std::int64_t) {
    Row left, right;
    for (const float x : a) left.push_back(stored(x, id));
    for (const float x : b) right.push_back(stored(x, id));
    return sum(left, right);
  });
}

TEST_CASE("sums that are kept in bf16 are found, with the products that are rounded before they are added") {
  for (const bool rounds_products : {false, true})
    for (const std::int64_t n : {3, 40, 300, 700}) {
      CAPTURE(rounds_products);
      CAPTURE(n);
      const ProbeFindings found = probe_product(of_narrow(FormatId::bf16,
                                                          [=](const Row& a, const Row& b) {
                                                            float sum = 0.0F;
                                                            for (std::size_t k = 0; k < a.size(); ++k) {
                                                              float product = a[k] * b[k];
                                                              if (rounds_products)
                                                                product = stored(product, FormatId::bf16);
                                                              sum = stored(sum + product, FormatId::bf16);
                                                            }
                                                            return sum;
                                                          }),
                                                {16, n, 1});
      CHECK(found.result.format == FormatId::bf16);
      CHECK(to_string(found.order) == "sequential");
      CHECK(found.additions.value().precision == 8);
      CHECK(found.additions->rounding == Rounding::nearest_even);
      CHECK_FALSE(found.parts.has_value());  // all sums are kept in so few bits
      const std::vector<bool>& rounded = found.classes.front().rounded_products;
      CHECK(std::count(rounded.begin(), rounded.end(), true) == (rounds_products ? n : 1));
      CHECK(found.is_confirmed());
      const ReducedReduction reduction = arithmetic_of(found, "bf16").reduced_reduction.value();
      CHECK(reduction.format == FormatId::bf16);
      CHECK(reduction.rounds_sums);
      CHECK(reduction.parts == n);
    }
}

TEST_CASE("parts of a sum that are rounded before they are added are found") {
  for (const FormatId id : {FormatId::bf16, FormatId::fp16})
    for (const bool of_sums : {false, true})
      for (const bool is_narrow : {false, true})
        for (const std::int64_t n : {40, 2000}) {
          CAPTURE(format(id).name);
          CAPTURE(of_sums);
          CAPTURE(is_narrow);
          CAPTURE(n);
          const auto kernel = of_narrow(id, [=](const Row& a, const Row& b) {
            const std::size_t run = a.size() / 4;
            float sum = 0.0F;
            for (std::size_t part = 0; part < 4; ++part) {
              float of_part = 0.0F;
              for (std::size_t k = part * run; k < (part + 1) * run; ++k) of_part += a[k] * b[k];
              sum += stored(of_part, id);
              if (of_sums) sum = stored(sum, id);
            }
            return is_narrow ? stored(sum, id) : sum;
          });
          const ProbeFindings found =
              probe_product(kernel, {16, n, 3}, {.expected = parse_summation_order("split-k:4")});
          CHECK(to_string(found.order) == "split-k:4");
          REQUIRE(found.parts.has_value());
          CHECK(found.parts->precision == format(id).precision);
          CHECK(found.parts->rounding == Rounding::nearest_even);
          CHECK(found.additions.value().precision == 24);
          const std::vector<bool>& rounded = found.classes.front().rounded_parts;
          const int sums = of_sums ? 2 : 0;  // no product lies outside of the last one
          CHECK(std::count(rounded.begin(), rounded.end(), true) == 4 + sums);
          CHECK(found.is_confirmed());
          const ArithmeticModel model = arithmetic_of(found, "split");
          REQUIRE(model.reduced_reduction.has_value());
          CHECK(model.reduced_reduction->format == id);
          CHECK(model.reduced_reduction->parts == 4);
          CHECK(model.reduced_reduction->rounds_sums == of_sums);
        }
}

TEST_CASE("a running sum in bf16 that takes parts in float32 rounds as often as it takes one") {
  const auto kernel = of_narrow(FormatId::bf16, [](const Row& a, const Row& b) {
    float sum = 0.0F;
    for (std::size_t first = 0; first < a.size(); first += 4) {
      float part = 0.0F;
      for (std::size_t k = first; k < std::min(first + 4, a.size()); ++k) part += a[k] * b[k];
      sum = stored(sum + part, FormatId::bf16);
    }
    return sum;
  });
  const ProbeFindings found = probe_product(kernel, {16, 128, 2});
  CHECK(found.is_confirmed());
  const ReducedReduction reduction = arithmetic_of(found, "running").reduced_reduction.value();
  CHECK(reduction.rounds_sums);
  CHECK(reduction.parts >= 31);  // the last of the 32 roundings is that of the result
}

TEST_CASE("rounded parts of a simulated matrix unit are found") {
  for (const bool of_sums : {false, true}) {
    const UnitUse use{.rounds_parts = true, .rounds_sums = of_sums};
    const ArithmeticModel declared = simulated_arithmetic("h100", "bf16", parse_summation_order("split-k:4"), use);
    const ProbeFindings found = probe_product(product_call(cpu_evaluator(declared)), {40, 1024, 4});
    CHECK(to_string(found.order) == "blocked:256");
    CHECK(found.parts.value().precision == 8);
    CHECK(found.steps.value().fraction_bits == 25);
    CHECK(found.steps->sums.precision == 24);
    CHECK(found.additions.value().precision == (of_sums ? 8 : 24));
    CHECK(found.is_confirmed());
    CHECK(arithmetic_of(found, "unit").reduced_reduction.value().parts == 4);
    CHECK(arithmetic_of(found, "unit").reduced_reduction->rounds_sums == of_sums);
  }
}

TEST_CASE("the trees of many products with results in bf16 take two masks a pair" * doctest::test_suite("campaign")) {
  ArithmeticModel declared = simulated_arithmetic("h100", "bf16", parse_summation_order("split-k:4"));
  declared.output = FormatId::bf16;
  const ProbeFindings found = probe_product(product_call(cpu_evaluator(declared)), {256, 4096, 4});
  CHECK(found.tree().same_sums(tree_of(kernel_of(declared, 4096), 4096)));
  CHECK(found.is_confirmed());
  CHECK(found.masks < 2 * 4096 * 8);
}

float rounded_to_bits(float x, int bits) {
  int exponent = 0;
  const float fraction = std::frexp(x, &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(fraction, bits)), exponent - bits);
}

TEST_CASE("what is no tree of sums is said, not guessed") {
  const auto by_size = by_element([](const Row& a, const Row& b, std::int64_t, std::int64_t) {
    Row products;
    for (std::size_t k = 0; k < a.size(); ++k) products.push_back(a[k] * b[k]);
    std::stable_sort(products.begin(), products.end(), [](float x, float y) { return std::abs(x) < std::abs(y); });
    float sum = 0.0F;
    for (const float x : products) sum += x;
    return sum;
  });
  CHECK_THROWS_AS(probe_product(by_size, {16, 20, 1}), Unsupported);
  // The order depends on the first number: masks with M there are added from the right.
  const auto by_first = by_element([](Row a, Row b, std::int64_t, std::int64_t) {
    if (std::abs(a[0]) < 0.5F && a[0] != 0.0F) {
      std::reverse(a.begin(), a.end());
      std::reverse(b.begin(), b.end());
    }
    return from_left(a, b);
  });
  CHECK_THROWS_AS(probe_product(by_first, {16, 20, 1}), Unsupported);
  // It depends on whether there are numbers of the size of M.
  const auto by_largest = by_element([](Row a, Row b, std::int64_t, std::int64_t) {
    if (std::any_of(a.begin(), a.end(), [](float x) { return std::abs(x) > 0x1p110F; })) {
      std::reverse(a.begin(), a.end());
      std::reverse(b.begin(), b.end());
    }
    return from_left(a, b);
  });
  CHECK_THROWS_WITH_AS(probe_product(by_largest, {16, 20, 1}), doctest::Contains("masks of other numbers"),
                       Unsupported);
  // So does it for moderate values: random data shows one order, masks of large numbers another one.
  const auto by_moderate = by_element([](Row a, Row b, std::int64_t, std::int64_t) {
    if (std::any_of(a.begin(), a.end(), [](float x) { return std::abs(x) >= 0x1p90F; })) {
      std::reverse(a.begin(), a.end());
      std::reverse(b.begin(), b.end());
    }
    return from_left(a, b);
  });
  CHECK_THROWS_WITH_AS(probe_product(by_moderate, {16, 300, 1}), doctest::Contains("masks of other numbers"),
                       Unsupported);
  const auto in_bits = [](int bits) {
    return by_element([=](const Row& a, const Row& b, std::int64_t, std::int64_t) {
      float sum = 0.0F;
      for (std::size_t k = 0; k < a.size(); ++k) sum = rounded_to_bits(sum + a[k] * b[k], bits);
      return sum;
    });
  };
  CHECK_THROWS_WITH_AS(probe_product(in_bits(3), {16, 1000, 1}), doctest::Contains("do not hold so many units exactly"),
                       Unsupported);
  const ProbeFindings in_nine = probe_product(in_bits(9), {16, 1000, 1});
  CHECK(to_string(in_nine.order) == "sequential");
  CHECK_FALSE(in_nine.is_confirmed());
  CHECK(contains(in_nine.classes.front().reason, "9 bits"));
  std::mt19937_64 draw(1);
  const auto at_random = by_element([&](Row a, Row b, std::int64_t, std::int64_t) {
    std::mt19937_64 first = draw, second = draw;
    draw();
    std::shuffle(a.begin(), a.end(), first);
    std::shuffle(b.begin(), b.end(), second);
    return from_left(a, b);
  });
  CHECK_THROWS_WITH_AS(probe_product(at_random, {16, 50, 1}), doctest::Contains("from call to call"), Unsupported);
  CHECK_THROWS_WITH_AS(probe_product(kernel_in("fp8_e4m3", "pairwise"), {16, 1024, 1}),
                       doctest::Contains("too few powers of two"), Unsupported);
  CHECK_THROWS_WITH_AS(probe_product(kernel_in("fp32", "pairwise"), {1, 16777217, 1}),
                       doctest::Contains("too large to reveal"), Unsupported);
  CHECK_THROWS_WITH_AS(probe_product(kernel_in("fp32", "pairwise"), {1, 64, 1}, {.calls = 20}),
                       doctest::Contains("more than 20 calls"), Unsupported);
  // Where both operands hold a part of every mask, a call has as many masks as the smaller of m and n.
  CHECK_THROWS_WITH_AS(probe_product(kernel_in("fp8_e5m2", "pairwise"), {64, 300, 1}, {.calls = 200}),
                       doctest::Contains("(1 in a call, 299 calls at least"), Unsupported);
  CHECK_THROWS_WITH_AS(probe_product(kernel_in("fp8_e5m2", "pairwise"), {64, 300, 1}, {.seconds = 1e-9}),
                       doctest::Contains("take as many columns as rows"), Unsupported);
  CHECK(probe_product(kernel_in("fp8_e5m2", "pairwise"), {64, 300, 64}, {.calls = 200}).is_confirmed());
}

TEST_CASE("kernels that fail, or return something else, are named") {
  const auto failing = [](const ProductShape&, std::span<const float>, std::span<const float>) -> std::vector<float> {
    throw std::runtime_error("out of paper");
  };
  CHECK_THROWS_WITH_AS(probe_product(failing, {2, 3, 4}), doctest::Contains("(call 1, [2, 3] x [3, 4]): out of paper"),
                       InvalidArgument);
  const auto short_result = [](const ProductShape&, std::span<const float>, std::span<const float>) {
    return std::vector<float>(7);
  };
  CHECK_THROWS_WITH_AS(probe_product(short_result, {2, 3, 4}), doctest::Contains("7 numbers instead of 8"),
                       InvalidArgument);
  for (const float odd : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
    const auto kernel = [odd](const ProductShape& shape, std::span<const float>, std::span<const float>) {
      std::vector<float> c(static_cast<std::size_t>(shape.m * shape.n), 1.0F);
      c[5] = odd;
      return c;
    };
    CHECK_THROWS_WITH_AS(probe_product(kernel, {2, 3, 4}), doctest::Contains("element [1, 1] of the result is"),
                         Unsupported);
  }
  CHECK_THROWS_AS(probe_product(kernel_in("fp32", "pairwise"), {0, 3, 4}), InvalidArgument);
  CHECK_THROWS_AS(canonical_tree(3, {{0, 1}, {0, 2}}), InvalidArgument);
  CHECK_THROWS_AS(tree_of(parse_summation_order("height:3"), 4), InvalidArgument);
}

TEST_CASE("repeated calls are compared bit for bit") {
  CHECK(repeat_product(kernel_in("fp32", "pairwise"), {4, 30, 5}, 10, 1).differing_calls == 0);
  int calls = 0;
  const auto sometimes = [&calls](const ProductShape& shape, std::span<const float>, std::span<const float>) {
    std::vector<float> c(static_cast<std::size_t>(shape.m * shape.n), 1.0F);
    if (++calls == 3) c[6] = 2.0F;
    return c;
  };
  const RepeatedCalls found = repeat_product(sometimes, {4, 30, 5}, 5, 1);
  CHECK(found.differing_calls == 1);
  CHECK(found.first_call == 2);
  CHECK(found.first_element == 6);
  CHECK(found.other == 2.0F);
  CHECK_THROWS_AS(repeat_product(sometimes, {4, 30, 5}, 1, 1), InvalidArgument);
  calls = 0;
  const auto sum_sometimes = [&calls](std::int64_t rows, std::int64_t, std::span<const float>) {
    std::vector<float> sums(static_cast<std::size_t>(rows), 1.0F);
    if (++calls == 2) sums[3] = 2.0F;
    return sums;
  };
  const RepeatedCalls sums = repeat_sum(sum_sometimes, 4, 30, 5, 1);
  CHECK(sums.differing_calls == 1);
  CHECK(sums.first_call == 1);
  CHECK(sums.first_element == 3);
}
