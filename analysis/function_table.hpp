#pragma once

#include <string>

namespace driftbound::analysis {

/// How accurate the functions of every known library are: docs/functions.md, from the data that bounds use.
std::string describe_functions();

}  // namespace driftbound::analysis
