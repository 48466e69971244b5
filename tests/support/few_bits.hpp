#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <vector>

#include "support/bound_checks.hpp"

/// Sums in a declared order in an arithmetic of five bits, whose every rounding counts. Products and sums of the small
/// integers used are exact in double.
namespace checks {

class FewBitSum {
public:
  static constexpr int precision = 5;
  static constexpr double unit_roundoff = 1.0 / (1 << precision);

  static double rounded(double x) {
    int exponent = 0;
    const double significand = std::frexp(x, &exponent);
    return std::ldexp(std::nearbyint(std::ldexp(significand, precision)), exponent - precision);
  }

  FewBitSum(const SummationOrder& order, const std::vector<double>& a, const std::vector<double>& b)
      : order_(order), a_(a), b_(b) {}

  /// The sum before its last rounding; 0 without terms.
  double before_last() const {
    const std::optional<Sum> sum = whole();
    return sum ? sum->unrounded : 0.0;
  }

private:
  struct Sum {
    double unrounded = 0.0;
    double value() const { return rounded(unrounded); }
  };

  std::optional<Sum> whole() const {
    const std::size_t n = a_.size();
    if (order_.kind == SummationOrder::Kind::pairwise) return half(0, n);
    if (order_.kind == SummationOrder::Kind::dealt) return dealt();
    const auto parameter = static_cast<std::size_t>(order_.parameter);
    std::size_t length = n;
    if (order_.kind == SummationOrder::Kind::blocked) length = parameter;
    if (order_.kind == SummationOrder::Kind::split_k) length = (n + parameter - 1) / parameter;
    std::optional<Sum> sum;
    for (std::size_t first = 0; first < n; first += length)
      sum = joined(sum, chain(first, std::min(n, first + length)));
    return sum;
  }

  using Terms = std::vector<std::size_t>;

  /// By the words of SummationOrder: term after term to its part, then round after round of additions.
  std::optional<Sum> dealt() const {
    Terms all;
    for (std::size_t k = 0; k < a_.size(); ++k) all.push_back(k);
    const auto chain_of = [&](const Terms& terms) {
      std::optional<Sum> sum;
      for (const std::size_t k : terms) sum = with_term(sum, k);
      return sum;
    };
    const auto inside = [&](const Terms& terms) {
      return order_.parts.inside == Dealing{}
                 ? chain_of(terms)
                 : dealt(order_.parts.inside, order_.parts.inside_combination, terms, chain_of);
    };
    return dealt(order_.parts.dealing, order_.parts.combination, all, inside);
  }

  template <class SumOfPart>
  std::optional<Sum> dealt(const Dealing& dealing, Combination combination, const Terms& all,
                           const SumOfPart& sum_of_part) const {
    std::vector<Terms> parts;
    const auto run = static_cast<std::size_t>(dealing.run), multiple = static_cast<std::size_t>(dealing.multiple);
    std::size_t left_in_part = 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (dealing.kind == Dealing::Kind::interleaved) {
        const std::size_t count = static_cast<std::size_t>(dealing.parts), whole = all.size() / multiple * multiple;
        const std::size_t front = dealing.short_first ? whole % (count * run) : 0;
        const std::size_t part = i >= whole ? 0 : (i < front ? i : i - front) / run % count;
        if (parts.size() <= part) parts.resize(part + 1);
        parts[part].push_back(all[i]);
        continue;
      }
      if (left_in_part == 0) {
        const std::size_t left = all.size() - i;
        left_in_part = run;
        if (dealing.kind == Dealing::Kind::balanced && left > run && left < 2 * run)
          for (left_in_part = multiple == 1 ? (left + 1) / 2 : left / 2; left_in_part % multiple != 0;) ++left_in_part;
        parts.emplace_back();
      }
      parts.back().push_back(all[i]);
      --left_in_part;
    }
    std::vector<std::optional<Sum>> sums;
    for (const Terms& part : parts) sums.push_back(sum_of_part(part));
    while (sums.size() > 1) {
      std::vector<std::optional<Sum>> next;
      const std::size_t half = (sums.size() + 1) / 2;
      if (combination == Combination::sequential) {
        next = {sums.begin() + 1, sums.end()};
        next[0] = joined(sums[0], sums[1]);
      } else {
        for (std::size_t i = 0; i < half; ++i) {
          const bool by_halves =
              combination == Combination::halves || (combination == Combination::fours && sums.size() > 4);
          const std::size_t first = by_halves ? i : 2 * i, second = by_halves ? i + half : 2 * i + 1;
          next.push_back(second < sums.size() ? joined(sums[first], sums[second]) : sums[first]);
        }
      }
      sums = std::move(next);
    }
    return sums.front();
  }

  /// Adding what has no terms changes nothing.
  static std::optional<Sum> joined(const std::optional<Sum>& x, const std::optional<Sum>& y) {
    if (!x || !y) return x ? x : y;
    return Sum{x->value() + y->value()};
  }

  std::optional<Sum> chain(std::size_t first, std::size_t last) const {
    std::optional<Sum> sum;
    for (std::size_t k = first; k < last; ++k) sum = with_term(sum, k);
    return sum;
  }

  std::optional<Sum> with_term(const std::optional<Sum>& sum, std::size_t k) const {
    const double product = a_[k] * b_[k];
    if (product == 0.0) return sum;
    return sum ? Sum{sum->value() + (order_.fma ? product : rounded(product))} : Sum{product};
  }

  std::optional<Sum> half(std::size_t first, std::size_t last) const {
    const std::size_t n = last - first;
    if (n <= 2) return chain(first, last);
    std::size_t left = 1;
    while (2 * left < n) left *= 2;
    return joined(half(first, first + left), half(first + left, last));
  }

  SummationOrder order_;
  const std::vector<double>& a_;
  const std::vector<double>& b_;
};

/// All roundings but the last of sums whose factors lie anywhere within radii, against the running bound.
inline Tally check_running_sums(const SummationOrder& order, int repetitions, std::uint64_t seed) {
  Generator generator(seed);
  const double u = FewBitSum::unit_roundoff;
  Tally tally;
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    const std::size_t n = 1 + generator() % 9;
    const bool has_radii = generator() % 2 == 0, is_positive = generator() % 2 == 0;
    std::vector<double> a, b, centre, largest;
    double exact = 0.0, total = 0.0, spread = 0.0;
    const auto few_bits = [&] { return static_cast<double>(16 + generator() % 16); };
    for (std::size_t k = 0; k < n; ++k) {
      const double sign = !is_positive && generator() % 2 == 0 ? -1.0 : 1.0;
      a.push_back(generator() % 5 == 0 ? 0.0 : sign * few_bits());
      b.push_back(generator() % 2 == 0 ? 1.0 : few_bits());
      const double moved = a[k] == 0.0 || !has_radii ? 0.0 : static_cast<double>(generator() % 33) - 16.0;
      centre.push_back(a[k] + moved);
      largest.push_back(std::abs(centre[k]) + std::abs(moved));
      exact += a[k] * b[k];
      total += largest[k] * b[k];
      spread += std::abs(moved) * b[k];
    }
    const auto count = static_cast<std::int64_t>(n);
    const ProductPlan plan = plan_product(op::MatMul{}, {1, count}, {count, 1});
    const double classical = (static_cast<double>(n) - 1.0) * u * total;
    const std::vector<double> slack{bounds::running_slack(count, classical, spread, total)};
    const std::vector<double> places = bounds::running_ufps(plan, {centre, b, largest, slack}, order, true, 1);
    const std::vector<double> products = bounds::product_ufps(plan, {centre, b, largest, slack}, 1);
    const double bound = u * ((order.fma ? 0.0 : products.front()) + places.front());
    tally.add(FewBitSum(order, a, b).before_last(), Real(exact), bound);
  }
  return tally;
}

}  // namespace checks
