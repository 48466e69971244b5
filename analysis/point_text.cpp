#include <fmt/format.h>
#include <fmt/ranges.h>

#include "analysis/point_source.hpp"
#include "driftbound/trace/trace.hpp"

namespace driftbound::analysis {

std::string describe(std::span<const double> numbers) {
  return fmt::format("{}", fmt::join(numbers, ","));
}

std::string describe(const Box& box) {
  std::string text;
  for (std::size_t c = 0; c < box.lower.size(); ++c)
    text += fmt::format("{}{}:{}", c == 0 ? "" : ",", box.lower[c], box.upper[c]);
  return text;
}

std::string hash_of(const std::string& text) {
  return sha256_of(std::as_bytes(std::span(text.data(), text.size())));
}

}  // namespace driftbound::analysis
