#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "driftbound/implicit/sign_field.hpp"
#include "driftbound/reference/reference.hpp"
#include "implicit_networks.hpp"
#include "support/mpfr_network.hpp"
#include "support/sign_points.hpp"

using namespace driftbound;
using namespace implicit_networks;

namespace {

struct Checked {
  std::int64_t points = 0, undecided = 0, hardest = 0, others = 0;
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

/// Signs that double-double or MPFR decided, each tenth of those of float32 and each fiftieth of the others, against loops
/// over MPFR numbers: exact ones for networks of rectifiers.
void check_against_oracle(const SignField& field, const std::vector<double>& points, Checked& checked) {
  const std::vector<PointSign> signs = sign_points::signs_of(field, points);
  mpfr_network::Program oracle(field.graph(), field.target());
  std::int64_t wrong = 0, outside = 0, inexact = 0;
  for (std::size_t row = 0; row < signs.size(); ++row) {
    const bool is_hardest = signs[row].stage >= SignStage::double_double;
    const std::size_t one_of = signs[row].stage == SignStage::float32_domain ? 10 : 50;
    if (!is_hardest && row % one_of != 0) continue;
    ++(is_hardest ? checked.hardest : checked.others);
    const std::size_t d = field.dimension();
    const mpfr_network::Scalar exact = oracle.at(std::span(points).subspan(row * d, d));
    if (exact.sign() != static_cast<int>(signs[row].sign)) ++wrong;
    if (exact.is_beyond(signs[row].value, signs[row].bound)) ++outside;
    if (oracle.is_piecewise_linear() && !exact.is_exact()) ++inexact;
  }
  CHECK(wrong == 0);
  CHECK(outside == 0);
  CHECK(inexact == 0);
}

void check_network(const Graph& graph, const Target& target, std::size_t rows, std::uint64_t seed, Checked& checked) {
  const SignField finder(graph, target);
  const std::vector<double> surface = sign_points::bisected(finder, rows / 4, seed);
  const auto check = [&](const std::vector<double>& points) {
    const SignField field(graph, target);
    field.prepare();
    check_against_reference(field, points, checked);
    check_against_oracle(field, points, checked);
  };
  check(sign_points::uniform(rows, finder.dimension(), seed));
  for (const double width : {1e-2, 1e-4, 1e-6}) check(sign_points::band(surface, width, seed));
  check(surface);
}

}  // namespace

TEST_CASE("no sign is wrong and none is left, on every bundled network, uniform, in bands and on the surface" *
          doctest::test_suite("campaign")) {
  Checked checked;
  std::uint64_t seed = 1;
  for (const std::string& name : bundled_names()) {
    CAPTURE(name);
    const bool is_wide = name.find("w128") != std::string::npos || name.find("w256") != std::string::npos;
    check_network(bundled(name), scalar_of(name), is_wide ? 200 : 5000, ++seed, checked);
  }
  CHECK(checked.points > 100000);
  CHECK(checked.undecided == 0);
  CHECK(checked.hardest > 5000);
  CHECK(checked.others > 1500);
  for (const SignStage stage :
       {SignStage::float32_domain, SignStage::float64_domain, SignStage::float64_point, SignStage::double_double}) {
    CAPTURE(std::string(name_of(stage)));
    CHECK(checked.statistics.stages[static_cast<std::size_t>(stage)].decided > 0);
  }
}

TEST_CASE("no sign is wrong and none is left on fox and bunny, networks from elsewhere" *
          doctest::test_suite("campaign")) {
  const char* const data = std::getenv("DRIFTBOUND_TEST_DATA");
  if (data == nullptr) {
    MESSAGE("skipped: DRIFTBOUND_TEST_DATA does not say where they are");
    return;
  }
  for (const char* name : {"fox", "bunny"}) {
    CAPTURE(name);
    const auto file = std::filesystem::path(data) / "neural-implicit-queries" / (std::string(name) + ".npz");
    Checked checked;
    check_network(load_model(file), Target{}, 400, 77, checked);
    CHECK(checked.points >= 800);
    CHECK(checked.undecided == 0);
    CHECK(checked.hardest > 50);
  }
}

TEST_CASE("loops over MPFR numbers agree with exact dyadic numbers and with 400 digits" *
          doctest::test_suite("campaign")) {
  for (const std::string& name : bundled_names()) {
    CAPTURE(name);
    const Graph graph = bundled(name);
    const Target target = scalar_of(name);
    mpfr_network::Program program(graph, target);
    CHECK(program.is_piecewise_linear() == is_piecewise_linear(graph));
    const SignField field(graph, target);
    const bool is_wide = name.find("w128") != std::string::npos || name.find("w256") != std::string::npos;
    const std::size_t d = field.dimension();
    const std::vector<double> points = sign_points::bisected(field, is_wide ? 1 : 5, 3);
    REQUIRE(!points.empty());
    for (std::size_t first = 0; first < points.size(); first += d) {
      const std::span<const double> point = std::span(points).subspan(first, d);
      const mpfr_network::Scalar scalar = program.at(point);
      const auto check = [&](const auto& exact, double value) {
        CHECK(scalar.sign() == oracle::sign(exact));
        CHECK_FALSE(scalar.is_beyond(value, 0x1p-45 * std::abs(value)));
        CHECK(scalar.is_beyond(value * (1.0 + 0x1p-40), 0x1p-45 * std::abs(value)));
      };
      if (program.is_piecewise_linear()) {
        const auto exact = exact_scalar<oracle::Dyadic>(graph, target, 0.0, point);
        CHECK(scalar.is_exact());
        const int shift = std::max(0, static_cast<int>(msb(abs(exact.integer))) - 60);
        const oracle::Integer first_bits = exact.integer >> shift;
        check(exact, std::ldexp(first_bits.convert_to<double>(), exact.exponent + shift));
      } else {
        const auto exact = exact_scalar<oracle::Real400>(graph, target, 0.0, point);
        check(exact, exact.convert_to<double>());
      }
    }
  }
}
