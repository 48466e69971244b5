#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "driftbound/model/tensor.hpp"
#include "fuzz/targets.hpp"

namespace driftbound::fuzz {

/// Choices read off bytes; 0 where they are used up.
class Draw {
public:
  explicit Draw(Bytes bytes) : rest_(bytes) {}

  bool is_empty() const { return rest_.empty(); }
  std::size_t byte() {
    if (rest_.empty()) return 0;
    const auto value = std::to_integer<std::size_t>(rest_.front());
    rest_ = rest_.subspan(1);
    return value;
  }
  bool flag() { return (byte() & 1) != 0; }
  /// One of 0 … count - 1.
  std::size_t pick(std::size_t count) { return byte() % count; }

  /// Mostly small, sometimes absurd.
  std::int64_t integer() {
    constexpr std::array<std::int64_t, 12> absurd = {-2,
                                                     std::int64_t{1} << 20,
                                                     std::int64_t{1} << 31,
                                                     std::int64_t{1} << 32,
                                                     std::int64_t{1} << 40,
                                                     1LL << 61,
                                                     std::int64_t{1} << 62,
                                                     INT64_MAX,
                                                     INT64_MAX - 1,
                                                     INT64_MIN,
                                                     -1LL << 31,
                                                     INT64_MIN + 1};
    const std::size_t choice = byte();
    if (choice < 200) return static_cast<std::int64_t>(choice % 8) - (choice < 40 ? 2 : 0);
    if (choice < 240) return absurd[choice % absurd.size()];
    std::int64_t value = 0;
    for (int i = 0; i < 8; ++i) value = static_cast<std::int64_t>(static_cast<std::uint64_t>(value) << 8 | byte());
    return value;
  }
  std::vector<std::int64_t> integers(std::size_t most) {
    std::vector<std::int64_t> values(pick(most + 1));
    for (std::int64_t& value : values) value = integer();
    return values;
  }
  ElementType type() { return static_cast<ElementType>(pick(13)); }
  std::string text(std::size_t most) {
    std::string value(std::min(pick(most + 1), rest_.size()), '\0');
    for (char& c : value) c = static_cast<char>(byte());
    return value;
  }
  Bytes rest() const { return rest_; }

private:
  Bytes rest_;
};

}  // namespace driftbound::fuzz
