#include "bounds/blocks/row_bounds.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

#include "bounds/kernels/element_kernels.hpp"
#include "bounds/nodes/node_settings.hpp"
#include "bounds/rows/row_walk.hpp"
#include "bounds/rows/run_walk.hpp"
#include "bounds/sums/known_products.hpp"
#include "bounds/theorems/trajectories.hpp"

namespace driftbound::bounds {
namespace {

/// The shadow's error is negligible if it is at most this share of the run's error.
constexpr double negligible = 0x1p-7;

class RowBlock {
public:
  RowBlock(const Program& program, const RecordedBlock& block, const std::vector<Target>& targets,
           const Setting& setting)
      : program_(program), block_(block), setting_(setting), is_open_(static_cast<std::size_t>(program.rows())) {
    nodes_.resize(program.size());
    for (std::size_t node = 0; node < block.layers.size(); ++node) nodes_[program.value_of_node(node)].push_back(node);
    result_.this_run.resize(block.layers.size());
    result_.this_run_theorem = "T-82";
    for (const Target& target : targets)
      targets_.push_back({seeds_of(program, target), std::vector<TargetRow>(is_open_.size())});
  }

  std::optional<RowBounds> run(const RowWalk& walk, KnownProducts* products) {
    const std::vector<std::vector<double>> exact_inputs(block_.given.size());
    std::vector<const Tensor<double>*> shadows(program_.size(), nullptr);  // valid while a later node reads the value
    const std::vector<ValueId> operands = products != nullptr ? operands_of_products() : std::vector<ValueId>();
    const bool is_known = walk.run(program_, block_.given, exact_inputs, setting_,
                                   [&](ValueId id, const Tensor<double>& shadow, std::span<const double> radii) {
                                     for (const std::size_t node : nodes_[id]) bound_layer(node, shadow, radii);
                                     for (TargetRows& target : targets_) note(target, id, shadow, radii);
                                     shadows[id] = &shadow;
                                     if (products != nullptr && operands[id] != id)
                                       products->keep(id, *shadows[operands[id]], shadow);
                                   });
    if (!is_known) return std::nullopt;
    for (const TargetRows& target : targets_) bound_target(target);
    RowBounds bounds{std::move(result_), {}, {}};
    for (std::size_t row = 0; row < is_open_.size(); ++row)
      if (is_open_[row]) bounds.undecided.push_back(static_cast<std::int64_t>(row));
    return bounds;
  }

private:
  struct TargetRow {
    Interval deviation{0.0};
    Magnitude computed, radius;
  };
  struct TargetRows {
    std::vector<Seed> seeds;
    std::vector<TargetRow> rows;
  };

  /// By value: the varying operand if the value is a product with a constant matrix, else the value itself.
  std::vector<ValueId> operands_of_products() const {
    std::vector<ValueId> operands(program_.size());
    std::iota(operands.begin(), operands.end(), ValueId{0});
    for (const Node& node : program_.fused().nodes) {
      if (multiplies_by_constant(program_, node) && program_.varies(node.inputs[0]))
        operands[node.output] = node.inputs[0];
    }
    return operands;
  }

  double through_shadow(Magnitude from_shadow, double shadow_error) const {
    return theorems::through_shadow(from_shadow, shadow_error).value();
  }

  /// Whether `radius` is negligible against `error`, the run's deviation or u times its value, whichever is larger.
  static bool is_negligible(double radius, double error) {
    return radius <= negligible * error && std::isfinite(error);
  }

  void bound_layer(std::size_t node, const Tensor<double>& shadow, std::span<const double> radii) {
    const Tensor<double>& computed = *block_.layers[node];
    std::vector<double>& bound = result_.this_run[node];
    bound.resize(computed.size());
    const auto rows = static_cast<std::size_t>(program_.rows(program_.value_of_node(node)));
    const std::size_t size = computed.size() / rows;
    for (std::size_t row = 0; row < rows; ++row) {
      const double radius = radii.empty() ? 0.0 : through_shadow(Magnitude(), radii[row]);
      const std::size_t first = row * size;
      const double error = kernels_.deviation(computed.values.data() + first, shadow.values.data() + first, radius,
                                              setting_.machine.u, bound.data() + first, size);
      if (radius > 0.0 && !is_negligible(radius, error)) mark_undecided(row, rows);
    }
  }

  void mark_undecided(std::size_t row, std::size_t rows) {
    if (rows == is_open_.size()) {
      is_open_[row] = true;
    } else {
      is_open_.assign(is_open_.size(), true);
    }
  }

  void note(TargetRows& target, ValueId id, const Tensor<double>& shadow, std::span<const double> radii) const {
    for (const Seed& seed : target.seeds) {
      if (seed.value != id || nodes_[id].empty()) continue;
      const std::vector<double>& computed = block_.layers[nodes_[id].front()]->values;
      const auto rows = static_cast<std::size_t>(program_.rows(id));
      const std::size_t size = computed.size() / rows;
      for (std::size_t row = 0; row < target.rows.size(); ++row) {
        TargetRow& of = target.rows[row];
        const std::size_t i = (rows == 1 ? 0 : row * size) + static_cast<std::size_t>(seed.element);
        const Interval part = deviation_at(computed.at(i), shadow.values[i]);
        of.deviation += seed.factor > 0.0 ? part : -part;
        of.computed += Magnitude(computed[i]);
      }
    }
    const Magnitude weight = radii.empty() ? Magnitude() : weight_of(target, id);
    if (weight == Magnitude()) return;
    for (std::size_t row = 0; row < target.rows.size(); ++row)
      target.rows[row].radius += weight * Magnitude(radii[program_.rows(id) == 1 ? 0 : row]);
  }

  /// 2-norm of the factors of a target at one value; times a bound of the 2-norm it bounds the target's error.
  static Magnitude weight_of(const TargetRows& target, ValueId id) {
    std::map<std::int64_t, double> factors;
    for (const Seed& seed : target.seeds)
      if (seed.value == id) factors[seed.element] += seed.factor;
    Magnitude squares;
    for (const auto& [element, factor] : factors) squares += Magnitude(factor) * Magnitude(factor);
    return sqrt_up(squares);
  }

  void bound_target(const TargetRows& target) {
    TargetCertificate certificate;
    for (std::size_t row = 0; row < target.rows.size(); ++row) {
      const TargetRow& of = target.rows[row];
      const Magnitude deviation = of.deviation.magnitude();
      certificate.this_run.push_back(through_shadow(deviation, of.radius.value()));
      const double error = std::max(deviation.value(), setting_.machine.u * of.computed.value());
      if (of.radius > Magnitude() && !is_negligible(of.radius.value(), error)) is_open_[row] = true;
    }
    result_.targets.push_back(std::move(certificate));
  }

  const Program& program_;
  const RecordedBlock& block_;
  const Setting& setting_;
  const ElementKernels& kernels_ = fastest_element_kernels();
  std::vector<std::vector<std::size_t>> nodes_;  ///< by value: nodes of the original graph with this output
  std::vector<bool> is_open_;
  std::vector<TargetRows> targets_;
  BlockBounds result_;
};

template <class T>
std::vector<T> rows_of(const std::vector<T>& values, std::int64_t all, const std::vector<std::int64_t>& rows) {
  std::vector<T> picked;
  const auto size = static_cast<std::int64_t>(values.size()) / all;
  for (const std::int64_t row : rows)
    picked.insert(picked.end(), values.begin() + row * size, values.begin() + (row + 1) * size);
  return picked;
}

template <class T>
Tensor<T> rows_of(const Tensor<T>& tensor, std::int64_t all, const std::vector<std::int64_t>& rows) {
  Tensor<T> picked;
  picked.shape = tensor.shape;
  picked.shape.front() = static_cast<std::int64_t>(rows.size());
  picked.values = rows_of(tensor.values, all, rows);
  return picked;
}

/// Whether the walk can follow the orders of all products: it does so by T-69, which needs their partial sums. Products in
/// any order need none.
bool walk_follows_orders(const Program& program, const Setting& setting) {
  const NodeSettings settings(program, setting, NodeSettings::Sums::in_order);
  for (std::size_t node = 0; node < program.nodes().size(); ++node)
    if (settings[node].machine.order.kind == SummationOrder::Kind::height) return false;
  return true;
}

}  // namespace

std::vector<Seed> seeds_of(const Program& program, const Target& target) {
  const auto value_of = [&](const OutputElement& element) { return program.flat().graph.outputs.at(element.output); };
  std::vector<Seed> seeds = {{value_of(target.positive), target.positive.element, 1.0}};
  if (target.negative) seeds.push_back({value_of(*target.negative), target.negative->element, -1.0});
  return seeds;
}

std::optional<RowBounds> row_bounds(const Program& program, const RecordedBlock& block,
                                    const std::vector<Target>& targets, const Setting& setting, BoundCache& cache,
                                    std::string& obstacle, KnownProducts* products) {
  const Format* accumulator = setting.machine.accumulator;
  if (accumulator != nullptr && accumulator->id == FormatId::fp64) {
    obstacle = "a run in double, next to which no radius of a row is negligible";
    return std::nullopt;
  }
  const auto walk = cache.row_walk(program, setting, obstacle);
  return walk == nullptr ? std::nullopt : RowBlock(program, block, targets, setting).run(*walk, products);
}

std::optional<RowBounds> any_run_bounds(const Program& program, const RecordedBlock& block,
                                        const std::vector<Target>& targets, const AdjointRequest& request,
                                        const Setting& setting, BoundCache& cache, std::string& obstacle,
                                        const KnownProducts* products) {
  if (request.declared_order && !walk_follows_orders(program, setting)) {
    obstacle = "an order of summation without partial sums";
    return std::nullopt;
  }
  const auto walk = cache.run_walk(program, setting, obstacle);
  if (walk == nullptr) return std::nullopt;
  std::vector<std::vector<Seed>> seeds;
  for (const Target& target : targets) {
    seeds.push_back(seeds_of(program, target));
    for (const Seed& seed : seeds.back())
      if (!program.varies(seed.value)) {
        obstacle = "an output that does not depend on the inputs";
        return std::nullopt;
      }
  }
  const RunRequest of_runs{request.declared_order, request.chance, request.conditioned, request.attributed, &block,
                           request.refined_radii,  products};
  RunCertificates found = walk->run(program, block.given, block.input_error, seeds, of_runs, setting);
  RowBounds result;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    TargetCertificate& target = result.bounds.targets.emplace_back();
    if (request.any_order) target.any_order = std::move(found.targets[i]);
    if (request.declared_order) target.declared_order = std::move(found.in_order[i]);
    target.chance = std::move(found.chance[i]);
    if (i < found.condition.size()) target.condition = std::move(found.condition[i]);
    if (i < found.attribution.size()) target.attribution = std::move(found.attribution[i]);
  }
  if (request.declared_order) result.bounds.declared_order_conditions = found.conditions;
  result.bounds.any_order_conditions = std::move(found.conditions);
  result.undecided = std::move(found.undecided);
  result.cancelled = std::move(found.cancelled);
  return result;
}

PickedRows::PickedRows(const Program& program, const RecordedBlock& block, const std::vector<std::int64_t>& rows) {
  const std::int64_t all = program.rows();
  for (std::size_t node = 0; node < block.layers.size(); ++node) {
    const bool varies = program.varies(program.value_of_node(node));
    layers_.push_back(varies ? rows_of(*block.layers[node], all, rows) : *block.layers[node]);
    const auto pick = [&](const std::vector<const Tensor<Ball>*>& from, std::vector<Tensor<Ball>>& to) {
      if (!from.empty()) to.push_back(varies ? rows_of(*from[node], all, rows) : *from[node]);
    };
    pick(block.exact, exact_);
    pick(block.network, network_);
  }
  for (const Tensor<double>& layer : layers_) block_.layers.push_back(&layer);
  for (const Tensor<Ball>& layer : exact_) block_.exact.push_back(&layer);
  for (const Tensor<Ball>& layer : network_) block_.network.push_back(&layer);
  for (const Tensor<double>& input : block.given) block_.given.push_back(rows_of(input, all, rows));
  for (const Tensor<double>& input : block.used) block_.used.push_back(rows_of(input, all, rows));
  for (const std::vector<double>& error : block.input_error) block_.input_error.push_back(rows_of(error, all, rows));
}

void replace_rows(const Program& program, const std::vector<std::int64_t>& rows, const BlockBounds& of_rows,
                  BlockBounds& all) {
  const auto put = [&](const auto& from, auto& to, std::int64_t rows_of_all) {
    if (rows_of_all == 1 || to.empty()) return;
    const std::size_t size = to.size() / static_cast<std::size_t>(rows_of_all);
    for (std::size_t i = 0; i < rows.size(); ++i)
      std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(i * size), size,
                  to.begin() + static_cast<std::ptrdiff_t>(rows[i]) * static_cast<std::ptrdiff_t>(size));
  };
  for (std::size_t node = 0; node < all.this_run.size(); ++node)
    put(of_rows.this_run[node], all.this_run[node], program.rows(program.value_of_node(node)));
  for (std::size_t i = 0; i < all.targets.size(); ++i) {
    put(of_rows.targets[i].this_run, all.targets[i].this_run, program.rows());
    const TargetCertificate& from = of_rows.targets[i];
    TargetCertificate& to = all.targets[i];
    for (const auto which : {&TargetCertificate::any_order, &TargetCertificate::declared_order}) {
      for (const auto part : {&Certificate::total, &Certificate::local, &Certificate::remainder})
        put((from.*which).*part, (to.*which).*part, program.rows());
      for (std::size_t layer = 0; layer < (to.*which).layers.size(); ++layer)
        put((from.*which).layers[layer], (to.*which).layers[layer], program.rows());
    }
    for (const auto which : {&ChanceBounds::martingale, &ChanceBounds::random_order}) {
      if (!(to.chance.*which)) continue;
      if (!(from.chance.*which)) {
        for (const std::int64_t row : rows)
          (to.chance.*which)->total[static_cast<std::size_t>(row)] = std::numeric_limits<double>::infinity();
        continue;
      }
      put((from.chance.*which)->total, (to.chance.*which)->total, program.rows());
      put((from.chance.*which)->remainder, (to.chance.*which)->remainder, program.rows());
      put((from.chance.*which)->patterns, (to.chance.*which)->patterns, program.rows());
    }
    if (!to.condition) continue;
    put(from.condition->target, to.condition->target, program.rows());
    for (std::size_t layer = 0; layer < to.condition->layers.size(); ++layer)
      put(from.condition->layers[layer], to.condition->layers[layer], program.rows());
  }
  for (const auto which : {&BlockBounds::any_order_conditions, &BlockBounds::declared_order_conditions})
    (all.*which).insert((of_rows.*which).begin(), (of_rows.*which).end());
}

}  // namespace driftbound::bounds
