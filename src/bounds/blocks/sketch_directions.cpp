#include "bounds/blocks/sketch_directions.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>
#include <span>
#include <utility>

#include "bounds/arithmetic/numbers.hpp"
#include "bounds/nodes/push.hpp"
#include "bounds/theorems/outward.hpp"
#include "bounds/theorems/sketches.hpp"
#include "num/parallel.hpp"

namespace driftbound::bounds {
namespace {

constexpr std::size_t most_numbers_at_once = 1 << 25;

/// x cut to 21 significant bits, so that its products with the random numbers are exact.
double few_bits(double x) {
  return std::bit_cast<double>(std::bit_cast<std::uint64_t>(x) & 0xffffffff00000000u);
}

double mean_magnitude(std::span<const double> values) {
  double sum = 0.0;
  for (const double x : values) sum += std::abs(x);
  return values.empty() ? 0.0 : sum / static_cast<double>(values.size());
}

class Directions {
public:
  Directions(const Program& program, const Shadow& shadow, const std::vector<std::vector<std::vector<double>>>& slopes,
             const ByValue& amplitude, const std::vector<double>& importance, const Drawing& drawing,
             const Setting& setting)
      : program_(program),
        shadow_(shadow),
        slopes_(slopes),
        amplitude_(amplitude),
        drawing_(drawing),
        setting_(setting),
        rows_(at(program.rows())),
        noise_(program.size()),
        squares_(program.size()),
        lost_(rows_, 0.0) {
    for (const ValueId id : program.flat().graph.inputs) plan_noise(id, importance[id]);
    for (const Node& node : program.nodes())
      if (program.varies(node.output)) plan_noise(node.output, importance[node.output]);
  }

  ByValue radii() {
    std::size_t largest = 1;
    for (ValueId id = 0; id < program_.size(); ++id) largest = std::max(largest, shadow_.value(id).size());
    const std::size_t all = at(drawing_.directions),
                      at_once = std::clamp<std::size_t>(most_numbers_at_once / largest, 1, all);
    for (std::size_t first = 0; first < all; first += at_once) follow(first, std::min(at_once, all - first));
    return read_off();
  }

private:
  /// Chooses the noise a of T-78 for a value: about the root of amplitude over importance, and at least a small number,
  /// as rounding errors of the directions are sources too.
  void plan_noise(ValueId id, double importance) {
    const std::vector<double>& amplitude = amplitude_[id];
    double least = std::max(0x1p-6 * mean_magnitude(amplitude), 0x1p-60 * mean_magnitude(shadow_.value(id).values));
    if (!(least > 0.0)) least = 0x1p-60;
    std::vector<double>& noise = noise_[id];
    noise.resize(shadow_.value(id).size());
    for (std::size_t i = 0; i < noise.size(); ++i) {
      const double enters = std::max(amplitude.empty() ? 0.0 : amplitude[i], least);
      noise[i] = few_bits(std::max(std::sqrt(enters / importance), 0x1p-500));
    }
  }

  bool has_noise(ValueId id) const { return !noise_[id].empty(); }

  void follow(std::size_t first, std::size_t count) {
    std::vector<std::mt19937_64> generators;
    for (std::size_t j = first; j < first + count; ++j) {
      std::seed_seq seed = {drawing_.seed, static_cast<std::uint64_t>(j)};
      generators.emplace_back(seed);
    }
    directions_.assign(program_.size(), {});
    norms_.assign(program_.size(), {});
    for (const ValueId id : program_.flat().graph.inputs) {
      directions_[id].assign(count * noise_[id].size(), 0.0);
      finish(id, {}, generators);
    }
    for (std::size_t node = 0; node < program_.nodes().size(); ++node) step(node, generators);
  }

  void step(std::size_t index, std::vector<std::mt19937_64>& generators) {
    const Node& node = program_.nodes()[index];
    if (!program_.varies(node.output)) return;
    const NodeView view = shadow_.view_of(node);
    std::vector<std::span<const double>> directions, norms;
    for (const ValueId id : node.inputs) {
      directions.emplace_back(directions_[id]);
      norms.emplace_back(norms_[id]);
    }
    Pushed moved = pushed(view, slopes_[index], directions, generators.size(), Jacobian::as_stored, setting_);
    if (moved.roundings == 0 && amplitude_[node.output].empty()) noise_[node.output].clear();
    std::vector<double> lost;
    if (moved.roundings > 0)
      lost = lost_of(pushed(view, slopes_[index], norms, 1, Jacobian::magnitudes, setting_), generators.size());
    directions_[node.output] = std::move(moved.values);
    finish(node.output, std::move(lost), generators);
    for (const ValueId id : program_.last_reads()[index]) {
      directions_[id] = {};
      norms_[id] = {};
    }
  }

  /// Adds noise to the directions of a value, and records their norms and their rounding errors. `lost`: per element, a
  /// bound of the rounding errors before the noise is added; empty: 0.
  void finish(ValueId id, std::vector<double> lost, std::vector<std::mt19937_64>& generators) {
    const std::vector<double>& noise = noise_[id];
    const std::size_t size = shadow_.value(id).size();
    std::vector<double>& t = directions_[id];
    if (has_noise(id)) {
      parallel_for(static_cast<std::int64_t>(generators.size()), setting_.threads,
                   [&](std::int64_t first, std::int64_t last) {
                     for (std::size_t j = at(first); j < at(last); ++j) {
                       for (std::size_t i = 0; i < size; ++i)
                         t[j * size + i] += noise[i] * theorems::coin_flips(generators[j]());
                     }
                   });
    }
    std::vector<double> squares(size);
    for (std::size_t j = 0; j < generators.size(); ++j) {
      for (std::size_t i = 0; i < size; ++i) squares[i] += t[j * size + i] * t[j * size + i];
    }
    const auto count = static_cast<std::int64_t>(generators.size());
    std::vector<double>& norms = norms_[id];
    norms.resize(size);
    for (std::size_t i = 0; i < size; ++i)
      norms[i] = sqrt_up(Magnitude(theorems::outward(squares[i], count + 1, count))).value();
    std::vector<double>& sum = squares_[id];
    sum.resize(size);
    for (std::size_t i = 0; i < size; ++i)
      sum[i] = (Magnitude(sum[i]) + Magnitude(norms[i]) * Magnitude(norms[i])).value();
    if (has_noise(id)) charge_losses(id, std::move(lost));
  }

  /// Adds a value's rounding errors to Theta^2, with one more rounding for adding the noise.
  void charge_losses(ValueId id, std::vector<double> lost) {
    const std::vector<double>& noise = noise_[id];
    lost.resize(noise.size());
    for (std::size_t i = 0; i < lost.size(); ++i) {
      const Magnitude all = Magnitude(lost[i]) + Magnitude(0x1p-53) * Magnitude(norms_[id][i]);
      double& sum = lost_[i / (lost.size() / rows_)];
      sum = (Magnitude(sum) + theorems::sketch_share(all, noise[i])).value();
    }
  }

  ByValue read_off() {
    std::vector<Magnitude> shares(rows_), lost;
    for (const double squared : lost_) lost.push_back(sqrt_up(Magnitude(squared)));
    ByValue radii(program_.size());
    const auto read = [&](ValueId id) {
      const std::size_t row_size = std::max<std::size_t>(squares_[id].size() / rows_, 1);
      for (std::size_t i = 0; i < amplitude_[id].size(); ++i)
        shares[i / row_size] += theorems::sketch_share(Magnitude(amplitude_[id][i]), noise_[id][i]);
      for (std::size_t i = 0; i < squares_[id].size(); ++i)
        radii[id].push_back(theorems::sketch_radius(shares[i / row_size], sqrt_up(Magnitude(squares_[id][i])),
                                                    drawing_.chi, lost[i / row_size])
                                .value());
    };
    for (const ValueId id : program_.flat().graph.inputs) read(id);
    for (const Node& node : program_.nodes()) {
      if (program_.varies(node.output)) read(node.output);
    }
    return radii;
  }

  const Program& program_;
  const Shadow& shadow_;
  const std::vector<std::vector<std::vector<double>>>& slopes_;
  const ByValue& amplitude_;
  const Drawing& drawing_;
  const Setting& setting_;
  const std::size_t rows_;
  ByValue noise_;             ///< a of T-78
  ByValue squares_;           ///< by value: sums of squares over all directions, upper bounds
  ByValue directions_;        ///< by value: the directions of the current group, [directions, elements]
  ByValue norms_;             ///< by value: 2-norms over the current group, upper bounds
  std::vector<double> lost_;  ///< by row: Theta^2 of T-78
};

}  // namespace

ByValue radii_by_directions(const Program& program, const Shadow& shadow,
                            const std::vector<std::vector<std::vector<double>>>& slopes, const ByValue& amplitude,
                            const std::vector<double>& importance, const Drawing& drawing, const Setting& setting) {
  return Directions(program, shadow, slopes, amplitude, importance, drawing, setting).radii();
}

}  // namespace driftbound::bounds
