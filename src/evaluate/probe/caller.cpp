#include "evaluate/probe/caller.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <utility>

#include "driftbound/num/errors.hpp"

namespace driftbound::probe {
namespace {

constexpr std::int64_t most_numbers = std::int64_t{1} << 31;

void check_shape(const ProductShape& shape) {
  const auto text = std::to_string(shape.m) + "," + std::to_string(shape.k) + "," + std::to_string(shape.n);
  if (shape.m < 1 || shape.k < 1 || shape.n < 1)
    throw InvalidArgument("probe: shape m,k,n = " + text + ": every extent is 1 or more");
  const auto is_large = [](std::int64_t a, std::int64_t b) { return a > most_numbers / b; };
  if (is_large(shape.m, shape.k) || is_large(shape.k, shape.n) || is_large(shape.m, shape.n))
    throw InvalidArgument("probe: shape m,k,n = " + text + ": an operand has more than 2^31 numbers; take fewer rows");
}

std::vector<float> run_some(Caller& caller, const Lanes& lanes, std::span<const SumProbe> probes, float other,
                            bool are_finite) {
  const ProductShape& shape = caller.shape();
  const std::int64_t inner = lanes.along_rows ? 1 : shape.n;  // distance between the numbers of one sum
  const std::int64_t outer = lanes.along_rows ? shape.k : 1;
  std::vector<float> varied(static_cast<std::size_t>((lanes.along_rows ? shape.m : shape.n) * shape.k), 1.0F);
  const std::vector<float> constant(static_cast<std::size_t>((lanes.along_rows ? shape.n : shape.m) * shape.k), other);
  for (std::size_t i = 0; i < probes.size(); ++i) {
    const std::int64_t start = lanes.where[i] * outer;
    const auto number = [&](std::int64_t k) -> float& { return varied[static_cast<std::size_t>(start + k * inner)]; };
    for (std::int64_t k = 0; k < shape.k; ++k) number(k) = 0.0F;
    probes[i].for_each(shape.k, [&](std::int64_t k, float value) { number(k) = value; });
  }
  const std::vector<float>& a = lanes.along_rows ? varied : constant;
  const std::vector<float>& b = lanes.along_rows ? constant : varied;
  const std::vector<float> c = are_finite ? caller.finite(a, b) : caller(a, b);
  std::vector<float> results;
  for (std::size_t i = 0; i < probes.size(); ++i) {
    const std::int64_t row = lanes.along_rows ? lanes.where[i] : lanes.fixed;
    const std::int64_t column = lanes.along_rows ? lanes.fixed : lanes.where[i];
    results.push_back(c[static_cast<std::size_t>(row * shape.n + column)]);
  }
  return results;
}

/// A number as the product of a number for A and a power of two for B: B's is as small as it can be.
std::pair<float, float> shared_out(float number, const Lanes& lanes) {
  if (number == 0.0F) return {0.0F, std::ldexp(1.0F, lanes.lowest_right)};
  const int exponent = std::ilogb(number);
  const int right = std::max(exponent - lanes.highest_left, lanes.lowest_right);
  return {std::ldexp(number, -right), std::ldexp(1.0F, right)};
}

/// Probes at elements of which no two share a row or a column.
std::vector<float> run_across(Caller& caller, const Lanes& lanes, std::span<const SumProbe> probes, bool are_finite) {
  const ProductShape& shape = caller.shape();
  std::vector<float> a(static_cast<std::size_t>(shape.m * shape.k), 0.0F);
  std::vector<float> b(static_cast<std::size_t>(shape.k * shape.n), 0.0F);
  for (std::size_t i = 0; i < probes.size(); ++i) {
    const auto put = [&](std::int64_t k, float number) {
      const auto [left, right] = shared_out(number, lanes);
      a[static_cast<std::size_t>(lanes.where[i] * shape.k + k)] = left;
      b[static_cast<std::size_t>(k * shape.n + lanes.across[i])] = right;
    };
    for (std::int64_t k = 0; k < shape.k; ++k) put(k, 0.0F);
    probes[i].for_each(shape.k, put);
  }
  const std::vector<float> c = caller(a, b);  // the other elements may leave the range of results
  std::vector<float> results;
  for (std::size_t i = 0; i < probes.size(); ++i) {
    const std::int64_t at = lanes.where[i] * shape.n + lanes.across[i];
    results.push_back(c[static_cast<std::size_t>(at)]);
    if (are_finite) caller.require_finite(at, results.back());
  }
  return results;
}

std::vector<float> run_all(Caller& caller, const Lanes& lanes, const std::vector<SumProbe>& probes, float other,
                           bool are_finite) {
  std::vector<float> results;
  for (std::size_t first = 0; first < probes.size(); first += lanes.where.size()) {
    const std::size_t count = std::min(lanes.where.size(), probes.size() - first);
    const std::span<const SumProbe> now = std::span(probes).subspan(first, count);
    const auto some = lanes.across.empty() ? run_some(caller, lanes, now, other, are_finite)
                                           : run_across(caller, lanes, now, are_finite);
    results.insert(results.end(), some.begin(), some.end());
  }
  return results;
}

}  // namespace

Caller::Caller(ProductCall kernel, const ProductShape& shape, bool has_right_operand)
    : kernel_(std::move(kernel)), shape_(shape), has_right_operand_(has_right_operand) {
  check_shape(shape);
}

std::string Caller::place() const {
  const auto matrix = [](std::int64_t rows, std::int64_t columns) {
    return "[" + std::to_string(rows) + ", " + std::to_string(columns) + "]";
  };
  return "call " + std::to_string(calls_) + ", " + matrix(shape_.m, shape_.k) +
         (has_right_operand_ ? " x " + matrix(shape_.k, shape_.n) : "");
}

std::vector<float> Caller::operator()(std::span<const float> a, std::span<const float> b) {
  ++calls_;
  std::vector<float> c;
  const auto start = std::chrono::steady_clock::now();
  try {
    c = kernel_(shape_, a, b);
  } catch (const Error&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    throw InvalidArgument("probe: the kernel failed (" + place() + "): " + error.what());
  }
  seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const std::int64_t expected = shape_.m * shape_.n;
  if (std::ssize(c) != expected)
    throw InvalidArgument("probe: the kernel returned " + std::to_string(c.size()) + " numbers instead of " +
                          std::to_string(expected) + " (" + place() +
                          "); it has to return the whole result, row-major");
  return c;
}

std::vector<float> Caller::finite(std::span<const float> a, std::span<const float> b) {
  std::vector<float> c = (*this)(a, b);
  for (std::size_t i = 0; i < c.size(); ++i) require_finite(static_cast<std::int64_t>(i), c[i]);
  return c;
}

void Caller::require_finite(std::int64_t at, float x) const {
  if (std::isfinite(x)) return;
  throw Unsupported("probe: element [" + std::to_string(at / shape_.n) + ", " + std::to_string(at % shape_.n) +
                    "] of the result is " + (std::isnan(x) ? "NaN" : "infinite") + " (" + place() +
                    ") where the sum of products is finite: partial sums leave the accumulator's range, or the kernel "
                    "is no sum of products");
}

std::vector<float> run_probes(Caller& caller, const Lanes& lanes, const std::vector<SumProbe>& probes, float other) {
  return run_all(caller, lanes, probes, other, false);
}

std::vector<float> run_finite_probes(Caller& caller, const Lanes& lanes, const std::vector<SumProbe>& probes,
                                     float other) {
  return run_all(caller, lanes, probes, other, true);
}

}  // namespace driftbound::probe
