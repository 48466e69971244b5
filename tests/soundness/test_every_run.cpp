#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "driftbound/evaluate/evaluator.hpp"
#include "driftbound/model/load.hpp"
#include "faults/theorems.hpp"
#include "soundness/any_run_check.hpp"
#include "soundness/every_run.hpp"
#include "soundness/foreign_runs.hpp"

namespace driftbound::soundness {
namespace {

/// Networks on data of every family in turn.
Tally check_cases(std::int64_t count, std::uint64_t seed, const CheckOptions& options = {}) {
  Random random(seed);
  Tally tally;
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    const Family family = all_families()[i % all_families().size()];
    check_every_run(random_case(family, random.bits()), random, options, tally);
  }
  return tally;
}

double largest(const std::vector<double>& values) {
  return *std::max_element(values.begin(), values.end());
}

Trace in_order(const Graph& graph, const Inputs& inputs, const char* order) {
  return cpu_evaluator(cpu_arithmetic("fp32", parse_summation_order(order))).run(graph, inputs);
}

}  // namespace

TEST_CASE("any order, batch and program stays within what one run's bounds say of every run, on adversarial data") {
  const Tally tally = check_cases(130, 2026);
  for (const std::string& failure : tally.failures) FAIL_CHECK(failure);
  CHECK(tally.violations() == 0);
  CHECK(tally.checked() >= 100'000);
  CHECK(tally.bounds.at("every run adjoint/any-order").checked >= 5'000);
  CHECK(tally.bounds.at("every run rounded-shadow").checked >= 1'000);
  CHECK(tally.bounds.at("every run replay").checked >= 1'000);
  MESSAGE(tally.checked(), " checks");
}

TEST_CASE("bounds of every run that are too small are found out by other orders and programs") {
  checks::Theorems broken;
  broken.partial_sums_error = [](const auto&, const auto&) { return Magnitude(); };
  broken.rows.any_order = [](const bounds::SumRow& row, const bounds::RowFormat& f, const bounds::RowErrors& result,
                             std::size_t n) {
    bounds::fastest_row_kernels().any_order(row, f, result, n);
    std::fill(result.added, result.added + n, 0.0);
  };
  const checks::ScopedTheorems in_force(broken);
  const Tally tally = check_cases(130, 2027);
  CHECK(tally.bounds.at("every run adjoint/any-order").violations > 0);
}

namespace {

/// A trained network and what is asked of its bounds, over the largest error of other programs' orders.
struct Reach {
  const char* file;
  double any_order, known_order;
};

/// Of a bound, by sample.
std::vector<double> remainder_shares(const TargetBound& bound) {
  REQUIRE(bound.remainder.size() == bound.values.size());
  std::vector<double> shares;
  for (std::size_t i = 0; i < bound.values.size(); ++i) shares.push_back(bound.remainder[i] / bound.values[i]);
  std::sort(shares.begin(), shares.end());
  return shares;
}

void check_reach(const Reach& reach) {
  const Graph graph = load_model(std::string(DRIFTBOUND_SOURCE_DIR "/examples/models/") + reach.file);
  InputGenerator generator;
  generator.samples = 60;
  generator.distribution = InputDistribution::segment;
  generator.domain = {{-0.2, 0.2}, {0.3, 0.3}, {-0.2, -0.2}};
  const AnyRunCheck check(graph, generate_inputs(graph, generator));
  const Trace first = in_order(graph, check.inputs(), "sequential");
  const RunBounds bounds = check.bounds_of(first, {BoundKind::adjoint_any_order, BoundKind::adjoint_order_aware});
  double largest_error = largest(check.errors_of(first, check.scalar()));
  BoundTally tally;
  std::vector<ForeignProduct> products = library_products();
  for (const std::uint64_t seed : {1u, 2u, 3u, 4u}) products.push_back(permuted_product(seed));
  for (const ForeignProduct& product : products) {
    const Trace run = foreign_run(graph, check.inputs(), cpu_arithmetic("fp32", {}), {product, 0, 1});
    check.hold(run, bounds.at(BoundKind::adjoint_any_order), tally);
    largest_error = std::max(largest_error, largest(check.errors_of(run, check.scalar())));
  }
  for (const ForeignProduct& product : products_by_sign()) {
    const Trace run = foreign_run(graph, check.inputs(), cpu_arithmetic("fp32", {}), {product, 0, 1});
    check.hold(run, bounds.at(BoundKind::adjoint_any_order), tally);
    CHECK(largest(check.errors_of(run, check.scalar())) > largest_error);  // orders that are worse
  }
  const TargetBound& of_any_order = bounds.at(BoundKind::adjoint_any_order)[check.scalar()];
  const double any_order = largest(of_any_order.values) / largest_error;
  const double known_order = largest(bounds.at(BoundKind::adjoint_order_aware)[check.scalar()].values) / largest_error;
  const std::vector<double> shares = remainder_shares(of_any_order);
  CHECK(tally.violations == 0);
  CHECK(any_order <= reach.any_order);
  CHECK(known_order <= reach.known_order);
  CHECK(shares.back() <= 0.15);
  CHECK(shares[shares.size() / 2] <= 0.05);
  MESSAGE(fmt::format("{}: any order {:.0f}, known order {:.0f}, remainder {:.3f} at most", reach.file, any_order,
                      known_order, shares.back()));
}

}  // namespace

TEST_CASE("trained networks' bounds are near the largest errors of other programs' orders") {
  for (const Reach& reach :
       {Reach{"oscillator_d2_w64.onnx", 2.5 * 64.0, 80.0}, Reach{"oscillator_d4_w256.onnx", 2.5 * 256.0, 100.0}})
    check_reach(reach);
}

}  // namespace driftbound::soundness
