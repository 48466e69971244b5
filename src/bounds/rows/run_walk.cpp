#include "bounds/rows/run_walk.hpp"

#include <algorithm>
#include <cmath>
#include <deque>
#include <mutex>
#include <numeric>
#include <optional>
#include <utility>

#include "bounds/adjoint/recursion.hpp"
#include "bounds/arithmetic/numbers.hpp"
#include "bounds/chance/statistical.hpp"
#include "bounds/kernels/element_kernels.hpp"
#include "bounds/nodes/node_settings.hpp"
#include "bounds/nodes/operand_cache.hpp"
#include "bounds/nodes/plain_rows.hpp"
#include "bounds/nodes/recorded_block.hpp"
#include "bounds/rows/node_step.hpp"
#include "bounds/rows/radii_by_chance.hpp"
#include "bounds/rows/refined_radii.hpp"
#include "bounds/sums/known_products.hpp"
#include "bounds/sums/operand.hpp"
#include "bounds/theorems/chance.hpp"
#include "bounds/theorems/norms.hpp"
#include "bounds/theorems/outward.hpp"
#include "bounds/theorems/rows.hpp"
#include "bounds/theorems/trajectories.hpp"
#include "num/parallel.hpp"

namespace driftbound::bounds {
namespace {

/// How many rows go forward and back together: up to 64, whose data stay in the processor's cache; fewer of large ones.
std::size_t rows_together(const Program& program) {
  constexpr std::size_t most_rows = 64, most_numbers = std::size_t{1} << 22;
  return std::clamp<std::size_t>(most_numbers / std::max<std::size_t>(numbers_of_row(program), 1), 1, most_rows);
}

/// T-75: random radii are used if the remainder, after its reduction, is more than this share of the estimate.
constexpr double large_left = 0.1;

/// T-72: the remainders of elements that are not refined may add up to this share of the local errors. It is below
/// remainder_left because sweeps that stop early contribute too.
constexpr double left_unrefined = 0.01;

/// The shadow's own error may be at most this share of a bound …
constexpr double negligible = 0x1p-10;
/// … and at most this share of an estimate.
constexpr double negligible_by_chance = 0x1p-6;

/// The sum of an attribution has an error of about 10^-8 of the root of the sum of the squares of its terms. If the sum
/// is below this share of that root, it is recomputed in extended precision.
constexpr double cancelling = 0x1p-6;

/// sum d_i rounding_i and the sum of the squares of its terms, in lanes.
struct TermsOfRow {
  double sum = 0.0, squares = 0.0;
};
TermsOfRow terms_of(const double* d, const double* rounding, std::size_t n) {
  constexpr std::size_t lanes = 8;
  double sums[lanes] = {}, squares[lanes] = {};
  const auto add = [&](std::size_t lane, std::size_t i) {
    const double term = d[i] * rounding[i];
    sums[lane] += term;
    squares[lane] += term * term;
  };
  const std::size_t whole = n / lanes * lanes;
  for (std::size_t i = 0; i < whole; i += lanes)
    for (std::size_t lane = 0; lane < lanes; ++lane) add(lane, i + lane);
  for (std::size_t i = whole; i < n; ++i) add(0, i);
  return {std::accumulate(sums, sums + lanes, 0.0), std::accumulate(squares, squares + lanes, 0.0)};
}

/// T-75, K: sum |d_i| kappa_i over the elements with |slope_i| radius_i < kappa_i; without radii (null), over all. In
/// lanes, which a compiler keeps in registers.
double unattributed_remainder(const double* d, const double* remainder, const double* slopes, const double* radius,
                              std::size_t n) {
  constexpr std::size_t lanes = 8;
  double sums[lanes] = {};
  const auto term = [&](std::size_t i) {
    const double seen = radius == nullptr || radius[i] == 0.0 ? 0.0 : std::abs(slopes[i]) * radius[i];
    return remainder[i] <= seen ? 0.0 : std::abs(d[i]) * remainder[i];
  };
  const std::size_t whole = n / lanes * lanes;
  for (std::size_t i = 0; i < whole; i += lanes)
    for (std::size_t lane = 0; lane < lanes; ++lane) sums[lane] += term(i + lane);
  for (std::size_t i = whole; i < n; ++i) sums[0] += term(i);
  return std::accumulate(sums, sums + lanes, 0.0);
}

bool is_zero(const std::vector<double>& values) {
  return std::all_of(values.begin(), values.end(), [](double x) { return x == 0.0; });
}

/// Replaces numbers by those of `before` where these are smaller.
void keep_smaller(const std::vector<double>& before, std::vector<double>& values) {
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::min(values[i], before[i]);
}

}  // namespace

struct RunWalk::Memory {
  std::vector<RunRows> rows;              ///< by value
  std::vector<RunErrors> errors;          ///< by node
  std::vector<RecordedRows> recorded;     ///< by value
  std::vector<double> images;             ///< f(recorded operands) of one node
  std::vector<RunAdjoint> adjoints;       ///< by value: adjoints of a second sweep of the targets …
  std::vector<RunAdjoint> kept;           ///< … and of the first one; those of refinable nodes are kept
  std::vector<std::vector<double>> free;  ///< buffers of adjoints that are no longer needed
  RefinedRadii::Memory radii;
  Refinement refinement;
  RadiiByChance::Memory by_chance;
  RunAdjoint share;
  RunRows before;  ///< rows of a value before they are found again
  RunScratch scratch;
  std::vector<char> undecided;
  std::uint64_t walk = 0;  ///< identity of the walk that used it last
};

/// A pool of buffers, one per thread. Thread-safe.
class RunMemories {
public:
  std::unique_ptr<RunWalk::Memory> take(const Program& program, std::uint64_t walk) {
    std::unique_ptr<RunWalk::Memory> memory = kept();
    if (memory->walk != walk) forget(*memory);
    memory->walk = walk;
    memory->rows.resize(program.size());
    memory->adjoints.resize(program.size());
    memory->kept.resize(program.size());
    memory->errors.resize(program.fused().nodes.size());
    memory->recorded.resize(program.size());
    return memory;
  }

  void put_back(std::unique_ptr<RunWalk::Memory> memory) {
    const std::lock_guard lock(mutex_);
    kept_.push_back(std::move(memory));
  }

private:
  /// Clears the results of another walk but keeps the allocated memory.
  static void forget(RunWalk::Memory& memory) {
    for (RunErrors& errors : memory.errors) errors.clear();
    for (RecordedRows& rows : memory.recorded) rows.rounding.clear();
  }

  std::unique_ptr<RunWalk::Memory> kept() {
    const std::lock_guard lock(mutex_);
    if (kept_.empty()) return std::make_unique<RunWalk::Memory>();
    std::unique_ptr<RunWalk::Memory> memory = std::move(kept_.back());
    kept_.pop_back();
    return memory;
  }

  std::mutex mutex_;
  std::vector<std::unique_ptr<RunWalk::Memory>> kept_;
};

std::shared_ptr<RunMemories> run_memories() {
  return std::make_shared<RunMemories>();
}

/// All computations for some rows of a block: forward pass, adjoint sweeps, refinement and estimates.
class RunPart {
public:
  RunPart(const RunWalk& walk, const Program& program, const RunRequest& request, RunWalk::Memory& memory,
          std::span<const std::size_t> rows)
      : walk_(walk),
        program_(program),
        graph_(program.flat().graph),
        nodes_(program.fused().nodes),
        request_(request),
        memory_(memory),
        refinement_(memory.refinement),
        of_block_(rows),
        count_(rows.size()),
        all_rows_(rows.size()),
        needs_refining_(rows.size(), 0),
        needs_random_signs_(rows.size(), 0),
        is_estimated_(rows.size(), 0),
        cancels_(rows.size(), 0),
        state_{program, walk.sizes_, walk.steps_, request, memory.rows, memory.errors},
        recorded_node_(program.size()) {
    if (request.recorded != nullptr)
      for (std::size_t node = 0; node < request.recorded->layers.size(); ++node)
        recorded_node_[program.value_of_node(node)] = node;
    std::iota(all_rows_.begin(), all_rows_.end(), std::size_t{0});
    for (std::size_t node = 0; node < nodes_.size(); ++node) {
      is_refinable_.push_back(may_be_refined(program, nodes_[node]));
      const RunStep* const step = walk.steps_[node].get();
      is_charged_later_.push_back(is_refinable_.back() || (step != nullptr && step->has_remainder_of_radii()));
    }
    memory_.undecided.assign(count_, 0);
    refinement_.weight.resize(program.size());
    for (std::vector<double>& weight : refinement_.weight) weight.clear();
  }

  void start(const std::vector<Tensor<double>>& inputs, const std::vector<std::vector<double>>& input_error) {
    for (std::size_t i = 0; i < inputs.size(); ++i) start(graph_.inputs[i], inputs[i].values, input_error[i]);
  }

  void forward() {
    for (std::size_t node = 0; node < nodes_.size(); ++node) {
      if (walk_.steps_[node] == nullptr) continue;
      const ValueId output = nodes_[node].output;
      memory_.rows[output].resize(count_, walk_.sizes_[output], request_.in_order);
      memory_.errors[node].takes_chords = false;
      step_forward(node);
    }
    find_correlated();
  }

  void certify(const std::vector<std::vector<Seed>>& targets, RunCertificates& certificates) {
    for (Condition& condition : certificates.condition)
      for (std::vector<double>& layer : condition.layers)
        for (const std::size_t row : of_block_) layer[row] = 0.0;
    Sweep sweep{memory_.kept, all_rows_, certificates, certificates.condition, certificates.attribution, true};
    follow(targets, sweep);
    keep(sweep);
    note_cancelling(sweep);
    conclude(targets, certificates.condition, certificates);
    for (std::size_t target = 0; target < certificates.condition.size(); ++target)
      for (std::size_t row = 0; row < count_; ++row) conclude(targets[target], row, certificates.condition[target]);
    for (std::size_t target = 0; target < targets.size(); ++target) weigh(target, certificates.targets[target]);
  }

  /// T-72: refines the radii of at most `most` elements and charges the remainders that depend on them again, with the
  /// adjoints of the sweep of certify(). Where a node that is expanded sample by sample has a remainder, all radii behind
  /// it are found again before the next ones are refined; elsewhere all other radii are unchanged.
  void refine(std::int64_t most, const std::vector<std::vector<Seed>>& targets, RunCertificates& certificates) {
    choose_radii(most);
    std::size_t last_stage = 0, known_to = 0;  // the stage done last; the radii of the nodes before its end are final
    for (const std::size_t end : ends_of_stages()) {
      if (known_to > 0) {
        find_again(last_stage, end);
        choose_elements(known_to, end);
      }
      refine_stage(known_to, end);
      last_stage = std::exchange(known_to, end);
    }
    std::fill(needs_refining_.begin(), needs_refining_.end(), char{0});
    std::fill(needs_random_signs_.begin(), needs_random_signs_.end(), char{0});
    conclude(targets, {}, certificates);
  }

  /// T-65, for rows with large remainders: a second sweep with chords as the slopes of undecided kinks.
  void take_chords(const std::vector<std::vector<Seed>>& targets, RunCertificates& certificates) {
    std::vector<std::size_t> rows;
    for (std::size_t row = 0; row < count_; ++row)
      if (needs_refining_[row] != 0) rows.push_back(row);
    bool any = false;
    for (std::size_t node = 0; node < nodes_.size(); ++node) {
      if (walk_.steps_[node] == nullptr || !std::holds_alternative<op::Relu>(nodes_[node].op)) continue;
      memory_.errors[node].takes_chords = any = true;
      update_remainder(node, rows);
    }
    if (!any || rows.empty()) return;
    takes_chords_ = true;
    Sweep sweep{memory_.adjoints, rows, certificates, {}, {}};
    follow(targets, sweep);
    for (std::size_t target = 0; target < targets.size(); ++target)
      for (std::size_t i = 0; i < rows.size(); ++i)
        conclude(targets[target], target, rows[i], sweep.sums[target][i], certificates);
  }

  /// T-75 with the adjoints of the sweep of certify(), and with random radii in rows with a large remainder. Rows whose
  /// random radii are rejected have no final estimate yet.
  void estimate(RunCertificates& certificates) {
    std::vector<std::size_t> rows;
    for (std::size_t row = 0; row < count_; ++row) {
      if (needs_random_signs_[row] == 0)
        estimate(row, certificates);
      else if (memory_.undecided[row] == 0)
        rows.push_back(row);
    }
    if (rows.empty()) return;
    const RadiiByChance radii(state_, memory_.by_chance, rows);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      needs_random_signs_[rows[i]] = 0;
      if (!radii.rules(i)) continue;
      estimate(rows[i], certificates);
      for (std::size_t target = 0; target < certificates.chance.size(); ++target)
        take_remainder_by_chance(remainder_by_chance(radii, target, i, rows[i]),
                                 *certificates.chance[target].random_order, of_block_[rows[i]]);
    }
  }

  /// Estimates of the other rows, with the slopes that their bounds use. Marks a row undecided if the shadow's error is
  /// more than 2^-6 of an estimate.
  void estimate_the_rest(const std::vector<std::vector<Seed>>& targets, RunCertificates& certificates) {
    for (std::size_t row = 0; row < count_; ++row) {
      if (is_estimated_[row] == 0) estimate(row, certificates);
      for (std::size_t target = 0; target < targets.size(); ++target) {
        const double total = certificates.chance[target].random_order->total[of_block_[row]];
        const double of_shadow = shadow_error(targets[target], row).value();
        if (std::isfinite(total) && !(of_shadow <= negligible_by_chance * total)) memory_.undecided[row] = 1;
      }
    }
  }

  /// Reads the recorded run and computes its local errors and secants (T-73). Called after forward().
  void record(const RecordedBlock& block) {
    std::vector<RecordedLayer> known(program_.size());
    for (std::size_t node = 0; node < block.layers.size(); ++node) {
      RecordedLayer& layer = known[program_.value_of_node(node)];
      layer.values = &block.layers[node]->values;
      if (!block.exact.empty()) layer.exact = &block.exact[node]->values;
    }
    for (std::size_t i = 0; i < block.used.size(); ++i) {
      const ValueId id = graph_.inputs[i];
      put_recorded(id, block.used[i].values, memory_.rows[id].centre);
    }
    for (std::size_t node = 0; node < nodes_.size(); ++node)
      if (walk_.steps_[node] != nullptr) record(node, known[nodes_[node].output]);
  }

  bool has_large_remainders() const {
    return std::any_of(needs_refining_.begin(), needs_refining_.end(), [](char needs) { return needs != 0; });
  }

  std::size_t size() const { return count_; }
  bool cancels(std::size_t row) const { return cancels_[row] != 0; }
  bool is_undecided(std::size_t row) const { return memory_.undecided[row] != 0; }

private:
  struct Sums {
    Magnitude total, local, remainder;
    Magnitude total_in_order, local_in_order, remainder_in_order;
    Magnitude rest, squares;                      ///< T-74: part not modelled as random, and sum of squares
    Magnitude estimated_rest, estimated_squares;  ///< the same of T-75, squares of errors that no order changes
    double unattributed = 0.0;                    ///< T-75: K
    std::vector<SumsByChance> ordered;            ///< T-75: variances of the sums of each node
    TermPattern pattern = TermPattern::none;
  };
  using AllSums = std::vector<std::vector<Sums>>;  ///< by target and row
  /// One recorded value of a run for all rows of the block, and f(recorded operands); null if unknown.
  struct RecordedLayer {
    const std::vector<double>* values = nullptr;
    const std::vector<Ball>* exact = nullptr;
  };
  /// One adjoint sweep of all targets. An adjoint has one row per target and selected row of the block, target by
  /// target, followed by those of the first targets with secants as slopes (T-73).
  struct Sweep {
    std::vector<RunAdjoint>& adjoints;
    std::span<const std::size_t> rows;
    RunCertificates& certificates;        ///< receives the contributions of the layers
    std::span<Condition> conditions;      ///< of the first targets
    std::span<Attribution> attributions;  ///< of the first targets
    bool charges_later = false;           ///< nodes with is_charged_later_ are; their adjoints are kept
    AllSums sums = {};
    std::vector<std::vector<double>> squares = {};  ///< sums of squares of terms, by target and row
  };

  /// For each row of an adjoint: its row in the values, and its row in the slopes, where secants follow the slopes.
  struct AdjointRows {
    std::vector<std::size_t> of_values, of_slopes;
  };

  /// Contributions of nodes whose remainders do not fall.
  struct Kept {
    AllSums sums;
    std::vector<double> layers;  ///< Certificate::layers, by target, layer and row
  };

  void step_forward(std::size_t node) {
    const Node& of = nodes_[node];
    const std::vector<const RunRows*> operands = operands_of(of);
    memory_.scratch.known = known_result(of);
    memory_.scratch.known_sums = known_sums_of(of);
    memory_.scratch.state = &state_;
    walk_.steps_[node]->forward(operands, request_, memory_.rows[of.output], memory_.errors[node], memory_.undecided,
                                memory_.scratch);
  }

  std::span<const double> known_result(const Node& node) const {
    if (request_.products == nullptr || !program_.varies(node.inputs[0])) return {};
    return request_.products->find(node.output, of_block_.front(), count_, at(program_.rows()),
                                   memory_.rows[node.inputs[0]].centre);
  }

  /// Sums that the local bounds of the recorded run have computed for this node, with their operand.
  KnownSums known_sums_of(const Node& node) const {
    const RecordedBlock* block = request_.recorded;
    if (block == nullptr || block->sums.empty()) return {};
    const std::optional<std::size_t> of = recorded_node_[node.output];
    if (!of || block->sums[*of] == nullptr) return {};
    const std::vector<double>* operand = recorded_values(node.inputs[0]);
    const std::size_t rows = at(program_.rows());
    if (operand == nullptr || block->sums[*of]->scales.size() != rows ||
        operand->size() != rows * walk_.sizes_[node.inputs[0]])
      return {};
    const std::size_t first = of_block_.front();
    return {block->sums[*of], first, operand->data() + first * walk_.sizes_[node.inputs[0]]};
  }

  /// Null if the run did not record the value.
  const std::vector<double>* recorded_values(ValueId id) const {
    if (recorded_node_[id]) return &request_.recorded->layers[*recorded_node_[id]]->values;
    for (std::size_t i = 0; i < graph_.inputs.size(); ++i)
      if (graph_.inputs[i] == id) return &request_.recorded->used[i].values;
    return nullptr;
  }

  void update_remainder(std::size_t node, std::span<const std::size_t> rows) {
    const Node& of = nodes_[node];
    walk_.steps_[node]->update_remainder(memory_.rows[of.inputs[0]], memory_.rows[of.output], rows, request_,
                                         memory_.errors[node], memory_.scratch);
  }

  /// The rows of a node's operands; null for constants.
  std::vector<const RunRows*> operands_of(const Node& node) const {
    std::vector<const RunRows*> operands;
    for (const ValueId id : node.inputs) operands.push_back(program_.varies(id) ? &memory_.rows[id] : nullptr);
    return operands;
  }

  static std::vector<std::size_t> rows_of(const std::vector<RowElement>& elements) {
    std::vector<std::size_t> rows;
    for (const RowElement& one : elements)
      if (rows.empty() || rows.back() != at(one.row)) rows.push_back(at(one.row));
    return rows;
  }

  void keep(Sweep& sweep) {
    kept_.sums = std::move(sweep.sums);
    kept_.layers.clear();
    for (const Certificate& certificate : sweep.certificates.targets)
      for (const std::vector<double>& layer : certificate.layers)
        for (const std::size_t row : of_block_) kept_.layers.push_back(layer[row]);
  }

  /// Adds the contributions of nodes whose remainders may fall to those kept, and computes the bounds of all targets.
  void conclude(const std::vector<std::vector<Seed>>& targets, std::span<Condition> conditions,
                RunCertificates& certificates) {
    auto kept = kept_.layers.begin();
    for (Certificate& certificate : certificates.targets)
      for (std::vector<double>& layer : certificate.layers)
        for (const std::size_t row : of_block_) layer[row] = *kept++;
    Sweep sweep{memory_.kept, all_rows_, certificates, conditions, {}, true, kept_.sums};
    for (std::size_t node = nodes_.size(); node-- > 0;) {
      const ValueId output = nodes_[node].output;
      if (is_charged_later_[node] && !sweep.adjoints[output].defect.empty())
        charge(output, memory_.errors[node], sweep, node);
    }
    for (std::size_t target = 0; target < targets.size(); ++target)
      for (std::size_t row = 0; row < count_; ++row)
        conclude(targets[target], target, row, sweep.sums[target][row], certificates);
  }

  /// Refinement::weight of one target: |d| over the contribution of local errors, in rows with large remainders.
  void weigh(std::size_t target, const Certificate& certificate) {
    for (std::size_t node = 0; node < nodes_.size(); ++node) {
      if (!is_refinable_[node] || memory_.errors[node].remainder.empty()) continue;
      const ValueId id = nodes_[node].output;
      if (memory_.kept[id].defect.empty()) continue;
      const std::size_t size = walk_.sizes_[id];
      std::vector<double>& weight = refinement_.weight[id];
      weight.resize(count_ * size, 0.0);
      const double* adjoint = memory_.kept[id].d.data() + target * count_ * size;
      for (std::size_t row = 0; row < count_; ++row) {
        const double local = certificate.local[of_block_[row]];
        if (needs_refining_[row] == 0 || !(local > 0.0)) continue;
        for (std::size_t i = row * size; i < (row + 1) * size; ++i)
          weight[i] = std::max(weight[i], std::abs(adjoint[i]) / local);
      }
    }
  }

  void conclude(const std::vector<Seed>& seeds, std::size_t target, std::size_t row, const Sums& sums,
                RunCertificates& certificates) {
    const Magnitude of_shadow = conclude(seeds, row, sums, certificates.targets[target]);
    if (request_.in_order) conclude_in_order(seeds, row, sums, of_shadow, certificates.in_order[target]);
    const double local = certificates.targets[target].local[of_block_[row]];
    conclude_by_chance(target, row, sums, of_shadow, local, certificates.chance[target]);
  }

  /// Runs the adjoint sweep of all targets and charges every node that it passes.
  void follow(const std::vector<std::vector<Seed>>& targets, Sweep& sweep) {
    sweep.sums.assign(targets.size(), std::vector<Sums>(sweep.rows.size()));
    for (RunAdjoint& adjoint : sweep.adjoints) adjoint.defect.clear();
    for (Certificate& certificate : sweep.certificates.targets)
      for (std::vector<double>& layer : certificate.layers)
        for (const std::size_t row : sweep.rows) layer[of_block_[row]] = 0.0;
    sweep.squares.assign(sweep.attributions.size(), std::vector<double>(sweep.rows.size(), 0.0));
    const std::size_t all = targets.size() + sweep.attributions.size();
    AdjointRows rows;
    for (std::size_t i = 0; i < all; ++i) {
      const bool takes_secants = i >= targets.size();
      set_seeds(targets[takes_secants ? i - targets.size() : i], sweep.adjoints, sweep.rows.size(), i, all);
      for (const std::size_t row : sweep.rows) {
        rows.of_values.push_back(row);
        rows.of_slopes.push_back(takes_secants ? count_ + row : row);
      }
    }
    for (std::size_t node = nodes_.size(); node-- > 0;) {
      const ValueId output = nodes_[node].output;
      if (sweep.adjoints[output].defect.empty()) continue;
      const bool is_charged_later = sweep.charges_later && is_charged_later_[node];
      if (!is_charged_later) charge(output, memory_.errors[node], sweep, node);
      attribute(output, node, sweep);
      pull_back(node, rows, sweep.adjoints);
      if (!is_charged_later) release(sweep.adjoints[output]);
    }
    for (const ValueId id : graph_.inputs) {
      if (sweep.adjoints[id].defect.empty()) continue;
      RunErrors of_input;
      of_input.added = memory_.rows[id].radius;
      if (request_.in_order) of_input.added_in_order = of_input.added;
      charge(id, of_input, sweep, std::nullopt);
      attribute(id, std::nullopt, sweep);
    }
  }

  void start(ValueId id, const std::vector<double>& values, const std::vector<double>& error) {
    const std::size_t size = walk_.sizes_[id];
    RunRows& rows = memory_.rows[id];
    rows.resize(count_, size, request_.in_order);
    std::fill(rows.radius.begin(), rows.radius.end(), 0.0);
    for (std::size_t row = 0; row < count_; ++row) {
      const std::size_t from = of_block_[row] * size;
      std::copy_n(values.data() + from, size, rows.centre.data() + row * size);
      if (!error.empty()) std::copy_n(error.data() + from, size, rows.radius.data() + row * size);
    }
    for (std::size_t row = 0; row < count_; ++row) {
      rows.norm[row] = norm_of_radii(rows, row);
      if (!std::isfinite(row_kernels().largest(rows.centre.data() + row * size, size))) memory_.undecided[row] = 1;
    }
    if (request_.in_order) rows.in_order = {rows.radius, rows.norm};
  }

  /// Finds the sets of elements of a row whose errors may be correlated (T-74).
  void find_correlated() {
    if (!request_.chance.any()) return;
    correlated_.assign(nodes_.size(), {});
    for (std::size_t node = 0; node < nodes_.size(); ++node) {
      if (walk_.steps_[node] == nullptr || memory_.errors[node].added.empty()) continue;
      const RunRows& rows = memory_.rows[nodes_[node].output];
      const RunErrors& errors = memory_.errors[node];
      correlated_[node].resize(count_);
      for (std::size_t row = 0; row < count_; ++row) {
        const auto of_row = [&](const std::vector<double>& values) {
          return std::span(values).subspan(row * rows.size(), rows.size());
        };
        const std::span<const double> values = of_row(rows.centre);
        const bool is_sum = !errors.amplitudes.empty();
        const std::span<const double> amplitudes = of_row(is_sum ? errors.amplitudes : errors.added);
        if (!may_have_equals(values, amplitudes, is_sum ? of_row(errors.estimates) : amplitudes)) continue;
        correlated_[node][row] = {
            theorems::correlated_elements(values, of_row(is_sum ? errors.amplitudes : errors.added)),
            is_sum ? theorems::correlated_elements(values, of_row(errors.estimates)) : Correlated()};
      }
    }
  }

  void estimate(std::size_t row, RunCertificates& certificates) {
    const std::size_t of_block = of_block_[row];
    is_estimated_[row] = 1;
    for (std::size_t target = 0; target < certificates.targets.size(); ++target)
      estimate_remainder(certificates.targets[target].local[of_block], *certificates.chance[target].random_order,
                         of_block);
  }

  double remainder_by_chance(const RadiiByChance& radii, std::size_t target, std::size_t i, std::size_t row) const {
    double sum = 0.0;
    for (std::size_t node = 0; node < nodes_.size(); ++node) {
      if (!is_charged_later_[node]) continue;
      const ValueId id = nodes_[node].output;
      const std::size_t size = walk_.sizes_[id];
      const double* remainder = radii.remainder(node, i);
      const RunAdjoint& adjoint = memory_.kept[id];
      if (remainder != nullptr && !adjoint.defect.empty())
        sum += row_kernels().weighted_sum(adjoint.d.data() + (target * count_ + row) * size, remainder, size);
    }
    return sum;
  }

  double norm_of_radii(const RunRows& rows, std::size_t row) const {
    return theorems::norm_of_vector(std::span(rows.radius).subspan(row * rows.size(), rows.size())).value();
  }

  /// Adds the seeds of target number `target` of `targets` to the adjoints, for `rows` rows each.
  void set_seeds(const std::vector<Seed>& seeds, std::vector<RunAdjoint>& adjoints, std::size_t rows,
                 std::size_t target, std::size_t targets) {
    for (const Seed& seed : seeds) {
      RunAdjoint& adjoint = adjoints[seed.value];
      const std::size_t size = walk_.sizes_[seed.value];
      if (adjoint.defect.empty()) {
        take_memory(adjoint);
        adjoint.d.assign(targets * rows * size, 0.0);
      }
      adjoint.defect.assign(targets * rows, 0.0);
      for (std::size_t row = target * rows; row < (target + 1) * rows; ++row)
        adjoint.d[row * size + at(seed.element)] += seed.factor;
    }
  }

  void limit_norms(RunRows& rows) const {
    for (std::size_t row = 0; row < count_; ++row)
      rows.norm[row] = theorems::norm_of_row(norm_of_radii(rows, row), rows.norm[row]);
    if (!request_.in_order) return;
    for (std::size_t row = 0; row < count_; ++row) {
      const Magnitude norm =
          theorems::norm_of_vector(std::span(rows.in_order.radius).subspan(row * rows.size(), rows.size()));
      rows.in_order.norm[row] = theorems::norm_of_row(norm.value(), rows.in_order.norm[row]);
    }
  }

  /// Charges a value to all targets. `node`: the node with this output; empty for an input.
  void charge(ValueId id, const RunErrors& errors, Sweep& sweep, std::optional<std::size_t> node) const {
    for (std::size_t i = 0; i < sweep.rows.size(); ++i)  // rows outside: a row's errors stay in the processor's cache
      for (std::size_t target = 0; target < sweep.sums.size(); ++target) charge(id, errors, sweep, node, target, i);
  }

  void charge(ValueId id, const RunErrors& errors, Sweep& sweep, std::optional<std::size_t> node, std::size_t target,
              std::size_t i) const {
    const std::size_t size = walk_.sizes_[id], row = sweep.rows[i], of_adjoint = target * sweep.rows.size() + i;
    const RunAdjoint& adjoint = sweep.adjoints[id];
    const RunRows* operand = node ? operand_of_function(state_, *node) : nullptr;
    const double* d = adjoint.d.data() + of_adjoint * size;
    Sums& sums = sweep.sums[target][i];
    const ChargedRow charged_row{id, errors, operand, row, d, adjoint.defect[of_adjoint]};
    const Charge any_order = charge_of(state_, charged_row, sums.total);
    sums.total += any_order.total;
    sums.local += any_order.local;
    sums.remainder += any_order.remainder;
    if (request_.in_order) {
      const Charge in_order = charge_in_order(state_, charged_row, sums.total_in_order);
      sums.total_in_order += in_order.total;
      sums.local_in_order += in_order.local;
      sums.remainder_in_order += in_order.remainder;
    }
    if (!node) return charge_input_by_chance(any_order.local, any_order.defect, sums);
    const std::size_t layer = program_.fused().of_node[*node];
    double& of_layer = sweep.certificates.targets[target].layers[layer][of_block_[row]];
    of_layer = (Magnitude(of_layer) + any_order.local + any_order.remainder).value();
    if (request_.chance.any()) charge_by_chance(d, any_order, errors, *node, row, sums);
    if (request_.chance.random_order > 0.0 && !(any_order.remainder == Magnitude()))
      sums.unattributed += unattributed(charged_row);
    if (target >= sweep.conditions.size()) return;
    const std::vector<double>& sizes = errors.sizes.empty() ? memory_.rows[id].centre : errors.sizes;
    sweep.conditions[target].layers[layer][of_block_[row]] +=
        row_kernels().weighted_sum(d, sizes.data() + row * size, size);
  }

  /// T-75: contribution of one value to K.
  double unattributed(const ChargedRow& of) const {
    if (of.errors.remainder.empty()) return 0.0;
    const std::size_t size = walk_.sizes_[of.id], first = of.row * size;
    if (!of.errors.unattributed.empty())
      return row_kernels().weighted_sum(of.d, of.errors.unattributed.data() + first, size);
    const double* const radius = of.operand == nullptr ? nullptr : of.operand->radius.data() + first;
    return unattributed_remainder(of.d, of.errors.remainder.data() + first, of.errors.slopes.data() + first, radius,
                                  size);
  }

  /// Errors of inputs are not modelled as random.
  void charge_input_by_chance(Magnitude local, Magnitude defect, Sums& sums) const {
    sums.rest += theorems::charge(local, Magnitude(), defect);
    sums.estimated_rest += theorems::charge(local, Magnitude(), defect);
  }

  /// T-74 adds the squares of the amplitudes of sums and of nodes that round once, and charges other local errors in
  /// full. T-75 adds the variances of sums, and a third of the square of every other local error.
  void charge_by_chance(const double* d, const Charge& parts, const RunErrors& errors, std::size_t node,
                        std::size_t row, Sums& sums) const {
    const std::size_t size = walk_.sizes_[nodes_[node].output];
    const Magnitude rest = errors.residuals.empty() ? parts.local : charged(d, errors.residuals, row, size);
    const bool is_sum = !errors.amplitudes.empty();
    const Magnitude estimated_rest = is_sum ? rest : Magnitude();
    sums.rest += theorems::charge(rest, parts.remainder, parts.defect);
    sums.estimated_rest += theorems::charge(estimated_rest, parts.remainder, parts.defect);
    if (errors.added.empty()) return;
    const CorrelatedOfRow& alike = correlated_[node][row];
    const Magnitude by_added = is_sum ? Magnitude() : squares(d, errors.added, alike.by_amplitude, row, size);
    if (is_sum) {
      const Magnitude in_worst_order = squares(d, errors.amplitudes, alike.by_amplitude, row, size);
      sums.squares += in_worst_order;
      const double variance = squares(d, errors.estimates, alike.by_estimate, row, size).value();
      const std::span<const double> of_row = std::span(errors.estimates).subspan(row * size, size);
      const double largest = alike.by_estimate.empty() ? largest_square({d, size}, of_row) : variance;
      sums.ordered.push_back({variance, largest, rounding_variance * in_worst_order.value()});
    } else {
      if (errors.rounds_once) sums.squares += by_added;
      sums.estimated_squares += by_added * Magnitude(1.0 / 3.0);
    }
    if (errors.patterns.empty() || sums.pattern != TermPattern::none) return;
    for (std::size_t i = 0; i < size && sums.pattern == TermPattern::none; ++i)
      if (d[i] != 0.0) sums.pattern = errors.patterns[row * size + i];
  }

  Magnitude squares(const double* d, const std::vector<double>& amplitudes, const std::vector<std::uint32_t>& alike,
                    std::size_t row, std::size_t size) const {
    const std::span<const double> of_row = std::span(amplitudes).subspan(row * size, size);
    if (!alike.empty()) return theorems::weighted_squares({d, size}, of_row, alike);
    const double sum = row_kernels().weighted_squares(d, of_row.data(), size);
    const auto terms = static_cast<std::int64_t>(size);
    return Magnitude(theorems::outward(sum, 4 * terms, terms)) + Magnitude(static_cast<double>(size) * 0x1p-1060);
  }

  /// Stores recorded values and local errors. `of_block`: the recorded value, all rows of the block; `images`:
  /// f(recorded operands) for the rows of this part.
  void put_recorded(ValueId id, const std::vector<double>& of_block, const std::vector<double>& images) {
    const std::size_t size = walk_.sizes_[id];
    RecordedRows& rows = memory_.recorded[id];
    rows.values.resize(count_ * size);
    rows.rounding.resize(count_ * size);
    for (std::size_t row = 0; row < count_; ++row)
      std::copy_n(of_block.data() + of_block_[row] * size, size, rows.values.data() + row * size);
    for (std::size_t i = 0; i < rows.values.size(); ++i) rows.rounding[i] = rows.values[i] - images[i];
  }

  void record(std::size_t node, const RecordedLayer& recorded) {
    if (recorded.exact != nullptr && record_known(node, recorded)) return;
    const Node& of = nodes_[node];
    std::vector<const double*> operands;
    for (const ValueId id : of.inputs)
      operands.push_back(program_.varies(id) ? memory_.recorded[id].values.data() : nullptr);
    RecordedRows& rows = memory_.recorded[of.output];
    std::vector<double>& images = recorded.values == nullptr ? rows.values : memory_.images;
    images.resize(count_ * walk_.sizes_[of.output]);
    walk_.steps_[node]->evaluate(operands, count_, images);
    find_secants(node, images);
    if (recorded.values == nullptr) return rows.rounding.clear();
    put_recorded(of.output, *recorded.values, images);
  }

  /// Uses enclosures of f(recorded operands). Returns false if one of them is not finite.
  bool record_known(std::size_t node, const RecordedLayer& recorded) {
    const Node& of = nodes_[node];
    const std::size_t size = walk_.sizes_[of.output];
    RecordedRows& rows = memory_.recorded[of.output];
    rows.values.resize(count_ * size);
    rows.rounding.resize(count_ * size);
    memory_.images.resize(count_ * size);
    bool is_known = true;
    for (std::size_t row = 0; row < count_; ++row) {
      const double* const run = recorded.values->data() + of_block_[row] * size;
      const Ball* const exact = recorded.exact->data() + of_block_[row] * size;
      double *const values = rows.values.data() + row * size, *const rounding = rows.rounding.data() + row * size,
                    *const images = memory_.images.data() + row * size;
      for (std::size_t i = 0; i < size; ++i) {
        is_known &= std::isfinite(exact[i].radius.value());
        values[i] = run[i];
        images[i] = exact[i].hi;
        rounding[i] = run[i] - exact[i].hi - exact[i].lo;
      }
    }
    if (is_known) find_secants(node, memory_.images);
    return is_known;
  }

  /// Appends secants to the slopes. `values`: the function at recorded operands.
  void find_secants(std::size_t node, const std::vector<double>& values) {
    RunErrors& errors = memory_.errors[node];
    if (!errors.slopes.empty()) return find_secants(nodes_[node], values, errors.slopes);
    if (!errors.may_have_secants()) return;
    const Node& of = nodes_[node];
    std::vector<const RecordedRows*> run;
    for (const ValueId id : of.inputs) run.push_back(program_.varies(id) ? &memory_.recorded[id] : nullptr);
    walk_.steps_[node]->add_secants(operands_of(of), run, memory_.rows[of.output], errors);
  }

  /// Appends the secants of a function of one element to its slopes. Where the run's operand equals the shadow's, the
  /// secant is the slope.
  void find_secants(const Node& node, const std::vector<double>& values, std::vector<double>& slopes) const {
    const RunRows &x = memory_.rows[node.inputs[0]], &y = memory_.rows[node.output];
    const std::vector<double>& run = memory_.recorded[node.inputs[0]].values;
    const std::size_t size = run.size();
    slopes.resize(2 * size);
    for (std::size_t i = 0; i < size; ++i) {
      const double step = run[i] - x.centre[i];
      slopes[size + i] = step == 0.0 ? slopes[i] : (values[i] - y.centre[i]) / step;
    }
  }

  /// T-73: adds d . rounding, the effect of the recorded run's local errors of a value on the targets. `node`: the node
  /// with this output; empty for an input.
  void attribute(ValueId id, std::optional<std::size_t> node, Sweep& sweep) const {
    const std::size_t size = walk_.sizes_[id];
    if (sweep.attributions.empty() || memory_.recorded[id].rounding.empty()) return;
    for (std::size_t target = 0; target < sweep.attributions.size(); ++target) {
      Attribution& parts = sweep.attributions[target];
      std::vector<double>& sums = node ? parts.layers[program_.fused().of_node[*node]] : parts.inputs;
      const double* d = sweep.adjoints[id].d.data() + (sweep.sums.size() + target) * count_ * size;
      const double* rounding = memory_.recorded[id].rounding.data();
      for (std::size_t row = 0; row < count_; ++row, d += size, rounding += size) {
        const TermsOfRow terms = terms_of(d, rounding, size);
        sums[of_block_[row]] += terms.sum;
        sweep.squares[target][row] += terms.squares;
      }
    }
  }

  /// Marks the rows in which the sum of an attribution cancels.
  void note_cancelling(const Sweep& sweep) {
    for (std::size_t target = 0; target < sweep.attributions.size(); ++target) {
      const Attribution& parts = sweep.attributions[target];
      for (std::size_t row = 0; row < count_; ++row) {
        double sum = parts.inputs[of_block_[row]];
        for (const std::vector<double>& layer : parts.layers) sum += layer[of_block_[row]];
        if (std::abs(sum) < cancelling * std::sqrt(sweep.squares[target][row])) cancels_[row] = 1;
      }
    }
  }

  void pull_back(std::size_t node, const AdjointRows& all_rows, std::vector<RunAdjoint>& adjoints) {
    const Node& of = nodes_[node];
    const RunErrors& errors = memory_.errors[node];
    const std::vector<std::size_t>& rows = errors.may_have_secants() ? all_rows.of_slopes : all_rows.of_values;
    for (std::size_t slot = 0; slot < of.inputs.size(); ++slot) {
      const ValueId id = of.inputs[slot];
      if (!program_.varies(id)) continue;
      RunAdjoint& operand = adjoints[id];
      const bool is_first = operand.defect.empty();
      RunAdjoint& share = is_first ? operand : memory_.share;
      if (is_first) take_memory(share);
      share.d.resize(rows.size() * walk_.sizes_[id]);
      share.defect.assign(rows.size(), 0.0);
      walk_.steps_[node]->pull_back(slot, memory_.errors[node], rows, adjoints[of.output], share);
      if (!is_first) add_share(walk_.sizes_[id], share, operand);
    }
  }

  void take_memory(RunAdjoint& adjoint) {
    if (!adjoint.d.empty() || memory_.free.empty()) return;
    std::swap(adjoint.d, memory_.free.back());
    memory_.free.pop_back();
  }

  /// Frees the buffer of an adjoint after its pull-back.
  void release(RunAdjoint& adjoint) {
    adjoint.defect.clear();
    memory_.free.emplace_back();
    std::swap(adjoint.d, memory_.free.back());
  }

  /// Selects the radii to refine, at most `most`.
  void choose_radii(std::int64_t most) {
    std::vector<std::vector<double>> remainders(program_.size());
    std::size_t nodes = 0;
    for (std::size_t node = 0; node < nodes_.size(); ++node) {
      const ValueId id = nodes_[node].output;
      if (refinement_.weight[id].empty()) continue;
      remainders[id] = memory_.errors[node].remainder;
      ++nodes;
    }
    refinement_.allowance = left_unrefined / static_cast<double>(std::max<std::size_t>(nodes, 1));
    refinement_.most_elements = most_refined_elements;
    refinement_.least = 0.0;
    chosen_.assign(nodes_.size(), {});
    if (choose_elements(0, nodes_.size()) <= static_cast<std::size_t>(std::max<std::int64_t>(most, 0))) return;
    refinement_.least = least_worth_refining(remainders, static_cast<std::int64_t>(count_), refinement_, most);
    choose_elements(0, nodes_.size());
  }

  /// Selects the elements to refine at the nodes from `first` up to `end`, by their present remainders. Returns their
  /// number.
  std::size_t choose_elements(std::size_t first, std::size_t end) {
    std::size_t count = 0;
    for (std::size_t node = first; node < end; ++node) {
      const ValueId id = nodes_[node].output;
      if (refinement_.weight[id].empty()) continue;
      chosen_[node] = worth_refining(refinement_.weight[id], memory_.errors[node].remainder,
                                     static_cast<std::int64_t>(count_), refinement_);
      count += chosen_[node].size();
    }
    return count;
  }

  /// One past the last node of every stage of refine(): a stage ends where elements have been selected and a node with
  /// a remainder follows that is expanded sample by sample.
  std::vector<std::size_t> ends_of_stages() const {
    std::vector<std::size_t> ends;
    bool any = false;
    for (std::size_t node = 0; node < nodes_.size(); ++node) {
      const bool mixes = is_charged_later_[node] && !is_refinable_[node] && !is_zero(memory_.errors[node].remainder);
      if (any && mixes) ends.push_back(node);
      any = (any && !mixes) || !chosen_[node].empty();
    }
    ends.push_back(nodes_.size());
    return ends;
  }

  /// Refines the radii of the elements that are selected at the nodes from `first` up to `end`.
  void refine_stage(std::size_t first, std::size_t end) {
    std::vector<std::vector<RowElement>> chosen(end);
    std::move(chosen_.begin() + static_cast<std::ptrdiff_t>(first), chosen_.begin() + static_cast<std::ptrdiff_t>(end),
              chosen.begin() + static_cast<std::ptrdiff_t>(first));
    if (std::all_of(chosen.begin(), chosen.end(), [](const auto& of_node) { return of_node.empty(); })) return;
    // What later remainders gain by a radius is not known to a sweep that stops early.
    const bool is_only_stage = first == 0 && end == nodes_.size();
    RefinedRadii radii(state_, memory_.radii, chosen, refinement_.weight,
                       is_only_stage ? RefinedRadii::Stops::early : RefinedRadii::Stops::never);
    for (std::size_t node = first; node < end; ++node) {
      if (chosen[node].empty()) continue;
      radii.find(node);
      limit_norms(memory_.rows[nodes_[node].inputs[0]]);
      update_remainder(node, rows_of(chosen[node]));
    }
  }

  /// Finds radii, local errors and remainders of the nodes from `first` up to `end` again; radii only fall.
  void find_again(std::size_t first, std::size_t end) {
    for (std::size_t node = first; node < end; ++node) {
      if (walk_.steps_[node] == nullptr) continue;
      RunRows& rows = memory_.rows[nodes_[node].output];
      memory_.before = rows;
      rows.resize(count_, rows.size(), request_.in_order);
      step_forward(node);
      keep_smaller(memory_.before.radius, rows.radius);
      keep_smaller(memory_.before.norm, rows.norm);
      if (!request_.in_order) continue;
      keep_smaller(memory_.before.in_order.radius, rows.in_order.radius);
      keep_smaller(memory_.before.in_order.norm, rows.in_order.norm);
    }
  }

  /// The shadow's own error: bound of |c.(exact - shadow)| for the target c with these seeds, by enclosures of the exact
  /// network (T-70) or by norms (T-82).
  Magnitude shadow_error(const std::vector<Seed>& seeds, std::size_t row) const {
    if (request_.knows_network()) {
      const auto of_row = [&](const Seed& seed, std::size_t in) {
        return in * walk_.sizes_[seed.value] + at(seed.element);
      };
      const Ball shadow = enclosure_of(
          seeds, [&](const Seed& seed) { return exact_ball(memory_.rows[seed.value].centre[of_row(seed, row)]); });
      const Ball exact = enclosure_of(seeds, [&](const Seed& seed) {
        const std::optional<std::size_t> node = recorded_node_[seed.value];
        if (!node) return exact_ball(memory_.rows[seed.value].centre[of_row(seed, row)]);  // an input
        return request_.recorded->network.at(*node)->values.at(of_row(seed, of_block_[row]));
      });
      return theorems::distance_from_exact(shadow, exact);
    }
    Magnitude error;
    for (const Seed& seed : seeds) error += Magnitude(memory_.rows[seed.value].exact[row]);
    return error;
  }

  /// Bound of |c.(run - shadow)| by the radii of the elements of which the target is made.
  Magnitude radius_of(const std::vector<Seed>& seeds, std::size_t row, bool in_order) const {
    if (memory_.undecided[row] != 0) return Magnitude::infinite();
    Magnitude sum;
    for (const Seed& seed : seeds) {
      const RunRows& rows = memory_.rows[seed.value];
      sum += Magnitude((in_order ? rows.in_order.radius : rows.radius)[row * rows.size() + at(seed.element)]);
    }
    return sum;
  }

  /// Writes the any-order bound of one target and row. Returns the shadow's own error.
  Magnitude conclude(const std::vector<Seed>& seeds, std::size_t row, const Sums& sums, Certificate& certificate) {
    const Magnitude of_shadow = shadow_error(seeds, row);
    const Magnitude least = std::min(sums.total, radius_of(seeds, row, false));
    const double total = least.value(), remainder = sums.remainder.value();
    require_known(total, of_shadow, row);
    if (!(remainder <= large_remainder * total)) needs_refining_[row] = 1;
    certificate.total[of_block_[row]] = theorems::through_shadow(least, of_shadow.value()).value();
    certificate.local[of_block_[row]] = sums.local.value();
    certificate.remainder[of_block_[row]] = remainder;
    return of_shadow;
  }

  /// Marks the row undecided if the bound is infinite or the shadow's error exceeds 2^-10 of it.
  void require_known(double total, Magnitude of_shadow, std::size_t row) {
    if (!(std::isfinite(total) && of_shadow.value() <= negligible * total)) memory_.undecided[row] = 1;
  }

  /// Writes the bound for runs in the declared order. Chords are chosen for any order and may enlarge it; then the
  /// previous bound is kept.
  void conclude_in_order(const std::vector<Seed>& seeds, std::size_t row, const Sums& sums, Magnitude of_shadow,
                         Certificate& certificate) {
    const Magnitude least = std::min(sums.total_in_order, radius_of(seeds, row, true));
    require_known(least.value(), of_shadow, row);
    const std::size_t of_block = of_block_[row];
    const double total = theorems::through_shadow(least, of_shadow.value()).value();
    if (takes_chords_ && !(total < certificate.total[of_block])) return;
    certificate.total[of_block] = total;
    certificate.local[of_block] = sums.local_in_order.value();
    certificate.remainder[of_block] = sums.remainder_in_order.value();
  }

  struct Spread {
    Magnitude rest, squares;
    double factor = 0.0;
  };

  /// Writes the bound of T-74 and the estimate of T-75. `local`: contribution of local errors to the any-order bound.
  void conclude_by_chance(std::size_t target, std::size_t row, const Sums& sums, Magnitude of_shadow, double local,
                          ChanceBounds& chance) {
    if (chance.martingale) {
      const Spread spread{sums.rest, sums.squares, request_.chance.martingale};
      require_known(conclude(row, sums, spread, of_shadow, *chance.martingale), of_shadow, row);
    }
    if (!chance.random_order || is_estimated_[row] != 0) return;
    const Spread spread{sums.estimated_rest, Magnitude(variance_of(target, row, sums)), request_.chance.random_order};
    const double total = conclude(row, sums, spread, of_shadow, *chance.random_order);
    if (!std::isfinite(total)) memory_.undecided[row] = 1;
    if (!takes_chords_ && is_coarse(local, *chance.random_order, of_block_[row])) needs_random_signs_[row] = 1;
  }

  /// The variance over orders (T-75). Before take_chords() it is cached by the part that does not depend on the order,
  /// as refined radii change that part alone.
  double variance_of(std::size_t target, std::size_t row, const Sums& sums) {
    const double fixed = sums.estimated_squares.value(), sigmas = request_.chance.random_order;
    if (takes_chords_) return variance_over_orders(fixed, sums.ordered, sigmas);
    variances_.resize(std::max(variances_.size(), (target + 1) * count_));
    KnownVariance& known = variances_[target * count_ + row];
    if (known.fixed != fixed) known = {fixed, variance_over_orders(fixed, sums.ordered, sigmas)};
    return known.variance;
  }

  /// Whether the remainder after the reduction of T-75, K included, is more than a tenth of the estimate.
  static bool is_coarse(double local, const ChanceBound& estimate, std::size_t row) {
    const double left = remainder_at_smaller_radii(local, estimate, row);
    return !(left <= large_left * (estimate.total[row] - estimate.remainder[row] + left));
  }

  /// Returns the bound of |c.(run - shadow)|, without the shadow's own error.
  double conclude(std::size_t row, const Sums& sums, const Spread& spread, Magnitude of_shadow, ChanceBound& bound) {
    const std::size_t of_block = of_block_[row];
    const Magnitude total = theorems::with_chance(spread.rest, spread.squares, spread.factor);
    bound.spread[of_block] = with_chance(Magnitude(), spread.squares, spread.factor).value();
    bound.remainder[of_block] = sums.remainder.value();
    bound.unattributed[of_block] = std::min(sums.unattributed, sums.remainder.value());
    bound.patterns[of_block] = sums.pattern;
    const bool applies = sums.pattern == TermPattern::none;
    bound.total[of_block] =
        applies ? theorems::through_shadow(total, of_shadow.value()).value() : Magnitude::infinite().value();
    return total.value();
  }

  void conclude(const std::vector<Seed>& seeds, std::size_t row, Condition& condition) const {
    double target = 0.0;
    for (const Seed& seed : seeds) {
      const std::size_t size = walk_.sizes_[seed.value];
      target += seed.factor * memory_.rows[seed.value].centre[row * size + at(seed.element)];
    }
    const std::size_t of_block = of_block_[row];
    condition.target[of_block] = std::abs(target);
    for (std::vector<double>& layer : condition.layers)
      if (layer[of_block] != 0.0) layer[of_block] /= std::abs(target);
  }

  const RunWalk& walk_;
  const Program& program_;
  const Graph& graph_;
  const std::vector<Node>& nodes_;
  const RunRequest& request_;
  RunWalk::Memory& memory_;
  Refinement& refinement_;
  const std::span<const std::size_t> of_block_;
  const std::size_t count_;
  std::vector<std::size_t> all_rows_;
  std::vector<char> needs_refining_;
  std::vector<char> needs_random_signs_;  ///< rows whose estimate uses random radii (T-75)
  std::vector<char> is_estimated_;        ///< rows whose estimate is final, even if chords follow
  std::vector<char> cancels_;             ///< rows whose attribution cancels too much in double
  struct KnownVariance {
    double fixed = -1.0, variance = 0.0;
  };
  std::vector<KnownVariance> variances_;  ///< variances over orders, by target and row
  const RunState state_;
  std::vector<std::optional<std::size_t>> recorded_node_;  ///< by value: node of the original graph with it
  std::vector<char> is_refinable_;                         ///< by node
  std::vector<char> is_charged_later_;  ///< by node: its remainders may fall with radii that are refined
  Kept kept_;
  std::vector<std::vector<RowElement>> chosen_;  ///< by node: elements selected for refinement
  bool takes_chords_ = false;
  using Correlated = std::vector<std::uint32_t>;
  /// Sets of elements of a row with possibly correlated errors; empty: all errors are independent.
  struct CorrelatedOfRow {
    Correlated by_amplitude, by_estimate;
  };
  std::vector<std::vector<CorrelatedOfRow>> correlated_;  ///< by node and row
};

RunWalk::~RunWalk() = default;

namespace {

/// The program for one sample; null if samples depend on each other.
std::shared_ptr<const Program> for_one_sample(const Program& program, BoundCache& cache) {
  return program.counts_samples() ? cache.with_rows(program, 1) : std::make_shared<const Program>(program);
}

}  // namespace

std::shared_ptr<const RunWalk> RunWalk::of(const Program& program, const Setting& setting, BoundCache& cache,
                                           std::string& obstacle) {
  constexpr double coarse = 0x1p-40;
  if (!program.keeps_rows_apart()) obstacle = "samples that are not apart in axis 0 of every value";
  if (!is_plain(setting.machine))
    obstacle = "an arithmetic that rounds otherwise than to nearest, flushes, or has narrow formats";
  if (numbers_of_row(program) > most_numbers_of_row) obstacle = "samples of more than 4 million numbers";
  if (!(setting.machine.u >= coarse)) obstacle = "an arithmetic next to which double is not exact enough";
  if (!obstacle.empty()) return nullptr;
  auto walk = std::make_shared<RunWalk>();
  walk->memories_ = cache.memories_of_runs();
  std::deque<Tensor<double>> others;
  const std::vector<const Tensor<double>*> constants = exact_constants_of(program, setting, cache, others);
  for (ValueId id = 0; id < program.size(); ++id) walk->sizes_.push_back(program.row_size(id));
  const auto sample = [&]() -> const SampleProgram* {
    if (walk->sample_ != nullptr) return walk->sample_.get();
    if (std::shared_ptr<const Program> one = for_one_sample(program, cache))
      walk->sample_ = std::make_unique<const SampleProgram>(std::move(one), constants);
    return walk->sample_.get();
  };
  for (const Node& node : program.fused().nodes) {
    const OfSample of_sample{sample, walk->steps_.size()};
    walk->steps_.push_back(nullptr);
    if (!program.varies(node.output)) continue;
    RowNode step{program, node, {}};
    for (const ValueId id : node.inputs) {
      step.constants.push_back(constants[id]);
      if (program.varies(id)) continue;
      const bool is_exact = constants[id] != nullptr &&
                            round_operand(*constants[id], *setting.machine.accumulator, setting.machine).is_exact();
      if (!is_exact) {
        obstacle = describe_obstacle(node) + " with a constant that runs round";
        return nullptr;
      }
    }
    Setting of_node = setting;
    if (auto found = found_machine(node.op, program.fused().of_node[of_sample.node], program.graph(), setting))
      of_node.machine =
          machine_at(*std::move(found), program.flat().graph.value(node.output).type, !program.is_layer(node.output));
    walk->steps_.back() = run_step_of(step, of_sample, of_node, cache, walk->conditions_);
    if (walk->steps_.back() == nullptr) {
      obstacle = describe_obstacle(node);
      return nullptr;
    }
  }
  return walk;
}

namespace {

RunCertificates empty_certificates(const Program& program, std::size_t targets, const RunRequest& request) {
  const std::size_t rows = at(program.rows());
  const std::vector<std::size_t>& of_node = program.flat().of_node;
  const std::vector<double> zeros(rows, 0.0);
  const std::vector<std::vector<double>> layers(of_node.empty() ? 0 : of_node.back() + 1, zeros);
  RunCertificates empty;
  empty.targets.assign(targets, {zeros, zeros, zeros, layers});
  if (request.in_order) empty.in_order.assign(targets, {zeros, zeros, zeros, {}});
  const ChanceBound bound{zeros, zeros, zeros, zeros, std::vector<TermPattern>(rows, TermPattern::none)};
  ChanceBounds chance;
  if (request.chance.martingale > 0.0) chance.martingale = bound;
  if (request.chance.random_order > 0.0) chance.random_order = bound;
  empty.chance.assign(targets, chance);
  empty.condition.assign(request.conditioned, {layers, zeros});
  empty.attribution.assign(request.attributed, {layers, zeros});
  return empty;
}

/// Limits the bounds of T-74 and T-75 to the any-order bound.
void limit_chance(const Certificate& any_order, ChanceBounds& chance) {
  for (std::optional<ChanceBound>* bound : {&chance.martingale, &chance.random_order}) {
    for (std::size_t row = 0; *bound && row < (*bound)->total.size(); ++row)
      if ((*bound)->patterns[row] == TermPattern::none)
        (*bound)->total[row] = std::min((*bound)->total[row], any_order.total[row]);
  }
}

}  // namespace

RunCertificates RunWalk::run(const Program& program, const std::vector<Tensor<double>>& inputs,
                             const std::vector<std::vector<double>>& input_error,
                             const std::vector<std::vector<Seed>>& targets, const RunRequest& request,
                             const Setting& setting) const {
  const std::size_t rows = at(program.rows());
  const std::int64_t refined_radii = request.refined_radii;
  RunCertificates result = empty_certificates(program, targets.size(), request);
  result.conditions = conditions_;
  std::vector<char> undecided(rows, 0), cancels(rows, 0);
  const auto follow = [&](RunPart& part) {
    part.forward();
    if (request.attributed > 0) part.record(*request.recorded);
    part.certify(targets, result);
  };
  const auto refine = [&](RunPart& part) {
    part.refine(refined_radii * static_cast<std::int64_t>(part.size()), targets, result);
  };
  const std::size_t rows_at_once = rows_together(program);
  const std::size_t parts = (rows + rows_at_once - 1) / rows_at_once;
  std::vector<std::size_t> all(rows);
  std::iota(all.begin(), all.end(), std::size_t{0});
  parallel_for(static_cast<std::int64_t>(parts), setting.threads, [&](std::int64_t from, std::int64_t to) {
    std::unique_ptr<Memory> memory = memories_->take(program, identity_);
    for (std::size_t first = at(from) * rows_at_once; first < std::min(at(to) * rows_at_once, rows);
         first += rows_at_once) {
      const auto some = std::span(all).subspan(first, std::min(rows_at_once, rows - first));
      RunPart part(*this, program, request, *memory, some);
      part.start(inputs, input_error);
      follow(part);
      if (refined_radii > 0 && part.has_large_remainders()) refine(part);
      if (request.chance.random_order > 0.0) part.estimate(result);
      if (refined_radii > 0 && part.has_large_remainders()) part.take_chords(targets, result);
      if (request.chance.random_order > 0.0) part.estimate_the_rest(targets, result);
      for (std::size_t row = 0; row < some.size(); ++row) {
        undecided[some[row]] = part.is_undecided(row) ? 1 : 0;
        cancels[some[row]] = part.cancels(row) ? 1 : 0;
      }
    }
    memories_->put_back(std::move(memory));
  });
  for (std::size_t row = 0; row < rows; ++row) {
    if (undecided[row] != 0) result.undecided.push_back(static_cast<std::int64_t>(row));
    if (cancels[row] != 0) result.cancelled.push_back(static_cast<std::int64_t>(row));
  }
  for (std::size_t i = 0; i < targets.size(); ++i) limit_chance(result.targets[i], result.chance[i]);
  return result;
}

}  // namespace driftbound::bounds
