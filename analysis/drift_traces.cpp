#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "analysis/drift.hpp"
#include "analysis/drift_verdict.hpp"
#include "analysis/report_parts.hpp"
#include "analysis/scalar.hpp"
#include "driftbound/num/errors.hpp"

namespace driftbound::analysis {

namespace {

/// Errors of a number of interest, sample after sample, and what they would be without each layer's own.
class TargetErrors {
public:
  TargetErrors(const TracedRun& run, const Scalar& target) : target_(target) {
    without_.resize(run.graph.nodes.size(), 0.0);
    of_layer_.resize(run.graph.nodes.size(), 0.0);
    for (const OutputElement* at : {&target_.positive, target_.negative ? &*target_.negative : nullptr}) {
      const auto node = at != nullptr ? run.graph.producer(run.graph.outputs[at->output]) : std::nullopt;
      if (node) outputs_[at->output] = {*node, run.trace.layers[*node].output.to_double().values};
    }
  }

  void add(const Reference& reference, const Bounds& bounds, std::int64_t first, std::int64_t count) {
    for (std::int64_t sample = 0; sample < count; ++sample) {
      double error = error_of(target_.positive, reference, first, sample, count);
      if (target_.negative) error -= error_of(*target_.negative, reference, first, sample, count);
      squares_ += error * error;
      ++samples_;
      if (bounds.targets.empty() || !bounds.targets.front().attribution) continue;
      const std::vector<std::vector<double>>& parts = bounds.targets.front().attribution->layers;
      for (std::size_t node = 0; node < parts.size(); ++node) {
        const double part = parts[node][static_cast<std::size_t>(sample)];
        without_[node] += (error - part) * (error - part);
        of_layer_[node] += part * part;
      }
      is_attributed_ = true;
    }
  }

  void finish(TracedRun& run) const {
    if (samples_ == 0) return;
    const auto mean_root = [&](double squares) { return std::sqrt(squares / static_cast<double>(samples_)); };
    run.rms = mean_root(squares_);
    if (!is_attributed_) return;
    for (const double squares : without_) run.rms_without.push_back(mean_root(squares));
    for (const double squares : of_layer_) run.rms_of_layer.push_back(mean_root(squares));
  }

private:
  struct Output {
    std::size_t node = 0;
    std::vector<double> computed;
  };

  double error_of(const OutputElement& at, const Reference& reference, std::int64_t first, std::int64_t sample,
                  std::int64_t count) const {
    const auto found = outputs_.find(at.output);
    if (found == outputs_.end()) return 0.0;
    const Tensor<Ball>& exact = reference.layers[found->second.node];
    const auto size = static_cast<std::int64_t>(exact.size()) / count;
    const Ball& ball = exact.values[static_cast<std::size_t>(sample * size + at.element)];
    return (found->second.computed[static_cast<std::size_t>((first + sample) * size + at.element)] - ball.hi) - ball.lo;
  }

  const Scalar& target_;
  std::map<std::size_t, Output> outputs_;  ///< by position in Graph::outputs
  double squares_ = 0.0;
  std::int64_t samples_ = 0;
  std::vector<double> without_, of_layer_;
  bool is_attributed_ = false;
};

}  // namespace

TracedRun judge_trace_alone(Graph graph, Trace trace, const DriftOptions& options) {
  TracedRun run{std::move(graph), std::move(trace), {}, {}, options.top, options.chosen, {}, {}, {}};
  JudgeOptions judging = options.judge;
  judging.most_output_elements = most_bounded_elements(run.graph, run.trace, options.bounds_outputs);
  std::optional<Scalar> target;
  if (!options.target.empty()) target = parse_scalar(run.graph, options.target);
  std::optional<TargetErrors> errors;
  if (target) errors.emplace(run, *target);
  if (target && options.attributes) {
    judging.scalars = {*target};
    judging.bounds.emplace_back(Diagnostic::attribution);
  }
  judging.keep_block = [&](const Reference& reference, const Bounds& bounds, std::int64_t first, std::int64_t count) {
    if (errors) errors->add(reference, bounds, first, count);
    for (std::size_t output = 0; output < run.graph.outputs.size(); ++output) {
      const std::optional<std::size_t> node = run.graph.producer(run.graph.outputs[output]);
      if (!node || run.trace.layers[*node].output.size() > most_exact) continue;
      run.known[run.graph.nodes[*node].name].add(run.graph, run.trace, output, reference, bounds, first, count,
                                                 judging.precision.threads);
    }
  };
  run.judgement = judge(run.graph, run.trace, judging);
  if (errors) errors->finish(run);
  return run;
}

namespace {

class TraceComparer {
public:
  TraceComparer(const TracedRun& a, const TracedRun& b) : a_(a), b_(b) {
    for (std::size_t i = 0; i < b.graph.nodes.size(); ++i) in_b_[b.graph.nodes[i].name] = i;
  }

  RunsDrift compare() && {
    require_same_inputs();
    drift_.interrupted = a_.judgement.interrupted || b_.judgement.interrupted;
    drift_.undeclared = undeclared_of(undeclared_kernel(a_.judgement.comparison, {a_.trace.arithmetic}),
                                      undeclared_kernel(b_.judgement.comparison, {b_.trace.arithmetic}));
    for (std::size_t i = 0; i < a_.graph.nodes.size(); ++i) add(i);
    if (drift_.ops.empty()) throw InvalidArgument("no layer of the model is recorded in both runs");
    for (const auto& [name, node] : in_b_)
      if (position_.count(name) == 0) drift_.only_b.push_back(alone(b_, node));
    compare_decisions();
    find_culprit(drift_);
    return std::move(drift_);
  }

private:
  static const LayerSummary& layer(const TracedRun& run, std::size_t node) {
    return run.judgement.comparison.layers.at(node);
  }

  static DriftAlone alone(const TracedRun& run, std::size_t node) {
    const Node& of = run.graph.nodes[node];
    const std::vector<ValueId>& outputs = run.graph.outputs;
    return {of.name, std::string(name_of(of.op)), layer(run, node).status, complaint_of(layer(run, node)),
            std::find(outputs.begin(), outputs.end(), of.output) != outputs.end()};
  }

  void require_same_inputs() const {
    if (a_.trace.samples != b_.trace.samples)
      throw InvalidArgument(fmt::format("the runs have {} and {} samples; compare runs of the same inputs",
                                        a_.trace.samples, b_.trace.samples));
    for (const auto& [name, tensor] : a_.trace.inputs.tensors)
      if (tensor.to_double().values != b_.trace.inputs.at(name).to_double().values)
        throw InvalidArgument("the runs are of different inputs: '" + name + "' differs");
  }

  void add(std::size_t node) {
    const Node& of_a = a_.graph.nodes[node];
    const auto found = in_b_.find(of_a.name);
    if (found == in_b_.end()) {
      drift_.only_a.push_back(alone(a_, node));
      return;
    }
    const Node& of_b = b_.graph.nodes[found->second];
    DriftOp op;
    op.name = op.name_b = of_a.name;
    op.op = name_of(of_a.op);
    op.op_b = name_of(of_b.op);
    const std::optional<AlignedNumbers> numbers =
        aligned_numbers(a_.trace.layers[node].output, b_.trace.layers[found->second].output, std::nullopt);
    if (numbers) op.difference = difference_of(*numbers);
    op.has_same_operands = reads_the_same(of_a) && op.op == op.op_b;
    OpEvidence evidence;
    evidence.a = &layer(a_, node);
    evidence.b = &layer(b_, found->second);
    evidence.is_same_op = true;  // of one model
    evidence.adds_and_multiplies = adds_and_multiplies(op.op);
    take_reports(op, evidence.a, evidence.b);
    op.apart_at_most = apart_at_most(of_a);
    settle(op, evidence, a_.graph.nodes.size());
    position_[of_a.name] = drift_.ops.size();
    std::vector<const RunDifference*> operands;
    for (const ValueId id : of_a.inputs)
      if (const RunDifference* difference = difference_of_operand(id)) operands.push_back(difference);
    add_op(std::move(op), operands, drift_);
  }

  std::optional<double> apart_at_most(const Node& node) const {
    const std::string& name = a_.graph.value(node.output).name;
    return any_runs_apart(a_.judgement.comparison, name, b_.judgement.comparison, name);
  }

  /// The difference of an operand that is a layer of both runs; null: it is an input, a constant, or no such layer.
  const RunDifference* difference_of_operand(ValueId id) const {
    const std::optional<std::size_t> producer = a_.graph.producer(id);
    const auto found = producer ? position_.find(a_.graph.nodes[*producer].name) : position_.end();
    const bool is_known = found != position_.end() && drift_.ops[found->second].difference;
    return is_known ? &*drift_.ops[found->second].difference : nullptr;
  }

  bool reads_the_same(const Node& node) const {
    return std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId id) {
      if (!a_.graph.producer(id)) return true;
      const RunDifference* difference = difference_of_operand(id);
      return difference != nullptr && difference->is_zero();
    });
  }

  void compare_decisions() {
    for (const ValueId output : a_.graph.outputs) {
      const std::optional<std::size_t> node = a_.graph.producer(output);
      if (!node) continue;
      const std::string& name = a_.graph.nodes[*node].name;
      const auto found = in_b_.find(name);
      const StoredTensor& of_a = a_.trace.layers[*node].output;
      if (found == in_b_.end() || of_a.shape().size() < 2 || of_a.shape().back() < 2) continue;
      const auto numbers = aligned_numbers(of_a, b_.trace.layers[found->second].output, std::nullopt);
      if (!numbers) continue;
      const auto known = [&](const TracedRun& run) {
        const auto at = run.known.find(name);
        return at == run.known.end() ? nullptr : &at->second;
      };
      add_rows(name, *numbers, known(a_), known(b_), {a_.top, std::nullopt, a_.chosen}, drift_);
    }
  }

  const TracedRun &a_, &b_;
  std::map<std::string, std::size_t> in_b_, position_;  ///< by name: the node of b; the op of the drift
  RunsDrift drift_;
};

}  // namespace

RunsDrift compare_traces(const TracedRun& a, const TracedRun& b) {
  return TraceComparer(a, b).compare();
}

}  // namespace driftbound::analysis
