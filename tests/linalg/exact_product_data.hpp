#pragma once

#include <algorithm>
#include <boost/multiprecision/cpp_int.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "linalg/exact_product.hpp"

/// Matrices of float32 numbers on which exact products are tried, and integers that hold what they come to.
namespace driftbound::test {

/// Multiples of 2^-700 below 2^1300.
using Fixed = boost::multiprecision::number<boost::multiprecision::cpp_int_backend<
    2048, 2048, boost::multiprecision::signed_magnitude, boost::multiprecision::unchecked, void>>;

inline Fixed fixed(double x) {
  int exponent = 0;
  const double fraction = std::frexp(x, &exponent);
  const Fixed integer = static_cast<std::int64_t>(std::ldexp(fraction, 53));
  return exponent >= -647 ? Fixed(integer * (Fixed(1) << (exponent + 647)))
                          : Fixed(integer / (Fixed(1) << (-647 - exponent)));
}

/// sum_l a_l b_l, as an integer: no floating-point operation but the products of two float32 numbers.
inline Fixed exact_dot(const float* a, const float* b, std::size_t length) {
  Fixed sum = 0;
  for (std::size_t l = 0; l < length; ++l) sum += fixed(static_cast<double>(a[l]) * static_cast<double>(b[l]));
  return sum;
}

struct FloatMatrix {
  std::size_t rows, length;
  std::vector<float> values;

  FloatMatrix(std::size_t m, std::size_t k) : rows(m), length(k), values(m * k) {}
  const float* row(std::size_t i) const { return values.data() + i * length; }
};

inline linalg::FloatRows rows_of(const FloatMatrix& m) {
  return {m.values.data(), m.rows, m.length, static_cast<std::ptrdiff_t>(m.length), 1};
}

/// Largest error in units of the radius; above 1 where it is exceeded, or where an element is not a normalised pair.
inline double worst(const FloatMatrix& a, const FloatMatrix& b, const linalg::ExactProduct& y) {
  double worst = 0.0;
  for (std::size_t i = 0; i < a.rows; ++i) {
    for (std::size_t j = 0; j < b.rows; ++j) {
      const double high = y.high[i * y.columns + j], low = y.low[i * y.columns + j], radius = y.radius_of(i, j);
      const Fixed error = abs(fixed(high) + fixed(low) - exact_dot(a.row(i), b.row(j), a.length));
      if (!(high + low == high) || error > fixed(radius)) return std::numeric_limits<double>::infinity();
      if (radius > 0.0) worst = std::max(worst, error.convert_to<double>() / fixed(radius).convert_to<double>());
    }
  }
  return worst;
}

class FloatMatrices {
public:
  explicit FloatMatrices(std::uint64_t seed) : generator_(seed) {}

  static const std::vector<std::string>& kinds() {
    static const std::vector<std::string> all = {"normal",  "relu",       "lognormal", "spread 30", "spread 60",
                                                 "outlier", "cancelling", "subnormal", "bf16",      "huge",
                                                 "tiny",    "zeros",      "equal",     "largest",   "mixed rows"};
    return all;
  }
  /// Those whose products of up to 512 terms two accumulators are expected to hold exactly.
  static bool is_tame(const std::string& kind) {
    return kind != "lognormal" && kind != "spread 30" && kind != "spread 60" && kind != "outlier" &&
           kind != "mixed rows";
  }

  FloatMatrix draw(const std::string& kind, std::size_t rows, std::size_t length) {
    FloatMatrix matrix(rows, length);
    for (std::size_t i = 0; i < rows; ++i) {
      const std::string& kind_of_row = kind == "mixed rows" ? kinds()[generator_() % (kinds().size() - 1)] : kind;
      for (std::size_t l = 0; l < length; ++l) matrix.values[i * length + l] = element(kind_of_row, i, l);
      if (kind_of_row == "outlier" && length > 0) matrix.values[i * length + generator_() % length] *= 0x1p40f;
    }
    return matrix;
  }

private:
  double normal() { return std::normal_distribution<double>()(generator_); }
  double uniform(double low, double high) { return std::uniform_real_distribution<double>(low, high)(generator_); }

  float element(const std::string& kind, std::size_t i, std::size_t l) {
    if (kind == "relu") return static_cast<float>(std::max(0.0, normal()));
    if (kind == "lognormal") return static_cast<float>(std::exp(3.0 * normal()));
    if (kind == "spread 30") return static_cast<float>(normal() * std::exp2(uniform(-30, 30)));
    if (kind == "spread 60") return static_cast<float>(normal() * std::exp2(uniform(-60, 60)));
    if (kind == "cancelling") {
      if (l % 2 == 0) previous_ = static_cast<float>(normal());
      return l % 2 == 0 || i % 2 == 0 ? previous_ : -previous_;
    }
    if (kind == "subnormal") return static_cast<float>(std::ldexp(std::floor(uniform(-0x1p23, 0x1p23)), -149));
    if (kind == "bf16") return rounded_to_8_bits(static_cast<float>(normal()));
    if (kind == "huge") return static_cast<float>(std::clamp(normal(), -3.99, 3.99) * 0x1p126);
    if (kind == "tiny") return static_cast<float>(normal() * 0x1p-120);
    if (kind == "zeros") return generator_() % 4 == 0 ? static_cast<float>(normal()) : -0.0f;
    if (kind == "equal") return 0x1.fffffep-1f;  // every sum of products is as large as its norms allow
    if (kind == "largest") return generator_() % 2 == 0 ? 0x1.fffffep127f : -0x1.fffffep127f;
    if (kind != "normal" && kind != "outlier") throw std::invalid_argument("no data of the kind " + kind);
    return static_cast<float>(normal());
  }

  static float rounded_to_8_bits(float x) {
    int exponent = 0;
    const float fraction = std::frexp(x, &exponent);
    return std::ldexp(std::nearbyint(fraction * 256.0f) / 256.0f, exponent);
  }

  std::mt19937_64 generator_;
  float previous_ = 0.0f;
};

}  // namespace driftbound::test
