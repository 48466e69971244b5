// Runs that are recorded op by op: every part of every record, and the network that the records are.
#include <doctest/doctest.h>

#include <cstdint>
#include <string>

#include "soundness/random.hpp"
#include "soundness/random_records.hpp"

namespace driftbound {

TEST_CASE("recorded runs of random calls keep every bound, record by record and from the input on") {
  soundness::RecordsTally all;
  soundness::Random random(20261129);
  while (all.tally.outputs < 60'000 && all.tally.failures.size() < 3)
    soundness::check_random_records(random.bits(), all);
  const soundness::Tally& tally = all.tally;
  CHECK(all.alarms == 0);
  CHECK(all.judged > 400);
  for (const std::string& failure : tally.failures) FAIL_CHECK(failure);
  CHECK(tally.violations() == 0);
  CHECK(tally.bounds.at("local componentwise").checked > 0);
  CHECK(tally.bounds.at("accumulated forward").checked > 0);
  MESSAGE(soundness::table_heading() << soundness::table_row("records", tally));
}

TEST_CASE("recorded runs that went wrong once") {
  for (const std::uint64_t seed : {
           0xbade9d5cd02f8d83ULL,  // Relu of infinite numbers, whose radii are none
           0x8c0a4f47826d1796ULL,  // a sum that is scaled when it is complete
           0x0ca18209ee539bb7ULL,  // a scale that is not rounded to bfloat16, in a determined run
           0x5c5e3725aaac93e5ULL,  // results that underflow to 0, as those of operands in fp8 would
       }) {
    soundness::RecordsTally all;
    soundness::check_random_records(seed, all);
    for (const std::string& failure : all.tally.failures) FAIL_CHECK(failure);
    CHECK(all.tally.outputs > 0);
  }
}

}  // namespace driftbound
