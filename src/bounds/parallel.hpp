#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>
#include <functional>
#include <thread>
#include <vector>

#include "driftbound/num/environment.hpp"

namespace driftbound::bounds {

/// Calls body(first, last) on consecutive ranges that cover [0, count), one range per thread.
/// Throws:    what a body threw, and UnsoundEnvironment
inline void parallel_ranges(std::int64_t count, int threads,
                            const std::function<void(std::int64_t, std::int64_t)>& body) {
  const std::int64_t parts = std::clamp<std::int64_t>(threads, 1, std::max<std::int64_t>(count, 1));
  if (parts == 1) return body(0, count);
  std::vector<std::exception_ptr> failures(static_cast<std::size_t>(parts));
  std::vector<std::thread> workers;
  for (std::int64_t part = 0; part < parts; ++part) {
    workers.emplace_back([&, part] {
      try {
        require_sound_environment();
        body(count * part / parts, count * (part + 1) / parts);
      } catch (...) {
        failures[static_cast<std::size_t>(part)] = std::current_exception();
      }
    });
  }
  for (std::thread& worker : workers) worker.join();
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

}  // namespace driftbound::bounds
