#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "support/bound_checks.hpp"
#include "support/real.hpp"
#include "support/variance_checks.hpp"

// Layer norms of other programs whose sums are as coarse as their results, against the exact formula in MPFR.

using namespace checks;

namespace {

constexpr double epsilon = 0x1p-17;

struct NarrowNorm {
  FormatId format = FormatId::bf16;
  std::size_t width = 64;
  std::string data;
};

struct NormOperands {
  std::vector<double> x, scale, bias;
};

NormOperands operands_of(const NarrowNorm& norm, Generator& generator) {
  const Narrow narrow(norm.format);
  NormOperands operands;
  const std::vector<double> hard = hard_numbers(generator, narrow, format(norm.format), norm.width);
  for (std::size_t i = 0; i < norm.width; ++i) {
    double x = uniform(generator, -2.0, 2.0);
    if (norm.data == "hard") x = hard[i];
    if (norm.data == "offset") x += 1000.0;
    if (norm.data == "constant") x = 7.0;
    if (norm.data == "tiny") x *= 0x1p-14;
    operands.x.push_back(narrow(x));
    operands.scale.push_back(narrow(uniform(generator, 0.5, 1.5)));
    operands.bias.push_back(narrow(uniform(generator, -0.5, 0.5)));
  }
  return operands;
}

std::vector<Real> exact_norm(const NormOperands& operands) {
  const Real n(static_cast<double>(operands.x.size()));
  Real mean, variance;
  for (const double x : operands.x) mean += Real(x);
  mean = mean / n;
  for (const double x : operands.x) variance += (Real(x) - mean) * (Real(x) - mean);
  const Real root = (variance / n + Real(epsilon)).apply(mpfr_sqrt);
  std::vector<Real> y;
  for (std::size_t i = 0; i < operands.x.size(); ++i)
    y.push_back((Real(operands.x[i]) - mean) / root * Real(operands.scale[i]) + Real(operands.bias[i]));
  return y;
}

/// The same with every step rounded: the moments by two passes or merged, the rest by one of three known forms.
std::vector<double> rounded_norm(const NarrowNorm& norm, const NormOperands& operands, Generator& generator) {
  const Narrow narrow(norm.format);
  const auto n = static_cast<double>(norm.width);
  double mean = 0.0, variance = 0.0;
  if (generator() % 2 == 0) {
    mean = narrow.quotient(sum_in_some_order(generator, narrow, operands.x), n);
    std::vector<double> squares;
    for (const double x : operands.x) {
      const double distance = narrow.sum(x, -mean);
      squares.push_back(narrow.product(distance, distance));
    }
    variance = narrow.quotient(sum_in_some_order(generator, narrow, squares), n);
  } else {
    const PartOfVariance part = merged_in_some_tree(generator, narrow, operands.x);
    mean = part.mean;
    variance = narrow.quotient(part.squares, n);
  }
  const double root = narrow(std::sqrt(narrow.sum(variance, epsilon))), inverse = narrow.quotient(1.0, root);
  const std::uint64_t form = generator() % 3;
  std::vector<double> y;
  for (std::size_t i = 0; i < operands.x.size(); ++i) {
    const double x = operands.x[i], distance = narrow.sum(x, -mean);
    double unit = narrow.quotient(distance, root);
    if (form == 1) unit = narrow.product(distance, inverse);
    if (form == 2) unit = narrow.sum(narrow.product(x, inverse), -narrow.product(inverse, mean));
    y.push_back(narrow.sum(narrow.product(unit, operands.scale[i]), operands.bias[i]));
  }
  return y;
}

std::vector<double> bounds_of_norm(const NarrowNorm& norm, const NormOperands& operands, const std::vector<double>& y) {
  ArithmeticModel arithmetic = cpu_arithmetic("fp32", {});
  arithmetic.input = arithmetic.accumulator = arithmetic.output = norm.format;
  const auto width = static_cast<std::int64_t>(norm.width);
  OneNode one = one_node(op::LayerNormalization{-1, epsilon},
                         {Tensor<double>({1, width}, operands.x), Tensor<double>({width}, operands.scale),
                          Tensor<double>({width}, operands.bias)},
                         Tensor<double>({1, width}, y), arithmetic);
  one.trace.provenance = foreign_provenance;
  return find_bound(bounds_of(one).local, BoundKind::componentwise)->values.values;
}

}  // namespace

TEST_CASE("layer norms in bfloat16 and float16 have finite bounds at any width, and keep them") {
  Generator generator(1863);
  std::vector<NarrowNorm> norms;
  for (const FormatId format : {FormatId::bf16, FormatId::fp16, FormatId::fp32})
    for (const std::size_t width : {64U, 256U, 1024U, 4096U})
      for (const char* data : {"plain", "offset", "constant", "tiny", "hard"}) {
        // The sum of so many numbers above 1000 is no number of float16.
        const bool is_large = std::string(data) == "offset" || std::string(data) == "hard";
        const bool overflows = format == FormatId::fp16 && is_large;
        if (!overflows && (width < 4096 || format != FormatId::fp16)) norms.push_back({format, width, data});
      }
  // Two neighbours whose mean is rounded to one of them have a merged variance of 0.
  for (const std::size_t width : {2U, 3U, 5U}) norms.push_back({FormatId::bf16, width, "hard"});
  for (const NarrowNorm& norm : norms) {
    CAPTURE(format(norm.format).name);
    CAPTURE(norm.width);
    CAPTURE(norm.data);
    double largest_bound = 0.0;
    for (int draw = 0; draw < (norm.width < 64 ? 200 : 6) * test_multiplier(); ++draw) {
      const NormOperands operands = operands_of(norm, generator);
      const std::vector<double> y = rounded_norm(norm, operands, generator);
      const std::vector<Real> exact = exact_norm(operands);
      const std::vector<double> bounds = bounds_of_norm(norm, operands, y);
      std::int64_t violations = 0;
      for (std::size_t i = 0; i < y.size(); ++i) {
        const double error = abs(Real(y[i]) - exact[i]).to_double();
        violations += error <= bounds[i] && std::isfinite(bounds[i]) ? 0 : 1;
        largest_bound = std::max(largest_bound, bounds[i]);
      }
      CHECK(violations == 0);
    }
    if (norm.format == FormatId::bf16 && norm.data == "plain")
      CHECK(largest_bound < 0.8 * static_cast<double>(norm.width));
  }
}
