#pragma once

#include <malloc.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <functional>
#include <stdexcept>

#include "support/sanitizers.hpp"

namespace driftbound::test {

/// Whether most of this process's memory is not the address sanitizer's.
inline bool process_memory_is_ours() {
  return !under_sanitizers();
}

/// Most memory that was resident in a child of this process that did `work`.
/// Throws:    std::runtime_error where the work throws or ends the process
inline std::size_t most_resident_in_child(const std::function<void()>& work) {
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("no process to measure in");
  if (child == 0) {
    try {
      work();
    } catch (...) {
      _exit(EXIT_FAILURE);
    }
    _exit(EXIT_SUCCESS);
  }
  int status = 0;
  rusage usage{};
  if (wait4(child, &status, 0, &usage) != child || !WIFEXITED(status) || WEXITSTATUS(status) != EXIT_SUCCESS)
    throw std::runtime_error("the work to measure did not end");
  return static_cast<std::size_t>(usage.ru_maxrss) << 10;
}

/// What `work` adds to the most memory that a process has resident: heap, stack and mapped files, the program's own
/// pages that it touches first included. Free memory of the heap is given back before, so that none is used again.
inline std::size_t process_memory_of(const std::function<void()>& work) {
  malloc_trim(0);
  const std::size_t idle = most_resident_in_child([] {});
  const std::size_t busy = most_resident_in_child(work);
  return busy > idle ? busy - idle : 0;
}

}  // namespace driftbound::test
