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

// Radii: bounds of the distance of a trajectory from the shadow at every value of a program, with the local errors,
// remainders and slopes that the adjoint sweep needs.

/// Bounds of the distance of a trajectory from the shadow at one value.
struct ValueRadii {
  std::vector<double> element;  ///< empty: all 0
  std::vector<double> norm;     ///< 2-norm of every row (Program::rows); empty: all 0
};

/// The trajectory that is compared with the shadow. exact: the exact network. exact_by_norms: the exact network, with
/// radii of sums and matrix products from norms of rows alone, which suffices where runs have much larger errors.
/// any_order, declared_order: every run of the arithmetic with sums in any, or in the declared, order.
enum class Trajectory { exact, exact_by_norms, any_order, declared_order };

/// The data of T-60 for one trajectory and the shadow. All numbers except the slopes are upper bounds; an empty vector
/// means that all of them are 0.
struct Deviation {
  std::vector<ValueRadii> radii;                         ///< by value
  std::vector<std::vector<double>> added;                ///< sigma, by value: local errors of both trajectories
  std::vector<std::vector<double>> remainder;            ///< kappa, by value: second-order remainders
  std::vector<std::vector<std::vector<double>>> slopes;  ///< by node, in the format of Linearised::slopes
  std::set<std::string> conditions;                      ///< the conditions of the local errors of a run
};

struct Refinement;  // recursion.hpp
class SourceRadii;  // source_radii.hpp

/// Computes the shadow during deviation_of(), for centres that depend on the radii (T-76).
class CentreMaker {
public:
  virtual ~CentreMaker() = default;
  /// Sets the shadow's value and error at a node's output. Returns true if it has also written the node's radii,
  /// remainder and slopes to `known`, so that deviation_of() skips the node.
  virtual bool make(std::size_t node, Deviation& known) = 0;
  /// Returns the setting for the node's own roundings in a run.
  virtual const Setting& rounding_setting(std::size_t node) const = 0;
  /// Whether the factors of the node's product are numbers of the input format already.
  virtual bool operands_are_read(std::size_t node) const = 0;
  /// Whether undecided kinks use a chord as their slope (T-65).
  virtual bool takes_chords() const = 0;
};

/// Computes radii by elements and by norms, in the order of the graph. With a `refinement`, the radii with the largest
/// effect on the targets are also computed by an adjoint of their own. With `sources`, the radii of T-117 are computed
/// too; this is meant for programs of one sample.
/// Shapes:    `input_error` by position in the graph's inputs: |used - given|, empty: 0; `known` by value: radii from
///            other theorems, used where they are smaller, empty: none
/// Guarantee: proven for the exact network; for runs as body_rounding()
/// Source:    docs/theory.md T-61, T-62, T-72, T-117
Deviation deviation_of(Trajectory trajectory, const Program& program, const Shadow& shadow,
                       const std::vector<std::vector<double>>& input_error, const Setting& setting,
                       OperandCache& operands, const Refinement* refinement = nullptr, CentreMaker* centres = nullptr,
                       const std::vector<std::vector<double>>* known = nullptr, SourceRadii* sources = nullptr);

/// Returns lower and upper bounds of all values of a function; nothing if its values are not known to be bounded.
/// Source:    docs/theory.md T-62
std::optional<std::pair<double, double>> ends_of(const Op& op);

/// Whether all elements of the centre and all radii are finite.
bool are_numbers(const Tensor<double>& centre, Radii radii);

/// Limits bounds of |f(x) - shadow| for a bounded function f with finite operands: its values lie between ends_of().
/// Guarantee: upper bounds
void limit_by_ends(const NodeView& view, std::span<const Radii> radii, std::vector<double>& moved);

}  // namespace driftbound::bounds
