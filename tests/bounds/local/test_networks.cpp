#include <doctest/doctest.h>

#include "support/small_networks.hpp"

using namespace checks;

TEST_CASE("every op keeps its local bounds and its forward bound") {
  for (const std::string& block : NetworkBuilder::blocks()) {
    CAPTURE(block);
    for (const std::vector<std::string>& blocks :
         {std::vector<std::string>{block}, std::vector<std::string>{"gemm", block},
          std::vector<std::string>{block, "gemm", block}}) {
      const Tallies tallies = check_blocks(blocks, 4 * test_multiplier(), 21);
      INFO(tallies.first_violation());
      CHECK(tallies.violations() == 0);
      CHECK(tallies.forward.checked > 0);
    }
  }
}

TEST_CASE("random networks of five blocks keep every bound") {
  Generator generator(22);
  const std::vector<std::string>& all = NetworkBuilder::blocks();
  for (int repetition = 0; repetition < 40 * test_multiplier(); ++repetition) {
    std::vector<std::string> blocks;
    std::string text;
    for (int i = 0; i < 5; ++i) {
      blocks.push_back(all[generator() % all.size()]);
      text += blocks.back() + " ";
    }
    CAPTURE(text);
    const Tallies tallies = check_blocks(blocks, 2, generator());
    INFO(tallies.first_violation());
    CHECK(tallies.violations() == 0);
  }
}
