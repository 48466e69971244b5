#include "analysis/comparison.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "analysis/scope_accumulator.hpp"
#include "driftbound/model/composite.hpp"
#include "driftbound/model/layout.hpp"
#include "driftbound/model/op_groups.hpp"
#include "driftbound/num/directed.hpp"
#include "driftbound/num/errors.hpp"

namespace driftbound::analysis {
namespace {

std::vector<BoundValues> all_values(const std::vector<BoundResult>& bounds) {
  std::vector<BoundValues> values;
  for (const BoundResult& bound : bounds) values.push_back({&bound, bound.values.values, bound.remainder});
  return values;
}

/// Condition numbers.
struct KappaValues {
  LogHistogram values;
  double largest = 0.0;

  void add(double kappa) {
    values.add(kappa);
    if (!(kappa <= largest)) largest = std::isnan(kappa) ? std::numeric_limits<double>::infinity() : kappa;
  }
  void add(const std::vector<double>& kappas) {
    for (const double kappa : kappas) add(kappa);
  }
  std::optional<KappaSummary> summary() const {
    if (values.count() == 0) return std::nullopt;
    return KappaSummary{*values.median(), *values.quantile(0.99), largest};
  }
};

Status worse(Status a, Status b) {
  return std::max(a, b);
}

/// Values that are decided: by bounds on errors, or all of them by the run of the declared arithmetic.
std::int64_t decided_values(const ScopeSummary& scope) {
  std::int64_t most = scope.decided;
  for (const BoundSummary& bound : scope.bounds) most = std::max(most, bound.decided());
  return most;
}

/// Whether some bound is asked to decide the scope's values.
bool has_deciding_bounds(const ScopeSummary& scope) {
  return std::any_of(scope.bounds.begin(), scope.bounds.end(),
                     [](const BoundSummary& bound) { return bound.must_decide() && !bound.is_silent(); });
}

/// The verdict on a scope. `leaves_open`: whether a value that no bound decides is undecided; else it says nothing.
Status status_of(const ScopeSummary& scope, double threshold, bool leaves_open = true) {
  const bool has_values = scope.elements + scope.non_finite > 0;
  const std::int64_t decided = decided_values(scope);
  Status status = has_values && decided == 0 ? Status::not_checked : Status::holds;
  if (scope.non_finite > 0) status = Status::invalid;
  const bool are_all_decided =
      decided >= scope.elements || scope.decided + scope.not_followed_undecided >= scope.elements;
  if (leaves_open && !are_all_decided && has_deciding_bounds(scope)) status = worse(status, Status::undecided);
  for (const BoundSummary& bound : scope.bounds) {
    if (bound.is_improbable()) status = worse(status, Status::improbable);
    if (!bound.gives_verdict()) continue;
    if (bound.violations > 0) status = worse(status, Status::violated);
    if (bound.must_decide() && bound.decides() && bound.approach >= threshold)
      status = worse(status, Status::approaches);
  }
  return status;
}

/// Whether the bounds of a norm admit results of any sign and size, and no bound of what chance allows stands beside them:
/// they decide nothing. Sums in a narrow format have such bounds.
bool admits_any_norm(const LayerSummary& layer) {
  if (!layer.op.ends_with("Normalization")) return false;
  const ScopeSummary& scope = layer.local;
  const auto says = [](const BoundSummary& bound) { return bound.checked > bound.without_statement; };
  return has_deciding_bounds(scope) &&
         std::all_of(scope.bounds.begin(), scope.bounds.end(), [&](const BoundSummary& bound) {
           if (bound.guarantee == Guarantee::probabilistic) return !says(bound);
           return !bound.must_decide() || !says(bound) || !(bound.max_bound < 2.0 * scope.scale);
         });
}

/// The verdict on a layer stands on its own op where bounds on that are there; errors from the input on can violate it.
/// Where the layer starts at the inputs both are the same error, and it stands on the bounds that decide more of it.
Status status_of(const LayerSummary& layer, double threshold) {
  const bool is_decided_from_input =
      layer.starts_at_inputs && decided_values(layer.accumulated) > decided_values(layer.local);
  const bool is_local = has_deciding_bounds(layer.local) && !is_decided_from_input;
  const bool is_read_otherwise = layer.nearest_reading && layer.nearest_reading->is_decisive;
  Status status = status_of(layer.local, threshold, is_local);
  if (status <= Status::approaches && admits_any_norm(layer)) status = Status::undecided;
  const bool is_followed = layer.accumulated.elements + layer.accumulated.non_finite > 0;
  if (is_followed) status = worse(status, status_of(layer.accumulated, threshold, !is_local));
  return is_read_otherwise ? worse(status, Status::improbable) : status;
}

}  // namespace

void add_references(Comparison& all, const Comparison& one) {
  for (const auto& [bits, count] : one.rungs) all.rungs[bits] += count;
  all.reference_undecided += one.reference_undecided;
  all.reference_valueless += one.reference_valueless;
  all.reference_too_fine += one.reference_too_fine;
  all.reference_undefined += one.reference_undefined;
  all.max_bits = std::max(all.max_bits, one.max_bits);
  for (const std::string& assumption : one.assumptions)
    if (std::find(all.assumptions.begin(), all.assumptions.end(), assumption) == all.assumptions.end())
      all.assumptions.push_back(assumption);
}

void append(Comparison& all, Comparison&& one) {
  for (LayerSummary& layer : one.layers) {
    layer.index = all.layers.size();
    if (one.closest) {
      one.closest->layer = layer.name;
      if (!all.closest || one.closest->utilisation > all.closest->utilisation) all.closest = one.closest;
    }
    all.verdict = worse(all.verdict, layer.status);
    all.layers.push_back(std::move(layer));
  }
  add_references(all, one);
}

void settle(Comparison& comparison) {
  const bool is_checked = std::any_of(comparison.layers.begin(), comparison.layers.end(),
                                      [](const LayerSummary& layer) { return layer.checked > 0; });
  if (comparison.verdict <= Status::approaches && !is_checked) comparison.verdict = Status::undecided;
}

void add_from_input(LayerSummary& alone, LayerSummary&& of_network, double threshold) {
  alone.accumulated = std::move(of_network.accumulated);
  alone.kappa = of_network.kappa;
  alone.checked = std::max(alone.checked, std::min(alone.compared, decided_values(alone.accumulated)));
  if (alone.explained_by.empty()) alone.explained_by = of_network.explained_by;
  // What its operands make infinite is no fault of the layer.
  if (alone.record && alone.local.non_finite == 0 && alone.accumulated.non_finite <= alone.record->infinite)
    alone.accumulated.non_finite = 0;
  const bool is_alone_decided = has_deciding_bounds(alone.local);
  alone.status = worse(alone.status, status_of(alone.accumulated, threshold, !is_alone_decided));
}

namespace {

/// Whether any proven or conditional bound decided of a value: without that nothing "holds".
bool anything_checked(const Comparison& comparison) {
  const std::vector<ScopeOf> scopes = scopes_of(comparison);
  return std::any_of(scopes.begin(), scopes.end(), [](const ScopeOf& one) { return decided_values(one.summary) > 0; });
}

bool is_violated(const ScopeSummary& scope) {
  return std::any_of(scope.bounds.begin(), scope.bounds.end(),
                     [](const BoundSummary& b) { return b.gives_verdict() && b.violations > 0; });
}

/// Whether a bound that is not one of every run is exceeded.
bool exceeds_of_this_run(const LayerSummary& layer) {
  const auto is_exceeded = [](const BoundSummary& bound) {
    const bool is_held_against = bound.gives_verdict() || bound.guarantee == Guarantee::probabilistic;
    return is_held_against && bound.question == Question::this_run && bound.violations > 0;
  };
  return std::any_of(layer.local.bounds.begin(), layer.local.bounds.end(), is_exceeded) ||
         std::any_of(layer.accumulated.bounds.begin(), layer.accumulated.bounds.end(), is_exceeded);
}

FormatId stored_format(const StoredTensor& tensor) {
  return float_format(tensor.type()).value_or(FormatId::fp32);
}

struct LayerState {
  LayerSummary summary;
  ScopeAccumulator local, accumulated;
  KappaValues kappa;
  std::optional<ReadingTest> readings;
  std::optional<KernelSearch> kernels;
};

struct OutputState {
  OutputSummary summary;
  ScopeAccumulator scope;
  KappaValues kappa, conditions;
  BreakdownKeeper breakdown;
  bool is_counted = false;  ///< whether a block of samples has been added

  void add_target(const std::vector<double>& computed, const std::vector<Ball>& exact, const TargetBounds& target,
                  std::int64_t first_sample) {
    breakdown.add(computed, exact, target, first_sample);
    if (target.enclosures) add_signs(*target.enclosures);
    for (const BoundResult& bound : target.bounds)
      if (bound.kind == BoundKind::adjoint_any_order && !target.enclosures) add_signs(exact, bound.values.values);
    if (!target.condition) return;
    for (std::size_t sample = 0; sample < computed.size(); ++sample) {
      double sum = 0.0;
      for (const std::vector<double>& layer : target.condition->layers) sum += layer[sample];
      conditions.add(sum);
    }
  }

  /// Every run has the sign of the exact number where that is farther from 0 than the bound of every run.
  void add_signs(const std::vector<Ball>& exact, const std::vector<double>& any_run) {
    SignCounts& counts = summary.signs ? *summary.signs : summary.signs.emplace();
    for (std::size_t sample = 0; sample < any_run.size(); ++sample) {
      const Interval value = exact[sample].enclosure();
      const double distance = std::max({value.lower(), -value.upper(), 0.0});
      if (exact[sample].is_finite() && distance > any_run[sample])
        ++counts.right;
      else
        ++counts.open;
      summary.least_distance = std::min(summary.least_distance.value_or(distance), distance);
    }
  }

  void add_signs(const RunEnclosures& enclosures) {
    SignCounts& counts = summary.signs ? *summary.signs : summary.signs.emplace();
    for (std::size_t sample = 0; sample < enclosures.runs.size(); ++sample) {
      const SignVerdict verdict = sign_of_runs(enclosures.runs[sample], enclosures.exact[sample]);
      if (verdict == SignVerdict::right) ++counts.right;
      if (verdict == SignVerdict::wrong) ++counts.wrong;
      if (verdict == SignVerdict::open) ++counts.open;
    }
  }
};

/// What an output is that no node computes.
std::string given_as(const Graph& graph, ValueId id) {
  return graph.is_constant(id) ? "a constant" : "an input";
}

/// Value of one scalar over the samples of a block.
struct ElementSeries {
  std::vector<double> computed;
  std::vector<Ball> exact;
};

/// a - b = value + rest exactly (TwoSum); the rest is 0 where the value is not finite.
struct Difference {
  double value, rest;
};

Difference exact_difference(double a, double b) {
  const double value = a - b;
  if (!std::isfinite(value)) return {value, 0.0};
  const double part = value - a;
  return {value, (a - (value - part)) - (b + part)};
}

/// kappa |y|: the sum of magnitudes behind one element, 0 where the node is no sum.
double weight_of(const Tensor<double>& kappa, std::size_t i, double y) {
  if (kappa.values.empty() || y == 0.0) return 0.0;
  return kappa.values[i] * std::abs(y);
}

const BoundResult* find_bound(const std::vector<BoundResult>& bounds, BoundKind kind) {
  for (const BoundResult& bound : bounds)
    if (bound.kind == kind) return &bound;
  return nullptr;
}

/// What a bound on the difference of two outputs is: no better known than the worse known of the two.
BoundResult without_values(const BoundResult& bound, const BoundResult* other) {
  BoundResult result;
  result.kind = bound.kind;
  result.guarantee = other ? std::max(bound.guarantee, other->guarantee) : bound.guarantee;
  result.question = bound.question;
  result.theorem = bound.theorem;
  result.condition = bound.condition;
  if (other && other->condition != bound.condition)
    result.condition += (result.condition.empty() || other->condition.empty() ? "" : "; ") + other->condition;
  result.not_applicable = bound.not_applicable;
  if (bound.failure_probability || (other && other->failure_probability))
    result.failure_probability =
        add_up(bound.failure_probability.value_or(0.0), other ? other->failure_probability.value_or(0.0) : 0.0);
  result.seconds = bound.seconds;
  return result;
}

bool copies_operands(const Op& op) {
  return std::visit([]<class T>(const T&) { return Copying<T>; }, op);
}

/// Elements that have no exact value because an operand of their layer is not finite.
std::int64_t count_undefined(const Graph& graph, const std::vector<Tensor<double>>& computed, const Reference& local) {
  const auto is_finite = [](double x) { return std::isfinite(x); };
  std::int64_t count = 0;
  for (std::size_t node = 0; node < graph.nodes.size(); ++node) {
    const std::vector<ValueId>& inputs = graph.nodes[node].inputs;
    const bool all_finite = std::all_of(inputs.begin(), inputs.end(), [&](ValueId input) {
      const auto producer = graph.producer(input);
      return !producer || std::all_of(computed[*producer].values.begin(), computed[*producer].values.end(), is_finite);
    });
    if (all_finite) continue;
    const std::vector<Ball>& exact = local.layers[node].values;
    count += std::count_if(exact.begin(), exact.end(), [](const Ball& ball) { return !ball.is_finite(); });
  }
  return count;
}

/// Which of the bounds for every run in any order says most: the smaller one, or that of more values where both are
/// infinite.
void mark_smallest(ScopeSummary& scope) {
  std::vector<BoundSummary*> candidates;
  for (BoundSummary& bound : scope.bounds)
    if (bound.kind == BoundKind::adjoint_any_order || bound.kind == BoundKind::rounded_shadow)
      candidates.push_back(&bound);
  if (candidates.size() < 2) return;
  const auto key = [](const BoundSummary* bound) {
    return std::pair(bound->max_bound, bound->not_certifiable - bound->checked);
  };
  std::stable_sort(candidates.begin(), candidates.end(),
                   [&](const BoundSummary* a, const BoundSummary* b) { return key(a) < key(b); });
  const bool is_tie = std::isinf(candidates[0]->max_bound) && key(candidates[0]) == key(candidates[1]);
  for (BoundSummary* bound : candidates) bound->is_smallest = !is_tie && bound == candidates[0];
}

/// One block of samples.
struct SampleBlock {
  std::vector<Tensor<double>> computed;
  const Trace& trace;
  const Reference* accumulated;  ///< null: layers are compared by themselves
  const Reference& local;
  const Bounds& bounds;
  std::int64_t first_sample, samples;
};

/// A heuristic c |y| as c |difference|.
double rescale(double heuristic, double y, double difference) {
  return y == 0.0 ? 0.0 : heuristic / std::abs(y) * std::abs(difference);
}

}  // namespace

std::int64_t require_element(const Graph& graph, const Scalar& scalar, const OutputElement& wanted, std::size_t size,
                             std::int64_t samples) {
  const std::string& name = graph.value(graph.outputs[wanted.output]).name;
  if (!graph.producer(graph.outputs[wanted.output]))
    throw InvalidArgument(fmt::format("--scalar '{}': output '{}' is {} of the model", scalar.text, name,
                                      given_as(graph, graph.outputs[wanted.output])));
  const std::int64_t per_sample = static_cast<std::int64_t>(size) / samples;
  if (wanted.element >= per_sample)
    throw InvalidArgument(fmt::format("--scalar '{}': output '{}' has {} elements per sample, counted from 0",
                                      scalar.text, name, per_sample));
  return per_sample;
}

const BoundSummary* find_bound(const ScopeSummary& scope, BoundKind kind) {
  for (const BoundSummary& bound : scope.bounds)
    if (bound.kind == kind) return &bound;
  return nullptr;
}

bool is_close_by_design(BoundKind bound) {
  return bound == BoundKind::shadow || bound == BoundKind::rounded_shadow || bound == BoundKind::replay;
}

BoundKind any_order_bound(const ScopeSummary& scope) {
  return find_bound(scope, BoundKind::partial_sums) != nullptr ? BoundKind::partial_sums : BoundKind::componentwise;
}

BoundKind declared_order_bound(const ScopeSummary& scope) {
  return find_bound(scope, BoundKind::running) != nullptr ? BoundKind::running : BoundKind::order_aware;
}

std::string_view name_of(Scope scope) {
  switch (scope) {
    case Scope::local:
      return "local";
    case Scope::accumulated:
      return "accumulated";
    case Scope::end_to_end:
      break;
  }
  return "end_to_end";
}

bool is_answered(const Comparison& comparison, Question question) {
  const auto is_open = [&](const OpenQuestion& open) { return open.question == question; };
  if (std::any_of(comparison.open_questions.begin(), comparison.open_questions.end(), is_open)) return false;
  const auto has_bound = [&](const OutputSummary& output) {
    const bool are_followed = question != Question::any_run || output.scope.not_followed == 0;
    return !output.given_as.empty() || output.scope.elements == 0 ||
           (are_followed && output.scope.unbounded[static_cast<std::size_t>(question)].has_value());
  };
  return std::all_of(comparison.outputs.begin(), comparison.outputs.end(), has_bound);
}

std::vector<ScopeOf> scopes_of(const Comparison& comparison) {
  std::vector<ScopeOf> scopes;
  for (const LayerSummary& layer : comparison.layers) {
    scopes.push_back({Scope::local, layer.local, &layer});
    scopes.push_back({Scope::accumulated, layer.accumulated, &layer});
  }
  for (const OutputSummary& output : comparison.outputs)
    scopes.push_back({Scope::end_to_end, output.scope, nullptr, &output});
  return scopes;
}

struct Comparer::State {
  const Graph& graph;
  std::vector<Scalar> scalars;
  double threshold;
  std::vector<OutputTarget> output_targets;
  std::vector<bool> varies = depends_on_input(graph);
  std::vector<LayerState> layers = {};
  std::vector<OutputState> outputs = {}, scalar_states = {};
  Comparison result = {};
  std::vector<InfiniteBound> first_infinite = {};  ///< the first one of each question
  bool started = false;
  bool other_steps = false;  ///< the run may have computed a layer by other steps

  void start(const Trace& trace) {
    started = true;
    other_steps = may_take_other_steps(trace);
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
      const FormatId stored = stored_format(trace.layers[i].output);
      LayerState layer;
      layer.summary.index = i;
      layer.summary.name = graph.nodes[i].name;
      layer.summary.op = driftbound::name_of(graph.nodes[i].op);
      layer.summary.copies = copies_operands(graph.nodes[i].op);
      layer.summary.starts_at_inputs = starts_at_inputs(graph.nodes[i]);
      layer.local = ScopeAccumulator(stored);
      layer.accumulated = ScopeAccumulator(stored);
      layers.push_back(std::move(layer));
    }
    for (ValueId id : graph.outputs) {
      OutputState output;
      output.summary.name = graph.value(id).name;
      const auto node = graph.producer(id);
      if (node) output.scope = ScopeAccumulator(stored_format(trace.layers[*node].output));
      if (!node) output.summary.given_as = given_as(graph, id);
      outputs.push_back(std::move(output));
    }
    for (const Scalar& scalar : scalars) {
      OutputState state;
      state.summary.name = scalar.text;
      state.scope = ScopeAccumulator(format_of(scalar, trace));
      scalar_states.push_back(std::move(state));
    }
  }

  /// Whether a node is a segment whose operands are given, so that its own error is that from the input on.
  bool starts_at_inputs(const Node& node) const {
    return std::holds_alternative<op::Segment>(node.op) &&
           std::all_of(node.inputs.begin(), node.inputs.end(),
                       [&](ValueId id) { return graph.value(id).kind != ValueKind::computed; });
  }

  /// The format in which the outputs are stored, the coarser one of two.
  FormatId format_of(const Scalar& scalar, const Trace& trace) const {
    const auto of = [&](const OutputElement& element) {
      const auto node = graph.producer(graph.outputs[element.output]);
      return node ? stored_format(trace.layers[*node].output) : FormatId::fp32;
    };
    const FormatId first = of(scalar.positive), second = scalar.negative ? of(*scalar.negative) : first;
    return format(second).precision < format(first).precision ? second : first;
  }

  void add_layer(const SampleBlock& block, std::size_t node) {
    LayerState& layer = layers[node];
    LayerSummary& summary = layer.summary;
    const LayerBounds& bounds = block.bounds.layers[node];
    const Tensor<double>& computed = block.computed[node];
    const bool per_sample_layer = varies[graph.nodes[node].output];
    if (!per_sample_layer && summary.outputs > 0) return;  // the same for every sample: counted once
    const auto elements = static_cast<std::int64_t>(computed.size());
    summary.outputs = per_sample_layer ? elements / block.samples : elements;
    summary.fan_in = bounds.fan_in;
    summary.gamma_n = bounds.gamma_n;
    if (bounds.ambiguous) summary.ambiguous = summary.ambiguous.value_or(0) + *bounds.ambiguous;
    summary.reading = joined(summary.reading, bounds.reading);
    if (bounds.readings) {
      if (layer.readings) add_to(*layer.readings, *bounds.readings);
      if (!layer.readings) layer.readings = bounds.readings;
    }
    if (bounds.differing) summary.differing = summary.differing.value_or(0) + *bounds.differing;
    layer.kappa.add(bounds.kappa.values);
    if (summary.outputs == 0) return;
    std::optional<VoidCase> found = find_void(block, node, summary.outputs);
    if (found && (!summary.first_void || (found->is_in_range() && !summary.first_void->is_in_range())))
      summary.first_void = std::move(found);
    layer.local.add(computed.values, block.local.layers[node].values, all_values(bounds.local), block.first_sample,
                    summary.outputs);
    if (block.accumulated == nullptr) return;
    layer.accumulated.add(computed.values, block.accumulated->layers[node].values, all_values(bounds.accumulated),
                          block.first_sample, summary.outputs);
  }

  /// The first value of a layer that is not finite, of those whose exact value is in range if there are such; empty
  /// where all are finite.
  std::optional<VoidCase> find_void(const SampleBlock& block, std::size_t node, std::int64_t per_sample) const {
    const Tensor<double>& computed = block.computed[node];
    const double largest = format(stored_format(block.trace.layers[node].output)).largest;
    std::optional<VoidCase> found;
    for (std::size_t i = 0; i < computed.size() && !(found && found->is_in_range()); ++i) {
      if (std::isfinite(computed.values[i])) continue;
      const Ball& exact = block.local.layers[node].values[i];
      VoidCase one;
      one.sample = block.first_sample + static_cast<std::int64_t>(i) / per_sample;
      one.element = static_cast<std::int64_t>(i) % per_sample;
      one.computed = computed.values[i];
      one.largest = largest;
      if (exact.is_finite()) one.exact = exact.hi;
      if (!found || one.is_in_range()) found = std::move(one);
    }
    const bool has_single_operands =
        std::visit([]<class T>(const T&) { return ElementwiseUnary<T> || ElementwiseBinary<T>; }, graph.nodes[node].op);
    if (!found || !has_single_operands) return found;
    const std::int64_t at = (found->sample - block.first_sample) * per_sample + found->element;
    for (const ValueId id : graph.nodes[node].inputs)
      add_operand(block, id, computed.shape, static_cast<std::size_t>(at), *found);
    return found;
  }

  /// The operand's element that belongs to element `i` of a result, as recorded and in the exact network.
  void add_operand(const SampleBlock& block, ValueId id, const Shape& shape, std::size_t i, VoidCase& found) const {
    const std::optional<std::size_t> producer = graph.producer(id);
    Tensor<double> fixed;
    if (!producer)
      fixed =
          (graph.is_constant(id) ? graph.value(id).constant : used_inputs(graph, block.trace).at(graph.value(id).name))
              .to_double();
    const Tensor<double>& operand = producer ? block.computed[*producer] : fixed;
    const std::size_t at = BroadcastIndex(operand.shape, shape)(i);
    found.operands.push_back(operand.values[at]);
    const bool is_known =
        producer && block.accumulated != nullptr && block.accumulated->layers[*producer].values[at].is_finite();
    found.exact_operands.push_back(!producer  ? operand.values[at]
                                   : is_known ? block.accumulated->layers[*producer].values[at].hi
                                              : std::numeric_limits<double>::quiet_NaN());
  }

  void add_output(const SampleBlock& block, std::size_t output) {
    const auto node = graph.producer(graph.outputs[output]);
    const bool is_per_sample = varies[graph.outputs[output]];
    if (!is_per_sample && outputs[output].is_counted) return;  // the same for every sample: counted once
    const auto size = node ? static_cast<std::int64_t>(block.computed[*node].size()) : 0;
    const std::int64_t per_sample = is_per_sample ? size / block.samples : size;
    if (per_sample == 0) return;
    outputs[output].is_counted = true;
    const LayerBounds& bounds = block.bounds.layers[*node];
    outputs[output].kappa.add(bounds.kappa.values);
    outputs[output].scope.add(block.computed[*node].values, block.accumulated->layers[*node].values,
                              all_values(bounds.accumulated), block.first_sample, per_sample);
  }

  void add_target(const SampleBlock& block, const OutputTarget& one) {
    const std::size_t node = *graph.producer(graph.outputs[one.output]);
    if (one.target < block.bounds.targets.size())
      outputs[one.output].add_target(block.computed[node].values, block.accumulated->layers[node].values,
                                     block.bounds.targets[one.target], block.first_sample);
  }

  /// Where one output element lies in the tensors of a block.
  struct Located {
    std::size_t node, element, per_sample;
    bool is_per_sample;  ///< else the same for every sample
    std::size_t index(std::size_t sample) const { return (is_per_sample ? sample * per_sample : 0) + element; }
  };
  Located locate(const Scalar& scalar, const OutputElement& wanted, const SampleBlock& block) const {
    const auto node = graph.producer(graph.outputs[wanted.output]);
    const std::size_t size = node ? block.computed[*node].size() : 0;
    const bool is_per_sample = varies[graph.outputs[wanted.output]];
    const std::int64_t per_sample = require_element(graph, scalar, wanted, size, is_per_sample ? block.samples : 1);
    return {*node, static_cast<std::size_t>(wanted.element), static_cast<std::size_t>(per_sample), is_per_sample};
  }

  void add_scalar(const SampleBlock& block, std::size_t index) {
    const Scalar& scalar = scalars[index];
    const Bounds& bounds = block.bounds;
    const Located a = locate(scalar, scalar.positive, block);
    const Located b = scalar.negative ? locate(scalar, *scalar.negative, block) : a;
    const std::vector<BoundResult> own =
        index < bounds.targets.size() ? bounds.targets[index].bounds : std::vector<BoundResult>();
    const std::vector<BoundResult>& of_b = bounds.layers[b.node].accumulated;
    std::vector<const BoundResult*> of_a;  // bounds that have to be added up
    std::vector<BoundResult> combined;
    for (const BoundResult& bound : bounds.layers[a.node].accumulated) {
      if (find_bound(own, bound.kind)) continue;
      of_a.push_back(&bound);
      combined.push_back(without_values(bound, find_bound(of_b, bound.kind)));
    }
    ElementSeries series;
    for (std::size_t sample = 0; sample < static_cast<std::size_t>(block.samples); ++sample) {
      const std::size_t i = a.index(sample);
      double value = block.computed[a.node].values[i];
      Ball exact = block.accumulated->layers[a.node].values[i];
      double kappa_weight = weight_of(bounds.layers[a.node].kappa, i, value);
      std::vector<double> bound_values;
      for (const BoundResult* bound : of_a) bound_values.push_back(bound->values.values[i]);
      if (scalar.negative) {
        const std::size_t j = b.index(sample);
        const double subtrahend = block.computed[b.node].values[j];
        kappa_weight += weight_of(bounds.layers[b.node].kappa, j, subtrahend);
        const Difference d = exact_difference(value, subtrahend);
        exact = exact - block.accumulated->layers[b.node].values[j] - exact_ball(d.rest);
        for (std::size_t k = 0; k < combined.size(); ++k) {
          const BoundResult* match = find_bound(of_b, combined[k].kind);
          const double other = match ? match->values.values[j] : std::numeric_limits<double>::infinity();
          bound_values[k] = combined[k].guarantee == Guarantee::heuristic ? rescale(bound_values[k], value, d.value)
                                                                          : add_up(bound_values[k], other);
        }
        value = d.value;
      }
      series.computed.push_back(value);
      series.exact.push_back(exact);
      if (kappa_weight > 0.0) scalar_states[index].kappa.add(kappa_weight / std::abs(value));
      for (std::size_t k = 0; k < combined.size(); ++k) combined[k].values.values.push_back(bound_values[k]);
    }
    combined.insert(combined.end(), own.begin(), own.end());
    scalar_states[index].scope.add(series.computed, series.exact, all_values(combined), block.first_sample, 1);
    if (index < bounds.targets.size())
      scalar_states[index].add_target(series.computed, series.exact, bounds.targets[index], block.first_sample);
  }

  void add_references(const SampleBlock& block) {
    if (block.local.undecided > 0)
      result.reference_undefined +=
          std::min(count_undefined(graph, block.computed, block.local), block.local.undecided);
    for (const Reference* reference : {block.accumulated, &block.local}) {
      if (reference == nullptr) continue;
      for (const auto& [bits, count] : reference->rungs) result.rungs[bits] += count;
      result.reference_undecided += reference->undecided;
      result.reference_valueless += reference->valueless;
      result.reference_too_fine += reference->too_fine;
      result.max_bits = std::max(result.max_bits, reference->max_bits_used);
    }
  }

  /// Whether programs compute some layer by other steps than bounds of any run assume.
  bool may_take_other_steps(const Trace& trace) const {
    if (trace.provenance.program.starts_with("driftbound")) return false;
    return std::any_of(graph.nodes.begin(), graph.nodes.end(),
                       [](const Node& node) { return count_of_other_bodies(node.op) > 0; });
  }

  /// Leaves open what exceeds bounds of any run alone, where a layer may have been computed by other steps.
  void excuse_other_steps(ScopeSummary& scope) const {
    if (!other_steps || !layers_hold()) return;
    for (BoundSummary& bound : scope.bounds) {
      if (bound.question != Question::any_run || bound.violations == 0) continue;
      bound.by_other_steps += bound.violations;
      bound.undecided += std::exchange(bound.violations, 0);
    }
  }

  void excuse_other_steps_of_layer(LayerSummary& layer) const {
    layer.status = Status::holds;
    excuse_other_steps(layer.accumulated);
    layer.status = status_of(layer, threshold);
  }

  bool layers_hold() const {
    return std::none_of(result.layers.begin(), result.layers.end(),
                        [](const LayerSummary& layer) { return layer.status == Status::violated; });
  }

  void explain() {
    std::vector<std::string> non_finite_origin(graph.values.size()), violation_origin(graph.values.size());
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
      const Node& node = graph.nodes[i];
      LayerSummary& layer = result.layers[i];
      for (ValueId input : node.inputs) {
        if (layer.non_finite > 0 && layer.explained_by.empty()) layer.explained_by = non_finite_origin[input];
        if (is_violated(layer.accumulated) && !is_violated(layer.local) && layer.explained_by.empty())
          layer.explained_by = violation_origin[input];
      }
      if (layer.non_finite > 0)
        non_finite_origin[node.output] = layer.explained_by.empty() ? layer.name : layer.explained_by;
      if (is_violated(layer.accumulated) || is_violated(layer.local))
        violation_origin[node.output] = layer.explained_by.empty() ? layer.name : layer.explained_by;
    }
  }

  /// Of both questions, where outputs and scalars have values without a finite bound.
  void find_open_questions() {
    for (const Question question : {Question::this_run, Question::any_run}) {
      OpenQuestion open;
      open.question = question;
      for (const OutputSummary& output : result.outputs) {
        const auto& unbounded = output.scope.unbounded[static_cast<std::size_t>(question)];
        if (!unbounded) continue;
        open.values += *unbounded;
        open.of += output.scope.elements;
      }
      if (open.values == 0) continue;
      for (const InfiniteBound& infinite : first_infinite) {
        if (infinite.question != question) continue;
        open.layer = graph.nodes[infinite.node].name;
        open.why = infinite.reason;
      }
      result.open_questions.push_back(std::move(open));
    }
  }

  void find_closest() {
    for (const ScopeOf& one : scopes_of(result))
      for (const BoundSummary& bound : one.summary.bounds)
        if (bound.must_decide() && bound.decides() && (!result.closest || bound.approach > result.closest->utilisation))
          result.closest = ClosestApproach{one.name(), one.scope, bound.kind, bound.approach};
  }
};

Comparer::Comparer(const Graph& graph, std::vector<Scalar> scalars, double threshold, std::vector<OutputTarget> outputs)
    : state_(new State{graph, std::move(scalars), threshold, std::move(outputs)}) {}
Comparer::~Comparer() = default;

void Comparer::add(const BatchLayout& layout, const Trace& trace, const Reference* accumulated, const Reference& local,
                   const Bounds& bounds, std::int64_t first_sample,
                   const std::function<void(std::size_t)>& before_layer) {
  State& s = *state_;
  if (!s.started) s.start(trace);
  SampleBlock block{{}, trace, accumulated, local, bounds, first_sample, layout.batched ? trace.samples : 1};
  for (const LayerTrace& layer : trace.layers) block.computed.push_back(layer.output.to_double());
  for (std::size_t node = 0; node < s.graph.nodes.size(); ++node) {
    if (before_layer) before_layer(node);
    s.add_layer(block, node);
  }
  if (accumulated != nullptr) {
    for (std::size_t output = 0; output < s.graph.outputs.size(); ++output) s.add_output(block, output);
    for (const OutputTarget& one : s.output_targets) s.add_target(block, one);
    for (std::size_t i = 0; i < s.scalars.size(); ++i) s.add_scalar(block, i);
  }
  s.add_references(block);
  s.result.samples += block.samples;
  for (const NotByRows& one : bounds.not_by_rows) add_to(s.result.not_by_rows, one);
  for (InfiniteBound infinite : bounds.infinite) {
    const auto is_it = [&](const InfiniteBound& known) { return known.question == infinite.question; };
    if (std::any_of(s.first_infinite.begin(), s.first_infinite.end(), is_it)) continue;
    infinite.sample += first_sample;
    s.first_infinite.push_back(std::move(infinite));
  }
  for (const std::string& assumption : bounds.assumptions)
    if (std::find(s.result.assumptions.begin(), s.result.assumptions.end(), assumption) == s.result.assumptions.end())
      s.result.assumptions.push_back(assumption);
}

std::optional<KernelFinding> Comparer::search_kernel(const Graph& graph, const Trace& trace, std::size_t node,
                                                     std::int64_t most_work) {
  State& s = *state_;
  if (!has_kernels(s.graph.nodes[node].op)) return std::nullopt;
  if (!s.started) s.start(trace);
  std::optional<KernelSearch>& search = s.layers[node].kernels;
  if (!search) search.emplace(s.graph, node, most_work);
  return search->add(graph, trace) ? std::optional(search->finding()) : std::nullopt;
}

std::int64_t Comparer::tested_computations() const {
  std::int64_t tested = 0;
  for (const LayerState& layer : state_->layers) tested += layer.readings ? layer.readings->computations : 0;
  return tested;
}

Comparison Comparer::finish(double failure_probability) {
  State& s = *state_;
  s.result.threshold = s.threshold;
  s.result.failure_probability = failure_probability;
  const auto products = std::count_if(s.layers.begin(), s.layers.end(),
                                      [](const LayerState& layer) { return layer.readings.has_value(); });
  for (LayerState& layer : s.layers) {
    layer.summary.local = layer.local.finish();
    layer.summary.accumulated = layer.accumulated.finish();
    layer.summary.kappa = layer.kappa.summary();
    layer.summary.non_finite = layer.summary.local.non_finite;
    layer.summary.compared = layer.summary.local.elements;
    layer.summary.checked = std::max(decided_values(layer.summary.local), decided_values(layer.summary.accumulated));
    if (layer.readings) layer.summary.nearest_reading = nearest_reading(*layer.readings, products, failure_probability);
    if (layer.kernels) layer.summary.kernel = layer.kernels->finding();
    layer.summary.status = status_of(layer.summary, s.threshold);
    const bool is_exceeded = layer.summary.status == Status::violated || layer.summary.status == Status::improbable;
    const bool is_read_otherwise = layer.summary.nearest_reading && layer.summary.nearest_reading->is_decisive;
    if (s.other_steps && is_exceeded && !is_read_otherwise && !exceeds_of_this_run(layer.summary)) {
      s.result.layers.push_back(std::move(layer.summary));
      s.excuse_other_steps_of_layer(s.result.layers.back());
      s.result.verdict = worse(s.result.verdict, s.result.layers.back().status);
      continue;
    }
    s.result.verdict = worse(s.result.verdict, layer.summary.status);
    s.result.layers.push_back(std::move(layer.summary));
  }
  const bool layers_are_checked = std::any_of(s.result.layers.begin(), s.result.layers.end(),
                                              [](const LayerSummary& layer) { return layer.checked > 0; });
  for (std::vector<OutputState>* states : {&s.outputs, &s.scalar_states}) {
    for (OutputState& output : *states) {
      output.summary.scope = output.scope.finish();
      s.excuse_other_steps(output.summary.scope);
      mark_smallest(output.summary.scope);
      output.summary.kappa = output.kappa.summary();
      output.summary.condition = output.conditions.summary();
      output.summary.breakdown = output.breakdown.finish(s.graph);
      output.summary.status =
          output.summary.given_as.empty() ? status_of(output.summary.scope, s.threshold) : Status::not_checked;
      const bool is_open = output.summary.status == Status::undecided;
      if (!is_open || !layers_are_checked) s.result.verdict = worse(s.result.verdict, output.summary.status);
      s.result.outputs.push_back(std::move(output.summary));
    }
  }
  if (s.result.verdict <= Status::approaches && !anything_checked(s.result)) s.result.verdict = Status::undecided;
  s.explain();
  s.find_open_questions();
  s.find_closest();
  return std::move(s.result);
}

}  // namespace driftbound::analysis
