#include "analysis/status_in_c.hpp"

#include <cstddef>
#include <cstdio>
#include <new>

namespace driftbound::analysis {
namespace {

/// Longer texts are cut, so that keeping one cannot fail.
constexpr std::size_t longest_message = 1000;
thread_local char last_message[longest_message + 1] = "";

}  // namespace

driftbound_status status_of_exception(const char* verb) noexcept {
  const auto keep = [](driftbound_status status, const char* text, const char* more = "") {
    std::snprintf(last_message, sizeof last_message, "%s%s", text, more);
    return status;
  };
  try {
    throw;
  } catch (const NotAvailable& error) {
    return keep(DRIFTBOUND_NOT_AVAILABLE, error.what());
  } catch (const Error& error) {
    return keep(DRIFTBOUND_BAD_INPUT, error.what());
  } catch (const std::bad_alloc&) {
    return keep(DRIFTBOUND_OUT_OF_MEMORY, verb, ": out of memory: give fewer or smaller operands");
  } catch (const std::exception& error) {
    return keep(DRIFTBOUND_FAILED, error.what());
  } catch (...) {
    return keep(DRIFTBOUND_FAILED, verb, ": an unknown exception");
  }
}

}  // namespace driftbound::analysis

const char* driftbound_message() {
  return driftbound::analysis::last_message;
}
