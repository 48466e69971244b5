#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "driftbound/bounds/bound.hpp"
#include "driftbound/evaluate/evaluator.hpp"
#include "driftbound/model/inputs.hpp"
#include "driftbound/model/load.hpp"
#include "soundness/bundled.hpp"
#include "support/tally.hpp"

// The bounds of the bundled networks that leave roundings to chance, against runs in many orders.

namespace driftbound {
namespace {

const std::vector<std::string> orders = {"sequential",    "sequential+fma", "pairwise",  "pairwise+fma",  "blocked:8",
                                         "blocked:8+fma", "blocked:32",     "split-k:2", "split-k:4+fma", "split-k:16"};

/// A network's number of interest: the difference of two outputs, or its only one.
class Number {
public:
  Number(const std::filesystem::path& file, std::int64_t samples) : graph_(load_model(file)) {
    InputGenerator generator;
    generator.samples = samples;
    generator.seed = 20261121;
    inputs_ = generate_inputs(graph_, generator);
    node_ = *graph_.producer(graph_.outputs.front());
    elements_ = run("fp64", "pairwise").layers[node_].output.size() / static_cast<std::size_t>(samples);
    exact_ = values(run("fp64", "pairwise"));
  }

  Trace run(const char* arithmetic, const std::string& order) const {
    return cpu_evaluator(cpu_arithmetic(arithmetic, parse_summation_order(order))).run(graph_, inputs_);
  }

  /// Errors in float64 are 10^-9 of those.
  std::vector<double> largest_errors(const char* arithmetic = "fp32") const {
    std::vector<double> largest(exact_.size(), 0.0);
    for (const std::string& order : orders) {
      const std::vector<double> computed = values(run(arithmetic, order));
      for (std::size_t i = 0; i < computed.size(); ++i)
        largest[i] = std::max(largest[i], std::abs(computed[i] - exact_[i]));
    }
    return largest;
  }

  std::vector<BoundResult> bounds(const char* arithmetic = "fp32",
                                  const std::vector<std::string>& names = {"adjoint/any-order", "adjoint/probabilistic",
                                                                           "adjoint/statistical"}) const {
    BoundOptions options;
    options.targets = {elements_ > 1 ? Target{{0, 1}, OutputElement{0, 0}} : Target{{0, 0}, std::nullopt}};
    options.names = names;
    return bound(graph_, run(arithmetic, "pairwise"), options).targets.at(0).bounds;
  }

private:
  std::vector<double> values(const Trace& trace) const {
    const std::vector<double> all = trace.layers[node_].output.to_double().values;
    std::vector<double> values;
    for (std::size_t first = 0; first < all.size(); first += elements_)
      values.push_back(elements_ > 1 ? all[first + 1] - all[first] : all[first]);
    return values;
  }

  Graph graph_;
  Inputs inputs_;
  std::size_t node_ = 0, elements_ = 1;
  std::vector<double> exact_;
};

}  // namespace

TEST_CASE(
    "runs of the bundled networks stay within what chance may do, and six sigma are within ten errors (T-74, T-75)") {
  const std::int64_t samples = 40 * ::test_multiplier();
  for (const auto& file : soundness::models_in(std::filesystem::path(DRIFTBOUND_SOURCE_DIR) / "examples/models")) {
    if (std::filesystem::file_size(file) > 200'000 && ::test_multiplier() == 1) continue;
    const Number number(file, samples);
    const std::vector<double> errors = number.largest_errors();
    const double largest_error = *std::max_element(errors.begin(), errors.end());
    std::string line = file.filename().string();
    double below = std::numeric_limits<double>::infinity();
    for (const BoundResult& result : number.bounds()) {
      INFO(file.filename().string(), " ", result.name);
      CHECK(result.not_applicable == "");
      std::int64_t violations = 0;
      double largest = 0.0, closest = 0.0;
      for (std::size_t i = 0; i < errors.size(); ++i) {
        const double bound = result.values.values[i];
        violations += errors[i] <= bound ? 0 : 1;
        largest = std::max(largest, bound);
        closest = std::max(closest, errors[i] / bound);
      }
      CHECK(violations == 0);
      CHECK(largest < below);
      below = largest;
      line += fmt::format("; {} {:.1f}, closest {:.2f}", result.name, largest / largest_error, closest);
      if (result.name == "adjoint/statistical") CHECK(largest <= 10.0 * largest_error);
    }
    MESSAGE(line);
  }
}

TEST_CASE("in narrow formats six sigma hold runs of the bundled networks, and are within ten errors (T-75)") {
  const std::int64_t samples = 200 * ::test_multiplier();
  for (const auto& file : soundness::models_in(std::filesystem::path(DRIFTBOUND_SOURCE_DIR) / "examples/models")) {
    if (std::filesystem::file_size(file) > 80'000 && ::test_multiplier() == 1) continue;
    const Number number(file, samples);
    for (const char* arithmetic : {"tf32", "bf16"}) {
      INFO(file.filename().string(), " ", arithmetic);
      const std::vector<double> errors = number.largest_errors(arithmetic);
      const BoundResult estimate = number.bounds(arithmetic, {"adjoint/statistical"}).at(0);
      double largest = 0.0, closest = 0.0;
      for (std::size_t i = 0; i < errors.size(); ++i) {
        largest = std::max(largest, estimate.values.values[i]);
        closest = std::max(closest, errors[i] / estimate.values.values[i]);
      }
      const double largest_error = *std::max_element(errors.begin(), errors.end());
      CHECK(closest <= 1.0);
      CHECK(closest >= 0.1);
      CHECK(largest <= 10.0 * largest_error);
      MESSAGE(fmt::format("{} {}: {:.1f}, closest {:.2f}", file.filename().string(), arithmetic,
                          largest / largest_error, closest));
    }
  }
}

}  // namespace driftbound
