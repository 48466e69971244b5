#pragma once

#include <cstddef>

namespace driftbound::fuzz {

/// Counts what `new` takes from its construction on. Programs with memory_count.cpp replace `new` and `delete`.
/// While one exists, taking more than `limit` at once throws std::bad_alloc.
class MemoryCount {
public:
  explicit MemoryCount(std::size_t limit);
  ~MemoryCount();
  MemoryCount(const MemoryCount&) = delete;
  MemoryCount& operator=(const MemoryCount&) = delete;
  std::size_t peak() const;
};

}  // namespace driftbound::fuzz
