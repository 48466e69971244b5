#include <doctest/doctest.h>

#include "bounds/adjoint/sweep.hpp"
#include "support/small_networks.hpp"

using namespace checks;

namespace {

bounds::Setting double_setting(const bounds::Rules& rules, const ArithmeticModel& arithmetic) {
  bounds::Setting setting;
  setting.arithmetic = &arithmetic;
  setting.machine = bounds::machine_of(arithmetic);
  setting.rules = &rules;
  setting.is_own_run = true;
  return setting;
}

/// A graph at a point, held against itself at inputs that are off by up to `radius`: with errors this large everything
/// that first order leaves out shows.
class Held {
public:
  Held(const bounds::Rules& rules, const Graph& graph, const Tensor<double>& x, double radius,
       std::optional<std::int64_t> rows)
      : graph_(graph),
        arithmetic_(cpu_arithmetic("fp64", parse_summation_order("sequential+fma"))),
        setting_(double_setting(rules, arithmetic_)),
        network_(graph, {x.shape}, rows),
        shadow_(bounds::shadow_of(network_, {x}, setting_)),
        x_(x),
        radius_(radius) {
    const std::vector<std::vector<double>> off = {std::vector<double>(x.size(), radius)};
    bounds::Weights weights;
    deviations_.push_back(
        bounds::deviation_of(bounds::Trajectory::any_order, network_, shadow_, off, setting_, weights));
    deviations_.push_back(bounds::deviation_of(bounds::Trajectory::exact, network_, shadow_, {{}}, setting_, weights));
    const ValueId output = network_.flat().graph.outputs[0];
    const auto per_row = static_cast<std::int64_t>(shadow_.values[output].size()) / rows.value_or(1);
    for (std::int64_t element = 0; element < per_row; ++element)
      certificates_.push_back(bounds::sweep(
          network_, shadow_, deviations_, bounds::direction_of(network_, shadow_, {{output, element, 1.0}}), setting_));
  }

  /// Slopes that depend on the radii would belong to another adjoint.
  bool differing_slopes_are_lost() const {
    return deviations_[0].slopes == deviations_[1].slopes || !std::isfinite(certificates_[0][1].total[0]);
  }

  /// Largest error over bound of values (radii) and outputs (certificates) at a corner of the inputs.
  void check_corner(Generator& generator, Tally& radii, Tally& certificates) const {
    Tensor<Real> moved = convert<Real>(x_);
    for (Real& value : moved.values) value += Real(generator() % 2 == 0 ? radius_ : -radius_);
    const std::vector<Tensor<Real>> exact = evaluate(moved);
    for (ValueId id = 0; id < graph_.values.size(); ++id) {
      const ValueId flat = network_.flat().of_value[id];
      const std::vector<double>& radius = deviations_[0].radii[flat].element;
      for (std::size_t i = 0; i < exact[id].size(); ++i)
        radii.add(shadow_.values[flat].values[i], exact[id].values[i], radius.empty() ? 0.0 : radius[i]);
    }
    const Tensor<Real>& output = exact[graph_.outputs[0]];
    for (std::size_t i = 0; i < output.size(); ++i) {
      const std::size_t element = i % certificates_.size(), row = i / certificates_.size();
      certificates.add(shadow_.values[network_.flat().graph.outputs[0]].values[i], output.values[i],
                       certificates_[element][0].total[row]);
    }
  }

  double largest_remainder_share() const {
    double share = 0.0;
    for (const auto& of_element : certificates_)
      share = std::max(share, of_element[0].remainder[0] / of_element[0].total[0]);
    return share;
  }

private:
  std::vector<Tensor<Real>> evaluate(const Tensor<Real>& x) const {
    std::vector<Tensor<Real>> values(graph_.values.size());
    for (ValueId id = 0; id < graph_.values.size(); ++id) {
      if (graph_.is_constant(id)) values[id] = convert<Real>(graph_.value(id).constant.to_double());
    }
    values[graph_.inputs[0]] = x;
    const std::vector<Shape> shapes = infer_shapes(graph_, {x.shape});
    for (const Node& node : graph_.nodes) {
      Operands<Real> operands;
      for (const ValueId id : node.inputs) operands.push_back(&values[id]);
      values[node.output] = apply(node.op, operands, shapes[node.output], {});
    }
    return values;
  }

  const Graph& graph_;
  ArithmeticModel arithmetic_;
  bounds::Setting setting_;
  bounds::Network network_;
  bounds::Shadow shadow_;
  Tensor<double> x_;
  double radius_;
  std::vector<bounds::Deviation> deviations_;
  std::vector<std::vector<bounds::Certificate>> certificates_;
};

struct Held_tallies {
  Tally radii, certificates;
};

Held_tallies check_held(const bounds::Rules& rules, const std::vector<std::string>& blocks, int repetitions,
                        std::uint64_t seed) {
  Generator generator(seed);
  Held_tallies tallies;
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    NetworkBuilder builder(generator);
    for (const std::string& block : blocks) builder.add(block);
    const Graph graph = builder.finish();
    for (const double radius : {1e-9, 1e-3, 0.1, 1.0}) {
      const Held held(rules, graph, network_inputs(1.0, true, generator), radius, std::nullopt);
      CHECK(held.differing_slopes_are_lost());
      for (int corner = 0; corner < 8; ++corner) held.check_corner(generator, tallies.radii, tallies.certificates);
    }
  }
  return tallies;
}

}  // namespace

TEST_CASE("every op moves its values within their radii and its outputs within their certificates (T-60, T-62)") {
  for (const std::string& block : NetworkBuilder::blocks()) {
    CAPTURE(block);
    const Held_tallies tallies = check_held(bounds::default_rules(), {"gemm", block, "gemm"}, 4 * test_multiplier(), 5);
    INFO(tallies.radii.first_violation, tallies.certificates.first_violation);
    CHECK(tallies.radii.violations == 0);
    CHECK(tallies.certificates.violations == 0);
    CHECK(tallies.certificates.checked > 0);
    MESSAGE(block << ": " << tallies.radii.utilisation << " " << tallies.certificates.utilisation);
  }
}
