#include "analysis/point_text.hpp"

#include <fmt/format.h>

#include "driftbound/trace/trace.hpp"

namespace driftbound::analysis {

std::string describe(std::span<const double> numbers) {
  std::string text;
  for (const double x : numbers) text += fmt::format("{}{}", text.empty() ? "" : ",", x);
  return text;
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
