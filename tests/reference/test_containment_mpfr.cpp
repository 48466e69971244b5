#include <doctest/doctest.h>

#include "containment.hpp"

using namespace driftbound;
using containment::Counts;
using networks::Scale;

namespace {

void campaign(Scale scale, bool batched, std::uint64_t first_seed, int networks_at_1, Counts& counts) {
  mpfr_set_emax(mpfr_get_emax_max());  // for the oracle
  PrecisionPolicy policy;
  policy.max_bits = 512;
  for (int i = 0; i < networks_at_1 * networks::multiplier(); ++i) {
    const std::uint64_t seed = first_seed + static_cast<std::uint64_t>(i);
    CAPTURE(seed);
    const networks::Network network = networks::Builder(seed, scale, batched ? 8 : 3, batched).general(10);
    const Reference reference = containment::check_accumulated<oracle::Real400>(network, policy, counts);
    const Trace trace = containment::make_trace(network, reference, seed, seed % 2 == 0);
    containment::check_local<oracle::Real400>(network, trace, policy, counts);
  }
}

}  // namespace

TEST_CASE("networks of all ops: the ball holds the value computed with 400 digits, batched models") {
  Counts counts;
  campaign(Scale::ordinary, true, 3000, 30, counts);
  campaign(Scale::float32, true, 4000, 30, counts);
  campaign(Scale::integers, true, 5000, 30, counts);
  CHECK(counts.outputs > 30000);
  CHECK(counts.claims_nothing < counts.outputs / 4);
  MESSAGE("outputs ", counts.outputs, ", no claim ", counts.claims_nothing, ", undecided ", counts.undecided);
}

TEST_CASE("networks of all ops: the ball holds the value computed with 400 digits, models of one evaluation") {
  Counts counts;
  campaign(Scale::ordinary, false, 6000, 30, counts);
  campaign(Scale::integers, false, 7000, 30, counts);
  CHECK(counts.outputs > 10000);
  MESSAGE("outputs ", counts.outputs, ", no claim ", counts.claims_nothing, ", undecided ", counts.undecided);
}
