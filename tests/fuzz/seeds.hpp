#pragma once

#include <string>
#include <vector>

namespace driftbound::fuzz {

/// What a target starts from: small files of its format, as they should be and as nobody should write them.
struct Seed {
  std::string target, name, contents;
};
std::vector<Seed> seeds();

}  // namespace driftbound::fuzz
