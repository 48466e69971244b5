#pragma once

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bounds/adjoint/recursion.hpp"
#include "bounds/adjoint/sweep.hpp"
#include "support/norm_checks.hpp"
#include "support/small_networks.hpp"

/// Networks held against themselves at inputs that are off: with errors this large everything that first order leaves
/// out shows.
namespace checks {

inline bounds::Setting setting_of(const ArithmeticModel& arithmetic) {
  bounds::Setting setting;
  setting.arithmetic = &arithmetic;
  setting.machine = bounds::machine_of(arithmetic);
  setting.is_own_run = true;
  return setting;
}

inline ArithmeticModel double_arithmetic() {
  return cpu_arithmetic("fp64", parse_summation_order("sequential+fma"));
}

struct HeldTallies {
  Tally radii, norms, certificates;
  std::int64_t foreign_slopes = 0;  ///< certificates that are not those of a trajectory's own adjoint

  std::int64_t violations() const {
    return radii.violations + norms.violations + certificates.violations + foreign_slopes;
  }
  std::string first_violation() const {
    return radii.first_violation + norms.first_violation + certificates.first_violation;
  }
};

/// Every value of a graph of one input, in 700 bits.
inline std::vector<Tensor<Real>> exact_values(const Graph& graph, const Tensor<Real>& x) {
  std::vector<Tensor<Real>> values(graph.values.size());
  for (ValueId id = 0; id < graph.values.size(); ++id) {
    if (graph.is_constant(id)) values[id] = convert<Real>(graph.value(id).constant.to_double());
  }
  values[graph.inputs[0]] = x;
  const std::vector<Shape> shapes = infer_shapes(graph, {x.shape});
  for (const Node& node : graph.nodes) {
    if (const auto* of = std::get_if<op::Gelu>(&node.op)) {
      values[node.output] = values[node.inputs[0]];
      for (Real& value : values[node.output].values) value = gelu(value, of->tanh_form);
      continue;
    }
    Operands<Real> operands;
    for (const ValueId id : node.inputs) operands.push_back(&values[id]);
    values[node.output] = apply(node.op, operands, shapes[node.output], {});
  }
  return values;
}

/// A graph of one input at a point, with inputs off by up to `radius`.
class Held {
public:
  Held(const Graph& graph, const Tensor<double>& x, double radius, std::optional<std::int64_t> rows)
      : graph_(graph),
        arithmetic_(double_arithmetic()),
        setting_(setting_of(arithmetic_)),
        program_(graph, {x.shape}, rows),
        shadow_(bounds::shadow_of(program_, {x}, setting_)),
        x_(x),
        radius_(radius) {
    const std::vector<std::vector<double>> off = {std::vector<double>(x.size(), radius)};
    deviations_.push_back(
        bounds::deviation_of(bounds::Trajectory::any_order, program_, shadow_, off, setting_, operands_));
    deviations_.push_back(
        bounds::deviation_of(bounds::Trajectory::exact, program_, shadow_, {{}}, setting_, operands_));
    certify();
  }

  /// Takes radii by adjoints of their own wherever there is a remainder (T-72).
  void refine() {
    bounds::Refinement refinement;
    for (const bounds::ValueRadii& radii : deviations_[0].radii) {
      refinement.weight.emplace_back();
      refinement.weight.back().assign(radii.element.size(), 1.0);
    }
    refinement.most_elements = 1'000'000;
    const std::vector<std::vector<double>> off = {std::vector<double>(x_.size(), radius_)};
    deviations_[0] =
        bounds::deviation_of(bounds::Trajectory::any_order, program_, shadow_, off, setting_, operands_, &refinement);
    certify();
  }

  const bounds::Deviation& deviation() const { return deviations_[0]; }
  /// Of one element of the output, for every row.
  const bounds::Certificate& certificate(std::size_t element) const { return certificates_[element][0]; }
  std::size_t elements() const { return certificates_.size(); }

  /// Where slopes depend on the radii, remainders belong to an adjoint of the trajectory's own.
  bool stands_on_foreign_slopes() const {
    const bounds::Direction c = bounds::direction_of(program_, shadow_, {{program_.flat().graph.outputs[0], 0, 1.0}});
    const auto alone = bounds::sweep(program_, shadow_, {&deviations_[1], 1}, c, setting_);
    return alone[0].total != certificates_[0][1].total;
  }

  /// The signs with which inputs move an element of the output most, as far as they do so one by one.
  std::vector<double> steepest(std::size_t element) const {
    const auto output_at = [&](const Tensor<Real>& x) { return evaluate(x)[graph_.outputs[0]].values[element]; };
    const Tensor<Real> centre = convert<Real>(x_);
    const Real value = output_at(centre);
    std::vector<double> signs;
    for (std::size_t i = 0; i < centre.size(); ++i) {
      Tensor<Real> moved = centre;
      moved.values[i] += Real(radius_);
      signs.push_back(output_at(moved) < value ? -1.0 : 1.0);
    }
    return signs;
  }

  /// Holds values (radii, norms) and outputs (certificates) against those at inputs that are off by `signs` radii.
  void check_at(const std::vector<double>& signs, HeldTallies& tallies) const {
    Tensor<Real> moved = convert<Real>(x_);
    for (std::size_t i = 0; i < moved.size(); ++i) moved.values[i] += Real(signs[i] * radius_);
    const std::vector<Tensor<Real>> exact = evaluate(moved);
    for (ValueId id = 0; id < graph_.values.size(); ++id) {
      const bool is_given = graph_.is_constant(id) || id == graph_.inputs[0];
      if (!is_given) check_radii(program_.flat().of_value[id], exact[id], tallies);
    }
    const Tensor<Real>& output = exact[graph_.outputs[0]];
    const ValueId id = program_.flat().graph.outputs[0];
    for (std::size_t i = 0; i < output.size(); ++i) {
      tallies.certificates.add(shadow_.values[id].values[i], output.values[i],
                               certificates_[i % elements()][0].total[i / elements()]);
    }
  }

private:
  void certify() {
    certificates_.clear();
    const ValueId output = program_.flat().graph.outputs[0];
    const std::int64_t per_row = static_cast<std::int64_t>(shadow_.values[output].size()) / program_.rows(output);
    for (std::int64_t element = 0; element < per_row; ++element)
      certificates_.push_back(bounds::sweep(
          program_, shadow_, deviations_, bounds::direction_of(program_, shadow_, {{output, element, 1.0}}), setting_));
  }

  void check_radii(ValueId id, const Tensor<Real>& exact, HeldTallies& tallies) const {
    const std::vector<double>& radius = deviations_[0].radii[id].element;
    const std::vector<double>& norm = deviations_[0].radii[id].norm;
    const std::size_t size = exact.size() / static_cast<std::size_t>(program_.rows(id));
    Real squares;
    for (std::size_t i = 0; i < exact.size(); ++i) {
      const double centre = shadow_.values[id].values[i];
      tallies.radii.add(centre, exact.values[i], radius.empty() ? 0.0 : radius[i]);
      const Real off = exact.values[i] - Real(centre);
      squares += off * off;
      if ((i + 1) % size != 0) continue;
      tallies.norms.add(0.0, squares.apply(mpfr_sqrt), norm.empty() ? 0.0 : norm[i / size]);
      squares = Real();
    }
  }

  std::vector<Tensor<Real>> evaluate(const Tensor<Real>& x) const { return exact_values(graph_, x); }

  const Graph& graph_;
  ArithmeticModel arithmetic_;
  bounds::Setting setting_;
  Program program_;
  bounds::Shadow shadow_;
  bounds::OperandCache operands_;
  Tensor<double> x_;
  double radius_;
  std::vector<bounds::Deviation> deviations_;                   ///< of any run, and of the exact network
  std::vector<std::vector<bounds::Certificate>> certificates_;  ///< by element of the output and deviation
};

inline std::vector<double> random_corner(std::size_t n, Generator& generator) {
  std::vector<double> signs(n);
  for (double& sign : signs) sign = generator() % 2 == 0 ? 1.0 : -1.0;
  return signs;
}

struct HeldNetworks {
  std::vector<std::string> blocks;
  std::vector<double> radii = {1e-9, 1e-3, 0.1, 1.0};
  bool refined = false;
  int repetitions = 4;
  std::uint64_t seed = 5;
  int corners = 8;
};

inline HeldTallies check_held(const HeldNetworks& networks) {
  Generator generator(networks.seed);
  HeldTallies tallies;
  for (int repetition = 0; repetition < networks.repetitions; ++repetition) {
    NetworkBuilder builder(generator, networks.refined);
    for (const std::string& block : networks.blocks) builder.add(block);
    const Graph graph = builder.finish();
    for (const double radius : networks.radii) {
      const Tensor<double> x = network_inputs(1.0, true, generator);
      Held held(graph, x, radius, networks.refined ? std::optional<std::int64_t>(NetworkBuilder::rows) : std::nullopt);
      if (networks.refined) held.refine();
      tallies.foreign_slopes += held.stands_on_foreign_slopes() ? 1 : 0;
      for (int corner = 0; corner < networks.corners; ++corner)
        held.check_at(random_corner(x.size(), generator), tallies);
    }
  }
  return tallies;
}

}  // namespace checks
