#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "driftbound/bounds/bound.hpp"
#include "driftbound/evaluate/evaluator.hpp"
#include "driftbound/model/inputs.hpp"
#include "driftbound/model/load.hpp"
#include "soundness/worst_roundings.hpp"
#include "support/approach.hpp"
#include "support/tally.hpp"

namespace driftbound {
namespace {

/// A network of examples/models, a target, and the share of bounds that the worst roundings have been seen to reach.
struct Allowed {
  const char* network;
  Target target;
  double approach;
};

const OutputElement first{0, 0}, second{0, 1};

}  // namespace

TEST_CASE("bounds of every run are near what roundings may do that all err as far as they can (T-68, T-71, T-116)") {
  const std::int64_t samples = 12 * ::test_multiplier();
  for (const Allowed& allowed :
       {Allowed{"sphere_cut_sdf_relu", {first, std::nullopt}, 0.773},
        Allowed{"torus_sdf_softplus", {first, std::nullopt}, 0.783},
        Allowed{"oscillator_d2_w64", {second, first}, 0.844}, Allowed{"oscillator_d4_w128", {second, first}, 0.864}}) {
    const std::string file = std::string("examples/models/") + allowed.network + ".onnx";
    const Graph graph = load_model(std::filesystem::path(DRIFTBOUND_SOURCE_DIR) / file);
    InputGenerator generator;
    generator.samples = samples;
    const Inputs inputs = generate_inputs(graph, generator);
    const Trace trace = cpu_evaluator(cpu_arithmetic("fp32", parse_summation_order("sequential"))).run(graph, inputs);
    BoundOptions options;
    options.targets = {allowed.target};
    options.requests = {BoundKind::adjoint_any_order};
    const BoundResult bounds = bound(graph, trace, options).targets.at(0).bounds.at(0);
    const std::vector<double> points = inputs.tensors.front().second.to_double().values;
    double closest = 0.0, largest_error = 0.0, largest_bound = 0.0;
    for (std::size_t i = 0; i < bounds.values.size(); ++i) {
      const auto at = points.begin() + static_cast<std::ptrdiff_t>(3 * i);
      const double error = soundness::error_of_worst_roundings(graph, {at, at + 3}, allowed.target, 0x1p-24);
      CHECK(error <= bounds.values.values[i]);
      closest = std::max(closest, error / bounds.values.values[i]);
      largest_error = std::max(largest_error, error);
      largest_bound = std::max(largest_bound, bounds.values.values[i]);
    }
    INFO(allowed.network);
    CHECK_APPROACH("T-116", closest, allowed.approach);
    MESSAGE(fmt::format("{}: at most {:.3f} of the bound; largest error {:.3g}, largest bound {:.3g}", allowed.network,
                        closest, largest_error, largest_bound));
  }
}

}  // namespace driftbound
