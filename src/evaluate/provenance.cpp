#include "evaluate/provenance.hpp"

#include <array>
#include <ctime>
#include <fstream>

#include "linalg/ordered_product_kernels.hpp"

namespace driftbound {
namespace {

std::string processor_name() {
  std::ifstream processors("/proc/cpuinfo");
  for (std::string line; std::getline(processors, line);) {
    const std::size_t colon = line.find(": ");
    if (line.rfind("model name", 0) == 0 && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown processor";
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  std::array<char, 32> text{};
  if (gmtime_r(&now, &utc) == nullptr) return "";
  return std::string(text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &utc));
}

}  // namespace

Provenance own_provenance() {
  Provenance provenance;
  provenance.program = "driftbound " DRIFTBOUND_VERSION;
  provenance.date = utc_now();
  return provenance;
}

Provenance cpu_provenance() {
  Provenance provenance = own_provenance();
  provenance.backend = "cpu";
  static const std::string processor = processor_name();
  provenance.device = processor;
  provenance.details["instructions"] = fastest_product_kernels().name;
  provenance.details["gemm"] = "ordered";
  return provenance;
}

void describe_batches(const Batches& batches, Provenance& provenance) {
  provenance.batch = batches.batch();
  if (batches.recorded_samples() == batches.samples()) return;
  provenance.details["rows"] = std::to_string(batches.recorded_samples()) + " of " + std::to_string(batches.samples());
}

}  // namespace driftbound
