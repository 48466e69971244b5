#include "bounds/blocks/sketch.hpp"

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>

#include "bounds/adjoint/sweep.hpp"
#include "bounds/blocks/sketch_directions.hpp"
#include "bounds/theorems/sketches.hpp"

namespace driftbound::bounds {
namespace {

/// Factor by which assumed radii exceed the estimated ones; remainders grow with its square.
constexpr double margin = 8.0;

class Sketch {
public:
  Sketch(Trajectory trajectory, const Program& program, const Shadow& shadow, const ByValue& input_error,
         const Setting& setting, OperandCache& operands, const SketchOptions& options)
      : trajectory_(trajectory),
        program_(program),
        shadow_(shadow),
        input_error_(input_error),
        setting_(setting),
        operands_(operands),
        options_(options) {}

  std::optional<Deviation> run() {
    const Deviation at_rest = deviation_within(zeros());
    if (!is_finite(at_rest)) return std::nullopt;
    find_importance(at_rest);
    const auto pilots = static_cast<double>(options_.pilot_directions);
    ByValue guess = radii(at_rest, at_rest, {options_.pilot_directions, pilots, options_.seed});
    for (int attempt = 1; attempt <= options_.attempts; ++attempt) {
      for (std::vector<double>& of_value : guess) {
        for (double& radius : of_value) radius *= margin;
      }
      const Deviation assumed = deviation_within(guess);
      if (assumed.slopes != at_rest.slopes || !is_finite(assumed)) return std::nullopt;
      const std::uint64_t seed = options_.seed + static_cast<std::uint64_t>(attempt);
      guess = radii(at_rest, assumed, {options_.directions, chi(), seed});
      Deviation found = deviation_within(guess);
      if (is_covered(found, assumed)) return found;
    }
    return std::nullopt;
  }

private:
  ByValue zeros() const {
    ByValue result(program_.size());
    for (ValueId id = 0; id < program_.size(); ++id) {
      if (program_.varies(id)) result[id].assign(shadow_.value(id).size(), 0.0);
    }
    return result;
  }

  bool is_finite(const Deviation& deviation) const {
    for (ValueId id = 0; id < program_.size(); ++id) {
      const std::vector<double> sources = entered(deviation, id);
      if (!std::all_of(sources.begin(), sources.end(), [](double x) { return std::isfinite(x); })) return false;
    }
    return true;
  }

  Deviation deviation_within(const ByValue& radii) const {
    return deviation_of(trajectory_, program_, shadow_, input_error_, setting_, operands_, nullptr, nullptr, &radii);
  }

  /// The sources of a value: upper bounds of sigma + kappa for every element.
  std::vector<double> entered(const Deviation& deviation, ValueId id) const {
    const std::vector<double>&local = deviation.added[id], &remainder = deviation.remainder[id];
    if (!program_.varies(id) || local.empty()) return program_.varies(id) ? remainder : std::vector<double>();
    std::vector<double> sum = local;
    for (std::size_t i = 0; i < remainder.size(); ++i) sum[i] = (Magnitude(sum[i]) + Magnitude(remainder[i])).value();
    return sum;
  }

  /// chi of T-78, with the failure probability divided by the number of attempts and of elements of all values.
  double chi() const {
    std::size_t elements = 1;
    for (ValueId id = 0; id < program_.size(); ++id) elements += program_.varies(id) ? shadow_.value(id).size() : 0;
    const double of_one = options_.failure_probability / options_.attempts / static_cast<double>(elements);
    return theorems::sketch_quantile(options_.directions, of_one * (1.0 - 0x1p-40));
  }

  ByValue radii(const Deviation& at_rest, const Deviation& assumed, const Drawing& drawing) const {
    ByValue amplitude(program_.size());
    for (ValueId id = 0; id < program_.size(); ++id) amplitude[id] = entered(assumed, id);
    return radii_by_directions(program_, shadow_, at_rest.slopes, amplitude, importance_, drawing, setting_);
  }

  bool is_covered(const Deviation& found, const Deviation& assumed) const {
    if (found.slopes != assumed.slopes) return false;
    for (ValueId id = 0; id < program_.size(); ++id) {
      const std::vector<double> enters = entered(found, id), drawn = entered(assumed, id);
      for (std::size_t i = 0; i < enters.size(); ++i) {
        if (!theorems::sketch_covers(enters[i], drawn.empty() ? 0.0 : drawn[i])) return false;
      }
    }
    return true;
  }

  /// Sets the importance of every value: the root mean square of an adjoint of the outputs with random signs.
  void find_importance(const Deviation& at_rest) {
    std::mt19937_64 generator(options_.seed);
    Direction c;
    for (const ValueId id : program_.flat().graph.outputs) {
      std::vector<double> signs(shadow_.value(id).size());
      for (double& sign : signs) sign = generator() % 2 == 0 ? 1.0 : -1.0;
      c.emplace_back(id, std::move(signs));
    }
    std::vector<std::vector<double>> adjoints;
    const std::vector<Deviation> deviations = {at_rest};
    sweep(program_, shadow_, deviations, c, setting_, &adjoints);
    double largest = 0.0;
    for (const std::vector<double>& adjoint : adjoints) {
      double squares = 0.0;
      for (const double d : adjoint) squares += d * d;
      importance_.push_back(adjoint.empty() ? 0.0 : std::sqrt(squares / static_cast<double>(adjoint.size())));
      if (std::isfinite(importance_.back())) largest = std::max(largest, importance_.back());
    }
    for (double& importance : importance_) {
      if (!std::isfinite(importance) || !(importance > largest * 0x1p-20)) importance = largest > 0.0 ? largest : 1.0;
    }
  }

  const Trajectory trajectory_;
  const Program& program_;
  const Shadow& shadow_;
  const ByValue& input_error_;
  const Setting& setting_;
  OperandCache& operands_;
  const SketchOptions& options_;
  std::vector<double> importance_;
};

}  // namespace

std::optional<Deviation> sketched(Trajectory trajectory, const Program& program, const Shadow& shadow,
                                  const std::vector<std::vector<double>>& input_error, const Setting& setting,
                                  OperandCache& operands, const SketchOptions& options) {
  return Sketch(trajectory, program, shadow, input_error, setting, operands, options).run();
}

}  // namespace driftbound::bounds
