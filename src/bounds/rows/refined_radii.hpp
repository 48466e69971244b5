#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "bounds/adjoint/recursion.hpp"
#include "bounds/rows/run_state.hpp"
#include "bounds/rows/single_rows.hpp"

namespace driftbound::bounds {

/// sum |d_i| x_i of one row, x empty: 0.
/// Guarantee: upper bound
/// Source:    docs/theory.md T-08
Magnitude charged(const double* d, const std::vector<double>& x, std::size_t row, std::size_t size);

/// What a value adds to a bound: by d, the local errors and remainders of its node, and the defect of d.
/// Source:    docs/theory.md T-60, T-88, T-96
struct Charge {
  Magnitude total, local, remainder, defect;
};
/// A row of a node's output, and of the bound so far.
struct ChargedRow {
  ValueId id;                        ///< the output, or an input
  const RunErrors& errors;           ///< of the node
  const RunRows* operand = nullptr;  ///< of a function of one element; null: remainders are charged element by element
  std::size_t row = 0;
  const double* d = nullptr;
  double defect = 0.0;
};
Charge charge_of(const RunState& state, const ChargedRow& row, Magnitude before);
/// The same for runs in the declared order.
Charge charge_in_order(const RunState& state, const ChargedRow& row, Magnitude before);
/// The sum of two shares of an adjoint, one more rounding of every element, in `sum`; the rows of one are the first of
/// the other.
/// Source:    docs/theory.md T-88
void add_share(std::size_t size, RunAdjoint& share, RunAdjoint& sum);

/// Radii of chosen elements, each by an adjoint of its own, of all functions on one way back: rows of earlier ones join
/// those of later ones. What chosen elements leave over is charged afterwards, from the first function on.
/// Guarantee: as body_rounding()
/// Source:    docs/theory.md T-72, T-88
class RefinedRadii {
public:
  /// Kept from rows to rows.
  struct Memory {
    std::vector<SingleAdjoint> adjoints;  ///< by value
    SingleAdjoint share;
    std::vector<std::vector<float>> free;
    SingleRows single;
  };

  /// Takes what chosen elements leave over out of `state` until found().
  /// Shapes:    `chosen` by node: elements of the operands of functions of one element; `weight` by value, as in
  ///            Refinement
  RefinedRadii(const RunState& state, Memory& memory, std::span<const std::vector<RowElement>> chosen,
               std::span<const std::vector<double>> weight);

  /// The radii of a node's operand, all functions before it being as they are to stay.
  void find(std::size_t node);

private:
  struct Radius {
    std::size_t node = 0, row = 0, element = 0;
    std::size_t terms = 0;  ///< where |d| at the chosen elements after it begin …
    std::size_t next = 0;   ///< … and the first of these that is not known yet
    Magnitude total, total_in_order;
    double first = 0.0, weight = 0.0, cost = 0.0;  ///< the radius until now, and what it makes of the targets
    double indifferent = 0.0;                      ///< so much of the targets is not worth another step
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
  std::vector<Radius> radii_;     ///< by row, the last node first
  std::vector<std::size_t> end_;  ///< of a radius' row among them
  std::vector<std::vector<std::size_t>> of_node_;
  std::size_t last_found_ = 0;      ///< node
  std::vector<double> terms_;       ///< d of a radius at those after it in its row
  std::vector<double> remainders_;  ///< of chosen elements, once they are known …
  std::vector<double> in_order_;    ///< … and of runs in the declared order
  std::vector<std::size_t> order_;  ///< radii on the way, the last node first
  std::vector<std::size_t> rows_;   ///< of these
  std::size_t begun_ = 0;           ///< how many of them have begun
};

}  // namespace driftbound::bounds
