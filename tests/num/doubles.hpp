#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <random>
#include <string>

namespace driftbound_tests {

/// count, times the environment's DRIFTBOUND_TEST_MULTIPLIER.
inline int scaled_by_multiplier(int count) {
  const char* text = std::getenv("DRIFTBOUND_TEST_MULTIPLIER");
  const double factor = text == nullptr ? 1.0 : std::strtod(text, nullptr);
  return static_cast<int>(count * (factor > 0.0 ? factor : 1.0));
}

inline std::string hex(double x) {
  char text[40];
  std::snprintf(text, sizeof text, "%a", x);
  return text;
}

/// Doubles chosen to hurt: every exponent, few bits, neighbours of powers of two, subnormals, the
/// largest numbers, zeros, and numbers close to those drawn before.
class SpitefulDoubles {
public:
  explicit SpitefulDoubles(std::uint64_t seed) : engine_(seed) {}

  /// A finite double.
  double next() { return previous_ = draw(); }

  /// A finite double with 2^-exponent <= |x| < 2^exponent.
  double next_within(int exponent) { return with_exponent(between(-exponent, exponent - 1)); }

  std::uint64_t bits() { return engine_(); }
  int between(int low, int high) { return std::uniform_int_distribution<int>(low, high)(engine_); }

private:
  double draw() {
    switch (between(0, 11)) {
      case 0:
        return signed_by_chance(std::ldexp(1.0, between(-1074, 1023)));
      case 1:
        return signed_by_chance(neighbour(std::ldexp(1.0, between(-1074, 1023))));
      case 2:
        return signed_by_chance(std::bit_cast<double>(bits() >> (12 + between(0, 51))));
      case 3:
        return signed_by_chance(neighbour(std::numeric_limits<double>::max() * (between(0, 1) == 0 ? 1.0 : 0.5)));
      case 4:
        return between(0, 3) == 0 ? signed_by_chance(0.0) : between(-20, 20);
      case 5:
      case 6:
        return -neighbour(previous_);
      case 7:
        return signed_by_chance(std::ldexp(static_cast<double>(bits() >> 58), between(-1074, 960)));
      case 8:
      case 9:
        return with_exponent(between(-40, 40));
      default:
        return with_exponent(between(-1074, 1022));
    }
  }

  double with_exponent(int exponent) {
    return signed_by_chance(std::ldexp(1.0 + static_cast<double>(bits() >> 12) * 0x1p-52, exponent));
  }

  /// x itself or a number at most 4 units away, still finite.
  double neighbour(double x) {
    double y = x;
    for (int steps = between(0, 4), up = between(0, 1); steps > 0; --steps)
      y = std::nextafter(y, up == 1 ? HUGE_VAL : -HUGE_VAL);
    return std::isfinite(y) ? y : x;
  }

  double signed_by_chance(double x) { return between(0, 1) == 0 ? x : -x; }

  std::mt19937_64 engine_;
  double previous_ = 1.0;
};

}  // namespace driftbound_tests
