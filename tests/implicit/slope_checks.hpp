#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "bounds/adjoint/recursion.hpp"
#include "implicit/line_graph.hpp"
#include "implicit/piece_evaluator.hpp"
#include "support/trajectory_checks.hpp"

/// Enclosures over pieces of a segment (T-121): every value of a network held against itself in 700 bits.
namespace slope_checks {

using namespace driftbound;
using checks::Generator;

struct SlopeTallies {
  Tally ranges, slopes;
  SlopeTallies& operator+=(const SlopeTallies& other) {
    ranges += other.ranges;
    slopes += other.slopes;
    return *this;
  }
  std::int64_t checked() const { return ranges.checked + slopes.checked; }
  std::int64_t violations() const { return ranges.violations + slopes.violations; }
  std::string first_violation() const { return ranges.first_violation + slopes.first_violation; }
};

/// Every value of a graph at a point, by ValueId.
using Exact = std::function<std::vector<Tensor<Real>>(const Tensor<Real>&)>;

/// A graph of one input on a segment.
class SlopesHeld {
public:
  SlopesHeld(const Graph& graph, const Tensor<double>& a, const Tensor<double>& b, Exact exact)
      : a_(a),
        b_(b),
        exact_(std::move(exact)),
        line_(implicit::line_graph(graph, {}, 0.0, a.values, b.values)),
        arithmetic_(checks::double_arithmetic()),
        setting_(checks::setting_of(arithmetic_)),
        program_(line_, {{1, 1}}, std::nullopt),
        original_values_(graph.values.size()) {}

  /// At the ends of the piece, its middle, and in between.
  SlopeTallies operator()(double lower, double upper, Generator& generator) {
    const double middle = lower + (upper - lower) / 2.0;
    const double half_width = std::max(sub_up(upper, middle), sub_up(middle, lower));
    const bounds::Shadow shadow = bounds::shadow_of(program_, {Tensor<double>({1, 1}, {middle})}, setting_);
    const bounds::Deviation deviation =
        bounds::deviation_of(bounds::Trajectory::exact, program_, shadow, {{}}, setting_, operands_);
    const std::vector<implicit::Slopes> slopes = implicit::slopes_of(
        program_, shadow, deviation, {half_width}, implicit::pack_constants(program_, shadow, deviation));
    std::vector<double> t = {lower, middle, upper};
    while (t.size() < 6) t.push_back(std::clamp(checks::uniform(generator, lower, upper), lower, upper));
    std::vector<std::vector<Tensor<Real>>> exact;
    for (const double at : t) exact.push_back(exact_(point(at)));
    SlopeTallies tallies;
    for (ValueId id = 0; id < original_values_; ++id) {
      const ValueId flat = program_.flat().of_value[id];
      if (!program_.varies(flat)) continue;
      const std::vector<double>& radii = deviation.radii[flat].element;
      for (std::size_t i = 0; i < shadow.values[flat].size(); ++i) {
        const double p = slopes[flat].middle[i], q = slopes[flat].radius[i];
        const double reach = implicit::reach(radii.empty() ? 0.0 : radii[i], p, q, half_width).value();
        for (std::size_t j = 0; j < t.size(); ++j) {
          tallies.ranges.add(shadow.values[flat].values[i], exact[j][id].values[i], reach);
          for (std::size_t k = 0; k < j; ++k)
            add_quotient(exact[j][id].values[i] - exact[k][id].values[i], Real(t[j]) - Real(t[k]), p, q,
                         tallies.slopes);
        }
      }
    }
    return tallies;
  }

private:
  Tensor<Real> point(double t) const {
    Tensor<Real> x(a_.shape);
    for (std::size_t i = 0; i < x.size(); ++i)
      x.values[i] = Real(a_.values[i]) + Real(t) * (Real(b_.values[i]) - Real(a_.values[i]));
    return x;
  }

  /// What 700 bits leave open counts as equal.
  static void add_quotient(const Real& difference, const Real& apart, double p, double q, Tally& tally) {
    const Real bound = Real(q) * abs(apart) + abs(Real(p) * apart) * Real(0x1p-200) + Real(0x1p-600);
    const Real off = abs(difference - Real(p) * apart);
    ++tally.checked;
    if (q > 0.0 && std::isfinite(q)) tally.utilisation = std::max(tally.utilisation, (off / bound).to_double());
    if (!(off <= bound)) {
      ++tally.violations;
      if (tally.first_violation.empty())
        tally.first_violation =
            "off " + std::to_string(off.to_double()) + ", bound " + std::to_string(bound.to_double());
    }
  }

  const Tensor<double>&a_, &b_;
  Exact exact_;
  Graph line_;
  ArithmeticModel arithmetic_;
  bounds::Setting setting_;
  Program program_;
  bounds::OperandCache operands_;
  std::size_t original_values_;
};

/// Random networks of the blocks named, over pieces of many widths.
inline SlopeTallies check_blocks(const std::vector<std::string>& blocks, int repetitions, std::uint64_t seed) {
  Generator generator(seed);
  SlopeTallies tallies;
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    checks::NetworkBuilder builder(generator);
    for (const std::string& block : blocks) builder.add(block);
    const Graph graph = builder.finish();
    const Tensor<double> a = checks::network_inputs(2.0, repetition % 2 == 0, generator);
    const Tensor<double> b = checks::network_inputs(2.0, repetition % 2 == 0, generator);
    SlopesHeld held(graph, a, b, [&](const Tensor<Real>& x) { return checks::exact_values(graph, x); });
    for (const double width : {1e-12, 1e-6, 1e-3, 0.03, 0.3}) {
      const double lower = checks::uniform(generator, 0.0, 1.0 - width);
      tallies += held(lower, lower + width, generator);
    }
  }
  return tallies;
}

}  // namespace slope_checks
