#pragma once

#include <span>
#include <vector>

#include "bounds/adjoint/push.hpp"
#include "support/transpose_checks.hpp"

/// Directions pushed through single nodes, against Jacobians over the reals.
namespace checks {

/// Several directions at once, every element of each within the roundings that magnitudes account for.
inline Tally check_push(const TransposeCase& one, const bounds::Rules& rules, Generator& generator,
                        double size_of_directions = 1.0) {
  constexpr std::size_t count = 2;
  const bounds::Setting setting = setting_of(rules);
  std::vector<std::vector<double>> given;
  for (const Tensor<double>& operand : one.operands)
    given.push_back(draw_numbers(count * operand.size(), Draws::uniform, generator));
  for (std::vector<double>& direction : given)
    for (double& x : direction) x *= size_of_directions;
  const std::vector<std::span<const double>> directions(given.begin(), given.end());
  const bounds::Pushed pushed =
      bounds::pushed(one.view(), one.slopes, directions, count, bounds::Jacobian::as_stored, setting);
  Tally tally;
  const std::size_t size = one.output.size();
  for (std::size_t j = 0; j < count; ++j) {
    std::vector<Real> exact(size);
    std::vector<std::vector<double>> magnitudes;
    for (std::size_t slot = 0; slot < given.size(); ++slot) {
      const std::size_t n = one.operands[slot].size();
      const auto first = given[slot].begin() + static_cast<std::ptrdiff_t>(j * n);
      const std::vector<double> direction(first, first + static_cast<std::ptrdiff_t>(n));
      const RealTensor moved = jacobian_times(one, slot, reals(one.operands[slot].shape, direction));
      for (std::size_t i = 0; i < size; ++i) exact[i] += moved.values[i];
      magnitudes.push_back(direction);
      for (double& x : magnitudes.back()) x = std::abs(x);
    }
    const std::vector<std::span<const double>> sizes(magnitudes.begin(), magnitudes.end());
    const bounds::Pushed scale =
        bounds::pushed(one.view(), one.slopes, sizes, 1, bounds::Jacobian::magnitudes, setting);
    const std::vector<double> lost = bounds::lost_of(scale, 1, setting);
    for (std::size_t i = 0; i < size; ++i)
      tally.add(pushed.values[j * size + i], exact[i], pushed.roundings == 0 ? 0.0 : lost[i]);
  }
  return tally;
}

}  // namespace checks
