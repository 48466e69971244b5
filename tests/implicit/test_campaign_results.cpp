#include <doctest/doctest.h>

#include <string>

#include "scripts/campaign_results.hpp"
#include "support/run_program.hpp"

using driftbound::test::TemporaryFolder;

TEST_CASE("results of a campaign go on after a line that was torn in the middle") {
  const TemporaryFolder folder;
  const std::string file = folder.write("r.jsonl", "{\"unit\":\"a\",\"n\":1}\n{\"unit\":\"b\",\"n\"").string();
  campaign::Results results(file);
  CHECK(results.has("a"));
  CHECK_FALSE(results.has("b"));
  results.add({{"unit", "b"}, {"n", 2}});
  CHECK(driftbound::test::read_file(file) == "{\"unit\":\"a\",\"n\":1}\n{\"unit\":\"b\",\"n\":2}\n");
  CHECK(campaign::Results(file).lines().size() == 2);
  CHECK(campaign::Results(folder.write("torn.jsonl", "{\"unit\"").string()).lines().empty());
  CHECK(campaign::Results(folder.file("none.jsonl")).lines().empty());
}
