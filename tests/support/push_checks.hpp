#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "bounds/nodes/push.hpp"
#include "support/transpose_checks.hpp"

/// Directions pushed through single nodes, against Jacobians over the reals.
namespace checks {

/// Several directions at once, every element of each within the roundings that magnitudes account for.
inline Tally check_push(const TransposeCase& one, Generator& generator, double size_of_directions = 1.0) {
  constexpr std::size_t count = 2;
  const bounds::Setting setting = setting_of();
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
    const std::vector<double> lost = bounds::lost_of(scale, 1);
    for (std::size_t i = 0; i < size; ++i)
      tally.add(pushed.values[j * size + i], exact[i], pushed.roundings == 0 ? 0.0 : lost[i]);
  }
  return tally;
}

/// Products with weights so small that they underflow, and are multiplied by a large alpha afterwards.
inline Tally check_push_underflow(int repetitions, std::uint64_t seed) {
  Generator generator(seed);
  Tally tally;
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    const bool is_turned = repetition % 2 == 0;
    const Tensor<double> left({2, 3}), right(is_turned ? Shape{4, 3} : Shape{3, 4});
    const double alpha = std::ldexp(1.0, 40 + 8 * (repetition % 10));
    TransposeCase drawn = draw_case({op::Gemm{alpha, 1.0, false, is_turned}, {left, right}}, Draws::uniform, generator);
    for (Tensor<double>& operand : drawn.operands)
      for (double& x : operand.values) x = std::ldexp(x, -60);
    tally += check_push(drawn, generator, 0x1p-1000);
  }
  return tally;
}

}  // namespace checks
