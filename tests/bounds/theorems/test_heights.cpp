#include <doctest/doctest.h>

#include <algorithm>
#include <limits>

#include "driftbound/evaluate/evaluator.hpp"
#include "support/approach.hpp"
#include "support/height_checks.hpp"

using namespace checks;

namespace {

using Lengths = std::vector<std::int64_t>;

Lengths path_lengths(std::int64_t height, const std::vector<char>& nonzero, bool fma) {
  Lengths roundings(nonzero.size(), -1);
  bounds::path_lengths(order_of_height(height, fma), nonzero, roundings);
  return roundings;
}

/// y = relu(x w) v and what it exactly is.
struct TwoProducts {
  static constexpr std::int64_t k = 64, h = 48, m = 3;
  Graph graph;
  Inputs inputs;
  std::vector<Real> exact;

  explicit TwoProducts(Generator& generator) {
    const std::vector<double> x = operand<float>(Data::uniform, k, false, generator),
                              w = operand<float>(Data::uniform, k * h, false, generator),
                              v = operand<float>(Data::uniform, h * m, false, generator);
    const auto as_float = [](const std::vector<double>& values, const Shape& shape) {
      Tensor<float> tensor(shape);
      std::transform(values.begin(), values.end(), tensor.values.begin(),
                     [](double t) { return static_cast<float>(t); });
      return StoredTensor::from(tensor);
    };
    const ValueId input = add_fixed_input(graph, "x", ElementType::f32, {1, k});
    const ValueId first = graph.add_constant("w", as_float(w, {k, h}));
    const ValueId second = graph.add_constant("v", as_float(v, {h, m}));
    const ValueId hidden = graph.add_node("hidden", op::MatMul{}, {input, first});
    graph.outputs = {graph.add_node("y", op::MatMul{}, {graph.add_node("bent", op::Relu{}, {hidden}), second})};
    inputs.tensors.emplace_back("x", as_float(x, {1, k}));
    exact.resize(m);
    for (std::size_t j = 0; j < h; ++j) {
      Real sum;
      for (std::size_t i = 0; i < k; ++i) sum += Real(x[i]) * Real(w[i * h + j]);
      for (std::size_t o = 0; Real() <= sum && o < m; ++o) exact[o] += sum * Real(v[j * m + o]);
    }
  }
};

/// `order-aware` of the last layer, or of the run as a whole, of a trace that declares `order`.
std::vector<double> known_order(const TwoProducts& network, Trace trace, const SummationOrder& order, bool end_to_end) {
  trace.arithmetic.order = order;
  const LayerBounds layer = bound(network.graph, trace, {}).layers.back();
  return end_to_end ? find_bound(layer.accumulated, BoundKind::adjoint_order_aware)->values.values
                    : find_bound(layer.local, BoundKind::order_aware)->values.values;
}

}  // namespace

TEST_CASE("a product meets the additions above it and its own rounding, where only a height is known") {
  for (const bool fma : {false, true}) {
    CHECK(path_lengths(3, std::vector<char>(8, 1), fma) == Lengths(8, 4));
    CHECK(path_lengths(5, std::vector<char>(8, 1), fma) == Lengths(8, 6));
    CHECK(path_lengths(99, std::vector<char>(8, 1), fma) == Lengths(8, 8));
    CHECK(path_lengths(3, {0, 1, 0, 1, 1, 0}, fma) == Lengths{0, 3, 0, 3, 3, 0});
    CHECK(path_lengths(3, {0, 0, 1}, fma) == Lengths{0, 0, 1});
    CHECK(path_lengths(3, {0, 0}, fma) == Lengths{0, 0});
  }
  CHECK(path_lengths(std::numeric_limits<std::int64_t>::max(), {1, 1, 1}, false) == Lengths(3, 3));
}

TEST_CASE("a height that no tree over that many products has is not made use of") {
  CHECK(path_lengths(3, std::vector<char>(9, 1), false) == Lengths(9, 9));
  for (const std::int64_t height : {std::int64_t{0}, std::int64_t{-1}, std::numeric_limits<std::int64_t>::min()})
    CHECK(path_lengths(height, {1, 1, 1}, false) == Lengths(3, 3));
}

TEST_CASE("sums without products pass through no more additions than the height says") {
  CHECK(bounds::sum_height(order_of_height(6), 64) == 6);
  CHECK(bounds::sum_height(order_of_height(6, true), 40) == 6);
  CHECK(bounds::sum_height(order_of_height(6), 3) == 2);
  CHECK(bounds::sum_height(order_of_height(6), 65) == 64);
}

TEST_CASE("random trees of a known height stay within the bounds that know no more" * doctest::test_suite("campaign")) {
  for (const char* arithmetic : {"fp32", "fp64", "tf32", "bf16"}) {
    for (const bool has_bias : {false, true}) {
      CAPTURE(arithmetic);
      CAPTURE(has_bias);
      ProductSetup setup;
      setup.arithmetic = arithmetic;
      setup.has_bias = has_bias;
      const Tallies tallies = check_heights(setup, 12 * test_multiplier(), 21);
      INFO(tallies.first_violation());
      CHECK(tallies.violations() == 0);
      CHECK(tallies.order_aware.checked > 0);
      CHECK(tallies.any_run_in_order.checked == tallies.order_aware.checked);
      CHECK(tallies.running.checked == 0);
    }
  }
}

TEST_CASE("full trees that lose half a unit on every level approach the bound for their height") {
  for (const std::int64_t height : {1, 2, 3, 6, 9}) {
    const Tallies tallies = check_full_tree(height);
    CHECK(tallies.violations() == 0);
    CHECK_APPROACH("T-11", tallies.order_aware.utilisation, 0.99);
  }
}

TEST_CASE("a reduction over a full tree of known height approaches its bound, and has no running one") {
  for (const std::int64_t height : {2, 6, 9}) {
    const std::vector<double> terms = lost_on_every_level(height);
    Real exact;
    for (const double term : terms) exact += Real(term);
    const auto n = static_cast<std::int64_t>(terms.size());
    const OneNode one = one_node(op::ReduceSum{{1}, false}, {{{1, n}, terms}}, {{1}, {1.0}},
                                 cpu_arithmetic("fp32", order_of_height(height)));
    Tallies tallies;
    tallies.add(bounds_of(one), 0, 1.0, exact);
    CHECK(tallies.violations() == 0);
    CHECK(tallies.running.checked == 0);
    CHECK_APPROACH("T-11", tallies.order_aware.utilisation, 0.99);
  }
}

TEST_CASE("a network's pairwise run stays within the bounds for its height, between those for the order and for none") {
  Generator generator(22);
  for (int repetition = 0; repetition < 5 * test_multiplier(); ++repetition) {
    const TwoProducts network(generator);
    const SummationOrder pairwise{SummationOrder::Kind::pairwise, 0, false};
    Trace trace = cpu_evaluator(cpu_arithmetic("fp32", pairwise)).run(network.graph, network.inputs);
    const std::vector<double> computed = trace.layers.back().output.to_double().values;
    trace.provenance = foreign_provenance;
    for (const bool end_to_end : {false, true}) {
      const std::vector<double> in_order = known_order(network, trace, pairwise, end_to_end),
                                by_height = known_order(network, trace, order_of_height(6), end_to_end),
                                as_chain = known_order(network, trace, order_of_height(63), end_to_end);
      for (std::size_t i = 0; i < computed.size(); ++i) {
        CHECK(in_order[i] <= by_height[i]);
        CHECK(by_height[i] < as_chain[i]);
        if (end_to_end) CHECK(abs(Real(computed[i]) - network.exact[i]) <= Real(by_height[i]));
      }
    }
    trace.arithmetic.order = order_of_height(6);
    const LayerBounds layer = bound(network.graph, trace, {}).layers.back();
    CHECK(find_bound(layer.local, BoundKind::running) == nullptr);
    const BoundResult& told = *find_bound(layer.local, BoundKind::order_aware);
    CHECK(told.guarantee == Guarantee::conditional);
    CHECK(told.condition.find("in order height:6") != std::string::npos);
  }
}
