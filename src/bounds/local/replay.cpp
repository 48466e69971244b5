#include "bounds/local/replay.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "bounds/arithmetic/numbers.hpp"
#include "bounds/kernels/row_kernels.hpp"
#include "bounds/local/determined.hpp"
#include "bounds/local/replayed.hpp"
#include "bounds/nodes/own_run.hpp"
#include "num/elapsed.hpp"

namespace driftbound::bounds {
namespace {

const BoundResult* find(const std::vector<BoundResult>& bounds, BoundKind kind) {
  const auto found = std::find_if(bounds.begin(), bounds.end(), [&](const BoundResult& b) { return b.kind == kind; });
  return found == bounds.end() ? nullptr : &*found;
}

/// Inserts the result after the last of the bounds "adjoint/order-aware", "adjoint/any-order" and "shadow".
void insert(std::vector<BoundResult>& bounds, BoundResult result) {
  const auto last = std::find_if(bounds.rbegin(), bounds.rend(), [](const BoundResult& bound) {
    return bound.kind == BoundKind::adjoint_order_aware || bound.kind == BoundKind::adjoint_any_order ||
           bound.kind == BoundKind::shadow;
  });
  bounds.insert(last.base(), std::move(result));
}

/// Returns the number of elements that differ. The signs of zeros and the bits of NaNs are not compared.
std::int64_t differing(const std::vector<double>& a, const std::vector<double>& b) {
  std::int64_t count = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!(a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i])))) ++count;
  return count;
}

class AddReplay {
public:
  AddReplay(const Graph& graph, const Trace& trace, const std::vector<const Tensor<double>*>& layers,
            const KernelsByNode& kernels, const BoundOptions& options, const Setting& setting)
      : graph_(graph),
        trace_(trace),
        layers_(layers),
        found_(kernels),
        options_(options),
        setting_(setting),
        varies_(depends_on_input(graph)) {
    if (batch_layout(graph).batched)
      rows_ = static_cast<std::size_t>(trace.inputs.at(graph.value(graph.inputs.front()).name).shape().front());
    is_lost_.resize(rows_);
  }

  void add_to(const std::function<Bounds(const Trace&)>& bounds_of_run, Bounds& bounds) {
    if (rows_ == 0) return;
    bounds.targets.resize(options_.targets.size());
    std::string open = undetermined_by(graph_, trace_.arithmetic);
    if (!open.empty() && !found_.empty()) {
      kernels_ = found_;
      open = undetermined_by(graph_, trace_.arithmetic, kernels_);
    }
    if (!open.empty()) return refuse(std::move(open), bounds);
    note_conditions(bounds);

    const auto start = std::chrono::steady_clock::now();
    std::optional<Trace> replayed;
    std::vector<Tensor<double>> of_replay;
    if (!(options_.trace_is_declared_run && is_own_run(trace_)))
      of_replay = replay_into(replayed.emplace(trace_), bounds);
    const Trace& run = replayed ? *replayed : trace_;
    for (std::size_t node = 0; node < layers_.size(); ++node)
      note_lost_rows(node, replayed ? of_replay[node] : *layers_[node]);
    seconds_ = seconds_since(start);
    if (is_recorded_run_ && options_.wants(BoundKind::shadow)) return take(bounds, bounds);
    take(bounds_of_run(run), bounds);
  }

private:
  /// Replays the trace, stores its layers in `run` and the numbers of differing elements in `bounds`. Returns the
  /// layers.
  std::vector<Tensor<double>> replay_into(Trace& run, Bounds& bounds) {
    std::vector<Tensor<double>> layers = theorems::replayed(graph_, trace_, kernels_, setting_.threads);
    for (std::size_t node = 0; node < layers.size(); ++node) {
      const std::int64_t count = differing(layers_[node]->values, layers[node].values);
      bounds.layers[node].differing = count;
      is_recorded_run_ = is_recorded_run_ && count == 0;
      run.layers[node].output = StoredTensor::from(layers[node]);
    }
    return layers;
  }

  /// Marks the rows in which an element is not finite: the values computed from it are not determined (T-97).
  void note_lost_rows(std::size_t node, const Tensor<double>& layer) {
    const std::vector<double>& values = layer.values;
    if (std::isfinite(fastest_row_kernels().largest(values.data(), values.size()))) return;
    const std::size_t rows = varies_[graph_.nodes[node].output] ? rows_ : 1, size = values.size() / rows;
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (std::isfinite(values[i])) continue;
      if (rows == rows_)
        is_lost_[i / size] = true;
      else
        is_lost_.assign(rows_, true);
    }
  }

  void note_conditions(Bounds& bounds) {
    conditions_ = any_run_conditions(graph_);
    if (!kernels_.empty()) conditions_.insert(found_in_every_run_condition);
    if (!setting_.is_own_run) conditions_.insert(arithmetic_condition(trace_.arithmetic));
    for (const std::string& condition : conditions_)
      if (std::count(bounds.assumptions.begin(), bounds.assumptions.end(), condition) == 0)
        bounds.assumptions.push_back(condition);
  }

  /// Returns the nodes that compute the outputs of the graph.
  std::set<std::size_t> output_nodes() const {
    std::set<std::size_t> nodes;
    for (const ValueId id : graph_.outputs)
      if (const auto node = graph_.producer(id)) nodes.insert(*node);
    return nodes;
  }

  BoundResult named() const {
    BoundResult result;
    result.kind = BoundKind::replay;
    result.question = Question::any_run;
    result.theorem = kernels_.empty() ? "T-97" : "T-171";
    return result;
  }

  void refuse(std::string reason, Bounds& bounds) const {
    BoundResult result = named();
    result.not_applicable = std::move(reason);
    const auto add = [&](const Shape& shape, std::vector<BoundResult>& to) {
      result.values = Tensor<double>(shape);
      std::fill(result.values.values.begin(), result.values.values.end(), infinity);
      insert(to, result);
    };
    for (const std::size_t node : output_nodes())
      add(trace_.layers[node].output.shape(), bounds.layers[node].accumulated);
    for (TargetBounds& target : bounds.targets) add({static_cast<std::int64_t>(rows_)}, target.bounds);
  }

  /// Returns the "shadow" bound of the replayed run as a bound for every run, as all runs store the same numbers.
  /// Rows marked by note_lost_rows() are infinite.
  BoundResult of_every_run(const BoundResult& shadow, bool varies) const {
    BoundResult result = named();
    result.guarantee = conditions_.empty() ? Guarantee::proven : Guarantee::conditional;
    result.condition = joined(conditions_);
    result.values = shadow.values;
    result.seconds = seconds_ + shadow.seconds;
    std::vector<double>& values = result.values.values;
    for (std::size_t i = 0; i < values.size(); ++i)
      if (is_lost_[varies ? i / (values.size() / rows_) : 0]) values[i] = infinity;
    return result;
  }

  /// Adds the "replay" bounds to `bounds`. `of_run`: the bounds of the replayed run; may be the same object.
  void take(const Bounds& of_run, Bounds& bounds) const {
    for (const std::size_t node : output_nodes())
      if (const BoundResult* shadow = find(of_run.layers[node].accumulated, BoundKind::shadow))
        insert(bounds.layers[node].accumulated, of_every_run(*shadow, varies_[graph_.nodes[node].output]));
    for (std::size_t i = 0; i < bounds.targets.size(); ++i)
      if (const BoundResult* shadow = find(of_run.targets.at(i).bounds, BoundKind::shadow))
        insert(bounds.targets[i].bounds, of_every_run(*shadow, true));
  }

  const Graph& graph_;
  const Trace& trace_;
  const std::vector<const Tensor<double>*>& layers_;
  const KernelsByNode& found_;
  const BoundOptions& options_;
  const Setting& setting_;
  const std::vector<bool> varies_;
  std::size_t rows_ = 1;
  std::vector<bool> is_lost_;
  KernelsByNode kernels_;  ///< those that the replay executes; empty: the arithmetic determines every run by itself
  bool is_recorded_run_ = true;
  double seconds_ = 0.0;
  std::set<std::string> conditions_;
};

}  // namespace

void add_replay(const Graph& graph, const Trace& trace, const std::vector<const Tensor<double>*>& layers,
                const KernelsByNode& kernels, const BoundOptions& options, const Setting& setting,
                const std::function<Bounds(const Trace&)>& bounds_of_run, Bounds& bounds) {
  AddReplay(graph, trace, layers, kernels, options, setting).add_to(bounds_of_run, bounds);
}

}  // namespace driftbound::bounds
