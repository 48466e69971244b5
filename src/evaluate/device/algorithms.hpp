#pragma once

#include <map>
#include <string>
#include <vector>

#include "evaluate/device/interface.h"

namespace driftbound::device {

/// "id 21, tile 128x64, stages 32x3, K in 4 parts added in the type of the sums, custom option 2": what the vendor's
/// library says of an algorithm. What it does not set is left out.
std::string words_for(const driftbound_algorithm& algorithm);

/// By which algorithms the products of a run were computed.
class AlgorithmsUsed {
public:
  void add(const std::string& layer, const driftbound_algorithm& algorithm);
  /// Of each layer, in the order of their first use; of several (batches of other sizes, products of a stack) one after
  /// the other.
  std::map<std::string, std::string> by_layer() const;

private:
  std::map<std::string, std::vector<std::string>> used_;
};

}  // namespace driftbound::device
