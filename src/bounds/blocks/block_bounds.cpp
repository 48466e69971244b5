#include "bounds/blocks/block_bounds.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iterator>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "bounds/adjoint/condition.hpp"
#include "bounds/adjoint/recursion.hpp"
#include "bounds/blocks/reading.hpp"
#include "bounds/blocks/rounded_shadow.hpp"
#include "bounds/blocks/row_bounds.hpp"
#include "bounds/nodes/infinite_reason.hpp"
#include "bounds/nodes/node_settings.hpp"
#include "bounds/nodes/plain_rows.hpp"
#include "bounds/sums/known_products.hpp"
#include "bounds/theorems/rounded_shadow.hpp"
#include "bounds/theorems/trajectories.hpp"
#include "driftbound/num/interval.hpp"
#include "num/elapsed.hpp"

namespace driftbound::bounds {
namespace {

/// Weight of elements in an infinite bound: only infinite remainders are then worth a refinement.
constexpr double only_infinite = 0x1p-1000;

/// Factor of the number of refined radii if operands are rounded to a narrow format: nearly every remainder is then
/// that of an undecided kink (T-72).
constexpr std::int64_t more_radii_in_narrow_formats = 2;

/// The bounds of one block, evaluated element by element.
class Block {
public:
  Block(const Program& program, const RecordedBlock& block, const Setting& setting, BoundCache& cache)
      : program_(program), recorded_(block.layers), block_(block), setting_(setting) {
    setting_.operands = &cache;
    setting_.programs = &cache;
  }

  BlockBounds run(const std::vector<Target>& targets, const AdjointRequest& request, BoundCache& cache) {
    const bool is_coarse = setting_.machine.u >= 0x1p-40;  // the shadow's error is then negligible
    const bool is_exact_near = is_coarse && !request.this_run && request.attributed == 0;
    const Trajectory exact = is_exact_near ? Trajectory::exact_by_norms : Trajectory::exact;
    const bool follows_runs = !targets.empty();
    if (follows_runs || !is_network_known())
      shadow_ = shadow_of(program_, block_.given, setting_, is_coarse ? &cache : nullptr);
    if (!is_network_known()) follow(exact, cache);
    if (follows_runs && request.follows_any_order()) follow(Trajectory::any_order, cache);
    if (follows_runs && request.declared_order) follow(Trajectory::declared_order, cache);
    sweep_targets(targets, request.conditioned);
    refine(request.refined_radii, cache);

    BlockBounds bounds;
    if (request.this_run) {
      for (std::size_t node = 0; node < recorded_.size(); ++node) {
        bounds.this_run.push_back(layer_this_run(node));
      }
      if (is_network_known()) bounds.this_run_theorem = "T-70";
    }
    for (std::size_t i = 0; i < targets.size(); ++i) bounds.targets.push_back(certified(i, request));
    if (request.rounded) hold_against_rounded_shadow(targets, cache, bounds);
    if (request.attributed > 0) {
      const RecordedRun run(program_, shadow_, block_, setting_);
      for (std::size_t i = 0; i < request.attributed; ++i)
        bounds.targets[i].attribution = run.attribute(direction_of(program_, shadow_, seeds_[i]));
    }
    if (request.conditioned > 0) add_conditions(request.conditioned, bounds);
    const std::size_t chanced = has_large_rows() ? std::min(request.chanced, targets.size()) : targets.size();
    if (request.chance.any() && chanced > 0) add_chance({targets.data(), chanced}, request.chance, cache, bounds);
    if (!follows_runs) return bounds;
    if (request.follows_any_order()) bounds.any_order_conditions = any_order().conditions;
    if (request.follows_any_order()) bounds.infinite = infinite_radius(any_order());
    if (request.declared_order) bounds.declared_order_conditions = deviations_.back().conditions;
    return bounds;
  }

private:
  bool has_large_rows() const { return numbers_of_row(program_) > most_numbers_of_row; }
  bool is_network_known() const { return !block_.network.empty(); }

  void follow(Trajectory trajectory, BoundCache& cache) {
    const bool is_run = trajectory == Trajectory::any_order || trajectory == Trajectory::declared_order;
    const std::vector<std::vector<double>> exact_inputs(block_.input_error.size());
    trajectories_.push_back(trajectory);
    deviations_.push_back(
        deviation_of(trajectory, program_, shadow_, is_run ? block_.input_error : exact_inputs, setting_, cache));
  }

  std::size_t position_of(Trajectory trajectory) const {
    return static_cast<std::size_t>(std::find(trajectories_.begin(), trajectories_.end(), trajectory) -
                                    trajectories_.begin());
  }
  std::size_t any_order_position() const { return position_of(Trajectory::any_order); }
  const Deviation& any_order() const { return deviations_.at(any_order_position()); }

  /// T-70 for every element of a layer: through the enclosure of the exact network, or through the shadow with the radii
  /// of T-62.
  std::vector<double> layer_this_run(std::size_t node) const {
    const ValueId id = value_of_node(node);
    const std::vector<double>& computed = recorded_[node]->values;
    std::vector<double> bound;
    if (is_network_known()) {
      for (std::size_t i = 0; i < computed.size(); ++i)
        bound.push_back(theorems::distance_from_exact(exact_ball(computed[i]), exact_at(node, i)).value());
      return bound;
    }
    const std::vector<double>& radius = deviations_.front().radii[id].element;
    for (std::size_t i = 0; i < computed.size(); ++i) {
      const Interval deviation = deviation_at(computed[i], shadow_.value(id).values[i]);
      bound.push_back(through_shadow(deviation.magnitude(), radius.empty() ? 0.0 : radius[i]));
    }
    return bound;
  }

  /// The first node, in the order of the program, with an infinite radius and finite ones at its operands.
  std::optional<InfiniteBound> infinite_radius(const Deviation& any_order) const {
    for (std::size_t index = 0; index < program_.nodes().size(); ++index) {
      const Node& node = program_.nodes()[index];
      const std::optional<std::size_t> at = first_infinite(any_order.radii[node.output].element);
      if (!at) continue;
      std::vector<Radii> radii;
      for (const ValueId id : node.inputs) radii.emplace_back(any_order.radii[id].element);
      if (std::any_of(radii.begin(), radii.end(), [](Radii r) { return first_infinite(r).has_value(); })) continue;
      const std::size_t size = program_.row_size(node.output);
      const double largest = NodeSettings(program_, setting_).largest(node.output);
      return InfiniteBound{Question::any_run, program_.flat().of_node[index], static_cast<std::int64_t>(*at / size),
                           static_cast<std::int64_t>(*at % size),
                           infinite_reason(shadow_.view_of(node), radii, *at, largest)};
    }
    return std::nullopt;
  }

  const Ball& exact_at(std::size_t node, std::size_t i) const { return block_.network.at(node)->values.at(i); }

  /// Keeps the adjoints of the targets with condition numbers and, where radii may be refined, of all.
  void sweep_targets(const std::vector<Target>& targets, std::size_t conditioned) {
    adjoints_.resize(targets.size());
    const bool may_refine = !has_large_rows();
    for (std::size_t i = 0; i < targets.size(); ++i) {
      seeds_.push_back(seeds_of(program_, targets[i]));
      certificates_.push_back(sweep(program_, shadow_, deviations_, direction_of(program_, shadow_, seeds_[i]),
                                    setting_, may_refine || i < conditioned ? &adjoints_[i] : nullptr));
      shadow_error_.push_back(is_network_known() ? distance_from_network(seeds_[i]) : certificates_[i].front().total);
    }
  }

  /// |c.(shadow - exact)| by enclosures of the exact network, one number a row.
  std::vector<double> distance_from_network(const std::vector<Seed>& seeds) const {
    std::vector<double> distance;
    for (std::size_t row = 0; row < static_cast<std::size_t>(program_.rows()); ++row)
      distance.push_back(theorems::distance_from_exact(shadow_ball(seeds, row), exact(seeds, row)).value());
    return distance;
  }

  Ball shadow_ball(const std::vector<Seed>& seeds, std::size_t row) const {
    return combined(seeds, row, [&](const Seed& seed, std::size_t i) {
      return exact_ball(shadow_.value(seed.value).values.at(i));
    });
  }

  /// The enclosure of c.exact.
  Ball exact(const std::vector<Seed>& seeds, std::size_t row) const {
    return combined(seeds, row, [&](const Seed& seed, std::size_t i) { return exact_at(node_of(seed.value), i); });
  }

  /// c.x for the balls x = ball_of(seed, element).
  Ball combined(const std::vector<Seed>& seeds, std::size_t row, const auto& ball_of) const {
    return enclosure_of(seeds, [&](const Seed& seed) { return ball_of(seed, index_of(seed, program_, shadow_, row)); });
  }

  /// T-72, if remainders are more than 5 % of a bound or a bound is infinite.
  void refine(std::int64_t radii_a_row, BoundCache& cache) {
    bool any = false;
    if (has_large_rows()) return;
    if (!is_plain(setting_.machine)) radii_a_row *= more_radii_in_narrow_formats;
    for (std::size_t which = is_network_known() ? 0 : 1; which < trajectories_.size(); ++which) {
      if (radii_a_row <= 0 || !has_large_remainder(which)) continue;
      if (!cache.with_rows(program_, 2)) return;
      any = true;
      const Refinement refinement = refinement_for(which, radii_a_row * program_.rows());
      deviations_[which] =
          deviation_of(trajectories_[which], program_, shadow_, block_.input_error, setting_, cache, &refinement);
    }
    for (std::size_t i = 0; any && i < seeds_.size(); ++i)
      certificates_[i] = sweep(program_, shadow_, deviations_, direction_of(program_, shadow_, seeds_[i]), setting_);
  }

  bool has_large_remainder(std::size_t which) const {
    return std::any_of(certificates_.begin(), certificates_.end(), [&](const std::vector<Certificate>& of_target) {
      const Certificate& certificate = of_target[which];
      for (std::size_t row = 0; row < certificate.total.size(); ++row) {
        const double total = certificate.total[row];
        if (!(certificate.remainder[row] <= large_remainder * total) || !std::isfinite(total)) return true;
      }
      return false;
    });
  }

  /// The criterion of T-72: elements are selected, at most `most`, until the remainders of the others add up to 3 % of
  /// the contribution of local errors.
  Refinement refinement_for(std::size_t which, std::int64_t most) const {
    Refinement refinement;
    refinement.weight.resize(program_.size());
    std::size_t nodes = 0;
    for (const Node& node : program_.nodes()) {
      if (!deviations_[which].remainder[node.output].empty() && program_.varies(node.output)) ++nodes;
      for (std::size_t i = 0; i < seeds_.size(); ++i)
        add_weight(node.output, adjoints_[i], certificates_[i][which], refinement);
    }
    refinement.allowance = remainder_left / static_cast<double>(std::max<std::size_t>(nodes, 1));
    refinement.most_elements = most_refined_elements;
    refinement.least = least_worth_refining(refinable_remainders(which), program_.rows(), refinement, most);
    return refinement;
  }

  /// Remainders of functions of one element, which refined radii reduce.
  std::vector<std::vector<double>> refinable_remainders(std::size_t which) const {
    std::vector<std::vector<double>> remainders(program_.size());
    for (const Node& node : program_.nodes()) {
      if (may_be_refined(program_, node)) remainders[node.output] = deviations_[which].remainder[node.output];
    }
    return remainders;
  }

  void add_weight(ValueId id, const std::vector<std::vector<double>>& adjoint, const Certificate& certificate,
                  Refinement& refinement) const {
    if (adjoint[id].empty() || !program_.varies(id)) return;
    std::vector<double>& weight = refinement.weight[id];
    weight.resize(adjoint[id].size(), 0.0);
    const std::size_t size = weight.size() / certificate.local.size();
    for (std::size_t k = 0; k < weight.size(); ++k) {
      const double local = certificate.local[k / size];
      const double d = std::abs(adjoint[id][k]);
      if (std::isfinite(local) && local > 0.0) weight[k] = std::max(weight[k], d / local);
      if (!std::isfinite(local) && d > 0.0) weight[k] = std::max(weight[k], only_infinite);
    }
  }

  void add_conditions(std::size_t count, BlockBounds& bounds) const {
    const std::vector<std::vector<double>> magnitudes = approx_magnitudes(program_, shadow_, setting_);
    for (std::size_t i = 0; i < count; ++i)
      bounds.targets[i].condition =
          approx_condition(program_, shadow_, direction_of(program_, shadow_, seeds_[i]), adjoints_[i], magnitudes);
  }

  /// T-74 and T-75, limited to the any-order bound.
  void add_chance(std::span<const Target> targets, const ChanceFactors& factors, BoundCache& cache,
                  BlockBounds& bounds) const {
    std::vector<Direction> directions;
    std::vector<std::vector<double>> local;
    for (std::size_t i = 0; i < targets.size(); ++i) {
      directions.push_back(direction_of(program_, shadow_, seeds_[i]));
      local.push_back(certificates_[i][any_order_position()].local);
    }
    std::vector<ChanceBounds> all = chance_bounds(program_, shadow_, any_order(), directions, local, factors, setting_);
    if (factors.random_order > 0.0)
      bounds.estimate_conditions = estimate_narrow_roundings(targets, factors.random_order, cache, all);
    for (std::size_t i = 0; i < all.size(); ++i) {
      const Certificate& certificate = certificates_[i][any_order_position()];
      for (std::optional<ChanceBound>* bound : {&all[i].martingale, &all[i].random_order}) {
        for (std::size_t row = 0; *bound && row < (*bound)->total.size(); ++row) {
          double& total = (*bound)->total[row];
          if ((*bound)->patterns[row] == TermPattern::none) total = std::min(total, certificate.total[row]);
          total = through_shadow(Magnitude(total), shadow_error_[i][row]);
        }
      }
      bounds.targets[i].chance = std::move(all[i]);
    }
  }

  /// T-75, narrow formats: estimate with rounded weights in the shadow and random roundings of other numbers. Keeps the
  /// smaller of this estimate and the one in `all`. Returns the conditions of this estimate.
  std::set<std::string> estimate_narrow_roundings(std::span<const Target> targets, double sigmas, BoundCache& cache,
                                                  std::vector<ChanceBounds>& all) const {
    const std::optional<NarrowedProgram> narrowed = narrowed_program(program_, setting_.machine);
    if (!narrowed) return {};
    const RoundedShadow rounded = rounded_constants_of(*narrowed, block_.given, block_.input_error, setting_, cache);
    std::vector<std::vector<Seed>> seeds;
    std::vector<Direction> directions;
    std::vector<std::vector<double>> local;
    for (const Target& target : targets) {
      seeds.push_back(seeds_of(*narrowed, target));
      directions.push_back(direction_of(*narrowed, rounded.shadow, seeds.back()));
      local.push_back(
          sweep(*narrowed, rounded.shadow, {&rounded.deviation, 1}, directions.back(), setting_).front().local);
    }
    std::vector<ChanceBounds> estimates = chance_bounds(*narrowed, rounded.shadow, rounded.deviation, directions, local,
                                                        {0.0, sigmas}, setting_, &narrowed->steps());
    for (std::size_t i = 0; i < targets.size(); ++i) {
      const ChanceBound& estimate = *estimates[i].random_order;
      for (std::size_t row = 0; row < estimate.total.size(); ++row) {
        const Interval moved =
            combined(*narrowed, rounded.shadow, seeds[i], row) - combined(program_, shadow_, seeds_[i], row);
        const double total = (Magnitude(estimate.total[row]) + moved.magnitude()).value();
        const bool is_certifiable = std::isfinite(certificates_[i][any_order_position()].local[row]);
        if (!is_certifiable || !(total < all[i].random_order->total[row])) continue;
        all[i].random_order->total[row] = total;
        all[i].random_order->remainder[row] = estimate.remainder[row];
      }
    }
    return rounded.deviation.conditions;
  }

  TargetCertificate certified(std::size_t target, const AdjointRequest& request) const {
    std::vector<Certificate> certificates = certificates_[target];
    const std::vector<Seed>& seeds = seeds_[target];
    const std::vector<double>& shadow_error = shadow_error_[target];
    TargetCertificate result;
    if (request.this_run) result.this_run = target_this_run(seeds, shadow_error);
    const auto with_shadow = [&](Certificate certificate) {
      for (std::size_t row = 0; row < shadow_error.size(); ++row)
        certificate.total[row] = through_shadow(Magnitude(certificate.total[row]), shadow_error[row]);
      return certificate;
    };
    if (request.declared_order) result.declared_order = with_shadow(std::move(certificates.back()));
    if (request.any_order) result.any_order = with_shadow(std::move(certificates[any_order_position()]));
    return result;
  }

  /// T-70 for c.computed: through the enclosure of the exact network, or through the shadow and its own error.
  std::vector<double> target_this_run(const std::vector<Seed>& seeds, const std::vector<double>& shadow_error) const {
    const auto recorded = [&](const Seed& seed, std::size_t i) {
      return exact_ball(recorded_.at(node_of(seed.value))->values.at(i));
    };
    std::vector<double> bound;
    for (std::size_t row = 0; row < shadow_error.size(); ++row) {
      const Ball computed = combined(seeds, row, recorded);
      if (is_network_known()) {
        bound.push_back(theorems::distance_from_exact(computed, exact(seeds, row)).value());
      } else {
        const Magnitude from_shadow = theorems::distance_from_exact(computed, shadow_ball(seeds, row));
        bound.push_back(through_shadow(from_shadow, shadow_error[row]));
      }
    }
    return bound;
  }

  /// T-76: bounds and enclosures by the rounded shadow.
  void hold_against_rounded_shadow(const std::vector<Target>& targets, BoundCache& cache, BlockBounds& bounds) const {
    bounds.readings = readings_of(program_, block_, setting_, cache);
    const std::optional<NarrowedProgram> narrowed = narrowed_program(program_, setting_.machine, bounds.readings);
    if (!narrowed) return;
    const RoundedShadow rounded = rounded_shadow_of(*narrowed, block_.given, block_.input_error, setting_, cache);
    for (std::size_t i = 0; i < targets.size(); ++i) {
      const std::vector<Seed> seeds = seeds_of(*narrowed, targets[i]);
      TargetCertificate& target = bounds.targets[i];
      target.rounded = distance_of_runs(rounded, seeds, setting_);
      const std::vector<double>& shadow_error = shadow_error_[i];
      for (std::size_t row = 0; row < shadow_error.size(); ++row) {
        double& total = target.rounded.total[row];
        const Interval centre = combined(*narrowed, rounded.shadow, seeds, row);
        const Interval in_double = combined(program_, shadow_, seeds_[i], row);
        target.enclosures.runs.push_back(widened(centre, total));
        target.enclosures.exact.push_back(is_network_known() ? exact(seeds_[i], row).enclosure()
                                                             : widened(in_double, shadow_error[row]));
        const Magnitude between = (centre - in_double).magnitude();
        const Magnitude from_shadow = theorems::through_rounded_shadow(Magnitude(total), between);
        total = through_shadow(from_shadow, shadow_error[row]);
      }
    }
    bounds.rounded_conditions = rounded.deviation.conditions;
    bounds.ambiguous = rounded.ambiguous;
  }

  /// Enclosure of c.shadow.
  static Interval combined(const Program& program, const Shadow& shadow, const std::vector<Seed>& seeds,
                           std::size_t row) {
    Interval sum(0.0);
    for (const Seed& seed : seeds) {
      const Interval part(shadow.value(seed.value).values[index_of(seed, program, shadow, row)]);
      sum += seed.factor > 0.0 ? part : -part;
    }
    return sum;
  }

  static Interval widened(const Interval& x, double radius) {
    return std::isfinite(radius) ? x + Interval(-radius, radius) : Interval::whole();
  }

  double through_shadow(Magnitude from_shadow, double shadow_error) const {
    return theorems::through_shadow(from_shadow, shadow_error).value();
  }

  static std::size_t index_of(const Seed& seed, const Program& program, const Shadow& shadow, std::size_t row) {
    const auto rows = static_cast<std::size_t>(program.rows(seed.value));
    const std::size_t size = shadow.value(seed.value).size() / rows;
    return (rows == 1 ? 0 : row * size) + static_cast<std::size_t>(seed.element);
  }

  ValueId value_of_node(std::size_t node) const { return program_.value_of_node(node); }

  /// The node of the original graph with this output; the number of nodes for an input.
  std::size_t node_of(ValueId id) const {
    std::size_t node = 0;
    while (node < recorded_.size() && value_of_node(node) != id) ++node;
    return node;
  }

  const Program& program_;
  const std::vector<const Tensor<double>*>& recorded_;
  const RecordedBlock& block_;
  Setting setting_;
  Shadow shadow_;
  std::vector<Trajectory> trajectories_;
  std::vector<Deviation> deviations_;                       ///< by trajectory
  std::vector<std::vector<Seed>> seeds_;                    ///< by target
  std::vector<std::vector<Certificate>> certificates_;      ///< by target and deviation
  std::vector<std::vector<std::vector<double>>> adjoints_;  ///< by target and value
  std::vector<std::vector<double>> shadow_error_;           ///< by target and row: bounds of |c.(shadow - exact)|
};

}  // namespace

namespace {

/// Whether the program has roundings to a narrow format, so that a rounded shadow is needed.
bool has_narrow_steps(const Program& program, const Machine& machine) {
  const bool has_casts = std::any_of(program.nodes().begin(), program.nodes().end(),
                                     [](const Node& node) { return std::holds_alternative<op::Cast>(node.op); });
  if (is_plain(machine) && machine.accumulator->id == FormatId::fp32 && !has_casts) return false;
  return narrowed_program(program, machine).has_value();
}

/// Bounds of one block by row kernels, and element by element for the rows that these leave undecided.
class QuickBlock {
public:
  QuickBlock(const Program& program, const RecordedBlock& block, const std::vector<Target>& targets,
             const AdjointRequest& request, const Setting& setting, BoundCache& cache)
      : program_(program), block_(block), targets_(targets), request_(request), setting_(setting), cache_(cache) {}

  /// Empty if any run is not bounded by rows, or if the whole block has to be evaluated element by element for it.
  std::optional<BlockBounds> run() {
    if (request_.rounded && has_narrow_steps(program_, setting_.machine)) {
      note(Question::any_run, "operands or results that are rounded to a narrow format");
      return std::nullopt;
    }
    BlockBounds bounds;
    bounds.targets.resize(targets_.size());
    const bool of_runs =
        request_.follows_any_order() || request_.declared_order || request_.conditioned > 0 || request_.attributed > 0;
    KnownProducts products;
    if (request_.this_run) add_this_run(bounds, of_runs ? &products : nullptr);
    if (of_runs && !add_runs(bounds, products)) return std::nullopt;
    bounds.not_by_rows = obstacles_;
    bounds.infinite = infinite_;
    return bounds;
  }

  const std::vector<NotByRows>& obstacles() const { return obstacles_; }

private:
  void note(Question question, std::string obstacle) { obstacles_.push_back({question, std::move(obstacle), 0.0}); }

  void add_this_run(BlockBounds& bounds, KnownProducts* products) {
    std::string obstacle;
    std::optional<RowBounds> quick = row_bounds(program_, block_, targets_, setting_, cache_, obstacle, products);
    if (!quick) note(Question::this_run, obstacle);
    AdjointRequest alone;
    alone.any_order = alone.declared_order = alone.rounded = false;
    const bool is_by_rows = quick && evaluate_undecided(Question::this_run, alone, *quick);
    BlockBounds found = is_by_rows ? std::move(quick->bounds) : in_full(alone);
    bounds.this_run = std::move(found.this_run);
    bounds.this_run_theorem = found.this_run_theorem;
    for (std::size_t i = 0; i < targets_.size(); ++i) bounds.targets[i].this_run = std::move(found.targets[i].this_run);
  }

  /// Evaluates the whole block element by element; the last obstacle was in the way.
  BlockBounds in_full(const AdjointRequest& request) {
    const auto start = std::chrono::steady_clock::now();
    BlockBounds found = Block(program_, block_, setting_, cache_).run(targets_, request, cache_);
    obstacles_.back().seconds = seconds_since(start);
    return found;
  }

  bool add_runs(BlockBounds& bounds, const KnownProducts& products) {
    std::string obstacle;
    std::optional<RowBounds> quick =
        any_run_bounds(program_, block_, targets_, request_, setting_, cache_, obstacle, &products);
    if (!quick) note(Question::any_run, obstacle);
    AdjointRequest of_runs = request_;
    of_runs.this_run = of_runs.rounded = false;
    of_runs.attributed = 0;
    if (!quick || !evaluate_undecided(Question::any_run, of_runs, *quick)) return false;
    if (request_.attributed > 0) attribute_again(*quick);
    bounds.any_order_conditions = std::move(quick->bounds.any_order_conditions);
    bounds.declared_order_conditions = std::move(quick->bounds.declared_order_conditions);
    for (std::size_t i = 0; i < targets_.size(); ++i) {
      quick->bounds.targets[i].this_run = std::move(bounds.targets[i].this_run);
      bounds.targets[i] = std::move(quick->bounds.targets[i]);
    }
    return true;
  }

  /// Evaluates the undecided rows element by element. Returns false if these are all rows, or if there is no program for
  /// fewer rows.
  bool evaluate_undecided(Question which, const AdjointRequest& request, RowBounds& quick) {
    if (quick.undecided.empty()) return true;
    const auto start = std::chrono::steady_clock::now();
    note(which, "samples whose numbers are not finite, or not known well enough in double");
    const auto rows = static_cast<std::int64_t>(quick.undecided.size());
    const auto part = rows < program_.rows() ? cache_.with_rows(program_, rows) : nullptr;
    if (part == nullptr) return false;
    const PickedRows picked(program_, block_, quick.undecided);
    const BlockBounds of_rows = Block(*part, picked.block(), setting_, cache_).run(targets_, request, cache_);
    replace_rows(program_, quick.undecided, of_rows, quick.bounds);
    if (of_rows.infinite) {
      infinite_ = of_rows.infinite;
      infinite_->sample = quick.undecided[static_cast<std::size_t>(infinite_->sample)];
    }
    obstacles_.back().seconds = seconds_since(start);
    return true;
  }

  /// T-73 in extended precision, for rows in which the attribution cancels and for undecided rows.
  void attribute_again(RowBounds& quick) const {
    std::vector<std::int64_t> rows;
    std::set_union(quick.undecided.begin(), quick.undecided.end(), quick.cancelled.begin(), quick.cancelled.end(),
                   std::back_inserter(rows));
    if (rows.empty()) return;
    const auto part = cache_.with_rows(program_, static_cast<std::int64_t>(rows.size()));
    if (part == nullptr) return;
    const PickedRows picked(program_, block_, rows);
    Setting setting = setting_;
    setting.operands = &cache_;
    setting.programs = &cache_;
    const Shadow shadow = shadow_of(*part, picked.block().given, setting, &cache_);
    const RecordedRun run(*part, shadow, picked.block(), setting);
    for (std::size_t i = 0; i < request_.attributed; ++i) {
      const Attribution parts = run.attribute(direction_of(*part, shadow, seeds_of(*part, targets_[i])));
      Attribution& all = *quick.bounds.targets[i].attribution;
      for (std::size_t k = 0; k < rows.size(); ++k) {
        const auto row = static_cast<std::size_t>(rows[k]);
        all.inputs[row] = parts.inputs[k];
        for (std::size_t layer = 0; layer < parts.layers.size(); ++layer)
          all.layers[layer][row] = parts.layers[layer][k];
      }
    }
  }

  const Program& program_;
  const RecordedBlock& block_;
  const std::vector<Target>& targets_;
  const AdjointRequest& request_;
  const Setting& setting_;
  BoundCache& cache_;
  std::vector<NotByRows> obstacles_;
  std::optional<InfiniteBound> infinite_;  ///< of any run
};

}  // namespace

BlockBounds block_bounds(const Program& program, const RecordedBlock& block, const std::vector<Target>& targets,
                         const AdjointRequest& request, const Setting& setting, BoundCache& cache) {
  QuickBlock by_rows(program, block, targets, request, setting, cache);
  std::optional<BlockBounds> quick = by_rows.run();
  if (quick) return std::move(*quick);
  const auto start = std::chrono::steady_clock::now();
  BlockBounds in_full = block_bounds_in_full(program, block, targets, request, setting, cache);
  in_full.not_by_rows = by_rows.obstacles();
  if (!in_full.not_by_rows.empty()) in_full.not_by_rows.back().seconds = seconds_since(start);
  return in_full;
}

BlockBounds block_bounds_in_full(const Program& program, const RecordedBlock& block, const std::vector<Target>& targets,
                                 const AdjointRequest& request, const Setting& setting, BoundCache& cache) {
  return Block(program, block, setting, cache).run(targets, request, cache);
}

}  // namespace driftbound::bounds
