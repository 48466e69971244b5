#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace driftbound::soundness {

/// A small generator of its own (SplitMix64), so that a seed names the same case on every machine.
class Random {
public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t bits() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  /// Uniform in [0, 1).
  double uniform() { return static_cast<double>(bits() >> 11) * 0x1p-53; }
  double uniform(double lower, double upper) { return lower + (upper - lower) * uniform(); }
  /// Uniform in [lower, upper].
  std::int64_t integer(std::int64_t lower, std::int64_t upper) {
    const auto count = static_cast<std::uint64_t>(upper - lower + 1);
    return lower + static_cast<std::int64_t>(bits() % count);
  }
  bool chance(double probability) { return uniform() < probability; }
  double sign() { return chance(0.5) ? -1.0 : 1.0; }
  /// Nearly normal: twelve uniform numbers summed, no libm.
  double normal() {
    double sum = -6.0;
    for (int i = 0; i < 12; ++i) sum += uniform();
    return sum;
  }
  template <class T>
  const T& pick(const std::vector<T>& choices) {
    return choices[static_cast<std::size_t>(integer(0, static_cast<std::int64_t>(choices.size()) - 1))];
  }

private:
  std::uint64_t state_;
};

}  // namespace driftbound::soundness
