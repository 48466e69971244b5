#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "bounds/kernels/row_kernels.hpp"
#include "faults/theorems.hpp"
#include "sabotage/faults.hpp"
#include "support/chance_checks.hpp"
#include "support/two_ways.hpp"

// Faults in the bounds that leave rounding errors to chance (T-74).

namespace checks {
namespace {

std::int64_t squares() {
  return check_squares(2000, 745).violations;
}

std::int64_t by_rows() {
  return check_chance_by_rows(3, 746).violations;
}

}  // namespace

std::vector<BoundFault> chance_faults() {
  return {
      {"amplitudes of a row of sums halve",
       [](Theorems& r) {
         r.rows.chances = [](const bounds::SumRow& row, const bounds::RowFormat& format, const double* added,
                             const bounds::RowChances& result, std::size_t n) {
           sound().chances(row, format, added, result, n);
           for (std::size_t i = 0; i < n; ++i) result.amplitudes[i] *= 0.5;
         };
       },
       by_rows},
      {"half of the squares of a row are forgotten",
       [](Theorems& r) {
         r.rows.weighted_squares = [](const double* d, const double* a, std::size_t n) {
           return sound().weighted_squares(d, a, n / 2);
         };
       },
       by_rows},
      {"lambda halves",
       [](Theorems& r) { r.tail_factor = [](double p, std::int64_t n) { return 0.5 * proven::tail_factor(p, n); }; },
       check_tails},
      {"lambda is that of one statement",
       [](Theorems& r) { r.tail_factor = [](double p, std::int64_t) { return proven::tail_factor(p, 1); }; },
       check_tails},
      {"squares of partial sums halve",
       [](Theorems& r) {
         r.partial_sums_squares = [](const bounds::TermSizes& terms, const bounds::Machine& machine) {
           return Magnitude(0.5) * proven::partial_sums_squares(terms, machine);
         };
       },
       squares},
      {"squares of products are forgotten",
       [](Theorems& r) {
         r.partial_sums_squares = [](const bounds::TermSizes& terms, const bounds::Machine& machine) {
           bounds::TermSizes stored = terms;
           stored.rounded = Magnitude();
           return proven::partial_sums_squares(stored, machine);
         };
       },
       squares},
      {"what is not left to chance is forgotten",
       [](Theorems& r) {
         r.with_chance = [](Magnitude, Magnitude all, double factor) {
           return proven::with_chance(Magnitude(), all, factor);
         };
       },
       check_function_at_full_size},
      {"lambda is left out",
       [](Theorems& r) {
         r.with_chance = [](Magnitude rest, Magnitude all, double) { return proven::with_chance(rest, all, 1.0); };
       },
       check_sign_runs},
      {"squares are not weighted by the adjoint",
       [](Theorems& r) {
         r.weighted_squares = [](std::span<const double> d, std::span<const double> c,
                                 std::span<const std::uint32_t> alike) {
           return proven::weighted_squares(std::vector<double>(d.size(), 1.0), c, alike);
         };
       },
       check_weights},
      {"elements that err alike are taken for independent",
       [](Theorems& r) {
         r.correlated_elements = [](std::span<const double>, std::span<const double>) {
           return std::vector<std::uint32_t>();
         };
       },
       check_weights},
  };
}

}  // namespace checks
