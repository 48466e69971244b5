#include "bounds/chance/chance_sweep.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <utility>

#include "bounds/adjoint/recursion.hpp"
#include "bounds/chance/probabilistic.hpp"
#include "bounds/chance/statistical.hpp"
#include "bounds/nodes/linear.hpp"
#include "bounds/nodes/node_settings.hpp"
#include "bounds/nodes/operand_cache.hpp"
#include "bounds/nodes/push.hpp"
#include "bounds/theorems/chance.hpp"
#include "bounds/theorems/rounded_shadow.hpp"

namespace driftbound::bounds {
namespace {

/// Returns the part of a row's total that is neither modelled as random nor a remainder.
double rest_of(const ChanceBound& bound, std::size_t row) {
  return std::max(0.0, bound.total[row] - bound.remainder[row] - bound.spread[row]);
}

bool has_large_remainder(const ChanceBound& bound, std::size_t row) {
  const bool applies = bound.patterns[row] == TermPattern::none && std::isfinite(bound.total[row]);
  return applies && !(bound.remainder[row] <= large_remainder * bound.total[row]);
}

/// Reduces a row's remainder to `left` and the total by the difference, if `left` is smaller.
void leave_of_remainder(double left, ChanceBound& estimate, std::size_t row) {
  if (!(left < estimate.remainder[row])) return;  // both may be infinite
  estimate.total[row] -= estimate.remainder[row] - left;
  estimate.remainder[row] = left;
}

/// Whether the errors of a row that are not modelled as random are at most a tenth of the random ones, in the root mean
/// square, and the latter are finite. Only then may radii from random sign vectors be used.
bool chance_rules(std::span<const double> residuals, std::span<const double> amplitudes) {
  constexpr double little = 0.1;
  double rest = 0.0, by_chance = 0.0;
  for (const double x : residuals) rest += x * x;
  for (const double x : amplitudes) by_chance += x * x;
  return rest <= little * little * by_chance && std::isfinite(by_chance);
}

/// One of the two models of rounding errors, T-74 or T-75, evaluated for all nodes.
struct Model {
  NodeChance (*roundings)(const RoundingNode&, const Setting&) = nullptr;
  double factor = 0.0;
  std::vector<std::vector<double>> amplitudes;                 ///< by value: NodeChance::amplitudes
  std::vector<std::vector<double>> most;                       ///< by value: NodeChance::most
  std::vector<std::vector<std::vector<std::uint32_t>>> alike;  ///< by value and row: sets of correlated elements
};

class ChanceSweep {
public:
  ChanceSweep(const Program& program, const Shadow& shadow, const Deviation& any_order, const ChanceFactors& factors,
              const Setting& setting, const NarrowSteps* narrow)
      : program_(program),
        narrow_(narrow),
        shadow_(shadow),
        any_order_(any_order),
        setting_(setting),
        settings_(program, setting),
        radii_by_chance_(static_cast<std::size_t>(program.rows()), char{1}),
        patterns_(program.size()),
        unattributed_(program.size()) {
    if (factors.martingale > 0.0) add_model(martingale_roundings, factors.martingale);
    if (factors.random_order > 0.0) add_model(estimate_roundings, factors.random_order);
    for (const Node& node : program.nodes()) visit(node);
    if (factors.random_order > 0.0) find_unattributed();
    for (ValueId id = 0; id < program.size(); ++id)
      fixed_are_exact_ = fixed_are_exact_ && (program.varies(id) || any_order.radii[id].element.empty());
  }

  /// Returns one bound per model, in the order of ChanceFactors. `local`: the contribution of local errors to the
  /// any-order bound, per row.
  std::vector<ChanceBound> bounds_of(const Direction& direction, const std::vector<double>& local) {
    std::vector<std::vector<double>> adjoints;
    const std::vector<Certificate> certificates = sweep(program_, shadow_, residuals_, direction, setting_, &adjoints);
    const std::vector<TermPattern> patterns = patterns_behind(adjoints);
    std::vector<ChanceBound> bounds;
    for (std::size_t m = 0; m < models_.size(); ++m) {
      ChanceBound bound{certificates[m].total, certificates[m].remainder, unattributed_by(adjoints), {}, patterns};
      for (std::size_t row = 0; row < bound.total.size(); ++row) {
        const Magnitude squares = squares_of(models_[m], adjoints, row);
        const Magnitude total = theorems::with_chance(Magnitude(bound.total[row]), squares, models_[m].factor);
        if (fixed_are_exact_) bound.spread.push_back(with_chance(Magnitude(), squares, models_[m].factor).value());
        const bool applies = patterns[row] == TermPattern::none;
        bound.total[row] = applies ? total.value() : std::numeric_limits<double>::infinity();
      }
      if (models_[m].roundings == estimate_roundings) estimate_remainder_of(models_[m], direction, local, bound);
      bounds.push_back(std::move(bound));
    }
    return bounds;
  }

private:
  void add_model(NodeChance (*roundings)(const RoundingNode&, const Setting&), double factor) {
    models_.push_back({roundings, factor, std::vector<std::vector<double>>(program_.size()),
                       std::vector<std::vector<double>>(program_.size()),
                       std::vector<std::vector<std::vector<std::uint32_t>>>(program_.size())});
    residuals_.push_back(any_order_);
  }

  /// Returns the largest rounding errors of a node that rounds to a narrow format, for numbers up to the shadow's
  /// values: radii of any run may be far above the deviations of actual runs. Empty for other nodes.
  std::vector<double> narrow_roundings(std::size_t index) const {
    if (narrow_ == nullptr || !narrow_->rounding[index]) return {};
    std::vector<double> roundings;
    for (const double x : shadow_.value(program_.nodes()[index].output).values)
      roundings.push_back(theorems::largest_rounding(std::abs(x), *narrow_->rounding[index]).value());
    return roundings;
  }

  void visit(const Node& node) {
    const ValueId id = node.output;
    if (!program_.varies(id) || any_order_.added[id].empty()) return;
    RoundingNode rounding{shadow_.view_of(node), {}, {}, any_order_.added[id], shadow_.error[id]};
    for (const ValueId input : node.inputs) rounding.operand_radii.emplace_back(any_order_.radii[input].element);
    rounding.moved = moved(id);
    const auto index = static_cast<std::size_t>(&node - program_.nodes().data());
    const Setting setting = setting_at(index);
    const std::vector<double> narrow = narrow_roundings(index);
    if (is_plain_sum(rounding.view)) {
      rounding.sums = sums_of(rounding, setting);
      patterns_[id] = patterns_of(rounding, columns_behind(node));
    }
    for (std::size_t m = 0; m < models_.size(); ++m) {
      Model& model = models_[m];
      const bool is_estimate = model.roundings == estimate_roundings;
      rounding.added = is_estimate && !narrow.empty() ? Radii(narrow) : Radii(any_order_.added[id]);
      NodeChance chance = model.roundings(rounding, setting);
      if (is_estimate) find_ruled_by_chance(id, chance);
      residuals_[m].added[id] = std::move(chance.rest);
      if (!chance.amplitudes.empty()) model.alike[id] = correlated_by_row(id, chance.amplitudes);
      model.amplitudes[id] = std::move(chance.amplitudes);
      model.most[id] = std::move(chance.most);
    }
  }

  void find_ruled_by_chance(ValueId id, const NodeChance& chance) {
    if (chance.rest.empty()) return;
    for (std::size_t row = 0; row < radii_by_chance_.size(); ++row) {
      const bool rules = chance_rules(row_of(id, chance.rest, row), row_of(id, chance.amplitudes, row));
      radii_by_chance_[row] = radii_by_chance_[row] && rules ? 1 : 0;
    }
  }

  /// Finds the elements whose remainder exceeds |J| E, such as an inactive unit whose kink is within its radius, or a
  /// product at a factor of 0.
  void find_unattributed() {
    for (std::size_t index = 0; index < program_.nodes().size(); ++index) {
      const Node& node = program_.nodes()[index];
      const std::vector<double>& remainder = any_order_.remainder[node.output];
      if (!program_.varies(node.output) || remainder.empty()) continue;
      std::vector<std::span<const double>> radii;
      for (const ValueId id : node.inputs) radii.emplace_back(any_order_.radii[id].element);
      const std::vector<double> seen =
          pushed(shadow_.view_of(node), any_order_.slopes[index], radii, 1, Jacobian::magnitudes, setting_).values;
      std::vector<double>& unattributed = unattributed_[node.output];
      for (std::size_t i = 0; i < remainder.size(); ++i)
        unattributed.push_back(remainder[i] <= seen[i] ? 0.0 : remainder[i]);
    }
  }

  std::vector<double> unattributed_by(const std::vector<std::vector<double>>& adjoints) const {
    std::vector<double> unattributed(radii_by_chance_.size(), 0.0);
    for (ValueId id = 0; id < program_.size(); ++id) {
      if (unattributed_[id].empty() || adjoints[id].empty()) continue;
      const std::size_t size = adjoints[id].size() / unattributed.size();
      for (std::size_t i = 0; i < adjoints[id].size(); ++i)
        if (unattributed_[id][i] > 0.0) unattributed[i / size] += std::abs(adjoints[id][i]) * unattributed_[id][i];
    }
    return unattributed;
  }

  /// Returns the setting for a node's own roundings. In a narrowed program it excludes the narrow roundings that are
  /// separate nodes.
  Setting setting_at(std::size_t node) const {
    Setting setting = settings_[node];
    if (narrow_ == nullptr) return setting;
    setting.machine.input = setting.machine.accumulator;
    if (narrow_->keeps[node]) setting.machine.output = setting.machine.accumulator;
    return setting;
  }

  /// Returns the column sizes of the constant right matrix of a product, from the cache; null if the node is no such
  /// product or there is no cache.
  const RightColumns* columns_behind(const Node& node) const {
    const NodeView view = shadow_.view_of(node);
    const std::optional<Product> product = product_of(view);
    if (!product || program_.varies(node.inputs[1]) || setting_.operands == nullptr) return nullptr;
    return &setting_.operands->columns_of_right(product->plan, view.input(1));
  }

  /// Bounds |f(the run's operands) - shadow| by the radius of the run's value plus its local error.
  std::vector<double> moved(ValueId id) const {
    const std::vector<double>& radius = any_order_.radii[id].element;
    std::vector<double> moved = any_order_.added[id];
    for (std::size_t i = 0; i < moved.size(); ++i) moved[i] = (Magnitude(moved[i]) + radius_at(radius, i)).value();
    return moved;
  }

  std::vector<std::vector<std::uint32_t>> correlated_by_row(ValueId id, const std::vector<double>& amplitudes) const {
    std::vector<std::vector<std::uint32_t>> alike;
    for (std::size_t row = 0; row < static_cast<std::size_t>(program_.rows(id)); ++row)
      alike.push_back(
          theorems::correlated_elements(row_of(id, shadow_.value(id).values, row), row_of(id, amplitudes, row)));
    return alike;
  }

  /// Reduces the remainders of an estimate: by remainder_at_smaller_radii() and, where they are still large, by the
  /// remainders at radii from random sign vectors.
  void estimate_remainder_of(const Model& model, const Direction& direction, const std::vector<double>& local,
                             ChanceBound& estimate) {
    std::vector<std::size_t> rows;
    for (std::size_t row = 0; row < local.size(); ++row) {
      estimate_remainder(local[row], estimate, row);
      if (radii_by_chance_[row] && has_large_remainder(estimate, row)) rows.push_back(row);
    }
    if (rows.empty()) return;
    if (!shrunk_) shrunk_ = at_radii_by_chance(model);
    const Certificate known = sweep(program_, shadow_, {&*shrunk_, 1}, direction, setting_).front();
    for (const std::size_t row : rows) take_remainder_by_chance(known.remainder[row], estimate, row);
  }

  /// Computes the deviation at radii from 16 random sign vectors: six times the root mean square of the change of each
  /// value in the linearised network. Remainders at these radii are random errors too, with a sixth of their size. At
  /// nodes that read constants with errors, slopes and remainders stay as they are.
  Deviation at_radii_by_chance(const Model& model) const {
    constexpr std::size_t sign_vectors = 16;
    constexpr double radius = 6.0;
    Deviation shrunk = any_order_;
    std::vector<std::vector<double>> moved(program_.size());
    std::mt19937_64 generator(1);
    for (const ValueId id : program_.flat().graph.inputs) {
      draw_random_signs(any_order_.added[id], 1.0, sign_vectors, generator, moved[id]);
      limit(moved[id], sign_vectors, radius, shrunk.radii[id].element);
    }
    for (std::size_t index = 0; index < program_.nodes().size(); ++index) {
      const Node& node = program_.nodes()[index];
      if (!program_.varies(node.output)) continue;
      std::vector<std::span<const double>> operands;
      for (const ValueId id : node.inputs) operands.emplace_back(moved[id]);
      std::vector<double>& values = moved[node.output];
      const bool bends = !shrunk.remainder[node.output].empty() && !reads_inexact_constants(node);
      if (bends) linearise_again(index, shrunk);
      values =
          pushed(shadow_.view_of(node), shrunk.slopes[index], operands, sign_vectors, Jacobian::as_stored, setting_)
              .values;
      draw_random_signs(model.amplitudes[node.output], 1.0, sign_vectors, generator, values);
      if (bends) draw_random_signs(shrunk.remainder[node.output], 1.0 / radius, sign_vectors, generator, values);
      limit(values, sign_vectors, radius, shrunk.radii[node.output].element);
      for (const ValueId id : program_.last_reads()[index]) moved[id] = {};
    }
    return shrunk;
  }

  void linearise_again(std::size_t index, Deviation& shrunk) const {
    const Node& node = program_.nodes()[index];
    std::vector<Radii> operands;
    for (const ValueId id : node.inputs) operands.emplace_back(shrunk.radii[id].element);
    Linearised linear = linearise(shadow_.view_of(node), operands, shadow_.error[node.output], setting_);
    shrunk.remainder[node.output] = std::move(linear.remainder);
    shrunk.slopes[index] = std::move(linear.slopes);
  }

  /// Adds factor * amplitude with a random sign to every element of `moved`.
  /// Shapes:    `moved`: one tensor per sign vector; empty: 0
  static void draw_random_signs(const std::vector<double>& amplitudes, double factor, std::size_t sign_vectors,
                                std::mt19937_64& generator, std::vector<double>& moved) {
    if (amplitudes.empty()) return;
    moved.resize(sign_vectors * amplitudes.size(), 0.0);
    for (std::size_t i = 0; i < moved.size(); ++i) {
      const double amplitude = factor * amplitudes[i % amplitudes.size()];
      moved[i] += generator() % 2 == 0 ? amplitude : -amplitude;
    }
  }

  /// Limits the radii to `factor` times the root mean square of `moved` over all sign vectors.
  static void limit(const std::vector<double>& moved, std::size_t sign_vectors, double factor,
                    std::vector<double>& radii) {
    const std::size_t size = radii.size();
    for (std::size_t i = 0; i < size; ++i) {
      double squares = 0.0;
      for (std::size_t draw = 0; draw < sign_vectors && !moved.empty(); ++draw)
        squares += moved[draw * size + i] * moved[draw * size + i];
      radii[i] = std::min(radii[i], factor * std::sqrt(squares / static_cast<double>(sign_vectors)));
    }
  }

  bool reads_inexact_constants(const Node& node) const {
    return std::any_of(node.inputs.begin(), node.inputs.end(),
                       [&](ValueId id) { return !program_.varies(id) && !any_order_.radii[id].element.empty(); });
  }

  Magnitude squares_of(const Model& model, const std::vector<std::vector<double>>& adjoints, std::size_t row) const {
    Magnitude squares;
    std::vector<SumsByChance> ordered;
    for (ValueId id = 0; id < program_.size(); ++id) {
      if (adjoints[id].empty() || model.amplitudes[id].empty()) continue;
      const std::span<const double> d = row_of(id, adjoints[id], row), of_row = row_of(id, model.amplitudes[id], row);
      const std::vector<std::uint32_t>& alike = model.alike[id][row];
      const Magnitude of_node = theorems::weighted_squares(d, of_row, alike);
      if (model.most[id].empty()) {
        squares += of_node;
        continue;
      }
      const Magnitude most = weighted_squares(d, row_of(id, model.most[id], row), alike);
      const double largest = alike.empty() ? largest_square(d, of_row) : of_node.value();
      ordered.push_back({of_node.value(), largest, most.value()});
    }
    return ordered.empty() ? squares : Magnitude(variance_over_orders(squares.value(), ordered, model.factor));
  }

  /// Returns for every row the first pattern other than `none` among the sums that the target depends on.
  std::vector<TermPattern> patterns_behind(const std::vector<std::vector<double>>& adjoints) const {
    std::vector<TermPattern> behind(static_cast<std::size_t>(program_.rows()), TermPattern::none);
    for (ValueId id = 0; id < program_.size(); ++id) {
      if (adjoints[id].empty() || patterns_[id].empty()) continue;
      const std::size_t size = patterns_[id].size() / static_cast<std::size_t>(program_.rows(id));
      for (std::size_t i = 0; i < patterns_[id].size(); ++i) {
        TermPattern& of_row = behind[i / size];
        if (adjoints[id][i] != 0.0 && of_row == TermPattern::none) of_row = patterns_[id][i];
      }
    }
    return behind;
  }

  std::span<const double> row_of(ValueId id, const std::vector<double>& values, std::size_t row) const {
    const std::size_t size = values.size() / static_cast<std::size_t>(program_.rows(id));
    return std::span(values).subspan(row * size, size);
  }

  const Program& program_;
  const NarrowSteps* const narrow_;  ///< null: the program is not narrowed
  const Shadow& shadow_;
  const Deviation& any_order_;
  const Setting& setting_;
  const NodeSettings settings_;
  bool fixed_are_exact_ = true;        ///< no value that is the same for all samples has an error
  std::vector<char> radii_by_chance_;  ///< by row: whether radii from random sign vectors may be used
  std::vector<Model> models_;
  std::vector<Deviation> residuals_;                ///< by model: local errors are those not modelled as random
  std::vector<std::vector<TermPattern>> patterns_;  ///< by value; empty: none
  std::vector<std::vector<double>> unattributed_;   ///< by value: the remainder of uncovered elements, 0 for others
  std::optional<Deviation> shrunk_;                 ///< at radii from random sign vectors; computed at first use
};

}  // namespace

double remainder_at_smaller_radii(double local, const ChanceBound& estimate, std::size_t row) {
  constexpr double slack = 3.0;
  if (estimate.spread.empty() || !std::isfinite(estimate.total[row])) return estimate.remainder[row];
  const double by_chance = slack * estimate.spread[row] + estimate.unattributed[row];
  const double share = (by_chance + rest_of(estimate, row)) / local;
  if (!(share < 1.0)) return estimate.remainder[row];
  return estimate.remainder[row] - (1.0 - share) * std::max(0.0, estimate.remainder[row] - estimate.unattributed[row]);
}

void estimate_remainder(double local, ChanceBound& estimate, std::size_t row) {
  leave_of_remainder(remainder_at_smaller_radii(local, estimate, row), estimate, row);
}

void take_remainder_by_chance(double by_chance, ChanceBound& estimate, std::size_t row) {
  if (has_large_remainder(estimate, row)) leave_of_remainder(by_chance, estimate, row);
}

std::vector<ChanceBounds> chance_bounds(const Program& program, const Shadow& shadow, const Deviation& any_order,
                                        std::span<const Direction> directions,
                                        std::span<const std::vector<double>> local, const ChanceFactors& factors,
                                        const Setting& setting, const NarrowSteps* narrow) {
  ChanceSweep chance(program, shadow, any_order, factors, setting, narrow);
  std::vector<ChanceBounds> all;
  for (std::size_t i = 0; i < directions.size(); ++i) {
    std::vector<ChanceBound> of_models = chance.bounds_of(directions[i], local[i]);
    ChanceBounds bounds;
    if (factors.random_order > 0.0) bounds.random_order = std::move(of_models.back());
    if (factors.martingale > 0.0) bounds.martingale = std::move(of_models.front());
    all.push_back(std::move(bounds));
  }
  return all;
}

}  // namespace driftbound::bounds
