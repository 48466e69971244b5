#pragma once

#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "bounds/adjoint/shadow.hpp"
#include "bounds/nodes/linear.hpp"
#include "bounds/nodes/operand_cache.hpp"

namespace driftbound::bounds {

/// How far a trajectory can be from the shadow at one value.
struct ValueRadii {
  std::vector<double> element;  ///< empty: all 0
  std::vector<double> norm;     ///< 2-norm of every row (Program::rows); empty: all 0
};

/// The trajectory that is held against the shadow: the exact network, the same where norms of rows say enough (next to
/// what runs round), or every run of the arithmetic with sums in any order, or in the declared one.
enum class Trajectory { exact, exact_by_norms, any_order, declared_order };

/// What T-60 needs of one trajectory: everything is an upper bound, empty where all is 0.
struct Deviation {
  std::vector<ValueRadii> radii;                         ///< by value
  std::vector<std::vector<double>> added;                ///< sigma, by value: local errors of both trajectories
  std::vector<std::vector<double>> remainder;            ///< kappa, by value: what the slopes do not explain
  std::vector<std::vector<std::vector<double>>> slopes;  ///< by node, as linearise() gives them
  std::set<std::string> conditions;                      ///< what the local errors of a run stand on
};

struct Refinement;  // recursion.hpp
class SourceRadii;  // source_radii.hpp

/// Sets the shadow's values while radii are found, where they depend on these (T-76).
class CentreMaker {
public:
  virtual ~CentreMaker() = default;
  /// Sets the shadow at a node's output. True where everything else is known of that node too, and is in `known`.
  virtual bool make(std::size_t node, Deviation& known) = 0;
  /// What the node's own roundings in a run follow.
  virtual const Setting& rounding_setting(std::size_t node) const = 0;
  /// Whether factors of a product are read already.
  virtual bool operands_are_read(std::size_t node) const = 0;
  /// Whether kinks within reach take a chord for their slope (T-65).
  virtual bool takes_chords() const = 0;
};

/// Radii by elements and by norms, in the order of the graph; with a refinement, those that matter by adjoints too.
/// Shapes:    `input_error` by position in the graph's inputs: |used - given|, empty where nothing is lost; `known` by
///            value: radii from elsewhere, taken where they are smaller, empty where there are none; `sources`: to be
///            followed too, which is worth it for one sample
/// Guarantee: proven for the exact network; for runs as body_rounding()
/// Source:    docs/theory.md T-61, T-62, T-72, T-117
Deviation deviation_of(Trajectory trajectory, const Program& program, const Shadow& shadow,
                       const std::vector<std::vector<double>>& input_error, const Setting& setting,
                       OperandCache& operands, const Refinement* refinement = nullptr, CentreMaker* centres = nullptr,
                       const std::vector<std::vector<double>>* known = nullptr, SourceRadii* sources = nullptr);

/// The smallest and the largest number that a function can be; none where one of them is infinite.
/// Source:    docs/theory.md T-62
std::optional<std::pair<double, double>> ends_of(const Op& op);

/// Whether all that lies within the radii of the centre are numbers.
bool are_numbers(const Tensor<double>& centre, Radii radii);

}  // namespace driftbound::bounds
