#include "analysis/inspect.hpp"
#include "driftbound/num/errors.hpp"

namespace driftbound::analysis {

std::string describe_ops() {
  throw NotAvailable("this build records runs and has no bounds to describe; docs/ops.md has the table");
}

}  // namespace driftbound::analysis
