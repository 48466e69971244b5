#include "analysis/status.hpp"

#include <cstddef>

namespace driftbound::analysis {
namespace {

// in the order of Status
constexpr std::string_view names[] = {"not checked", "holds", "approaches", "undecided",
                                      "improbable",  "void",  "violated"};
constexpr std::string_view marks[] = {"-", "ok", "near", "open", "odd", "void", "FAIL"};

}  // namespace

std::string_view name_of(Status status) {
  return names[static_cast<std::size_t>(status)];
}

std::string_view mark_of(Status status) {
  return marks[static_cast<std::size_t>(status)];
}

}  // namespace driftbound::analysis
