#include "fuzz/memory_count.hpp"

#include <malloc.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <new>

namespace {

// Of one thread: what a library's or a fuzzer's other threads take is not the reader's.
thread_local std::int64_t bytes_in_use = 0;
thread_local std::int64_t most_bytes_in_use = 0;
thread_local std::size_t largest_allowed = std::numeric_limits<std::size_t>::max();

void* count(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  bytes_in_use += static_cast<std::int64_t>(malloc_usable_size(memory));
  most_bytes_in_use = std::max(most_bytes_in_use, bytes_in_use);
  return memory;
}

void require_allowed(std::size_t size) {
  if (size > largest_allowed) throw std::bad_alloc();
}

void release(void* memory) {
  if (memory != nullptr) bytes_in_use -= static_cast<std::int64_t>(malloc_usable_size(memory));
  std::free(memory);
}

}  // namespace

void* operator new(std::size_t size) {
  require_allowed(size);
  return count(std::malloc(std::max<std::size_t>(size, 1)));
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  try {
    return operator new(size);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  require_allowed(size);
  const auto step = static_cast<std::size_t>(alignment);
  return count(std::aligned_alloc(step, (std::max<std::size_t>(size, 1) + step - 1) / step * step));
}
void operator delete(void* memory) noexcept {
  release(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  release(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  release(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  release(memory);
}

namespace driftbound::fuzz {

MemoryCount::MemoryCount(std::size_t limit) {
  bytes_in_use = most_bytes_in_use = 0;
  largest_allowed = limit;
}
MemoryCount::~MemoryCount() {
  largest_allowed = std::numeric_limits<std::size_t>::max();
}
std::size_t MemoryCount::peak() const {
  return static_cast<std::size_t>(most_bytes_in_use);
}

}  // namespace driftbound::fuzz
