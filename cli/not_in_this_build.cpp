// Stands in for report.cpp, drift.cpp and its modes, tolerance.cpp, certify.cpp, mesh.cpp, octree.cpp, render.cpp and probe.cpp in builds that record only (DRIFTBOUND_CAPTURE_ONLY).
#include "cli/verbs.hpp"
#include "driftbound/num/errors.hpp"

namespace driftbound::cli {
namespace {

Verb stand_in(const char* name, const char* message) {
  return {name, "Not in this build, which records only", [message](CLI::App& app, const std::string&) -> Verb::Run {
            app.allow_extras();
            return [message]() -> int { throw NotAvailable(message); };
          }};
}

}  // namespace

Verb report() {
  return stand_in("report",
                  "this build records only; take the trace to a full build and run: driftbound report MODEL --trace T");
}

Verb drift() {
  return stand_in("drift",
                  "this build records only; take the recordings to a full build and run: driftbound drift A B");
}

Verb tolerance() {
  return stand_in("tolerance", "this build records only; a full build says what kernels may be off");
}

Verb probe() {
  return stand_in("probe", "this build records only; a full build probes kernels, on this machine too");
}

Verb certify() {
  return stand_in("certify", "this build records only; signs are certified by a full build");
}

Verb mesh() {
  return stand_in("mesh", "this build records only; surfaces are meshed by a full build");
}

Verb octree() {
  return stand_in("octree", "this build records only; octrees are built by a full build");
}

Verb render() {
  return stand_in("render", "this build records only; pictures are drawn by a full build");
}

}  // namespace driftbound::cli
