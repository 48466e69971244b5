#pragma once

#include <algorithm>
#include <boost/multiprecision/cpp_int.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "bounds/arithmetic/machine.hpp"
#include "bounds/theorems/propagation.hpp"
#include "bounds/theorems/sums.hpp"
#include "driftbound/num/format.hpp"
#include "support/bound_checks.hpp"

/// Sums of squares, variances and means in narrow formats, by two passes and by merges of parts (T-186, T-187).
namespace checks {

using boost::multiprecision::cpp_rational;

/// The operations of a format, rounded to nearest. Its numbers are doubles of at most 24 bits.
class Narrow {
public:
  explicit Narrow(FormatId id) : format_(format(id)) {}
  double operator()(double x) const { return round_to(x, format_, Rounding::nearest_even); }
  double sum(double a, double b) const { return (*this)(a + b); }
  double product(double a, double b) const { return (*this)(a * b); }
  double quotient(double a, double b) const { return (*this)(a / b); }

private:
  const Format& format_;
};

struct VarianceTally {
  std::int64_t violations = 0;
  double sum = 0.0, two_passes = 0.0, merged = 0.0;  ///< largest lower bound / result
  double most = 0.0, mean = 0.0;                     ///< largest result / bound

  void at_least(double result, double bound, double& closest) {
    if (!(result >= bound)) ++violations;
    if (result > 0.0) closest = std::max(closest, bound / result);
  }
  void at_most(double result, double bound, double& closest) {
    if (!(result <= bound)) ++violations;
    if (bound > 0.0 && std::isfinite(bound)) closest = std::max(closest, result / bound);
  }
};

/// Numbers of a format that variances lose much of: far from 0, nearly equal, of all sizes, growing, subnormal.
inline std::vector<double> hard_numbers(Generator& generator, const Narrow& narrow, const Format& format,
                                        std::size_t count) {
  const std::uint64_t kind = generator() % 8;
  const double offset = narrow(uniform(generator, -1000.0, 1000.0)), gap = ulp(offset, format);
  std::vector<double> numbers;
  for (std::size_t i = 0; i < count; ++i) {
    double x = uniform(generator, -1.0, 1.0);
    if (kind == 1) x += offset;
    if (kind == 2) x = offset + gap * static_cast<double>(generator() % 2);
    if (kind == 3) x = std::ldexp(x, static_cast<int>(generator() % 20) - 16);
    if (kind == 4) x = offset + gap * static_cast<double>(i * i);
    if (kind == 5) x = format.smallest_subnormal * static_cast<double>(generator() % 40);
    if (kind == 6) x = i == 0 ? offset : offset + gap;
    if (kind == 7)
      x = i == 0 ? 1.0 : std::ldexp(1.0, -format.precision / 2) * (1.0 - 0x1p-3 * uniform(generator, 0, 1));
    x = narrow(x);
    numbers.push_back(std::isfinite(x) ? x : offset);
  }
  if (generator() % 4 == 0) std::sort(numbers.begin(), numbers.end());
  return numbers;
}

/// A sum in a random tree, or in a row.
inline double sum_in_some_order(Generator& generator, const Narrow& narrow, std::vector<double> terms) {
  const bool is_chain = generator() % 2 == 0;
  while (terms.size() > 1) {
    const std::size_t i = is_chain ? 0 : generator() % (terms.size() - 1);
    terms[i] = narrow.sum(terms[i], terms[i + 1]);
    terms.erase(terms.begin() + static_cast<std::ptrdiff_t>(i) + 1);
  }
  return terms.front();
}

/// Count, mean and sum of squares of a part, with the roundings of PyTorch's kernels: updates by single numbers where
/// `updates` is set, else merges.
struct PartOfVariance {
  double count = 0.0, mean = 0.0, squares = 0.0;
};

inline PartOfVariance merged(const Narrow& narrow, PartOfVariance a, PartOfVariance b, bool updates) {
  if (a.count < b.count) std::swap(a, b);
  const double count = a.count + b.count, distance = narrow.sum(b.mean, -a.mean);
  const double share = narrow.quotient(narrow(b.count), narrow(count));
  const double mean = narrow.sum(a.mean, narrow.product(share, distance));
  if (updates && b.count == 1.0) {
    const double term = narrow.product(distance, narrow.sum(b.mean, -mean));
    return {count, mean, narrow.sum(a.squares, term)};
  }
  const double term = narrow.product(narrow.product(narrow.product(distance, distance), share), narrow(a.count));
  return {count, mean, narrow.sum(narrow.sum(a.squares, b.squares), term)};
}

/// A chain, chunks that are merged in turn, or any tree.
inline PartOfVariance merged_in_some_tree(Generator& generator, const Narrow& narrow, const std::vector<double>& x) {
  const bool updates = generator() % 2 == 0;
  const std::uint64_t kind = generator() % 3, chunk = 2 + generator() % 16;
  std::vector<PartOfVariance> parts;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const PartOfVariance one{1.0, x[i], 0.0};
    const bool begins = kind == 2 || i == 0 || (kind == 1 && i % chunk == 0);
    begins ? parts.push_back(one) : void(parts.back() = merged(narrow, parts.back(), one, updates));
  }
  while (parts.size() > 1) {
    const std::size_t i = generator() % (parts.size() - 1);
    parts[i] = merged(narrow, parts[i], parts[i + 1], updates);
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(i) + 1);
  }
  return parts.front();
}

/// What is known of some numbers exactly.
struct ExactMoments {
  cpp_rational sum = 0, squares = 0;
  double spread = 0.0;  ///< below the root of the sum of the squares of x less its mean

  explicit ExactMoments(const std::vector<double>& x) {
    for (const double number : x) sum += cpp_rational(number), squares += cpp_rational(number) * cpp_rational(number);
    const cpp_rational variance = squares - sum * sum / cpp_rational(x.size());
    spread = std::sqrt(variance.convert_to<double>()) * (1.0 - 0x1p-40);
  }
};

inline VarianceTally check_variances(int repetitions, std::uint64_t seed) {
  Generator generator(seed);
  VarianceTally tally;
  for (int draw = 0; draw < repetitions; ++draw) {
    const FormatId id = draw % 3 == 0 ? FormatId::fp32 : draw % 3 == 1 ? FormatId::bf16 : FormatId::fp16;
    ArithmeticModel arithmetic = cpu_arithmetic("fp32", {});
    arithmetic.input = arithmetic.accumulator = arithmetic.output = id;
    const bounds::Machine machine = bounds::machine_of(arithmetic);
    const Narrow narrow(id);
    const std::size_t longest = draw % 16 == 0 ? 1000 : 24;
    const std::vector<double> x = hard_numbers(generator, narrow, format(id), 2 + generator() % longest);
    const auto count = static_cast<std::int64_t>(x.size());
    const ExactMoments exact(x);
    // Squares of fp16 numbers may be too large: nothing is claimed then.
    const auto is_finite = [](double y) { return std::isfinite(y); };

    std::vector<double> sizes, squares;
    cpp_rational total = 0;
    for (const double number : x) sizes.push_back(std::abs(number)), total += cpp_rational(std::abs(number));
    const double sum = sum_in_some_order(generator, narrow, sizes);
    if (is_finite(sum))
      tally.at_least(sum, bounds::least_sum(total.convert_to<double>() * (1.0 - 0x1p-52), count, machine), tally.sum);

    const double centre = generator() % 2 == 0 ? narrow((exact.sum / cpp_rational(count)).convert_to<double>())
                                               : x[generator() % x.size()];
    for (const double number : x) {
      const double distance = narrow.sum(number, -centre);
      squares.push_back(narrow.product(distance, distance));
    }
    const double two_passes = sum_in_some_order(generator, narrow, squares);
    if (is_finite(two_passes))
      tally.at_least(two_passes, bounds::least_squares(exact.spread, count, false, machine), tally.two_passes);

    const PartOfVariance part = merged_in_some_tree(generator, narrow, x);
    if (!is_finite(part.squares) || !is_finite(part.mean)) continue;
    const Magnitude all_squares(exact.squares.convert_to<double>() * (1.0 + 0x1p-50));
    tally.at_least(part.squares, bounds::least_merged_squares(exact.spread, all_squares, count, machine), tally.merged);
    const auto [least, most] = std::minmax_element(x.begin(), x.end());
    tally.at_most(part.squares, bounds::most_merged_squares(Magnitude(*most - *least), count, machine).value(),
                  tally.most);
    const auto near = exact.sum.convert_to<double>();
    const Magnitude reach =
        bounds::reach_of_merged_mean(*least, *most, near, Magnitude(near * 0x1p-50), count, machine);
    const cpp_rational off = abs(cpp_rational(part.mean) * cpp_rational(count) - exact.sum);
    tally.at_most(off.convert_to<double>(), reach.value() * (1.0 + 0x1p-50), tally.mean);
  }
  return tally;
}

/// Roots and quotients whose argument or divisor may be anywhere above a number; products with a common factor.
inline std::int64_t check_known_least(int repetitions, std::uint64_t seed, double* closest = nullptr) {
  Generator generator(seed);
  std::int64_t violations = 0;
  const auto compare = [&](double moved, Magnitude bound) {
    const double most = bound.value() * (1.0 + 0x1p-45);  // what is compared is rounded itself
    if (!(moved <= most)) ++violations;
    if (closest != nullptr && most > 0.0) *closest = std::max(*closest, moved / most);
  };
  for (int draw = 0; draw < repetitions; ++draw) {
    const double b = std::ldexp(uniform(generator, 1.0, 2.0), static_cast<int>(generator() % 20) - 10);
    const double e = b * std::ldexp(uniform(generator, 1.0, 2.0), static_cast<int>(generator() % 8) - 4);
    const double least = b * uniform(generator, 0.0, 1.0), lowest = std::max(least, b - e);
    const double a = uniform(generator, -4.0, 4.0), ea = uniform(generator, 0.0, 2.0);
    for (const double t : {lowest, b + e, lowest + (b + e - lowest) * uniform(generator, 0.0, 1.0)}) {
      compare(std::abs(std::sqrt(t) - std::sqrt(b)), bounds::propagate_sqrt_above(b, Magnitude(e), least));
      for (const double s : {a - ea, a + ea}) {
        const double other = uniform(generator, -4.0, 4.0), off = uniform(generator, 0.0, 2.0);
        for (const double u : {other - off, other + off})
          compare(std::abs((s - u) * t - (a - other) * b),
                  bounds::propagate_common_factor(a, Magnitude(ea), other, Magnitude(off), b, Magnitude(e)));
        compare(std::abs(s / t - a / b), bounds::propagate_quotient_above(a, Magnitude(ea), b, Magnitude(e), least));
      }
    }
  }
  return violations;
}

}  // namespace checks
