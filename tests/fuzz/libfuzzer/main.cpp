#include <cstdint>

#include "fuzz/targets.hpp"

using namespace driftbound::fuzz;

// Neither stacks of allocations nor large quarantines: most of the time would go there.
extern "C" const char* __asan_default_options() {
  return "malloc_context_size=1:max_malloc_fill_size=0:quarantine_size_mb=4:thread_local_quarantine_size_kb=64:"
         "detect_stack_use_after_return=0";
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  run_checked({"", DRIFTBOUND_FUZZ_TARGET}, std::as_bytes(std::span(data, size)));
  return 0;
}
