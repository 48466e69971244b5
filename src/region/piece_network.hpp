#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "driftbound/model/graph.hpp"
#include "region/exact_number.hpp"

namespace driftbound::region {

/// One step of a network that is linear in pieces. Values are named by the number of their first feature; the input is
/// at 0.
struct PieceStep {
  enum class Kind {
    dense,     ///< W x + shifts
    combined,  ///< factor x + sign y + shifts; without a second operand factors x + shifts
    kink,      ///< k + left (x - k) for x < k, k + right (x - k) for x >= k, k the shifts
    extremum,  ///< the larger of x and y; the smaller one for sign -1
    moved      ///< features copied one by one
  };
  Kind kind = Kind::dense;
  std::vector<std::size_t> reads{};
  std::size_t writes = 0, inputs = 0, outputs = 0;
  std::size_t width = 0;                    ///< outputs of a dense step, those that fill up vectors included
  std::size_t first_switch = 0;             ///< of a kink or extremum: one switch a feature
  std::vector<double> weights{}, sizes{};   ///< of a dense step: [inputs, outputs], and their magnitudes
  std::vector<double> factors{}, shifts{};  ///< empty: 1 and 0
  double left = 0.0, right = 1.0, sign = 1.0;
};

/// A sign that is not known yet.
inline constexpr std::int8_t open_sign = 2;

/// Within radius of middle.
struct EnclosedNumber {
  double middle = 0.0, radius = 0.0;

  /// -1, 1; 0 where it is exactly that; open_sign
  std::int8_t sign() const {
    if (!(std::fabs(middle) <= std::numeric_limits<double>::max())) return open_sign;
    if (middle > radius) return 1;
    if (middle < -radius) return -1;
    return middle == 0.0 && radius == 0.0 ? std::int8_t{0} : open_sign;
  }
};

struct EnclosedPoint {
  std::array<EnclosedNumber, 3> at{};
};

/// A graph of one input and one output element, written out as steps; signs of its switches, and of its output, which is
/// the last one, at points.
/// Source:    docs/theory.md T-164, T-165
class PieceNetwork {
public:
  /// Of a graph as scalar_graph() makes it, with three coordinates. Empty where some op is not linear in pieces.
  static std::optional<PieceNetwork> of(const Graph& graph);

  std::size_t switches() const { return switches_; }
  std::size_t signs() const { return switches_ + 1; }

  /// What one thread writes to.
  struct Workspace {
    std::vector<double> middle, radius;
    std::array<std::vector<double>, 3> tangent;
    std::vector<std::size_t> rows;  ///< operands of one dense step that are not 0, and what is known of them
    std::vector<double> operands, errors;
    std::array<std::vector<double>, 3> operand_tangents;
    std::vector<ExactNumber> exact;
  };

  /// Signs of all switches and of the output at a point, and their arguments. Signs that are not open_sign are known
  /// already, and taken as they are. False where a sign stays open.
  bool evaluate(const EnclosedPoint& point, std::span<std::int8_t> signs, std::span<EnclosedNumber> arguments,
                Workspace& workspace) const;
  /// The same in exact numbers: true.
  bool evaluate(const ExactPoint& point, std::span<std::int8_t> signs, std::span<ExactNumber> arguments,
                Workspace& workspace) const;

private:
  class Values;
  void dense(const PieceStep& step, const Values& values, Workspace& workspace) const;
  void dense_exactly(const PieceStep& step, std::size_t number, const ExactPoint& point, Workspace& workspace) const;

  /// Weights and shifts of a dense step as integers, times 2^-bits.
  struct ExactWeights {
    std::vector<Integer> weights, shifts;
    long bits = 0;
  };

  std::vector<PieceStep> steps_;
  std::vector<ExactWeights> exact_weights_;  ///< by step; empty where it is not dense
  std::size_t features_ = 0, switches_ = 0, output_ = 0;
};

}  // namespace driftbound::region
