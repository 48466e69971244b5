#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "driftbound/model/ops.hpp"
#include "driftbound/model/tensor.hpp"

namespace driftbound::onnx {

/// A whole number as far as a file tells it when it is loaded: a number, a positive multiple of an extent that an input
/// leaves open, or unknown.
class Extent {
public:
  static Extent unknown() { return {}; }
  static Extent number(std::int64_t value) { return {value, no_symbol}; }
  /// `factor` times the open extent that `symbol` numbers.
  static Extent open(std::size_t symbol, std::int64_t factor = 1) {
    return {factor, static_cast<std::int64_t>(symbol)};
  }

  bool is_known() const { return symbol_ != unknown_symbol; }
  bool is_number() const { return symbol_ == no_symbol; }
  bool is_open() const { return symbol_ >= 0; }
  std::int64_t value() const { return factor_; }   ///< where it is a number
  std::int64_t factor() const { return factor_; }  ///< where it is open
  std::size_t symbol() const { return static_cast<std::size_t>(symbol_); }

  /// Whether both are the same for every choice of the open extents: false where that is not known.
  friend bool certainly_equal(const Extent& a, const Extent& b) {
    return a.is_known() && a.factor_ == b.factor_ && a.symbol_ == b.symbol_;
  }

private:
  static constexpr std::int64_t no_symbol = -1, unknown_symbol = -2;
  Extent() = default;
  Extent(std::int64_t factor, std::int64_t symbol) : factor_(factor), symbol_(symbol) {}

  std::int64_t factor_ = 0;
  std::int64_t symbol_ = unknown_symbol;
};

/// The sum and the product; unknown where they are no multiple of one open extent.
/// Throws:    Unsupported beyond 64 bits
Extent plus(const Extent& a, const Extent& b);
Extent times(const Extent& a, const Extent& b);

/// A shape of which some extents may be open or unknown.
using OpenShape = std::vector<Extent>;

OpenShape to_open(const Shape& shape);
/// The shape where every extent is a number.
std::optional<Shape> to_numbers(const OpenShape& shape);

/// Shape of the op's output, as far as it follows for every choice of the open extents; empty where not even the rank
/// does, or where an operand's rank is not known (null).
/// Throws:    ShapeMismatch where the operands' shapes are numbers and do not fit
std::optional<OpenShape> output_extents(const Op& op, const std::vector<const OpenShape*>& operands);

}  // namespace driftbound::onnx
