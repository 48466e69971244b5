// Stands in for report.cpp in builds that record only (DRIFTBOUND_CAPTURE_ONLY).
#include "cli/verbs.hpp"
#include "driftbound/num/errors.hpp"

namespace driftbound::cli {

Verb add_report(CLI::App& program, const std::string&) {
  CLI::App& app = *program.add_subcommand("report", "Not in this build, which records only");
  app.allow_extras();
  return []() -> int {
    throw NotAvailable(
        "this build records only; take the trace to a full build and run: driftbound report MODEL --trace T");
  };
}

}  // namespace driftbound::cli
