// The suite that every evaluator goes through, on the device: the module's products in our order have the CPU
// evaluator's bits, the vendor's their own. Against references and bounds: tests/conformance, and recorded traces.
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>

#include "conformance/suite.hpp"
#include "support/environment.hpp"

namespace {

using namespace conformance;

std::string module_folder() {
  const char* const named = std::getenv("DRIFTBOUND_GPU_MODULE");
  return named != nullptr ? std::filesystem::path(named).parent_path().string() : DRIFTBOUND_HOST_MODULE_FOLDER;
}

TEST_CASE("every op conforms, by our product and by the vendor's") {
  const driftbound::test::ScopedVariable path("DRIFTBOUND_PLUGIN_PATH", module_folder());
  for (const char* arithmetic : {"fp32", "tf32", "bf16", "fp16", "fp64"}) {
    for (const CudaProduct product : {CudaProduct::ordered, CudaProduct::vendor}) {
      CudaOptions options;
      options.arithmetic = arithmetic;
      options.product = product;
      check_all(device(options));
    }
  }
}

}  // namespace
