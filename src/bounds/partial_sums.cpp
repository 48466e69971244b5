#include <algorithm>
#include <cmath>
#include <limits>

#include "bounds/sums.hpp"
#include "driftbound/num/directed.hpp"

namespace driftbound::bounds {
namespace {

/// The largest power of two that is not above x.
double unit_in_first_place(Magnitude x) {
  return x.value() == 0.0 || !x.is_finite() ? x.value() : std::ldexp(1.0, std::ilogb(x.value()));
}

/// The reach sqrt(k) r + h of a partial sum of k terms.
struct Reach {
  Magnitude r, h;

  /// How many k = 1, 2, … have a reach below `limit` for certain; at most `most`.
  std::int64_t terms_below(double limit, std::int64_t most) const {
    if (r.value() == 0.0) return h.value() < limit ? most : 0;
    const double root = div_down(sub_down(limit, h.value()), r.value());
    if (!(root > 0.0)) return 0;
    const double square = mul_down(root, root);
    if (square > static_cast<double>(most)) return most;
    return std::max<std::int64_t>(static_cast<std::int64_t>(square) - 1, 0);
  }
};

/// sum_{k=2..last} ufp(min(most, sqrt(k) r + h)), binade by binade from above.
Magnitude sum_of_first_places(Magnitude most, Reach reach, std::int64_t last) {
  Magnitude sum;
  double binade = unit_in_first_place(most);
  if (binade == 0.0 || !std::isfinite(binade)) return last < 2 ? Magnitude() : Magnitude(binade);
  while (last >= 2) {
    const std::int64_t below = std::max<std::int64_t>(reach.terms_below(binade, last), 1);
    sum += Magnitude(static_cast<double>(last - below)) * Magnitude(binade);
    last = below;
    binade /= 2;
  }
  return sum;
}

}  // namespace

Magnitude partial_sums_error(const TermSizes& terms, const Machine& machine) {
  const Magnitude u(machine.u);
  const Magnitude underflow = terms.products > 0 ? underflow_term(terms.products, terms.leaves, machine) : Magnitude();
  const Magnitude growth = Magnitude(1.0) + Magnitude(2.0 * static_cast<double>(terms.leaves)) * u;
  const Magnitude half = Magnitude(0.5) * (terms.total + std::min(terms.sum, terms.total));
  const Reach reach{growth * terms.norm, underflow};
  const Magnitude additions = sum_of_first_places(growth * half + underflow, reach, terms.leaves - 1);
  return u * (terms.rounded + additions) + underflow;
}

}  // namespace driftbound::bounds
