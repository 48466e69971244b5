#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "bounds/nodes/node_view.hpp"

namespace driftbound::bounds {

/// The first element with an infinite bound; empty: there is none.
std::optional<std::size_t> first_infinite(Radii radii);

/// Says in plain words why a node's bound is infinite at one element, where those of its operands are finite: a divisor
/// that may be 0, an argument outside the domain, a jump, a result that may leave the format.
/// Domain:    `radii`: one entry per input, bounds of the operands' distance from the view's; `largest`: of the format
/// Guarantee: none (a diagnostic)
std::string infinite_reason(const NodeView& view, std::span<const Radii> radii, std::size_t element, double largest);

}  // namespace driftbound::bounds
