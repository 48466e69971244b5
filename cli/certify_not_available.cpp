// Stands in for certify.cpp in builds that record only (DRIFTBOUND_CAPTURE_ONLY).
#include "cli/verbs.hpp"
#include "driftbound/num/errors.hpp"

namespace driftbound::cli {

Verb add_certify(CLI::App& program, const std::string&) {
  CLI::App& app = *program.add_subcommand("certify", "Not in this build, which records only");
  app.allow_extras();
  return []() -> int { throw NotAvailable("this build records only; signs are certified by a full build"); };
}

}  // namespace driftbound::cli
