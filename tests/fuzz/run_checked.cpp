#include <algorithm>

#include "driftbound/num/errors.hpp"
#include "fuzz/memory_count.hpp"
#include "fuzz/targets.hpp"
#include "model/text.hpp"

namespace driftbound::fuzz {
namespace {

/// Valid UTF-8 without control characters but the ends of lines.
bool is_fit_to_print(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return printable(text) == text;
}

}  // namespace

void require(bool holds, const char* claim) {
  if (!holds) throw Violation(claim);
}

std::size_t memory_limit(std::size_t file_size) {
  return (std::size_t{64} << 20) + 2 * file_size;
}

std::size_t run_checked(const Target& target, Bytes bytes) {
  const MemoryCount memory(memory_limit(bytes.size()));
  try {
    target.run(bytes);
  } catch (const Error& error) {
    require(is_fit_to_print(error.what()), "messages are fit to print");
  }
  require(memory.peak() <= memory_limit(bytes.size()), "no more memory is taken than 64 MiB and twice the file");
  return memory.peak();
}

}  // namespace driftbound::fuzz
