#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "driftbound/implicit/sign_field.hpp"
#include "driftbound/reference/reference.hpp"
#include "implicit_networks.hpp"
#include "support/sign_points.hpp"

using namespace driftbound;
using namespace implicit_networks;

namespace {

struct Checked {
  std::int64_t points = 0, undecided = 0;
  SignStatistics statistics;
};

/// Against balls of the network as it is, in double-double and, where that says too little, more.
void check_against_reference(const SignField& field, const std::vector<double>& points, Checked& checked) {
  const std::vector<PointSign> signs = sign_points::signs_of(field, points);
  const auto rows = static_cast<std::int64_t>(signs.size()), columns = static_cast<std::int64_t>(field.dimension());
  const Graph& graph = field.graph();
  const Inputs inputs{
      {{graph.value(graph.inputs[0]).name, StoredTensor::from(Tensor<double>({rows, columns}, points))}}};
  PrecisionPolicy policy;
  policy.outputs_only = true;
  policy.relative_radius = 0x1p-20;
  const std::vector<Ball> balls = certified_reference(graph, inputs, policy).layers.back().values;
  const std::size_t outputs = balls.size() / signs.size();
  std::int64_t wrong = 0, outside = 0;
  for (std::size_t row = 0; row < signs.size(); ++row) {
    const Target& target = field.target();
    Ball exact = balls[row * outputs + static_cast<std::size_t>(target.positive.element)];
    if (target.negative) exact = exact - balls[row * outputs + static_cast<std::size_t>(target.negative->element)];
    const Interval range = exact.enclosure();
    const Sign sign = signs[row].sign;
    if (sign == Sign::undecided) ++checked.undecided;
    if ((sign == Sign::positive && !(range.upper() > 0.0)) || (sign == Sign::negative && !(range.lower() < 0.0)) ||
        (sign == Sign::zero && !range.contains(0.0)))
      ++wrong;
    if (!(error_of(signs[row].value, exact).lower() <= signs[row].bound)) ++outside;
  }
  CHECK(wrong == 0);
  CHECK(outside == 0);
  checked.points += rows;
  checked.statistics += field.statistics();
}

void check_network(const Graph& graph, const Target& target, std::size_t rows, std::uint64_t seed, Checked& checked) {
  const SignField finder(graph, target);
  const std::vector<double> surface = sign_points::bisected(finder, rows / 4, seed);
  const auto check = [&](const std::vector<double>& points) {
    // Enough points for the bound of the whole domain to be found.
    const SignField field(graph, target);
    sign_points::signs_of(field, sign_points::uniform(8192, field.dimension(), seed + 5));
    check_against_reference(field, points, checked);
  };
  check(sign_points::uniform(rows, finder.dimension(), seed));
  for (const double width : {1e-2, 1e-4, 1e-6}) check(sign_points::band(surface, width, seed));
  check(surface);
}

}  // namespace

TEST_CASE("no sign is wrong and none is left, on every bundled network, uniform, in bands and on the surface") {
  Checked checked;
  std::uint64_t seed = 1;
  for (const std::string& name : bundled_names()) {
    CAPTURE(name);
    const bool is_wide = name.find("w128") != std::string::npos || name.find("w256") != std::string::npos;
    check_network(bundled(name), scalar_of(name), is_wide ? 200 : 5000, ++seed, checked);
  }
  CHECK(checked.points > 100000);
  CHECK(checked.undecided == 0);
  for (const SignStage stage : {SignStage::float64_domain, SignStage::float64_point, SignStage::double_double}) {
    CAPTURE(std::string(name_of(stage)));
    CHECK(checked.statistics.stages[static_cast<std::size_t>(stage)].decided > 0);
  }
}
