#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "analysis/judge.hpp"
#include "driftbound/bounds/bound.hpp"
#include "driftbound/evaluate/kernel_search.hpp"
#include "driftbound/model/load.hpp"
#include "driftbound/trace/matrix_units.hpp"
#include "support/approach.hpp"
#include "support/lost_numbers.hpp"
#include "support/text.hpp"

// Bounds of whole networks in the orders of kernels that were found in a run (T-170).

using namespace driftbound;
using namespace driftbound::analysis;

namespace {

std::vector<float> normal_numbers(std::size_t count, double scale, std::mt19937_64& random) {
  std::normal_distribution<double> normal(0.0, scale);
  std::vector<float> numbers(count);
  for (float& x : numbers) x = static_cast<float>(normal(random));
  return numbers;
}

/// The order in which one layer adds its products.
enum class Order { chain, two_lanes, shuffled };

float sum_in(Order order, const std::vector<float>& a, const std::vector<float>& b, std::uint64_t seed) {
  if (order == Order::two_lanes) {
    float lanes[2] = {};
    for (std::size_t i = 0; i < a.size(); ++i) lanes[i % 2] = std::fma(a[i], b[i], lanes[i % 2]);
    return lanes[0] + lanes[1];
  }
  std::vector<std::size_t> places(a.size());
  for (std::size_t i = 0; i < places.size(); ++i) places[i] = i;
  std::mt19937_64 random(seed);
  if (order == Order::shuffled) std::shuffle(places.begin(), places.end(), random);
  float sum = 0.0f;
  for (const std::size_t i : places) sum = std::fma(a[i], b[i], sum);
  return sum;
}

/// Products with a Relu between each two: a graph, and runs of it in which every layer adds in an order of its own.
struct Network {
  std::int64_t rows;
  std::vector<std::int64_t> widths;
  std::vector<float> x;
  std::vector<std::vector<float>> weights;
  Graph graph;

  Network(std::int64_t samples, std::vector<std::int64_t> sizes, std::uint64_t seed)
      : rows(samples), widths(std::move(sizes)) {
    std::mt19937_64 random(seed);
    x = normal_numbers(static_cast<std::size_t>(rows * widths[0]), 1.0, random);
    ValueId value = graph.add_input("x", ElementType::f32, {{-1, "samples"}, {widths[0], ""}});
    for (std::size_t layer = 0; layer + 1 < widths.size(); ++layer) {
      const std::int64_t k = widths[layer], n = widths[layer + 1];
      weights.push_back(
          normal_numbers(static_cast<std::size_t>(k * n), 1.0 / std::sqrt(static_cast<double>(k)), random));
      const std::string name = std::to_string(layer);
      const ValueId w = graph.add_constant("w" + name, StoredTensor::from(Tensor<float>({k, n}, weights.back())));
      value = graph.add_node("product" + name, op::MatMul{}, {value, w});
      if (layer + 2 < widths.size()) value = graph.add_node("relu" + name, op::Relu{}, {value});
    }
    graph.outputs = {value};
  }

  Trace run(const std::vector<Order>& orders, std::uint64_t seed) const {
    Trace trace;
    trace.arithmetic = cpu_arithmetic("fp32", {});
    trace.samples = rows;
    trace.inputs.tensors.emplace_back("x", StoredTensor::from(Tensor<float>({rows, widths[0]}, x)));
    std::vector<float> values = x;
    for (std::size_t layer = 0; layer < weights.size(); ++layer) {
      const auto k = static_cast<std::size_t>(widths[layer]), n = static_cast<std::size_t>(widths[layer + 1]);
      std::vector<float> sums;
      for (std::size_t row = 0; row < static_cast<std::size_t>(rows); ++row)
        for (std::size_t column = 0; column < n; ++column) {
          std::vector<float> a(k), b(k);
          for (std::size_t i = 0; i < k; ++i) a[i] = values[row * k + i], b[i] = weights[layer][i * n + column];
          sums.push_back(sum_in(orders[layer], a, b, seed + layer));
        }
      const auto add = [&](const std::string& name) {
        trace.layers.push_back(
            {name + std::to_string(layer), StoredTensor::from(Tensor<float>({rows, widths[layer + 1]}, sums))});
      };
      add("product");
      for (float& sum : sums) sum = layer + 1 < weights.size() ? std::max(sum, 0.0f) : sum;
      if (layer + 1 < weights.size()) add("relu");
      values = std::move(sums);
    }
    return trace;
  }

  /// The exact network, with an error of some 2^-60 of the sums of magnitudes: the factors of the first products are floats.
  std::vector<long double> exact() const {
    std::vector<long double> values(x.begin(), x.end());
    for (std::size_t layer = 0; layer < weights.size(); ++layer) {
      const auto k = static_cast<std::size_t>(widths[layer]), n = static_cast<std::size_t>(widths[layer + 1]);
      std::vector<long double> sums;
      for (std::size_t row = 0; row < static_cast<std::size_t>(rows); ++row)
        for (std::size_t column = 0; column < n; ++column) {
          long double sum = 0.0L;
          for (std::size_t i = 0; i < k; ++i)
            sum += values[row * k + i] * static_cast<long double>(weights[layer][i * n + column]);
          sums.push_back(layer + 1 < weights.size() ? std::max(sum, 0.0L) : sum);
        }
      values = std::move(sums);
    }
    return values;
  }

  Judgement judged(const Trace& trace, KernelSearches searches) const {
    JudgeOptions options;
    options.kernel_searches = searches;
    return judge(graph, trace, options);
  }
};

/// The arithmetics of the kernels that one search per node finds in a run.
FoundArithmetics found_in(const Graph& graph, const Trace& trace) {
  FoundArithmetics found(graph.nodes.size());
  for (std::size_t node = 0; node < graph.nodes.size(); ++node) {
    KernelSearch search(graph, node, 0);
    if (search.add(trace)) found[node] = with_finding(trace.arithmetic, search.finding());
  }
  return found;
}

const BoundResult& bound_of(const std::vector<BoundResult>& bounds, BoundKind kind) {
  const auto at = std::find_if(bounds.begin(), bounds.end(), [&](const BoundResult& one) { return one.kind == kind; });
  REQUIRE(at != bounds.end());
  return *at;
}

TEST_CASE("runs recorded on a GPU are made again by the kernels found in them, bit for bit") {
  namespace fs = std::filesystem;
  const fs::path folder = DRIFTBOUND_SOURCE_DIR;
  int runs = 0;
  for (const auto& entry : fs::directory_iterator(folder / "tests/data/gpu")) {
    const std::string file = entry.path().filename().string();
    if (entry.path().extension() != ".safetensors" || !contains(file, "cublas") || contains(file, "fp64")) continue;
    CAPTURE(file);
    const fs::path model = folder / "examples/models" / (file.substr(0, file.find('.')) + ".onnx");
    const Graph graph = load_model(model);
    const Trace whole = read_trace(graph, sha256_of_file(model), entry.path());
    const Trace trace = slice(graph, batch_layout(graph), whole, 0, whole.samples);
    KernelsByNode kernels(graph.nodes.size());
    for (std::size_t node = 0; node < graph.nodes.size(); ++node) {
      KernelSearch search(graph, node, 0);
      if (search.add(trace) && search.finding().others.empty()) kernels[node] = search.finding().kernel;
    }
    BoundOptions options;
    options.requests = {BoundKind::replay};
    const Bounds bounds = Bounder(graph, options)(trace, {}, {}, kernels);
    for (const LayerBounds& layer : bounds.layers) CHECK(layer.differing == 0);
    const BoundResult& replay = bound_of(bounds.layers.back().accumulated, BoundKind::replay);
    CHECK(replay.theorem == "T-171");
    for (const double value : replay.values.values) CHECK(std::isfinite(value));
    runs += 1;
  }
  CHECK(runs == 23);
}

TEST_CASE("whole networks are bounded in the orders that were found in the run") {
  const Network network(10, {512, 64, 3}, 20261211);
  const Trace trace = network.run({Order::chain, Order::chain}, 1);
  const Comparison found = network.judged(trace, KernelSearches::all).comparison;
  const Comparison declared = network.judged(trace, KernelSearches::none).comparison;
  CHECK(found.verdict <= Status::approaches);
  for (const std::size_t node : {std::size_t{0}, std::size_t{2}}) {
    const BoundSummary* forward = find_bound(found.layers[node].accumulated, BoundKind::forward);
    REQUIRE(forward != nullptr);
    CHECK(contains(forward->condition, "T-170"));
    CHECK(forward->guarantee == Guarantee::conditional);
    CHECK(4.0 * forward->max_bound < find_bound(declared.layers[node].accumulated, BoundKind::forward)->max_bound);
    CHECK(find_bound(found.layers[node].local, BoundKind::running) != nullptr);
    CHECK(find_bound(declared.layers[node].local, BoundKind::running) == nullptr);
  }
  const ScopeSummary& output = found.layers[2].accumulated;
  const BoundSummary *in_order = find_bound(output, BoundKind::adjoint_order_aware),
                     *in_any = find_bound(output, BoundKind::adjoint_any_order);
  REQUIRE(in_order != nullptr);
  CHECK(in_order->question == Question::any_run);
  CHECK(in_order->guarantee == Guarantee::conditional);
  CHECK(contains(in_order->condition, "every run computes the products whose kernel was found"));
  CHECK_FALSE(contains(in_any->condition, "T-170"));
  CHECK(in_order->violations == 0);
  CHECK(4.0 * in_order->max_bound < in_any->max_bound);
  CHECK(find_bound(declared.layers[2].accumulated, BoundKind::adjoint_order_aware) == nullptr);
}

TEST_CASE("a declared order stays, whatever kernel is found, so that its bounds contradict it where it is wrong") {
  const Network network(10, {96, 20}, 20261215);
  for (const SummationOrder::Kind kind : {SummationOrder::Kind::pairwise, SummationOrder::Kind::height}) {
    Trace trace = network.run({Order::chain}, 1);
    trace.arithmetic.order = {kind, kind == SummationOrder::Kind::height ? 7 : 0, false};
    const Comparison found = network.judged(trace, KernelSearches::all).comparison;
    const Comparison declared = network.judged(trace, KernelSearches::none).comparison;
    REQUIRE(found.layers[0].kernel.has_value());
    CHECK(found.layers[0].kernel->kernel.has_value());
    const BoundSummary *kept = find_bound(found.layers[0].local, BoundKind::order_aware),
                       *own = find_bound(declared.layers[0].local, BoundKind::order_aware);
    CHECK(kept->condition == own->condition);
    CHECK(kept->max_bound == own->max_bound);
  }
}

/// The rows from `first_in_chain` on are added in one chain, those before it in 32 lanes.
test::LostNumbers lost_numbers(std::int64_t rows, std::int64_t first_in_chain) {
  return {rows, [=](std::int64_t row) -> std::size_t { return row < first_in_chain ? 32 : 1; }};
}

TEST_CASE("a kernel that does not give all samples of a run changes no bound") {
  const test::LostNumbers same = lost_numbers(150, 150);
  const test::LostNumbers other_at_the_end = lost_numbers(150, 140);  // judged 64 samples at a time
  JudgeOptions options;
  options.kernel_searches = KernelSearches::all;
  const Comparison found = judge(same.graph, same.trace, options).comparison;
  const Comparison mixed = judge(other_at_the_end.graph, other_at_the_end.trace, options).comparison;
  const auto has = [](const Comparison& comparison, BoundKind kind) {
    const LayerSummary& layer = comparison.layers.front();
    return find_bound(layer.local, kind) != nullptr || find_bound(layer.accumulated, kind) != nullptr;
  };
  for (const BoundKind kind : {BoundKind::running, BoundKind::order_aware, BoundKind::adjoint_order_aware}) {
    CHECK(has(found, kind));
    CHECK_FALSE(has(mixed, kind));
  }
  CHECK(found.verdict <= Status::approaches);
  CHECK(mixed.verdict <= Status::approaches);
  CHECK(find_bound(mixed.layers.front().accumulated, BoundKind::forward)->violations == 0);
}

TEST_CASE("kernels are searched on the numbers that a run takes for its inputs, not on those given") {
  const std::int64_t rows = 30, k = 64;
  std::mt19937_64 random(20261214);
  const std::vector<float> x = normal_numbers(static_cast<std::size_t>(rows * k), 1.0, random);
  const std::vector<float> w = normal_numbers(static_cast<std::size_t>(k), 1.0, random);
  std::vector<float> y;
  for (std::int64_t row = 0; row < rows; ++row)
    y.push_back(sum_in(Order::chain, {x.begin() + row * k, x.begin() + (row + 1) * k}, w, 0));
  const auto judged = [&](ElementType declared) {
    Graph graph;
    const ValueId input = graph.add_input("x", declared, {{-1, "samples"}, {k, ""}});
    const ValueId weight = graph.add_constant("w", StoredTensor::from(Tensor<float>({k, 1}, w)));
    graph.outputs = {graph.add_node("y", op::MatMul{}, {input, weight})};
    Trace trace;
    trace.arithmetic = cpu_arithmetic("fp32", {});
    trace.samples = rows;
    trace.inputs.tensors.emplace_back("x", StoredTensor::from(Tensor<float>({rows, k}, x)));
    trace.layers = {{"y", StoredTensor::from(Tensor<float>({rows, 1}, y))}};
    JudgeOptions options;
    options.kernel_searches = KernelSearches::all;
    return judge(graph, trace, options).comparison;
  };
  CHECK(find_bound(judged(ElementType::f32).layers.front().local, BoundKind::running) != nullptr);
  CHECK(find_bound(judged(ElementType::bf16).layers.front().local, BoundKind::running) == nullptr);
}

TEST_CASE("what another kernel computes may exceed a bound by the kernel found, which says so in its condition") {
  const test::LostNumbers lanes = lost_numbers(40, 40), chain = lost_numbers(40, 0);
  const FoundArithmetics found = found_in(lanes.graph, lanes.trace);
  REQUIRE(found[0].has_value());
  const Bounder bounder(chain.graph);
  const Bounds bounds = bounder(chain.trace, {}, found);
  std::int64_t beyond = 0;
  for (const std::vector<BoundResult>* scope : {&bounds.layers[0].local, &bounds.layers[0].accumulated})
    for (const BoundResult& bound : *scope) {
      if (bound.guarantee == Guarantee::heuristic || bound.guarantee == Guarantee::probabilistic) continue;
      const bool stands_on_kernel = contains(bound.condition, "T-170") || contains(bound.condition, "bits of the run");
      for (std::size_t row = 0; row < chain.errors.size(); ++row) {
        const bool is_beyond = chain.errors[row] > bound.values.values[row];
        beyond += is_beyond ? 1 : 0;
        const bool is_allowed = !is_beyond || (bound.guarantee == Guarantee::conditional && stands_on_kernel);
        CHECK(is_allowed);
      }
    }
  CHECK(beyond > 0);
  const Bounds of_chain = bounder(chain.trace, {}, found_in(chain.graph, chain.trace));
  double nearest = 0.0;
  const BoundResult& every_run = bound_of(of_chain.layers[0].accumulated, BoundKind::adjoint_order_aware);
  for (std::size_t row = 0; row < chain.errors.size(); ++row)
    nearest = std::max(nearest, chain.errors[row] / every_run.values.values[row]);
  CHECK_APPROACH("T-170", nearest, 0.9);
}

TEST_CASE("bounds hold where the kernels of some layers were found, by rows and element by element") {
  const Network network(6, {96, 40, 32, 4}, 20261212);
  const std::vector<Order> orders = {Order::chain, Order::shuffled, Order::two_lanes};
  const Trace trace = network.run(orders, 7);
  const FoundArithmetics found = found_in(network.graph, trace);
  REQUIRE(found[0].has_value());
  REQUIRE_FALSE(found[2].has_value());
  REQUIRE(found[4].has_value());
  FoundArithmetics by_height = found;  // row kernels do not follow orders that are known by their height alone
  by_height[4]->order = {SummationOrder::Kind::height, 17, true};
  const std::vector<long double> exact = network.exact();
  const Bounder bounder(network.graph);
  for (const FoundArithmetics* used : std::initializer_list<const FoundArithmetics*>{&found, &by_height}) {
    const Bounds bounds = bounder(trace, {}, *used);
    CHECK(bounds.not_by_rows.empty() == (used == &found));
    const BoundResult& in_order = bound_of(bounds.layers[4].accumulated, BoundKind::adjoint_order_aware);
    const BoundResult& in_any = bound_of(bounds.layers[4].accumulated, BoundKind::adjoint_any_order);
    double in_order_sum = 0.0, in_any_sum = 0.0;
    for (std::size_t i = 0; i < exact.size(); ++i) {
      in_order_sum += in_order.values.values[i];
      in_any_sum += in_any.values.values[i];
    }
    CHECK(in_order_sum < 0.9 * in_any_sum);
    for (std::uint64_t seed = 0; seed < 20; ++seed) {  // the layer without a kernel adds in any order
      const std::vector<double> other = network.run(orders, seed).layers.back().output.to_double().values;
      for (std::size_t i = 0; i < exact.size(); ++i)
        CHECK(std::fabs(static_cast<long double>(other[i]) - exact[i]) <= in_order.values.values[i]);
    }
  }
}

TEST_CASE("the matrix unit that was found takes the place of a weaker one that was declared") {
  const Network network(8, {512, 24, 2}, 20261213);
  Trace trace = network.run({Order::chain, Order::chain}, 1);
  const ArithmeticModel h100 = simulated_arithmetic("h100", "tf32", {SummationOrder::Kind::sequential, 0, false});
  trace.arithmetic = h100;
  trace.arithmetic.order = {};
  trace.arithmetic.tensor_core = TensorCore();  // 23 bits, 4 products
  FoundArithmetics found(network.graph.nodes.size());
  found[0] = found[2] = h100;
  const Bounder bounder(network.graph);
  const Bounds weak = bounder(trace), strong = bounder(trace, {}, found);
  const auto sum = [](const BoundResult& bound) {
    double all = 0.0;
    for (const double one : bound.values.values) all += one;
    return all;
  };
  CHECK(sum(bound_of(strong.layers[0].local, BoundKind::componentwise)) <
        sum(bound_of(weak.layers[0].local, BoundKind::componentwise)));
  const std::vector<BoundResult>& output = strong.layers[2].accumulated;
  CHECK(sum(bound_of(output, BoundKind::adjoint_order_aware)) < sum(bound_of(output, BoundKind::adjoint_any_order)));
  CHECK(sum(bound_of(output, BoundKind::adjoint_any_order)) ==
        sum(bound_of(weak.layers[2].accumulated, BoundKind::adjoint_any_order)));
}

}  // namespace
