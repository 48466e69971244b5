#include <doctest/doctest.h>

#include "containment.hpp"

using namespace driftbound;
using containment::Counts;
using networks::Scale;

namespace {

void campaign(Scale scale, bool batched, std::uint64_t first_seed, int networks_at_1, Counts& counts) {
  PrecisionPolicy policy;
  policy.max_bits = 2048;
  for (int i = 0; i < networks_at_1 * networks::multiplier(); ++i) {
    const std::uint64_t seed = first_seed + static_cast<std::uint64_t>(i);
    CAPTURE(seed);
    const networks::Network network = networks::Builder(seed, scale, batched ? 12 : 3, batched).polynomial(10);
    const Reference reference = containment::check_accumulated<oracle::Dyadic>(network, policy, counts);
    const Trace trace = containment::make_trace(network, reference, seed, seed % 2 == 0);
    containment::check_local<oracle::Dyadic>(network, trace, policy, counts);
  }
}

}  // namespace

TEST_CASE("networks of +, x and ReLU: the ball holds the exact number, batched models") {
  for (const Scale scale :
       {Scale::ordinary, Scale::integers, Scale::float32, Scale::wide, Scale::subnormal, Scale::huge}) {
    Counts counts;
    CAPTURE(static_cast<int>(scale));
    campaign(scale, true, 1000, 40, counts);
    CHECK(counts.outputs > 10000);
    if (scale != Scale::huge && scale != Scale::wide) CHECK(counts.claims_nothing == 0);
  }
}

TEST_CASE("networks of +, x and ReLU: the ball holds the exact number, products of activations and transpositions") {
  for (const Scale scale : {Scale::ordinary, Scale::integers, Scale::wide}) {
    Counts counts;
    CAPTURE(static_cast<int>(scale));
    campaign(scale, false, 2000, 80, counts);
    CHECK(counts.outputs > 4000);
  }
}

TEST_CASE("integer networks are evaluated exactly: radius 0 where the value is a double") {
  PrecisionPolicy policy;
  Counts counts;
  const networks::Network network = networks::Builder(5, Scale::integers, 50, true).polynomial(8);
  const Reference reference = containment::check_accumulated<oracle::Dyadic>(network, policy, counts);
  for (const Tensor<Ball>& layer : reference.layers)
    for (const Ball& ball : layer.values) CHECK(ball.radius.value() == 0.0);
  CHECK(reference.undecided == 0);
}
