#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "support/bound_checks.hpp"
#include "support/few_bits.hpp"

/// Sums in every order in an arithmetic of five bits, whose every rounding counts. Exact sums of the small integers used
/// are exact in double.
namespace checks {

inline bounds::Machine few_bit_machine() {
  bounds::Machine machine = bounds::machine_of(cpu_arithmetic("fp32", {}));
  machine.u = FewBitSum::unit_roundoff;
  machine.eta = 0.0;
  return machine;
}

/// All results of adding a set of terms, in every order: stored ones, and products, each of which is rounded or fused
/// into an addition. A result below `normal` is kept or becomes 0.
class AllOrders {
public:
  explicit AllOrders(std::vector<double> stored, std::vector<double> products = {}, double normal = 0.0)
      : stored_(stored.size()), terms_(std::move(stored)), normal_(normal) {
    terms_.insert(terms_.end(), products.begin(), products.end());
    results_.resize(std::size_t{1} << terms_.size());
    for (std::uint32_t set = 1; set < results_.size(); ++set) add_up(set);
  }

  /// Sums before their last rounding.
  const std::set<double>& before_last() const { return results_.back().unrounded; }

private:
  struct Results {
    std::set<double> unrounded, read;  ///< what an addition reads: rounded, of a product also as it is
  };

  void add_up(std::uint32_t set) {
    Results& results = results_[set];
    for (std::size_t i = 0; i < terms_.size(); ++i) {
      if (set != std::uint32_t{1} << i) continue;
      results.unrounded = {terms_[i]};
      if (i >= stored_) results.read = {terms_[i]};
    }
    for (std::uint32_t left = (set - 1) & set; left > 0; left = (left - 1) & set) {
      const std::uint32_t right = set & ~left;
      if (left < right) continue;
      for (const double a : results_[left].read)
        for (const double b : results_[right].read) results.unrounded.insert(a + b);
    }
    const bool is_stored = std::has_single_bit(set) && set < std::uint32_t{1} << stored_;
    for (const double sum : results.unrounded) {
      results.read.insert(FewBitSum::rounded(sum));
      if (!is_stored && std::abs(FewBitSum::rounded(sum)) < normal_) results.read.insert(0.0);
    }
  }

  std::size_t stored_;
  std::vector<double> terms_;
  double normal_;
  std::vector<Results> results_;
};

/// Numbers of five bits, of one sign or of both, that are often rounded when they are added up.
inline std::vector<double> few_bit_terms(std::size_t count, Generator& generator) {
  const bool is_positive = generator() % 2 == 0;
  std::vector<double> terms;
  for (std::size_t i = 0; i < count; ++i) {
    const auto magnitude = static_cast<double>(1 + generator() % (generator() % 2 == 0 ? 4096 : 64));
    terms.push_back(FewBitSum::rounded(is_positive || generator() % 2 == 0 ? magnitude : -magnitude));
  }
  return terms;
}

}  // namespace checks
