#pragma once

#include <string_view>

namespace driftbound::analysis {

/// Verdicts in order of severity: the worst one of its parts is the verdict of the whole.
///   not_checked values that no bound that decides was held against ("not checked" in reports): of parts alone
///   holds       every proven and conditional bound holds for every element
///   approaches  they hold, and one is used to at least the threshold
///   undecided   somewhere the reference's radius or a missing bound leaves it open
///   improbable  they hold, but a probabilistic bound is certainly exceeded: not by rounding as it is modelled
///   invalid     values that are not finite: nothing can be said ("void" in reports)
///   violated    somewhere |computed - exact| is certainly above the bound
enum class Status { not_checked, holds, approaches, undecided, improbable, invalid, violated };
std::string_view name_of(Status status);
/// The mark of a verdict in tables: "ok", "near", "open", "odd", "void", "FAIL", "-".
std::string_view mark_of(Status status);

}  // namespace driftbound::analysis
