#include "bounds/adjoint/run_walk.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "bounds/adjoint/plain_rows.hpp"
#include "bounds/adjoint/recursion.hpp"
#include "bounds/adjoint/weights.hpp"
#include "bounds/element_kernels.hpp"
#include "bounds/rules.hpp"
#include "num/parallel.hpp"

namespace driftbound::bounds {
namespace {

constexpr std::size_t rows_at_once = 64;
/// A shadow's own error of this share of the bound does not show.
constexpr double negligible = 0x1p-10;
constexpr std::size_t radii_at_once = 256;

std::size_t at(std::int64_t i) {
  return static_cast<std::size_t>(i);
}

}  // namespace

struct RunWalk::Memory {
  std::vector<RunRows> rows;                  ///< by value
  std::vector<RunErrors> errors;              ///< by node
  std::vector<RunAdjoint> adjoints, refined;  ///< by value: of targets, and of radii (T-72)
  RunAdjoint share;
  RunScratch scratch;
  std::vector<char> open;
};

/// Some rows of a block, all the way.
class RunPart {
public:
  RunPart(const RunWalk& walk, const Network& network, const Setting& setting, RunWalk::Memory& memory,
          std::span<const std::size_t> rows)
      : walk_(walk),
        network_(network),
        graph_(network.flat().graph),
        rules_(*setting.rules),
        memory_(memory),
        of_block_(rows),
        count_(rows.size()),
        all_rows_(rows.size()),
        needs_refining_(rows.size(), 0) {
    std::iota(all_rows_.begin(), all_rows_.end(), std::size_t{0});
    memory_.open.assign(count_, 0);
    refinement_.weight.resize(network.size());
  }

  void start(const std::vector<Tensor<double>>& inputs, const std::vector<std::vector<double>>& input_error) {
    for (std::size_t i = 0; i < inputs.size(); ++i) start(graph_.inputs[i], inputs[i].values, input_error[i]);
  }

  void forward() {
    for (std::size_t node = 0; node < graph_.nodes.size(); ++node) {
      if (walk_.steps_[node] == nullptr) continue;
      const Node& of = graph_.nodes[node];
      refine_operand(node);
      std::vector<const RunRows*> operands;
      for (const ValueId id : of.inputs) operands.push_back(network_.varies(id) ? &memory_.rows[id] : nullptr);
      RunRows& result = memory_.rows[of.output];
      result.resize(count_, walk_.sizes_[of.output]);
      memory_.errors[node].takes_chords = !chosen_.empty();
      walk_.steps_[node]->forward(operands, result, memory_.errors[node], memory_.open, memory_.scratch);
    }
  }

  void certify(const std::vector<Seed>& seeds, Certificate& certificate) {
    Sweep sweep{memory_.adjoints, all_rows_, std::vector<Sums>(count_), &certificate};
    for (RunAdjoint& adjoint : sweep.adjoints) adjoint.defect.clear();
    for (std::vector<double>& layer : certificate.layers)
      for (const std::size_t row : of_block_) layer[row] = 0.0;
    for (const Seed& seed : seeds) plant(seed);
    pull_back_from(graph_.nodes.size(), sweep);
    for (std::size_t row = 0; row < count_; ++row) conclude(seeds, row, sweep.sums[row], certificate);
  }

  /// What each element's remainder weighs in the target that was certified last, in rows where remainders are large.
  void weigh(const Certificate& certificate) {
    for (std::size_t node = 0; node < graph_.nodes.size(); ++node) {
      if (!may_be_refined(network_, graph_.nodes[node]) || memory_.errors[node].remainder.empty()) continue;
      const ValueId id = graph_.nodes[node].output;
      if (memory_.adjoints[id].defect.empty()) continue;
      const std::size_t size = walk_.sizes_[id];
      std::vector<double>& weight = refinement_.weight[id];
      weight.resize(count_ * size, 0.0);
      for (std::size_t row = 0; row < count_; ++row) {
        const double local = certificate.local[of_block_[row]];
        if (needs_refining_[row] == 0 || !(local > 0.0)) continue;
        for (std::size_t i = row * size; i < (row + 1) * size; ++i)
          weight[i] = std::max(weight[i], std::abs(memory_.adjoints[id].d[i]) / local);
      }
    }
  }

  /// Rows of the block with large remainders.
  std::vector<std::size_t> large_remainders() const {
    std::vector<std::size_t> rows;
    for (std::size_t row = 0; row < count_; ++row)
      if (needs_refining_[row] != 0) rows.push_back(of_block_[row]);
    return rows;
  }

  /// Which radii forward() is to find by adjoints of their own, at most so many.
  void choose_radii(std::int64_t most) {
    std::vector<std::vector<double>> remainders(network_.size());
    std::size_t nodes = 0;
    for (std::size_t node = 0; node < graph_.nodes.size(); ++node) {
      const ValueId id = graph_.nodes[node].output;
      if (refinement_.weight[id].empty()) continue;
      remainders[id] = memory_.errors[node].remainder;
      ++nodes;
    }
    const auto rows = static_cast<std::int64_t>(count_);
    refinement_.allowance = remainder_left / static_cast<double>(std::max<std::size_t>(nodes, 1));
    refinement_.most_elements = most_refined_elements;
    refinement_.least = least_worth_refining(remainders, rows, refinement_, most);
    chosen_.resize(graph_.nodes.size());
    for (std::size_t node = 0; node < graph_.nodes.size(); ++node) {
      const ValueId id = graph_.nodes[node].output;
      if (!remainders[id].empty())
        chosen_[node] = worth_refining(refinement_.weight[id], remainders[id], rows, refinement_);
    }
  }

  bool is_open(std::size_t row) const { return memory_.open[row] != 0; }

private:
  struct Sums {
    Magnitude total, local, remainder;
  };
  /// Adjoints on their way back, one row each for a row of the values.
  struct Sweep {
    std::vector<RunAdjoint>& adjoints;
    std::span<const std::size_t> rows;
    std::vector<Sums> sums;
    Certificate* certificate = nullptr;  ///< where parts of layers go
  };

  void start(ValueId id, const std::vector<double>& values, const std::vector<double>& error) {
    const std::size_t size = walk_.sizes_[id];
    RunRows& rows = memory_.rows[id];
    rows.resize(count_, size);
    std::fill(rows.radius.begin(), rows.radius.end(), 0.0);
    for (std::size_t row = 0; row < count_; ++row) {
      const std::size_t from = of_block_[row] * size;
      std::copy_n(values.data() + from, size, rows.centre.data() + row * size);
      if (!error.empty()) std::copy_n(error.data() + from, size, rows.radius.data() + row * size);
    }
    for (std::size_t row = 0; row < count_; ++row) {
      rows.norm[row] = norm_of_radii(rows, row);
      if (!std::isfinite(rules_.rows.largest(rows.centre.data() + row * size, size))) memory_.open[row] = 1;
    }
  }

  double norm_of_radii(const RunRows& rows, std::size_t row) const {
    return rules_.norms.vector(std::span(rows.radius).subspan(row * rows.size(), rows.size())).value();
  }

  void plant(const Seed& seed) {
    RunAdjoint& adjoint = memory_.adjoints[seed.value];
    const std::size_t size = walk_.sizes_[seed.value];
    if (adjoint.defect.empty()) adjoint.d.assign(count_ * size, 0.0);
    adjoint.defect.assign(count_, 0.0);
    for (std::size_t row = 0; row < count_; ++row) adjoint.d[row * size + at(seed.element)] += seed.factor;
  }

  /// T-72
  void refine_operand(std::size_t node) {
    if (chosen_.empty() || chosen_[node].empty()) return;
    const ValueId id = graph_.nodes[node].inputs[0];
    const std::span<const RowElement> chosen = chosen_[node];
    for (std::size_t first = 0; first < chosen.size(); first += radii_at_once)
      refine(id, node, chosen.subspan(first, std::min(radii_at_once, chosen.size() - first)));
    RunRows& rows = memory_.rows[id];
    for (std::size_t row = 0; row < count_; ++row)
      rows.norm[row] = rules_.trajectory.norm_of_row(norm_of_radii(rows, row), rows.norm[row]);
  }

  void refine(ValueId id, std::size_t node, std::span<const RowElement> chosen) {
    const std::size_t size = walk_.sizes_[id];
    std::vector<std::size_t> rows;
    for (const RowElement& one : chosen) rows.push_back(at(one.row));
    Sweep sweep{memory_.refined, rows, std::vector<Sums>(chosen.size()), nullptr};
    for (RunAdjoint& adjoint : sweep.adjoints) adjoint.defect.clear();
    RunAdjoint& adjoint = sweep.adjoints[id];
    adjoint.d.assign(chosen.size() * size, 0.0);
    adjoint.defect.assign(chosen.size(), 0.0);
    for (std::size_t i = 0; i < chosen.size(); ++i) adjoint.d[i * size + chosen[i].element] = 1.0;
    pull_back_from(node, sweep);
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      double& radius = memory_.rows[id].radius[rows[i] * size + chosen[i].element];
      radius = rules_.trajectory.refined_radius(radius, sweep.sums[i].total.value());
    }
  }

  /// Through the nodes before one, to the inputs.
  void pull_back_from(std::size_t end, Sweep& sweep) {
    for (std::size_t node = end; node-- > 0;) {
      const ValueId output = graph_.nodes[node].output;
      if (sweep.adjoints[output].defect.empty()) continue;
      const RunErrors& errors = memory_.errors[node];
      const std::size_t layer = network_.flat().of_node[node];
      charge(output, errors.added, errors.remainder, sweep,
             sweep.certificate == nullptr ? nullptr : &sweep.certificate->layers[layer]);
      pull_back(node, sweep);
    }
    for (const ValueId id : graph_.inputs)
      if (!sweep.adjoints[id].defect.empty()) charge(id, memory_.rows[id].radius, {}, sweep, nullptr);
  }

  /// sum |d_i| x_i by T-08.
  Magnitude charged(const double* d, const std::vector<double>& x, std::size_t row, std::size_t size) const {
    if (x.empty()) return Magnitude();
    const double sum = rules_.rows.weighted_sum(d, x.data() + row * size, size);
    return Magnitude(rules_.outward(sum, static_cast<std::int64_t>(size) + 1, static_cast<std::int64_t>(size)));
  }

  void charge(ValueId id, const std::vector<double>& added, const std::vector<double>& remainders, Sweep& sweep,
              std::vector<double>* layer) const {
    const std::size_t size = walk_.sizes_[id];
    const RunAdjoint& adjoint = sweep.adjoints[id];
    const Magnitude root = sqrt_up(Magnitude(static_cast<double>(size)));
    for (std::size_t i = 0; i < sweep.rows.size(); ++i) {
      const std::size_t row = sweep.rows[i];
      const double* d = adjoint.d.data() + i * size;
      const Magnitude local = charged(d, added, row, size), remainder = charged(d, remainders, row, size);
      const Magnitude defect = Magnitude(adjoint.defect[i]) * root * Magnitude(memory_.rows[id].norm[row]);
      Sums& sums = sweep.sums[i];
      sums.total += rules_.trajectory.charge(local, remainder, defect);
      sums.local += local;
      sums.remainder += remainder;
      if (layer == nullptr) continue;
      double& of_layer = (*layer)[of_block_[row]];
      of_layer = (Magnitude(of_layer) + local + remainder).value();
    }
  }

  void pull_back(std::size_t node, Sweep& sweep) {
    const Node& of = graph_.nodes[node];
    const std::size_t count = sweep.rows.size();
    for (std::size_t slot = 0; slot < of.inputs.size(); ++slot) {
      const ValueId id = of.inputs[slot];
      if (!network_.varies(id)) continue;
      RunAdjoint& operand = sweep.adjoints[id];
      const bool is_first = operand.defect.empty();
      RunAdjoint& share = is_first ? operand : memory_.share;
      share.d.resize(count * walk_.sizes_[id]);
      share.defect.assign(count, 0.0);
      walk_.steps_[node]->pull_back(slot, memory_.errors[node], sweep.rows, sweep.adjoints[of.output], share);
      if (!is_first) add(share, operand, walk_.sizes_[id]);
    }
  }

  /// One more rounding of every element.
  void add(const RunAdjoint& share, RunAdjoint& sum, std::size_t size) const {
    fastest_element_kernels().add(sum.d.data(), share.d.data(), sum.d.data(), sum.d.size());
    for (std::size_t row = 0; row < sum.defect.size(); ++row) {
      const double largest = rules_.rows.largest(sum.d.data() + row * size, size);
      const Magnitude rounding(rules_.defect(largest, 1, 0));
      sum.defect[row] = (Magnitude(sum.defect[row]) + Magnitude(share.defect[row]) + rounding).value();
    }
  }

  void conclude(const std::vector<Seed>& seeds, std::size_t row, const Sums& sums, Certificate& certificate) {
    Magnitude of_shadow;
    for (const Seed& seed : seeds) of_shadow += Magnitude(memory_.rows[seed.value].exact[row]);
    const double total = sums.total.value(), remainder = sums.remainder.value();
    const bool is_known = std::isfinite(total) && of_shadow.value() <= negligible * total;
    if (!is_known) memory_.open[row] = 1;
    if (!(remainder <= large_remainder * total)) needs_refining_[row] = 1;
    certificate.total[of_block_[row]] = rules_.trajectory.through_shadow(sums.total, of_shadow.value()).value();
    certificate.local[of_block_[row]] = sums.local.value();
    certificate.remainder[of_block_[row]] = remainder;
  }

  const RunWalk& walk_;
  const Network& network_;
  const Graph& graph_;
  const Rules& rules_;
  RunWalk::Memory& memory_;
  const std::span<const std::size_t> of_block_;
  const std::size_t count_;
  std::vector<std::size_t> all_rows_;
  std::vector<char> needs_refining_;
  Refinement refinement_;
  std::vector<std::vector<RowElement>> chosen_;  ///< by node; empty: none yet
};

RunWalk::~RunWalk() = default;

std::shared_ptr<const RunWalk> RunWalk::of(const Network& network, const Setting& setting, Weights& weights) {
  constexpr double coarse = 0x1p-40;
  const Graph& graph = network.flat().graph;
  if (!network.keeps_rows_apart() || !is_plain(setting.machine) || !(setting.machine.u >= coarse)) return nullptr;
  auto walk = std::make_shared<RunWalk>();
  std::vector<Tensor<double>> constants(network.size());
  for (ValueId id = 0; id < network.size(); ++id) {
    if (graph.is_constant(id)) constants[id] = graph.value(id).constant.to_double();
    const auto elements = static_cast<std::size_t>(element_count(network.shape(id)));
    walk->sizes_.push_back(elements / at(std::max<std::int64_t>(network.rows(id), 1)));
  }
  for (const Node& node : graph.nodes) {
    walk->steps_.push_back(nullptr);
    if (!network.varies(node.output)) continue;
    RowNode step{network, node, {}};
    for (const ValueId id : node.inputs) {
      step.constants.push_back(network.varies(id) ? nullptr : &constants[id]);
      if (network.varies(id)) continue;
      const bool is_exact =
          graph.is_constant(id) &&
          round_operand(constants[id], *setting.machine.accumulator, setting.machine, *setting.rules).is_exact();
      if (!is_exact) return nullptr;
    }
    walk->steps_.back() = run_step_of(step, setting, weights, walk->conditions_);
    if (walk->steps_.back() == nullptr) return nullptr;
  }
  return walk;
}

RunCertificates RunWalk::run(const Network& network, const std::vector<Tensor<double>>& inputs,
                             const std::vector<std::vector<double>>& input_error,
                             const std::vector<std::vector<Seed>>& targets, std::int64_t refined_radii,
                             const Setting& setting) const {
  const std::size_t rows = at(network.rows());
  const std::size_t layers = network.flat().of_node.empty() ? 0 : network.flat().of_node.back() + 1;
  Certificate empty{std::vector<double>(rows), std::vector<double>(rows), std::vector<double>(rows), {}};
  empty.layers.assign(layers, std::vector<double>(rows, 0.0));
  RunCertificates result{std::vector<Certificate>(targets.size(), empty), {}, conditions_};
  std::vector<char> open(rows, 0), is_large(rows, 0);
  const auto follow = [&](RunPart& part) {
    part.forward();
    for (std::size_t i = 0; i < targets.size(); ++i) {
      part.certify(targets[i], result.targets[i]);
      part.weigh(result.targets[i]);
    }
  };
  const auto refine = [&](RunPart& part, std::int64_t most) {
    part.choose_radii(most);
    part.forward();
    for (std::size_t i = 0; i < targets.size(); ++i) part.certify(targets[i], result.targets[i]);
  };
  const auto in_parts = [&](const std::vector<std::size_t>& of_block, const auto& body) {
    const std::size_t parts = (of_block.size() + rows_at_once - 1) / rows_at_once;
    parallel_for(static_cast<std::int64_t>(parts), setting.threads, [&](std::int64_t from, std::int64_t to) {
      std::unique_ptr<Memory> memory = take_memory(network);
      for (std::size_t first = at(from) * rows_at_once; first < std::min(at(to) * rows_at_once, of_block.size());
           first += rows_at_once) {
        const auto some = std::span(of_block).subspan(first, std::min(rows_at_once, of_block.size() - first));
        RunPart part(*this, network, setting, *memory, some);
        part.start(inputs, input_error);
        follow(part);
        body(part, some);
        for (std::size_t row = 0; row < some.size(); ++row) open[some[row]] = part.is_open(row) ? 1 : 0;
      }
      const std::lock_guard lock(mutex_);
      memories_.push_back(std::move(memory));
    });
  };
  std::vector<std::size_t> all(rows), large;
  std::iota(all.begin(), all.end(), std::size_t{0});
  in_parts(all, [&](RunPart& part, std::span<const std::size_t> some) {
    if (refined_radii <= 0) return;
    const std::vector<std::size_t> here = part.large_remainders();
    const bool are_many = 2 * here.size() > some.size();
    if (are_many) return refine(part, refined_radii * static_cast<std::int64_t>(some.size()));
    for (const std::size_t row : here) is_large[row] = 1;
  });
  for (std::size_t row = 0; row < rows; ++row)
    if (is_large[row] != 0) large.push_back(row);
  // twice as many each, as at most half of the rows are here
  in_parts(large, [&](RunPart& part, std::span<const std::size_t> some) {
    refine(part, 2 * refined_radii * static_cast<std::int64_t>(some.size()));
  });
  for (std::size_t row = 0; row < rows; ++row)
    if (open[row] != 0) result.open.push_back(static_cast<std::int64_t>(row));
  return result;
}

std::unique_ptr<RunWalk::Memory> RunWalk::take_memory(const Network& network) const {
  std::unique_ptr<Memory> memory;
  {
    const std::lock_guard lock(mutex_);
    if (!memories_.empty()) {
      memory = std::move(memories_.back());
      memories_.pop_back();
    }
  }
  if (memory == nullptr) memory = std::make_unique<Memory>();
  memory->rows.resize(network.size());
  memory->adjoints.resize(network.size());
  memory->refined.resize(network.size());
  memory->errors.resize(network.nodes().size());
  return memory;
}

}  // namespace driftbound::bounds
