#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "support/all_orders.hpp"

namespace checks {

/// Terms of five bits, and products of two such numbers, and what any order may make of them.
struct FewTerms {
  std::vector<double> stored, left, right;

  FewTerms(std::size_t numbers, std::size_t products, Generator& generator)
      : stored(few_bit_terms(numbers, generator)), left(few_bit_terms(products, generator)) {
    const double sign = generator() % 2 == 0 ? 1.0 : -1.0;
    for (std::size_t i = 0; i < products; ++i) right.push_back(sign * static_cast<double>(1 + generator() % 31));
  }

  /// What is added to a sum without changing it.
  void add_zeros(std::size_t count) {
    stored.insert(stored.end(), count, 0.0);
    left.insert(left.end(), count, 0.0);
    right.insert(right.end(), count, 7.0);
  }

  bounds::ListedTerms listed() const {
    bounds::ListedTerms terms;
    for (const double x : stored) terms.add_number(x);
    for (std::size_t i = 0; i < left.size(); ++i) terms.add_product(left[i], right[i]);
    return terms;
  }

  /// Shares no code with the rule. Zeros are left out: adding them is no rounding, so that the last one is another's.
  Tally check(double bound) const {
    std::vector<double> numbers, products;
    double exact = 0.0;
    const auto take = [&](double term, std::vector<double>& terms) {
      if (term != 0.0) terms.push_back(term);
      exact += term;
    };
    for (const double x : stored) take(x, numbers);
    for (std::size_t i = 0; i < left.size(); ++i) take(left[i] * right[i], products);
    Tally tally;
    const AllOrders orders(numbers, products);
    for (const double before_last : orders.before_last()) tally.add(before_last, Real(exact), bound);
    return tally;
  }

  Tally check_rule(const bounds::Rules& rules) const {
    bounds::ListedTerms terms = listed();
    return check(rules.sorted_terms_error(terms, few_bit_machine()).value());
  }
};

/// Every order of a few terms against T-98.
inline Tally check_sorted_terms(const bounds::Rules& rules, int repetitions, std::uint64_t seed) {
  Generator generator(seed);
  Tally tally;
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    const std::size_t products = repetition % 2 == 0 ? 0 : generator() % 4;
    const std::size_t count = repetition % 50 == 0 ? 7 + generator() % 2 : 1 + generator() % 6;
    FewTerms few(count > products ? count - products : 0, products, generator);
    if (few.stored.empty() && few.left.empty()) continue;
    if (count < 4) few.add_zeros(1);
    tally += few.check_rule(rules);
  }
  return tally;
}

/// A large number and terms so small that they are set apart, in every order.
inline Tally check_terms_set_apart(const bounds::Rules& rules, int repetitions, std::uint64_t seed) {
  Generator generator(seed);
  Tally tally;
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    FewTerms few(0, 0, generator);
    few.stored = {FewBitSum::rounded(1024.0 + static_cast<double>(generator() % 1024))};
    if (generator() % 2 == 0) few.stored.push_back(FewBitSum::rounded(-2048.0 * uniform(generator, 0.0, 1.0)));
    const std::size_t count = few.stored.size() + 1 + generator() % 4;
    while (few.stored.size() < count)
      few.stored.push_back(FewBitSum::rounded((static_cast<double>(generator() % 512) - 256.0) / 32.0));
    tally += few.check_rule(rules);
  }
  return tally;
}

}  // namespace checks
