#pragma once

#include <string>
#include <utility>
#include <vector>

#include "driftbound/model/ops.hpp"

namespace driftbound {

/// A composite with attributes and operands for which its body (model/composite.hpp) shows what it means.
struct CompositeExample {
  Op op;
  std::vector<std::pair<std::string, Shape>> operands;
};

/// Every form of a composite; none of an op that is no composite.
std::vector<CompositeExample> composite_examples(const Op& op);

}  // namespace driftbound
