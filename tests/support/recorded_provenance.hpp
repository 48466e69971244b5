#pragma once

#include <string>

#include "driftbound/trace/trace.hpp"

namespace driftbound::test {

/// What the provenance of a run on a GPU leaves out that a recorded trace must say; empty where nothing.
inline std::string lacking_provenance(const Provenance& provenance) {
  if (provenance.program.empty()) return "program";
  if (provenance.backend != "cuda") return "backend cuda";
  if (provenance.device.empty()) return "device";
  if (provenance.date.empty()) return "date";
  if (provenance.batch < 1) return "batch";
  if (provenance.observer_effect == ObserverEffect::not_checked) return "observer effect";
  for (const char* detail : {"driver", "runtime", "gemm", "math mode", "compute capability", "kernel flags"}) {
    const auto found = provenance.details.find(detail);
    if (found == provenance.details.end() || found->second.empty()) return detail;
  }
  return "";
}

}  // namespace driftbound::test
