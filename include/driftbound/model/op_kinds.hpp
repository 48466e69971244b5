#pragma once

#include <array>
#include <cstddef>
#include <type_traits>
#include <utility>
#include <variant>

#include "driftbound/model/ops.hpp"

namespace driftbound {

/// Place of an alternative in Op.
template <class T, class... Ops>
constexpr std::size_t place_in(const std::variant<Ops...>*) {
  std::size_t place = 0;
  (void)((std::is_same_v<T, Ops> || (++place, false)) || ...);
  return place;
}
template <class T>
inline constexpr std::size_t kind_of = place_in<T>(static_cast<const Op*>(nullptr));

/// An op of every kind, with the attributes it has where none are given.
inline std::array<Op, std::variant_size_v<OpAlternatives>> every_kind() {
  return []<std::size_t... kinds>(std::index_sequence<kinds...>) {
    return std::array<Op, sizeof...(kinds)>{Op(std::variant_alternative_t<kinds, OpAlternatives>())...};
  }
  (std::make_index_sequence<std::variant_size_v<OpAlternatives>>());
}

}  // namespace driftbound
