#include <doctest/doctest.h>

#include "containment.hpp"

using namespace driftbound;
using containment::Counts;
using networks::Scale;

// With 64 bits and no climb the radii are those that the rules of the ops produce, far above the rounding of
// the midpoints to hi + lo: a rule that propagates too little is caught here.
TEST_CASE("at the lowest precision the ball still holds the value: what the ops propagate is enough") {
  mpfr_set_emax(mpfr_get_emax_max());  // for the oracle
  PrecisionPolicy policy;
  policy.initial_bits = policy.max_bits = 64;
  Counts counts;
  for (int i = 0; i < 150 * networks::multiplier(); ++i) {
    const std::uint64_t seed = 8000 + static_cast<std::uint64_t>(i);
    CAPTURE(seed);
    const Scale scales[] = {Scale::ordinary, Scale::float32, Scale::integers};
    const bool batched = i % 2 == 0;
    const networks::Network network = networks::Builder(seed, scales[i % 3], batched ? 8 : 3, batched).general(14);
    containment::check_accumulated<oracle::Real400>(network, policy, counts);
  }
  CHECK(counts.outputs > 30000);
}

TEST_CASE("at the lowest precision the ball still holds the exact number of networks of +, x and ReLU") {
  PrecisionPolicy policy;
  policy.initial_bits = policy.max_bits = 64;
  Counts counts;
  for (int i = 0; i < 150 * networks::multiplier(); ++i) {
    const std::uint64_t seed = 9000 + static_cast<std::uint64_t>(i);
    CAPTURE(seed);
    const Scale scales[] = {Scale::ordinary, Scale::wide, Scale::subnormal, Scale::integers};
    const bool batched = i % 3 != 0;
    const networks::Network network = networks::Builder(seed, scales[i % 4], batched ? 8 : 3, batched).polynomial(12);
    containment::check_accumulated<oracle::Dyadic>(network, policy, counts);
  }
  CHECK(counts.outputs > 30000);
}
