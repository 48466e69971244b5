#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "bounds/blocks/block_bounds.hpp"
#include "bounds/kernels/row_kernels.hpp"
#include "bounds/sums/known_products.hpp"
#include "driftbound/num/errors.hpp"
#include "driftbound/reference/reference.hpp"
#include "faults/theorems.hpp"
#include "support/approach.hpp"
#include "support/run_checks.hpp"
#include "support/share_checks.hpp"
#include "support/special_numbers.hpp"
#include "support/two_ways.hpp"

// Any run by loops over rows (T-88).

using namespace checks;

namespace {

void check_near(const char* what, const std::vector<double>& a, const std::vector<double>& b, double tolerance) {
  CAPTURE(what);
  REQUIRE(a.size() == b.size());
  for (std::size_t row = 0; row < a.size(); ++row) {
    INFO("row ", row, ": ", a[row], " and ", b[row]);
    CHECK((a[row] == b[row] || (std::isfinite(b[row]) && std::abs(a[row] - b[row]) <= tolerance * std::abs(b[row]))));
  }
}

double size_of(const std::vector<std::vector<double>>& layers, std::size_t row) {
  double size = 0.0;
  for (const std::vector<double>& layer : layers) size += std::abs(layer[row]);
  return size;
}

double sum_of(const std::vector<std::vector<double>>& layers, std::size_t row) {
  double sum = 0.0;
  for (const std::vector<double>& layer : layers) sum += layer[row];
  return sum;
}

}  // namespace

namespace {

const std::vector<std::string> rows_functions = {
    "relu",    "tanh",     "softplus",   "sin",     "gelu",      "gelu_tanh", "moves",     "leaky_relu",
    "sigmoid", "elu",      "cos",        "exp",     "erf",       "product",   "quotient",  "max",
    "min",     "prelu",    "divided",    "silu",    "less_tanh", "addend",    "no_addend", "hard_swish",
    "softmax", "repeated", "normalised", "largest", "attention", "tokens",    "filters",   "outer"};

}  // namespace

TEST_CASE("bounds by loops over rows hold at coarse distances and for runs in float32 (T-88)" *
          doctest::test_suite("campaign")) {
  std::vector<std::string> functions = rows_functions;
  functions.emplace_back("doubled");  // whose products are exact by rows alone
  for (const std::string& function : functions) {
    CAPTURE(function);
    const RunRowsTallies tallies = check_run_rows(function, 12 * test_multiplier(), 71);
    INFO(tallies.moved.first_violation, tallies.rounded.first_violation);
    CHECK(tallies.moved.checked > 0);
    CHECK(tallies.moved.violations == 0);
    CHECK(tallies.rounded.violations == 0);
    const bool has_coarse_remainders = function == "product" || function == "normalised" || function == "attention";
    CHECK_APPROACH("T-88", tallies.moved.utilisation, has_coarse_remainders ? 0.96 : 0.98);
    const bool has_large_factors =
        function == "product" || function == "softmax" || function == "attention" || function == "addend";
    CHECK_APPROACH("T-88", tallies.rounded.utilisation, has_large_factors ? 0.05 : 0.09);
    MESSAGE(function << ": " << tallies.moved.utilisation << " " << tallies.rounded.utilisation);
  }
}

TEST_CASE("loops over rows say what the whole says, to a hundredth (T-88)") {
  Generator generator(72);
  for (const std::string& function : rows_functions) {
    CAPTURE(function);
    // narrow sums lose little more than Gelu does, whose steps and constants are all taken at their worst (T-124)
    const double of_function = function == "gelu" ? 0.5 : function == "gelu_tanh" ? 1.2 : 0.01;
    // Where values are mixed, the loops over rows do not refine the radii in the order in which the whole does.
    const bool mixes = std::set<std::string>{"product", "normalised", "attention", "outer"}.contains(function);
    const bool is_coarse = std::set<std::string>{"quotient", "tokens", "filters", "addend"}.contains(function);
    const double of_coarse = function == "normalised" ? 0.6 : mixes ? 0.25 : is_coarse ? 0.1 : 0.01;
    for (int repetition = 0; repetition < 8 * test_multiplier(); ++repetition) {
      const Graph graph = network_of_rows(function, generator);
      for (const double radius : {0.0, 1e-6, 1e-3}) {
        CAPTURE(radius);
        const double hundredth = radius == 1e-3 ? std::max(of_function, of_coarse) : of_function;
        const TwoWays ways(graph, network_inputs(1.0, false, generator), radius);
        const bounds::Certificate &any = ways.by_rows.any_order, &any_in_full = ways.in_full.any_order;
        check_near("any.total", any.total, any_in_full.total, hundredth);
        check_near("any.local", any.local, any_in_full.local, hundredth);
        for (std::size_t row = 0; row < any.total.size(); ++row) {
          REQUIRE(std::isfinite(any_in_full.total[row]));
          CHECK(std::abs(sum_of(any.layers, row) - sum_of(any_in_full.layers, row)) <=
                hundredth * any_in_full.total[row]);
        }
        check_near("ways.by_rows.declared_order.total", ways.by_rows.declared_order.total,
                   ways.in_full.declared_order.total, hundredth);
        check_near("ways.by_rows.declared_order.local", ways.by_rows.declared_order.local,
                   ways.in_full.declared_order.local, hundredth);
        const double of_chance = 0.04 + hundredth;
        check_near("ways.by_rows.chance.martingale->total", ways.by_rows.chance.martingale->total,
                   ways.in_full.chance.martingale->total, of_chance);
        check_near("ways.by_rows.chance.random_order->total", ways.by_rows.chance.random_order->total,
                   ways.in_full.chance.random_order->total, of_chance);
        CHECK(ways.by_rows.chance.martingale->patterns == ways.in_full.chance.martingale->patterns);
        for (std::size_t layer = 0; layer < any.layers.size(); ++layer) {
          check_near("ways.by_rows.condition->layers[layer]", ways.by_rows.condition->layers[layer],
                     ways.in_full.condition->layers[layer], 1e-3 + 200.0 * radius);
          for (std::size_t row = 0; row < any.total.size(); ++row) {
            const double size = size_of(ways.in_full.attribution->layers, row);
            REQUIRE(std::isfinite(size));
            CHECK(std::abs(ways.by_rows.attribution->layers[layer][row] -
                           ways.in_full.attribution->layers[layer][row]) <= 1e-4 * size);
          }
        }
        check_near("ways.by_rows.this_run", ways.by_rows.this_run, ways.in_full.this_run, 0.01);
      }
    }
  }
}

namespace {

/// Rectifiers and normalisations, then a Gelu of the outputs, or equal numbers added up for each of them.
Graph behind_normalisations(bool ends_with_gelu, Generator& generator) {
  Graph graph = network_of_rows("normalised", generator);
  const ValueId last = graph.outputs[0];
  if (ends_with_gelu) {
    graph.outputs = {graph.add_node("gelu", op::Gelu{false}, {last})};
    return graph;
  }
  const ValueId copies = graph.add_node("copies", op::Unsqueeze{{2}}, {last});
  const ValueId equal = graph.add_node("equal", op::Gather{2, {17}, std::vector<std::int64_t>(17, 0)}, {copies});
  graph.outputs = {graph.add_node("sum", op::ReduceSum{{2}, false}, {equal})};
  return graph;
}

}  // namespace

TEST_CASE("radii that are refined in stages leave roundings to chance as they were (T-72, T-74)") {
  Generator generator(94);
  int refined = 0;
  for (const bool ends_with_gelu : {true, false}) {
    for (int repetition = 0; repetition < 12; ++repetition) {
      const Graph graph = behind_normalisations(ends_with_gelu, generator);
      const Tensor<double> x = network_inputs(1.0, false, generator);
      const TwoWays before(graph, x, 1e-4, 0), after(graph, x, 1e-4, 64);
      const bounds::ChanceBound &one = *before.by_rows.chance.martingale, &other = *after.by_rows.chance.martingale;
      CHECK(one.patterns == other.patterns);
      if (!ends_with_gelu) CHECK(one.patterns[0] != bounds::TermPattern::none);
      for (std::size_t row = 0; row < one.total.size(); ++row) {
        refined += after.by_rows.any_order.remainder[row] < 0.9 * before.by_rows.any_order.remainder[row] ? 1 : 0;
        CHECK(other.spread[row] >= 0.99 * one.spread[row]);
      }
    }
  }
  CHECK(refined > 0);
}

TEST_CASE("targets that go back together are told what each is told alone (T-88)") {
  Generator generator(80);
  const std::vector<Target> targets = {
      {{0, 1}, OutputElement{0, 0}}, {{0, 0}, std::nullopt}, {{0, 1}, std::nullopt}, {{0, 0}, OutputElement{0, 1}}};
  for (const std::string function : {"relu", "tanh", "gelu"}) {
    const Graph graph = network_of_rows(function, generator);
    const Tensor<double> x = network_inputs(1.0, false, generator);
    const std::vector<bounds::TargetCertificate> together = TwoWays::by_rows_of(graph, x, targets);
    for (std::size_t i = 0; i < targets.size(); ++i) {
      CAPTURE(i);
      const bounds::TargetCertificate alone = TwoWays::by_rows_of(graph, x, {targets[i]})[0], &one = together[i];
      REQUIRE(std::isfinite(alone.any_order.total[0]));
      CHECK(one.any_order.total == alone.any_order.total);
      CHECK(one.any_order.layers == alone.any_order.layers);
      CHECK(one.declared_order.total == alone.declared_order.total);
      CHECK(one.chance.martingale->total == alone.chance.martingale->total);
      CHECK(one.condition->layers == alone.condition->layers);
      for (std::size_t layer = 0; layer < one.any_order.layers.size(); ++layer)
        for (std::size_t row = 0; row < one.any_order.total.size(); ++row)
          CHECK(std::abs(one.attribution->layers[layer][row] - alone.attribution->layers[layer][row]) <=
                1e-7 * size_of(alone.attribution->layers, row));  // some rows are made again where another cancels
    }
  }
}

namespace {

using Change = std::function<ValueId(Graph& graph, ValueId value, std::int64_t width)>;

/// Three products with tanh or Relu between them; before product `at`, or behind the last, a node or two that change no
/// value.
Graph network_with(const Change& change, std::size_t at, const Op& function) {
  constexpr std::int64_t widths[] = {3, 16, 16, 2};
  Generator generator(79);
  Graph graph;
  ValueId value = graph.add_input("x", ElementType::f32, {{-1, "N"}, {3, ""}});
  for (std::size_t layer = 0; layer < 4; ++layer) {
    if (layer == at) value = change(graph, value, widths[layer]);
    if (layer == 3) break;
    const std::string name = std::to_string(layer);
    Tensor<float> w({widths[layer], widths[layer + 1]}), b({widths[layer + 1]});
    for (Tensor<float>* constants : {&w, &b})
      for (float& c : constants->values) c = static_cast<float>(uniform(generator, -0.6, 0.6));
    const ValueId operands = graph.add_constant("w" + name, StoredTensor::from(w));
    const ValueId bias = graph.add_constant("b" + name, StoredTensor::from(b));
    value = graph.add_node("product" + name, op::Gemm{}, {value, operands, bias});
    if (layer < 2) value = graph.add_node("function" + name, function, {value});
  }
  graph.outputs = {value};
  return graph;
}

std::vector<std::pair<std::string, Change>> changes_of_nothing() {
  const auto row_of = [](Graph& graph, double value, std::int64_t width) {
    const auto extent = static_cast<std::size_t>(width);
    return graph.add_constant(
        "same", StoredTensor::from(Tensor<float>({width}, std::vector<float>(extent, static_cast<float>(value)))));
  };
  const auto one = [](Op op) {
    return [op](Graph& graph, ValueId x, std::int64_t) { return graph.add_node("same", op, {x}); };
  };
  const auto two = [](Op there, Op back) {
    return [there, back](Graph& graph, ValueId x, std::int64_t) {
      return graph.add_node("back", back, {graph.add_node("there", there, {x})});
    };
  };
  return {{"Identity", one(op::Identity{})},
          {"Flatten", one(op::Flatten{1})},
          {"Unsqueeze and Squeeze", two(op::Unsqueeze{{1}}, op::Squeeze{{1}})},
          {"Reshape",
           [](Graph& graph, ValueId x, std::int64_t width) {
             return graph.add_node("same", op::Reshape{{-1, width}}, {x});
           }},
          {"Transpose twice",
           [](Graph& graph, ValueId x, std::int64_t) {
             const ValueId matrices = graph.add_node("matrices", op::Unsqueeze{{2}}, {x});
             const ValueId turned = graph.add_node("turned", op::Transpose{{0, 2, 1}}, {matrices});
             return graph.add_node("back", op::Squeeze{{1}}, {turned});
           }},
          {"Neg twice", two(op::Neg{}, op::Neg{})},
          {"Cast", one(op::Cast{ElementType::f32})},
          {"Mul by 1",
           [row_of](Graph& graph, ValueId x, std::int64_t width) {
             return graph.add_node("same", op::Mul{}, {x, row_of(graph, 1.0, width)});
           }},
          {"Add of 0",
           [row_of](Graph& graph, ValueId x, std::int64_t width) {
             return graph.add_node("same", op::Add{}, {row_of(graph, 0.0, width), x});
           }},
          {"Sub of 0", [row_of](Graph& graph, ValueId x, std::int64_t width) {
             return graph.add_node("same", op::Sub{}, {x, row_of(graph, 0.0, width)});
           }}};
}

/// Bounds of the output, by kind. Loops over rows must take the network.
std::map<BoundKind, std::vector<double>> output_bounds(const Graph& graph, const Tensor<double>& x) {
  const ArithmeticModel arithmetic = cpu_arithmetic("fp32", parse_summation_order("pairwise"));
  const bounds::Setting setting = setting_of(arithmetic);
  bounds::BoundCache operands;
  const Program program(graph, {x.shape}, x.shape[0]);
  std::string obstacle;
  CHECK(bounds::RunWalk::of(program, setting, operands, obstacle) != nullptr);
  CHECK(obstacle == "");
  std::map<BoundKind, std::vector<double>> values;
  const Bounds bounds_of_all = bound(graph, float_run(graph, x, arithmetic));
  for (const BoundResult& result : bounds_of_all.layers.back().accumulated) values[result.kind] = result.values.values;
  return values;
}

}  // namespace

TEST_CASE("nodes that change no value change no bound of any run, wherever they stand (T-88)") {
  Generator generator(80);
  Tensor<double> x({6, 3});
  for (double& value : x.values) value = static_cast<double>(static_cast<float>(uniform(generator, -1.0, 1.0)));
  const Change none = [](Graph&, ValueId value, std::int64_t) { return value; };
  for (const Op& function : {Op(op::Tanh{}), Op(op::Relu{})}) {
    const auto plain = output_bounds(network_with(none, 4, function), x);
    for (const auto& [name, change] : changes_of_nothing()) {
      for (std::size_t at = 0; at < 4; ++at) {
        CAPTURE(name);
        CAPTURE(at);
        const auto changed = output_bounds(network_with(change, at, function), x);
        CHECK(changed.size() == plain.size());
        for (const auto& [bound, values] : plain) {
          CAPTURE(bound);
          check_near("changed.at(bound)", changed.at(bound), values, 1e-3);
        }
      }
    }
  }
}

TEST_CASE("loops over rows that say too little of roundings left to chance are noticed (T-74, T-75)") {
  Generator generator(76);
  const Graph graph = network_of_rows("relu", generator);
  const Tensor<double> x = network_inputs(1.0, false, generator);
  static const bounds::RowKernels* fastest = &bounds::fastest_row_kernels();
  Theorems amplitudes, estimates, squares;
  amplitudes.rows.chances = [](const bounds::SumRow& row, const bounds::RowFormat& format, const double* added,
                               const bounds::RowChances& result, std::size_t n) {
    fastest->chances(row, format, added, result, n);
    for (std::size_t i = 0; i < n; ++i) result.amplitudes[i] *= 0.5;
  };
  estimates.rows.chances = [](const bounds::SumRow& row, const bounds::RowFormat& format, const double* added,
                              const bounds::RowChances& result, std::size_t n) {
    fastest->chances(row, format, added, result, n);
    for (std::size_t i = 0; i < n; ++i) result.estimates[i] *= 0.5;
  };
  squares.rows.weighted_squares = [](const double* d, const double* a, std::size_t n) {
    return 0.5 * fastest->weighted_squares(d, a, n);
  };
  const auto ways_with = [&](const Theorems& theorems) {
    const ScopedTheorems in_force(theorems);
    return TwoWays(graph, x, 0.0, 0);
  };
  const TwoWays of_amplitudes = ways_with(amplitudes), of_estimates = ways_with(estimates),
                of_squares = ways_with(squares);
  const auto is_less = [](const TwoWays& ways, auto which) {
    return (ways.by_rows.chance.*which)->total[0] < 0.95 * (ways.in_full.chance.*which)->total[0];
  };
  CHECK(is_less(of_amplitudes, &bounds::ChanceBounds::martingale));
  CHECK(is_less(of_estimates, &bounds::ChanceBounds::random_order));
  CHECK(is_less(of_squares, &bounds::ChanceBounds::martingale));
  CHECK(is_less(of_squares, &bounds::ChanceBounds::random_order));
}

namespace {

/// A product, and units that are off by about as much as float32 rounds what they read; all of them 2^-small times as
/// large as what they give to the result, and next to them numbers that are 2^large times as large.
Graph units_at_their_kinks(const Tensor<double>& x, Generator& generator, int small = 0, int large = 0) {
  const std::int64_t width = x.shape[1];
  const auto size = static_cast<std::size_t>(width);
  Graph graph;
  const auto matrix = [&](std::int64_t columns, int exponent = 0) {
    Tensor<float> values({width, columns});
    for (float& value : values.values) value = static_cast<float>(std::ldexp(uniform(generator, -1.0, 1.0), exponent));
    return values;
  };
  const auto times = [&](const std::vector<double>& row, const Tensor<float>& values) {
    std::vector<double> result(size, 0.0);
    for (std::size_t k = 0; k < size; ++k)
      for (std::size_t j = 0; j < size; ++j) result[j] += row[k] * values.values[k * size + j];
    return result;
  };
  const Tensor<float> first = matrix(width, -small), second = matrix(width), last = matrix(2, small);
  Tensor<float> bias({width});
  const std::vector<double> sums = times(times(x.values, first), second);
  for (std::size_t j = 0; j < size; ++j) bias.values[j] = static_cast<float>(-sums[j] - 0x1p-23 * std::abs(sums[j]));
  const auto constant = [&](const char* name, const Tensor<float>& values) {
    return graph.add_constant(name, StoredTensor::from(values));
  };
  const ValueId input = graph.add_input("x", ElementType::f32, {{-1, "N"}, {width, ""}});
  const ValueId read = graph.add_node("first", op::MatMul{}, {input, constant("a", first)});
  const ValueId off = graph.add_node("second", op::Gemm{}, {read, constant("b", second), constant("c", bias)});
  const ValueId units = graph.add_node("units", op::Relu{}, {off});
  const ValueId result = graph.add_node("last", op::MatMul{}, {units, constant("d", last)});
  graph.outputs = {result};
  if (large == 0) return graph;
  const Tensor<float> factor({1}, {std::ldexp(1.0F, large)});
  const ValueId scaled = graph.add_node("large", op::Mul{}, {input, constant("e", factor)});
  const ValueId little = graph.add_node("little", op::MatMul{}, {scaled, constant("f", matrix(2, -large - 10))});
  graph.outputs = {graph.add_node("sum", op::Add{}, {result, little})};
  return graph;
}

/// 7.2 root mean squares of 8 coins next to 6 of 16, on average.
const double larger = 7.2 / 6.0 * (std::tgamma(4.5) / std::tgamma(4.0) / std::sqrt(4.0)) /
                      (std::tgamma(8.5) / std::tgamma(8.0) / std::sqrt(8.0));

}  // namespace

TEST_CASE("what slopes do not see is found at radii that coins give, by rows as element by element (T-75)") {
  Generator generator(78);
  double by_rows = 0.0, in_full = 0.0;
  for (int repetition = 0; repetition < 20 * test_multiplier(); ++repetition) {
    Tensor<double> x({1, 48});
    for (double& element : x.values) element = static_cast<float>(uniform(generator, -1.0, 1.0));
    const TwoWays ways(units_at_their_kinks(x, generator), x, 0.0, 0);
    const bounds::ChanceBound &rows = *ways.by_rows.chance.random_order, &full = *ways.in_full.chance.random_order;
    CHECK(rows.total[0] != full.total[0]);  // the row is not left to the whole
    CHECK(rows.remainder[0] < 0.5 * rows.unattributed[0]);
    CHECK(std::abs(rows.remainder[0] / full.remainder[0] / larger - 1.0) <= 0.2);
    by_rows += rows.remainder[0];
    in_full += full.remainder[0];
  }
  CHECK(by_rows / in_full >= 0.98 * larger);
  CHECK(by_rows / in_full <= 1.07 * larger);  // what a closed unit leaves grows faster than its radius
}

namespace {

/// Layers that add errors up faster than they square them.
Graph deep_softplus(Generator& generator) {
  constexpr std::int64_t width = 64;
  Graph graph;
  ValueId value = graph.add_input("x", ElementType::f32, {{-1, "N"}, {width, ""}});
  for (int layer = 0; layer < 8; ++layer) {
    Tensor<float> operands({width, layer == 7 ? 2 : width});
    for (float& weight : operands.values) weight = static_cast<float>(uniform(generator, -0.5, 0.5));
    const ValueId constant = graph.add_constant(fmt::format("w{}", layer), StoredTensor::from(operands));
    value = graph.add_node(fmt::format("product{}", layer), op::MatMul{}, {value, constant});
    if (layer < 7) value = graph.add_node(fmt::format("softplus{}", layer), op::Softplus{}, {value});
  }
  graph.outputs = {value};
  return graph;
}

}  // namespace

TEST_CASE("what smaller radii leave of a remainder is found at radii that coins give too (T-75)") {
  Generator generator(81);
  for (int repetition = 0; repetition < 10 * test_multiplier(); ++repetition) {
    Tensor<double> x({1, 64});
    for (double& element : x.values) element = static_cast<float>(uniform(generator, -1.0, 1.0));
    const Graph graph = deep_softplus(generator);
    for (const std::int64_t refined : {0, 32}) {
      CAPTURE(refined);
      const TwoWays ways(graph, x, 0.0, refined);
      const bounds::ChanceBound &rows = *ways.by_rows.chance.random_order, &full = *ways.in_full.chance.random_order;
      CHECK(rows.total[0] != full.total[0]);  // the row is not left to the whole
      CHECK(rows.unattributed[0] <= 0.01 * rows.total[0]);
      // larger^2 for what grows as a square, and its part in radii; or so little that no coins are asked for
      CHECK(rows.remainder[0] <= std::max(2.5 * full.remainder[0], refined == 0 ? 0.0 : 0.1 * rows.total[0]));
    }
  }
}

TEST_CASE("an estimate at radii that coins give does not ask which slopes bounds take (T-75)") {
  Generator generator(82);
  for (int repetition = 0; repetition < 20 * test_multiplier(); ++repetition) {
    Tensor<double> x({1, 48});
    for (double& element : x.values) element = static_cast<float>(uniform(generator, -1.0, 1.0));
    const Graph graph = units_at_their_kinks(x, generator);
    const TwoWays plain(graph, x, 0.0, 0), refined(graph, x, 0.0, 1);
    const bounds::ChanceBound &rows = *plain.by_rows.chance.random_order, &again = *refined.by_rows.chance.random_order;
    CHECK(refined.by_rows.any_order.remainder[0] < 0.8 * plain.by_rows.any_order.remainder[0]);  // chords
    CHECK(again.total[0] == rows.total[0]);
    CHECK(again.total[0] != refined.in_full.chance.random_order->total[0]);  // the row is not left to the whole
  }
}

TEST_CASE("coins give each of many samples what they give it alone (T-75)") {
  Generator generator(80);
  constexpr std::size_t width = 48, rows = 150;
  const auto row_of_floats = [&] {
    Tensor<double> row({1, width});
    for (double& element : row.values) element = static_cast<float>(uniform(generator, -1.0, 1.0));
    return row;
  };
  const Tensor<double> at_kinks = row_of_floats();
  const Graph graph = units_at_their_kinks(at_kinks, generator);
  std::vector<Tensor<double>> samples;
  Tensor<double> x({rows, width});
  for (std::size_t row = 0; row < rows; ++row) {
    Tensor<double>& sample = samples.emplace_back(row % 3 == 1 ? at_kinks : row_of_floats());
    double& element = sample.values[row % width];
    if (row % 3 == 1) element = static_cast<double>(std::nextafter(static_cast<float>(element), 1.0F));
    std::copy(sample.values.begin(), sample.values.end(), x.values.begin() + static_cast<std::ptrdiff_t>(row * width));
  }
  for (const std::int64_t refined : {0, 32}) {
    CAPTURE(refined);
    const TwoWays all(graph, x, 0.0, refined);
    const bounds::ChanceBound& together = *all.by_rows.chance.random_order;
    int ruled = 0;
    for (const std::size_t row : {0u, 1u, 4u, 63u, 64u, 65u, 67u, 127u, 128u, 130u, 148u, 149u}) {
      CAPTURE(row);
      const TwoWays one(graph, samples[row], 0.0, refined);
      const bounds::ChanceBound& alone = *one.by_rows.chance.random_order;
      ruled += together.remainder[row] < together.unattributed[row] ? 1 : 0;
      check_near("unattributed", {together.unattributed[row]}, {alone.unattributed[0]}, refined == 0 ? 1e-6 : 2e-5);
      check_near("remainder", {together.remainder[row]}, {alone.remainder[0]}, 0.1);
      if (refined != 0) continue;  // radii are chosen for all samples together
      CHECK(together.remainder[row] == alone.remainder[0]);
      CHECK(together.total[row] == alone.total[0]);
    }
    CHECK(ruled > 3);
    CHECK(ruled < 8);
  }
}

TEST_CASE("coins are tossed for deviations of all sizes that single precision has room for (T-75)") {
  Generator generator(79);
  for (int repetition = 0; repetition < 5 * test_multiplier(); ++repetition) {
    Tensor<double> x({1, 48});
    for (double& element : x.values) element = static_cast<float>(uniform(generator, -1.0, 1.0));
    for (const int large : {90, 115}) {
      CAPTURE(large);
      const TwoWays ways(units_at_their_kinks(x, generator, 60, large), x, 0.0, 0);
      const bounds::ChanceBound &rows = *ways.by_rows.chance.random_order, &full = *ways.in_full.chance.random_order;
      CHECK(rows.total[0] != full.total[0]);
      CHECK(rows.unattributed[0] > 0.5 * full.unattributed[0]);
      if (large == 90) CHECK(std::abs(rows.remainder[0] / full.remainder[0] / larger - 1.0) <= 0.2);
      if (large == 115) CHECK(rows.remainder[0] >= full.remainder[0]);  // the smallest deviations count as larger ones
    }
  }
}

TEST_CASE("rows with large remainders are refined, as many radii as may be, and the bound only falls (T-72)") {
  Generator generator(75);
  int smaller = 0;
  for (int repetition = 0; repetition < 10 * test_multiplier(); ++repetition) {
    const Graph graph = network_of_rows("relu", generator);
    const Tensor<double> x = network_inputs(1.0, false, generator);
    const bounds::Certificate none = TwoWays(graph, x, 0.1, 0).by_rows.any_order,
                              few = TwoWays(graph, x, 0.1, 2).by_rows.any_order,
                              all = TwoWays(graph, x, 0.1, 1000).by_rows.any_order;
    for (std::size_t row = 0; row < none.total.size(); ++row) {
      CHECK(few.total[row] <= none.total[row]);
      CHECK(all.total[row] <= few.total[row] * (1.0 + 1e-12));
      smaller += few.total[row] < none.total[row] && all.total[row] < few.total[row] ? 1 : 0;
    }
  }
  CHECK(smaller > 0);
}

TEST_CASE("a radius by an adjoint counts what chosen elements before it leave over (T-72)") {
  Graph graph;
  const auto constant = [&](const char* name, Shape shape, double value) {
    return graph.add_constant(name, StoredTensor::from(Tensor<float>(std::move(shape), {static_cast<float>(value)})));
  };
  const ValueId x = graph.add_input("x", ElementType::f32, {{-1, "N"}, {1, ""}});
  const ValueId one = constant("one", {1, 1}, 1.0);
  const ValueId first = graph.add_node("first", op::Relu{}, {graph.add_node("a", op::MatMul{}, {x, one})});
  const ValueId below = graph.add_node("b", op::Gemm{}, {first, one, constant("shift", {1}, -0.125)});
  const ValueId second = graph.add_node("second", op::Relu{}, {below});
  const ValueId little = graph.add_node("little", op::Mul{}, {first, constant("factor", {1}, 0x1p-7)});
  graph.outputs = {graph.add_node("y", op::Add{}, {second, little})};
  Tally tally;
  // both kinks closed at the centre: all that moves the second is left over at the first
  HeldRun(graph, Tensor<double>({1, 1}, {-0.5}), 1.0, 1000).check_at({1.0}, tally);
  CHECK(tally.violations == 0);
  CHECK_APPROACH("T-72", tally.utilisation, 1.0);
}

TEST_CASE("a radius by an adjoint that stops on the way counts what is known of the values there (T-72)") {
  for (const StoppedRadius& stopped : {stopped_kink(), stopped_bend()}) {
    const Tally tally = check_stopped_radius(stopped);
    CHECK(tally.checked == 1);
    CHECK(tally.violations == 0);
    CHECK_APPROACH("T-72", tally.utilisation, 0.998);
  }
  Theorems theorems;
  static double largest = 0.0;
  theorems.ahead = [](Magnitude by_norm, Magnitude by_elements, Magnitude defect) {
    largest = std::max(largest, std::min(by_norm, by_elements).value());
    return proven::ahead(by_norm, by_elements, defect);
  };
  const ScopedTheorems in_force(theorems);
  for (const StoppedRadius& stopped : {stopped_kink(), stopped_bend()}) {
    largest = 0.0;
    CHECK(check_stopped_radius(stopped).violations == 0);
    // where the first product ends; the second ends with 127 times that
    CHECK(std::abs(largest / stopped.radius - 1.0) <= 1e-5);
  }
}

TEST_CASE("what a flat function could hand on is charged where its slope is left out (T-72)") {
  static double left_out = 0.0;
  Theorems theorems;
  theorems.rows.single_charges = [](const bounds::RowCharges& row, float* charged, std::size_t n) {
    for (std::size_t i = 0; row.left != nullptr && i < n; ++i)
      if (row.left[i] == 0.0F) left_out = std::max(left_out, row.slopes[i] * row.e[i]);
    bounds::fastest_row_kernels().single_charges(row, charged, n);
  };
  const ScopedTheorems in_force(theorems);
  const Tally tally = check_flat_slope();
  CHECK(left_out > 2e-6);
  CHECK(tally.checked == 1);
  CHECK(tally.violations == 0);
  CHECK_APPROACH("T-72", tally.utilisation, 0.9);
}

TEST_CASE("shares in single precision are off by no more than their defects (T-72)") {
  // none at all, below what single precision rounds well, far from that, and where nothing is said
  constexpr int exponents[] = {0, -120, -140, 55, 62, 100};
  Generator generator(77);
  Tally tally;
  for (int repetition = 0; repetition < 60 * test_multiplier(); ++repetition) {
    const std::size_t k = 1 + generator() % 40, n = 1 + generator() % 90, rows = 1 + generator() % 12;
    Tensor<float> operands({static_cast<std::int64_t>(k), static_cast<std::int64_t>(n)});
    for (float& w : operands.values) w = static_cast<float>(uniform(generator, -1.0, 1.0));
    const HeldProduct product(operands, static_cast<std::int64_t>(rows), generator() % 2 == 0);
    const double scale = std::ldexp(1.0, exponents[repetition % 6]);
    bounds::SingleAdjoint d{std::vector<float>(rows * n), std::vector<double>(rows), {}};
    const bool has_zeros = generator() % 2 == 0;
    for (float& x : d.d)
      x = has_zeros && generator() % 4 != 0 ? 0.0F : static_cast<float>(scale * uniform(generator, -1.0, 1.0));
    check_shares(product, d, tally);
    std::vector<float> row(k);
    for (std::size_t j = 0; j < n; ++j) {
      product.step().row_of_matrix(j, row.data());
      bool is_same = true;
      for (std::size_t i = 0; i < k; ++i) is_same = is_same && row[i] == operands.values[i * n + j];
      CHECK(is_same);
    }
  }
  INFO(tally.first_violation);
  CHECK(tally.violations == 0);
}

TEST_CASE("shares in single precision come as near to their defects as there are roundings (T-72)") {
  const Tally roundings = check_rounded_shares(), underflow = check_underflowing_shares();
  INFO(roundings.first_violation, underflow.first_violation);
  CHECK(roundings.violations == 0);
  CHECK(underflow.violations == 0);
  CHECK_APPROACH("T-72", roundings.utilisation, 0.99);
  CHECK_APPROACH("T-72", underflow.utilisation, 0.5);
  const Tally slope = check_rounded_slope();
  CHECK(slope.violations == 0);
  CHECK_APPROACH("T-72", slope.utilisation, 0.99);
  CHECK(bounds::is_single_enough(0x1p60, 0x1p60, (1 << 20) - 1));
  CHECK_FALSE(bounds::is_single_enough(1.0, 1.0, 1 << 20));
  CHECK_FALSE(bounds::is_single_enough(0x1p61, 1.0, 1));
  CHECK_FALSE(bounds::is_single_enough(1.0, std::nan(""), 1));
}

TEST_CASE("defects of shares in single precision are handed on where a row stops and where it goes on (T-72)") {
  constexpr std::size_t lost = 399;
  constexpr float little = 0x1p-12F;
  std::vector<float> there(lost + 3, little * (1.0F - little)), back(lost + 3, little);
  there[0] = back[0] = 1.0F;  // all that follows is lost, but for 64 x - 63 x
  there[lost + 1] = there[lost + 2] = 1.0F;
  back[lost + 1] = 64.0F;
  back[lost + 2] = -63.0F;
  static double at_stop = 0.0, on_the_way = 0.0;
  Theorems theorems;
  theorems.ahead = [](Magnitude by_norm, Magnitude by_elements, Magnitude defect) {
    at_stop = std::max(at_stop, defect.value());
    return proven::ahead(by_norm, by_elements, defect);
  };
  theorems.charge = [](Magnitude local, Magnitude remainder, Magnitude defect) {
    on_the_way = std::max(on_the_way, defect.value());
    return proven::charge(local, remainder, defect);
  };
  const ScopedTheorems in_force(theorems);
  for (const bool stops : {true, false}) {
    CAPTURE(stops);
    Graph graph;
    const auto constant = [&](const char* name, Shape shape, std::vector<float> values) {
      return graph.add_constant(name, StoredTensor::from(Tensor<float>(std::move(shape), std::move(values))));
    };
    const auto width = static_cast<std::int64_t>(there.size());
    const ValueId x = graph.add_input("x", ElementType::f32, {{-1, "N"}, {1, ""}});
    const ValueId a = graph.add_node("a", op::MatMul{}, {x, constant("one", {1, 1}, {1.0F})});
    const ValueId b = graph.add_node("b", op::MatMul{}, {a, constant("there", {1, width}, there)});
    const ValueId all = graph.add_node("all", op::Relu{}, {b});
    const ValueId c = graph.add_node(
        "c", op::Gemm{}, {all, constant("back", {width, 1}, back), constant("shift", {1}, {-9.9F})});  // 2 x - 9.9
    const ValueId bent = graph.add_node("bent", op::Relu{}, {c});
    const ValueId much = graph.add_node("much", op::Mul{}, {x, constant("factor", {1}, {stops ? 100.0F : 0.0625F})});
    graph.outputs = {graph.add_node("y", op::Add{}, {bent, much})};
    at_stop = on_the_way = 0.0;
    Tally tally;
    HeldRun(graph, Tensor<double>({1, 1}, {4.0}), 1.0, 1000).check_at({1.0}, tally);
    CHECK(tally.violations == 0);
    CHECK((stops ? at_stop : on_the_way) >= lost * 0x1p-24);
  }
}

namespace {

/// A function of one element, as a RunWalk takes it, at x with radii e.
struct HeldFunction {
  Graph graph;
  ArithmeticModel arithmetic = cpu_arithmetic("fp32", parse_summation_order("pairwise"));
  bounds::Setting setting = setting_of(arithmetic);
  std::unique_ptr<const bounds::RunStep> step;

  HeldFunction(Op f, std::size_t size) {
    const auto width = static_cast<std::int64_t>(size);
    const ValueId x = graph.add_input("x", ElementType::f32, {{-1, "N"}, {width, ""}});
    graph.outputs = {graph.add_node("y", std::move(f), {x})};
    const Program program(graph, {{1, width}}, 1);
    bounds::BoundCache operands;
    std::set<std::string> conditions;
    step = bounds::run_step_of({program, program.fused().nodes[0], {nullptr}}, {}, setting, operands, conditions);
  }

  bounds::RunErrors errors(const std::vector<double>& x, double e) const {
    bounds::RunRows operand, result;
    operand.resize(1, x.size(), false);
    result.resize(1, x.size(), false);
    operand.centre = x;
    operand.radius.assign(x.size(), e);
    const bounds::RunRows* const operands[] = {&operand};
    bounds::RunErrors errors;
    std::vector<char> undecided(1, 0);
    bounds::RunScratch scratch;
    step->forward(operands, {}, result, errors, undecided, scratch);
    return errors;
  }
};

}  // namespace

TEST_CASE("rows stop by what smooth functions leave over at the radius they would have (T-72, T-88)") {
  std::vector<double> x;
  for (int i = -100; i <= 100; ++i) x.push_back(0.25 * i);
  for (const Op& function : {Op(op::Tanh{}), Op(op::Softplus{}), Op(op::Sin{}), Op(op::Gelu{}), Op(op::Gelu{true})}) {
    const HeldFunction held(function, x.size());
    const bounds::RunErrors errors = held.errors(x, 0.125);
    for (const double distance : {1e-6, 1e-3, 0.1, 0.7, 3.0, 20.0}) {
      CAPTURE(distance);
      const std::vector<double> remainder = held.errors(x, distance).remainder;
      for (std::size_t i = 0; i < x.size(); ++i)
        CHECK(std::abs(held.step->approx_remainder(errors, i, distance) - remainder[i]) <= 0.01 * remainder[i]);
    }
  }
}

TEST_CASE("rows of which nothing is known are left to the whole (T-88)") {
  Generator generator(73);
  const Graph graph = network_of_rows("relu", generator);
  for (const double bad : {infinity, std::nan(""), 1e39}) {
    Tensor<double> x = network_inputs(1.0, false, generator);
    x.values[5] = bad;
    CHECK(HeldRun(graph, x, 0.0).found().undecided == std::vector<std::int64_t>{1});
  }
  const Tensor<double> x = network_inputs(1.0, false, generator);
  CHECK(HeldRun(graph, x, 0.0).found().undecided.empty());
}

namespace {

/// A product with a constant that float32 does not hold.
Graph product_with_a_third() {
  Graph graph;
  const ValueId x = graph.add_input("x", ElementType::f32, {{-1, "N"}, {4, ""}});
  const ValueId third = graph.add_constant("c", StoredTensor::from(Tensor<double>({1}, {1.0 / 3.0})));
  graph.outputs = {graph.add_node("y", op::Mul{}, {x, third})};
  return graph;
}

}  // namespace

TEST_CASE("constants that float32 does not hold are left to the whole (T-88)") {
  Generator generator(74);
  CHECK_FALSE(HeldRun(product_with_a_third(), network_inputs(1.0, true, generator), 0.0).is_known());
}

TEST_CASE("bounds name what did not go by rows, and how long it took (T-88)") {
  Generator generator(75);
  const ArithmeticModel arithmetic = cpu_arithmetic("fp32", parse_summation_order("pairwise"));
  const Graph by_rows = network_of_rows("softmax", generator), graph = product_with_a_third();
  const Tensor<double> x = network_inputs(1.0, true, generator);
  CHECK(bound(by_rows, float_run(by_rows, x, arithmetic)).not_by_rows.empty());
  const std::vector<NotByRows> found = bound(graph, float_run(graph, x, arithmetic)).not_by_rows;
  REQUIRE(found.size() == 1);
  CHECK(found[0].question == Question::any_run);
  CHECK(found[0].obstacle == "node 'y' (Mul) with a constant that runs round");
  CHECK(found[0].seconds > 0.0);
}

TEST_CASE("what is kept from trace to trace is that of the trace's own arithmetic (T-88)") {
  Graph graph;
  const ValueId x = graph.add_input("x", ElementType::f32, {{-1, "N"}, {2, ""}});
  const ValueId w = graph.add_constant("w", StoredTensor::from(Tensor<float>({2, 1}, {0.5F, 0.75F})));
  graph.outputs = {graph.add_node("tanh", op::Tanh{}, {graph.add_node("product", op::MatMul{}, {x, w})})};
  Inputs inputs;
  inputs.tensors.emplace_back("x", StoredTensor::from(Tensor<float>({3, 2}, {0.5F, 0.25F, 0.75F, 0.5F, 0.25F, 1.0F})));
  BoundOptions options;
  options.requests = {BoundKind::adjoint_any_order};
  const Bounder kept(graph, options);
  for (const char* name : {"fp32", "fp32 by others", "bf16", "tf32", "fp64", "fp32"}) {
    CAPTURE(name);
    const bool is_foreign = std::string(name) == "fp32 by others";
    Trace trace =
        cpu_evaluator(cpu_arithmetic(is_foreign ? "fp32" : name, parse_summation_order("pairwise"))).run(graph, inputs);
    if (is_foreign) {
      trace.provenance = foreign_provenance;
      for (FunctionAccuracy& function : trace.arithmetic.functions) function.units = 1000.0;
    }
    const LayerBounds first = bound(graph, trace, options).layers.back(), again = kept(trace).layers.back();
    const BoundResult &alone = *find_bound(first.accumulated, BoundKind::adjoint_any_order),
                      &among_others = *find_bound(again.accumulated, BoundKind::adjoint_any_order);
    CHECK(among_others.values.values == alone.values.values);
    CHECK(among_others.condition == alone.condition);
    CHECK(among_others.guarantee == alone.guarantee);
  }
}

namespace {

Trace run_of(const Graph& graph, const Tensor<double>& x, const std::string& format, const std::string& order) {
  Inputs inputs;
  inputs.tensors.emplace_back("x", StoredTensor::from(x));
  return cpu_evaluator(cpu_arithmetic(format, parse_summation_order(order))).run(graph, inputs);
}

Tensor<double> first_rows(const Tensor<double>& x, std::int64_t rows) {
  const auto width = static_cast<std::ptrdiff_t>(x.size()) / x.shape[0];
  return Tensor<double>({rows, x.shape[1]}, std::vector<double>(x.values.begin(), x.values.begin() + rows * width));
}

}  // namespace

TEST_CASE("rows in memory that others have used have the bounds that they have in new memory (T-88)") {
  Generator generator(81);
  for (const std::string function : {"relu", "tanh", "gelu"}) {
    CAPTURE(function);
    const Graph graph = network_of_rows(function, generator);
    const Tensor<double> x = network_inputs(1.0, false, generator);
    BoundOptions options;
    options.targets = {{{0, 1}, OutputElement{0, 0}}};
    const Bounder kept(graph, options);
    for (const std::int64_t rows : {x.shape[0], std::int64_t{1}, x.shape[0]}) {
      for (const char* order : {"pairwise", "sequential", "blocked:8+fma"}) {
        CAPTURE(rows);
        CAPTURE(order);
        const Trace trace = run_of(graph, first_rows(x, rows), "fp32", order);
        const Bounds again = kept(trace), alone = Bounder(graph, options)(trace);
        REQUIRE(again.targets.size() == alone.targets.size());
        for (std::size_t target = 0; target < alone.targets.size(); ++target) {
          const std::vector<BoundResult>&a = again.targets[target].bounds, &b = alone.targets[target].bounds;
          REQUIRE(a.size() == b.size());
          for (std::size_t i = 0; i < b.size(); ++i) {
            CAPTURE(name_of(b[i].kind));
            CHECK(a[i].values.values == b[i].values.values);
          }
        }
      }
    }
  }
}

TEST_CASE("products in double are taken again for the rows that have their very operands, and for no others (T-88)") {
  const Tensor<double> operand({3, 2}, {1.0, 2.0, 3.0, 4.0, 5.0, 6.0}), product({3, 1}, {10.0, 20.0, 30.0});
  bounds::KnownProducts products;
  products.keep(7, operand, product);
  const auto found = [&](ValueId value, std::size_t first, const std::vector<double>& x) {
    const std::span<const double> sums = products.find(value, first, x.size() / 2, 3, x);
    return std::vector<double>(sums.begin(), sums.end());
  };
  CHECK(found(7, 0, operand.values) == product.values);
  CHECK(found(7, 1, {3.0, 4.0, 5.0, 6.0}) == std::vector<double>{20.0, 30.0});
  CHECK(found(7, 1, {5.0, 6.0}).empty());
  CHECK(found(7, 2, {5.0, std::nextafter(6.0, 7.0)}).empty());
  CHECK(found(6, 0, operand.values).empty());
}

TEST_CASE("sums of magnitudes at a recorded row are those of all runs near it (T-88)") {
  const Tally tally = check_sums_of_recorded_rows();
  CHECK(tally.violations == 0);
  CHECK(tally.utilisation > 0.9999);
  Generator generator(82);
  const Graph graph = network_of_rows("relu", generator);
  const Tensor<double> x = network_inputs(1.0, false, generator);
  constexpr double radius = 0x1p-11;
  const Tensor<double> near = moved(x, radius, random_corner(x.size(), generator)),
                       far = moved(x, 100.0 * radius, random_corner(x.size(), generator));
  const HeldRun alone(graph, x, radius), by_near(graph, x, radius, 0, &near), by_far(graph, x, radius, 0, &far);
  const std::vector<double>& expected = alone.found().targets[0].local;
  CHECK(by_far.found().targets[0].local == expected);
  CHECK(by_near.found().targets[0].local != expected);
  for (std::size_t row = 0; row < expected.size(); ++row) {
    CHECK(by_near.found().targets[0].local[row] >= 0.9 * expected[row]);
    CHECK(by_near.found().targets[0].local[row] <= 1.5 * expected[row]);
  }
}

TEST_CASE("attribution takes the exact layers that are given, and refuses those of another trace (T-73)") {
  Generator generator(83);
  for (const std::string function : {"relu", "tanh", "gelu"}) {
    CAPTURE(function);
    const Graph graph = network_of_rows(function, generator);
    const Tensor<double> x = network_inputs(1.0, false, generator);
    const Trace trace = run_of(graph, x, "fp32", "pairwise");
    BoundOptions options;
    options.targets = {{{0, 1}, OutputElement{0, 0}}};
    const Bounder bounder(graph, options);
    const Reference local = local_reference(graph, trace), accumulated = certified_reference(graph, trace.inputs);
    const Bounds given = bounder(trace, {&local.layers}), found = bounder(trace);
    const Attribution &parts = *given.targets[0].attribution, &others = *found.targets[0].attribution;
    const std::vector<double> computed = trace.layers.back().output.to_double().values;
    for (std::size_t row = 0; row < parts.inputs.size(); ++row) {
      const auto error = [&](std::size_t i) {
        const Ball& exact = accumulated.layers.back().values[i];
        return computed[i] - exact.hi - exact.lo;
      };
      const double whole = error(2 * row + 1) - error(2 * row);
      CHECK(std::abs(parts.inputs[row] + sum_of(parts.layers, row) - whole) <= 1e-6 * std::abs(whole));
      for (std::size_t layer = 0; layer < parts.layers.size(); ++layer)
        CHECK(std::abs(parts.layers[layer][row] - others.layers[layer][row]) <= 1e-6 * size_of(others.layers, row));
    }
    CHECK(given.targets[0].bounds[0].values.values == found.targets[0].bounds[0].values.values);

    std::vector<Tensor<Ball>> wrong = local.layers, doubled = local.layers;
    for (Tensor<Ball>& layer : doubled)
      for (Ball& ball : layer.values) ball.lo += 1e-3;
    wrong.pop_back();
    CHECK_THROWS_AS(bounder(trace, {&wrong}), ShapeMismatch);
    CHECK(bounder(trace, {&doubled}).targets[0].attribution->layers != parts.layers);
  }
}

TEST_CASE("exact layers that are not known are found (T-73)") {
  Generator generator(84);
  const Graph graph = network_of_rows("relu", generator);
  const Trace trace = run_of(graph, network_inputs(1.0, false, generator), "fp32", "pairwise");
  BoundOptions options;
  options.targets = {{{0, 1}, OutputElement{0, 0}}};
  const Bounder bounder(graph, options);
  std::vector<Tensor<Ball>> unknown = local_reference(graph, trace).layers;
  for (Tensor<Ball>& layer : unknown) layer.values[0] = {0.0, 0.0, Magnitude::infinite()};
  CHECK(bounder(trace, {&unknown}).targets[0].attribution->layers == bounder(trace).targets[0].attribution->layers);
}
