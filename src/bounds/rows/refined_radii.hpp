#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "bounds/adjoint/recursion.hpp"
#include "bounds/rows/run_state.hpp"
#include "bounds/rows/single_rows.hpp"

namespace driftbound::bounds {

/// sum |d_i| x_i over one row; 0 if x is empty.
/// Guarantee: upper bound
/// Source:    docs/theory.md T-08
Magnitude charged(const double* d, const std::vector<double>& x, std::size_t row, std::size_t size);

/// The contribution of one row of a value to a bound: local = |d|.sigma, remainder = |d|.kappa, defect = tau.E, and
/// their total.
/// Source:    docs/theory.md T-60, T-88, T-96
struct Charge {
  Magnitude total, local, remainder, defect;
};
/// One row of a node's output or of an input, with its adjoint.
struct ChargedRow {
  ValueId id;                        ///< the output, or an input
  const RunErrors& errors;           ///< of the node; sigma and kappa
  const RunRows* operand = nullptr;  ///< operand of a function of one element; null: no bound by norms (T-96)
  std::size_t row = 0;
  const double* d = nullptr;
  double defect = 0.0;
};
/// The charge for runs in any order. `before`: the bound so far; a small remainder is not bounded by norms.
Charge charge_of(const RunState& state, const ChargedRow& row, Magnitude before);
/// The charge for runs in the declared order.
Charge charge_in_order(const RunState& state, const ChargedRow& row, Magnitude before);
/// Adds two shares of an adjoint and writes the result to `sum`; the defect grows by one rounding. If the shares have
/// different numbers of rows, the shorter one is added to the first rows of the longer one. Overwrites `share`.
/// Source:    docs/theory.md T-88
void add_share(std::size_t size, RunAdjoint& share, RunAdjoint& sum);

/// Refines the radii of selected operands of functions of one element, each by its own adjoint. One adjoint sweep
/// propagates the adjoints of all selected elements together; those of earlier functions join at their value. The
/// remainders of the selected elements are charged afterwards, from the first function to the last.
/// Guarantee: as body_rounding()
/// Source:    docs/theory.md T-72, T-88
class RefinedRadii {
public:
  /// Buffers that are reused for the next rows.
  struct Memory {
    std::vector<SingleAdjoint> adjoints;  ///< by value
    SingleAdjoint share;
    std::vector<std::vector<float>> free;
    SingleRows single;
  };

  /// When the adjoint of an element stops before it has reached the inputs: where it could reduce a target only
  /// negligibly, or never, as remainders that are not refined may also fall with its radius.
  enum class Stops { early, never };

  /// Runs the sweep. Sets the remainders of the selected elements in `state` to 0; the caller recomputes them after
  /// find().
  /// Shapes:    `chosen` by node: selected elements of the operands of functions of one element; `weight` by value, as
  ///            in Refinement
  RefinedRadii(const RunState& state, Memory& memory, std::span<const std::vector<RowElement>> chosen,
               std::span<const std::vector<double>> weight, Stops stops);

  /// Writes the refined radii of a node's operand to `state`. Nodes are passed in graph order, and the remainders of
  /// the nodes before this one are final.
  void find(std::size_t node);

private:
  struct Radius {
    std::size_t node = 0, row = 0, element = 0;
    std::size_t terms = 0;  ///< first index in terms_ of d at the selected elements after it …
    std::size_t next = 0;   ///< … and the first of these whose d is not stored yet
    Magnitude total, total_in_order;
    double first = 0.0, weight = 0.0, cost = 0.0;  ///< the radius before refinement; cost = weight kappa
    double indifferent = 0.0;                      ///< the sweep stops if it can reduce the cost by no more
  };

  void take_remainders();
  void follow(std::size_t first, std::size_t last);
  void pull_back(std::size_t node);
  bool begins_behind_product(std::size_t function) const;
  void begin(std::size_t function);
  void begin_behind_product(std::size_t function);
  void add_share(ValueId id, SingleAdjoint& share, SingleAdjoint& sum) const;
  float* add_rows(ValueId id, std::size_t from);
  void stop_early();
  std::vector<double> ahead();
  void find_norms(ValueId id);
  double cost_with(const Radius& radius, double by_adjoint) const;
  void keep(const std::vector<char>& stays);
  void add_ahead(ValueId id, std::size_t i);
  Magnitude charged(const float* d, const std::vector<float>& x, std::size_t row, std::size_t size) const;
  void charge(ValueId id);
  void keep_terms(std::size_t node);
  void release(ValueId id);
  void take_what_is_left(std::size_t node);
  Magnitude of_chosen(const Radius& radius, const std::vector<double>& remainders, std::size_t next,
                      std::size_t count) const;

  const RunState& state_;
  Memory& memory_;
  SingleRows& single_;
  std::vector<Radius> radii_;                      ///< by row, in a row from the last node to the first
  std::vector<std::size_t> end_;                   ///< by radius: one past the last radius of its row
  std::vector<std::vector<std::size_t>> of_node_;  ///< by node: its radii
  std::size_t last_found_ = 0;                     ///< node of the previous find()
  std::vector<double> terms_;                      ///< d of every radius at the radii after it in its row
  std::vector<double> remainders_;                 ///< final kappa of the selected elements, any order …
  std::vector<double> in_order_;                   ///< … and declared order
  std::vector<std::size_t> order_;                 ///< radii of the current sweep, from the last node to the first
  std::vector<std::size_t> rows_;                  ///< rows of these
  std::size_t begun_ = 0;                          ///< number of them whose adjoint has started
};

}  // namespace driftbound::bounds
