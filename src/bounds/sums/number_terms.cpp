#include "bounds/sums/number_terms.hpp"

#include <algorithm>

#include "bounds/theorems/sums.hpp"

namespace driftbound::bounds {

void NumberTerms::add(double x, Magnitude radius) {
  const Magnitude largest = Magnitude(x) + radius;
  if (largest == Magnitude()) return;
  const Magnitude square = largest * largest;
  ++count_;
  total_ += largest;
  squares_ += square;
  if (!(x <= -radius.value())) positive_ += square;
  if (!(x >= radius.value())) negative_ += square;
}

TermSizes NumberTerms::sizes() const {
  TermSizes sizes;
  sizes.leaves = count_;
  sizes.total = total_;
  sizes.norm = sqrt_up(squares_);
  sizes.one_sided = sqrt_up(std::max(positive_, negative_));
  return sizes;
}

}  // namespace driftbound::bounds
