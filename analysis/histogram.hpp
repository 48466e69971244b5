#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace driftbound::analysis {

/// How often numbers of 0 or more occur, in bins that are fixed: numbers with the same exponent and the same six bits
/// behind the point share one. 0, infinity (and NaN with it) have bins of their own. It takes the same memory for any
/// number of numbers, and is the same in whatever order and in whatever parts they come.
class LogHistogram {
public:
  void add(double x);
  /// Adds what another one has counted.
  void add(const LogHistogram& other);

  std::int64_t count() const { return zeros_ + finite_ + infinite_; }
  /// The number of rank p (count - 1), rounded up, in ascending order; of its bin the smallest number that was added: no
  /// larger than it, and by a 64th of it at most. Empty where nothing was added.
  /// Domain:    0 <= p <= 1
  std::optional<double> quantile(double p) const;
  std::optional<double> median() const { return quantile(0.5); }

private:
  struct Bin {
    std::int64_t count = 0;
    double least = 0.0;
  };
  Bin& bin(std::int64_t number);
  void add(std::int64_t number, std::int64_t count, double least);

  std::vector<Bin> bins_;   ///< consecutive ones, from `first_` on
  std::int64_t first_ = 0;  ///< number of the first bin
  std::int64_t zeros_ = 0, finite_ = 0, infinite_ = 0;
};

}  // namespace driftbound::analysis
