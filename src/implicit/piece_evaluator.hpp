#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "bounds/nodes/operand_cache.hpp"
#include "driftbound/model/graph.hpp"
#include "implicit/slope_walk.hpp"

namespace driftbound::implicit {

/// The reals from lower to upper, finite doubles.
struct Piece {
  double lower = 0.0, upper = 0.0;
};

/// What is known of g over a piece: g(middle) in value, (g(s) - g(t)) / (s - t) in slope for all s, t, g(t) in range.
struct PieceEnclosure {
  double middle = 0.0;
  Interval value = Interval::whole();
  Interval slope = Interval::whole();
  Interval range = Interval::whole();
};

/// Encloses a function of one number, made by line_graph(), over pieces: in double, many pieces at a time.
/// Guarantee: proven
/// Tightness: the range is wider than that of g by what |S - g'| does times the width: quadratic in it
/// Source:    docs/theory.md T-121
class PieceEvaluator {
public:
  /// The graph must outlive the evaluator.
  explicit PieceEvaluator(const Graph& line);

  /// One enclosure a piece. Thread-safe.
  std::vector<PieceEnclosure> operator()(std::span<const Piece> pieces, int threads) const;

private:
  static constexpr std::int64_t most_rows = 64;

  void enclose(std::span<const Piece> pieces, std::span<PieceEnclosure> results) const;
  std::int64_t rows_for(std::int64_t pieces) const;

  bounds::Setting setting_;
  std::vector<std::shared_ptr<const Program>> programs_;  ///< for 1, 2, 4 … rows
  PackedConstants constants_;
  mutable bounds::OperandCache operands_;
};

}  // namespace driftbound::implicit
