#include <fmt/format.h>

#include "analysis/inspect.hpp"
#include "analysis/table.hpp"
#include "driftbound/trace/function_libraries.hpp"

namespace driftbound::analysis {
namespace {

constexpr std::string_view introduction = R"(# Accuracy of functions by library

How far a library's float32 functions may be off: |computed - f(x)| <= *units* (u |f(x)| + η) + *absolute* u, with u =
2^-24 and η = 2^-150 (T-20 in [theory.md](theory.md)). A correctly rounded function has 1 and 0; E ulp from the correctly
rounded result are 2E + 1 units, U ulp from the true value 2U. This page is the output of `driftbound inspect
--functions`, made from the data that the bounds use.

A trace names a library in its arithmetic, `"functions": "cuda"`, or has a list of its own ([file-formats.md](file-formats.md));
`driftbound report MODEL --trace T --functions cuda` takes this table in place of the trace's. Every bound that uses an
entry is *conditional* on it. driftbound's own functions are in [elementary.md](elementary.md).
)";

std::string describe(const FunctionLibrary& library) {
  std::vector<Strings> rows = {{"function", "units", "absolute", "evidence"}};
  std::string others;
  for (const FunctionAccuracy& entry : library.functions) {
    rows.push_back({entry.function, fmt::format("{}", entry.units), fmt::format("{}", entry.absolute_units),
                    std::string(name_of(entry.evidence))});
    if (entry.source != library.source) others += fmt::format("{}{}", others.empty() ? "" : ", ", entry.function);
  }
  if (!others.empty()) others = fmt::format(" {}: {}.", others, library.functions.back().source);
  return fmt::format("\n## {}\n{}. Source: {}.{}\n\n{}", library.name, library.about, library.source, others,
                     table(rows));
}

}  // namespace

std::string describe_functions() {
  std::string text(introduction);
  for (const FunctionLibrary& library : function_libraries()) text += describe(library);
  return text;
}

}  // namespace driftbound::analysis
