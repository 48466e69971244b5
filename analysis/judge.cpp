#include "analysis/judge.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <span>

#include "analysis/vectorised.hpp"
#include "driftbound/model/composite.hpp"
#include "driftbound/num/errors.hpp"

namespace driftbound::analysis {
namespace {

/// Products in the members of a family beyond which a search is not cheap.
std::int64_t work_of_search(const JudgeOptions& options) {
  constexpr std::int64_t cheap = std::int64_t{1} << 21;
  return options.kernel_searches == KernelSearches::all ? 0 : cheap;
}

void keep_only(std::vector<BoundResult>& bounds, const std::vector<BoundRequest>& wanted) {
  std::erase_if(bounds, [&](const BoundResult& bound) {
    return std::find(wanted.begin(), wanted.end(), BoundRequest(bound.kind)) == wanted.end();
  });
}

/// `one`: one sample of the run.
void check_scalars(const Graph& graph, const Trace& one, const std::vector<Scalar>& scalars) {
  const auto check = [&](const Scalar& scalar, const OutputElement& element) {
    const auto node = graph.producer(graph.outputs[element.output]);
    require_element(graph, scalar, element, node ? one.layers.at(*node).output.size() : 0, 1);
  };
  for (const Scalar& scalar : scalars) {
    check(scalar, scalar.positive);
    if (scalar.negative) check(scalar, *scalar.negative);
  }
}

/// Every output that is one number a sample becomes a target, unless a scalar already is that number.
std::vector<OutputTarget> add_outputs(const Graph& graph, const Trace& one, std::vector<Target>& targets) {
  const std::vector<bool> varies = depends_on_input(graph);
  std::vector<OutputTarget> outputs;
  for (std::size_t output = 0; output < graph.outputs.size(); ++output) {
    const auto node = graph.producer(graph.outputs[output]);
    if (!node || !varies[graph.outputs[output]]) continue;
    if (one.layers.at(*node).output.size() != 1) continue;
    const auto same = std::find_if(targets.begin(), targets.end(), [&](const Target& target) {
      return target.positive.output == output && !target.negative;
    });
    outputs.push_back({output, static_cast<std::size_t>(same - targets.begin())});
    if (same == targets.end()) targets.push_back({{output, 0}, std::nullopt});
  }
  return outputs;
}

}  // namespace

std::int64_t followed_of_each_output(const Graph& graph) {
  constexpr std::int64_t most_in_all = 64;
  const auto outputs = static_cast<std::int64_t>(std::max<std::size_t>(graph.outputs.size(), 1));
  return std::clamp<std::int64_t>(most_in_all / outputs, 1, BoundOptions().most_output_elements);
}

namespace {

BoundOptions how_to_bound(const Graph& graph, const JudgeOptions& options, std::int64_t calls) {
  BoundOptions how;
  how.failure_probability = options.failure_probability / static_cast<double>(std::max<std::int64_t>(calls, 1));
  how.threads = options.precision.threads;
  how.targets.assign(options.scalars.begin(), options.scalars.end());
  how.requests = options.bounds;
  how.trace_is_declared_run = options.trace_is_declared_run;
  how.tests_readings = options.tests_readings;
  how.most_output_elements = options.most_output_elements.value_or(followed_of_each_output(graph));
  return how;
}

Bounds wanted_bounds(const Bounder& bounder, const Trace& trace, const KnownExact& exact, const FoundArithmetics& found,
                     const KernelsByNode& kernels, const JudgeOptions& options) {
  Bounds bounds = bounder(trace, exact, found, kernels);
  if (options.bounds.empty()) return bounds;
  for (LayerBounds& layer : bounds.layers) {
    keep_only(layer.local, options.bounds);
    keep_only(layer.accumulated, options.bounds);
  }
  return bounds;
}

struct References {
  std::optional<Reference> accumulated;  ///< empty: layers are judged alone
  Reference local;
};

/// Whether a radius alone keeps a verdict open: the bound lies between the two ends of the error's enclosure.
bool is_open(double computed, const Ball& exact, double bound) {
  if (!(4.0 * exact.radius.value() > bound) || !(bound > 0.0) || !std::isfinite(bound) || !exact.is_finite())
    return false;
  const Interval error = error_of(computed, exact);
  return error.lower() <= bound && !(error.upper() <= bound);
}

/// Whether some radius is not small next to its bound.
DRIFTBOUND_VECTORISED
bool any_wide(const double* radii, const double* bounds, std::size_t n) {
  std::int64_t wide = 0;
  for (std::size_t i = 0; i < n; ++i) wide += std::int64_t{4.0 * radii[i] > bounds[i]};
  return wide != 0;
}

/// A few elements at a time, which stay near the processor while bounds are held against them.
bool any_open(const LayerTrace& layer, const Tensor<Ball>& exact, const std::vector<BoundResult>& bounds) {
  constexpr std::size_t at_once = 512;
  std::array<double, at_once> radii;
  std::optional<Tensor<double>> computed;
  for (std::size_t first = 0; first < exact.size(); first += at_once) {
    const std::size_t count = std::min(at_once, exact.size() - first);
    for (std::size_t i = 0; i < count; ++i) radii[i] = exact.values[first + i].radius.value();
    for (const BoundResult& bound : bounds) {
      if (bound.guarantee != Guarantee::proven && bound.guarantee != Guarantee::conditional) continue;
      if (is_close_by_design(bound.kind) || !any_wide(radii.data(), bound.values.values.data() + first, count))
        continue;
      if (!computed) computed = layer.output.to_double();
      for (std::size_t i = first; i < first + count; ++i)
        if (is_open(computed->values[i], exact.values[i], bound.values.values[i])) return true;
    }
  }
  return false;
}

References references_of(const ReferenceMaker& maker, const Trace& trace, const PrecisionPolicy& policy,
                         bool are_local) {
  References references{std::nullopt, maker.local(trace, policy)};
  if (!are_local) references.accumulated = maker.accumulated(trace.inputs, policy, &trace, &references.local);
  return references;
}

/// References of a block by the policy and, from the first layer on where they leave a verdict open, others with radii
/// far smaller than the policy asks of values without an error: a computed value may equal the exact one while its
/// bound is tiny.
class SharpenedReferences {
public:
  SharpenedReferences(const ReferenceMaker& maker, const Trace& trace, const PrecisionPolicy& policy, bool are_local)
      : maker_(maker),
        trace_(trace),
        policy_(policy),
        are_local_(are_local),
        references_(references_of(maker, trace, policy, are_local)) {}

  /// Null: layers are judged alone.
  const Reference* accumulated() const { return references_.accumulated ? &*references_.accumulated : nullptr; }
  const Reference& local() const { return references_.local; }

  /// Before the layer is held against its bounds, while both are near the processor.
  void sharpen(std::size_t layer, const LayerBounds& bounds) {
    constexpr double sharper = 0x1p-360;
    const bool is_open =
        any_open(trace_.layers[layer], local().layers[layer], bounds.local) ||
        (accumulated() != nullptr && any_open(trace_.layers[layer], accumulated()->layers[layer], bounds.accumulated));
    if (is_sharp_ || !is_open) return;
    policy_.relative_radius = std::min(policy_.relative_radius, sharper);
    policy_.of_rounding = 0.0;
    references_ = references_of(maker_, trace_, policy_, are_local_);
    is_sharp_ = true;
  }

private:
  const ReferenceMaker& maker_;
  const Trace& trace_;
  PrecisionPolicy policy_;
  bool are_local_;
  References references_;
  bool is_sharp_ = false;
};

/// Numbers on the way from the inputs, those inside of composites too.
std::int64_t numbers_between(const Graph& graph, const std::vector<Shape>& input_shapes) {
  const std::vector<Shape> shapes = infer_shapes(graph, input_shapes);
  std::int64_t numbers = 0;
  for (const Node& node : graph.nodes) {
    numbers += element_count(shapes[node.output]);
    std::vector<Shape> operands;
    for (const ValueId id : node.inputs) operands.push_back(shapes[id]);
    if (is_composite(node.op)) numbers += numbers_between(composite_body(node.op, operands), operands);
  }
  return numbers;
}

/// Samples that are judged together: their products gain by it, their numbers have to fit memory.
std::int64_t block_of(const Graph& graph, const BatchLayout& layout, std::int64_t most) {
  constexpr std::int64_t most_numbers = std::int64_t{1} << 20;
  if (!layout.batched) return 1;
  const std::int64_t numbers = std::max<std::int64_t>(numbers_between(graph, layout.sample_shapes), 1);
  return std::clamp<std::int64_t>(most_numbers / numbers, 1, std::max<std::int64_t>(most, 1));
}

/// Numbers on the way of the samples of a block.
std::uint64_t numbers_of_block(const Graph& graph, const Trace& one, std::int64_t samples) {
  const Inputs used = used_inputs(graph, one);
  std::vector<Shape> shapes;
  for (const ValueId input : graph.inputs) shapes.push_back(used.at(graph.value(input).name).shape());
  return static_cast<std::uint64_t>(numbers_between(graph, shapes) * samples);
}

/// Bytes that a bound takes for each number on the way, with the bounds that take no more, roughly: what convolutional
/// networks and decoders were seen to take.
std::uint64_t bytes_per_number(const BoundRequest& request) {
  constexpr std::uint64_t local = 0, trajectories = 150, chances = 400;
  const auto* kind = std::get_if<BoundKind>(&request);
  if (kind == nullptr) return trajectories;
  switch (*kind) {
    case BoundKind::adjoint_any_order:
    case BoundKind::adjoint_order_aware:
    case BoundKind::rounded_shadow:
      return trajectories;
    case BoundKind::adjoint_probabilistic:
    case BoundKind::adjoint_statistical:
      return chances;
    default:
      return local;
  }
}

/// Leaves out the bounds that would take too much memory, where all were to be computed.
void leave_out_costly(const Graph& graph, const Trace& one, std::int64_t samples, JudgeOptions& options,
                      Judgement& judgement) {
  if (options.memory == 0 || !options.bounds.empty()) return;
  const std::uint64_t numbers = numbers_of_block(graph, one, samples);
  std::vector<BoundRequest> kept;
  for (const BoundRequest& request : every_bound_request()) {
    const std::uint64_t needed = bytes_per_number(request) * numbers;
    const bool fits = needed <= options.memory;
    (fits ? kept : judgement.left_out).push_back(request);
    if (!fits) judgement.memory_needed = std::max(judgement.memory_needed, needed);
  }
  if (!judgement.left_out.empty()) options.bounds = std::move(kept);
}

/// Takes bounds out of those that are wanted, all of them where `bounds` is empty.
void leave_out(const std::vector<BoundRequest>& without, std::vector<BoundRequest>& bounds) {
  if (without.empty()) return;
  const std::span<const BoundRequest> all = every_bound_request();
  if (bounds.empty()) bounds.assign(all.begin(), all.end());
  std::erase_if(
      bounds, [&](const BoundRequest& one) { return std::find(without.begin(), without.end(), one) != without.end(); });
}

/// An open axis counts as one.
std::size_t elements_of_sample(const Graph& graph) {
  std::size_t elements = 0;
  for (const ValueId id : graph.inputs) {
    std::size_t of_input = 1;
    for (const DeclaredDimension& dimension : graph.value(id).declared)
      if (dimension.extent >= 0) of_input *= static_cast<std::size_t>(dimension.extent);
    elements += of_input;
  }
  return elements;
}

/// Throws:    InvalidArgument
Box box_of(const Graph& graph, const std::vector<std::pair<double, double>>& ranges) {
  const std::size_t elements = elements_of_sample(graph);
  if (ranges.size() > elements)
    throw InvalidArgument(fmt::format("--box has {} ranges lo:hi, a sample has {} elements", ranges.size(), elements));
  for (const auto& [lower, upper] : ranges)
    if (!(std::isfinite(lower) && std::isfinite(upper) && lower <= upper))
      throw InvalidArgument(
          fmt::format("--box: {}:{} is no range; give finite ends lo:hi with lo <= hi", lower, upper));
  Box box;
  for (std::size_t i = 0; i < elements; ++i) {
    const auto& [lower, upper] = ranges[std::min(i, ranges.size() - 1)];
    box.lower.push_back(lower);
    box.upper.push_back(upper);
  }
  return box;
}

/// T-77 for scalars and for outputs that are one number a sample.
void add_boxes(const Graph& graph, const Trace& trace, const JudgeOptions& options, const Box& box,
               const std::vector<OutputTarget>& outputs, Comparison& comparison) {
  BoundOptions how;
  how.threads = options.precision.threads;
  const auto add = [&](const Target& target, OutputSummary& output) {
    output.box =
        BoxSummary{options.box, trace.arithmetic.order, forward_error_bound(graph, trace.arithmetic, box, target, how)};
  };
  for (const OutputTarget& output : outputs) add({{output.output, 0}, std::nullopt}, comparison.outputs[output.output]);
  for (std::size_t i = 0; i < options.scalars.size(); ++i)
    add(options.scalars[i], comparison.outputs[graph.outputs.size() + i]);
  comparison.box_without_number = outputs.empty() && options.scalars.empty();
}

/// Bounds of one layer at its recorded operands, of those that are wanted.
std::vector<BoundRequest> local_bounds(const std::vector<BoundRequest>& wanted) {
  std::vector<BoundRequest> local;
  for (const BoundKind kind : {BoundKind::componentwise, BoundKind::partial_sums, BoundKind::probabilistic,
                               BoundKind::running, BoundKind::order_aware})
    if (wanted.empty() || std::find(wanted.begin(), wanted.end(), BoundRequest(kind)) != wanted.end())
      local.emplace_back(kind);
  return local;
}

/// Elements of one sample of the inputs and of the result.
std::int64_t elements_of_sample(const Trace& trace) {
  std::size_t elements = 0;
  for (const auto& [name, tensor] : trace.inputs.tensors) elements += tensor.size();
  for (const LayerTrace& layer : trace.layers) elements += layer.output.size();
  return static_cast<std::int64_t>(elements) / std::max<std::int64_t>(trace.samples, 1);
}

/// Whether nothing is asked that needs the network from the input on.
bool asks_for_layers_alone(const JudgeOptions& options) {
  return !options.bounds.empty() && local_bounds(options.bounds).size() == options.bounds.size() &&
         options.scalars.empty() && options.box.empty() && !options.keep_block;
}

/// The results of values as one evaluation has them, of a part of a run.
class ValuesOfPart {
public:
  ValuesOfPart(const Graph& graph, const Trace& part)
      : graph_(graph), part_(part), producer_(graph.values.size()), used_(used_inputs(graph, part)) {
    for (std::size_t node = 0; node < graph.nodes.size(); ++node) producer_[graph.nodes[node].output] = node;
  }
  const StoredTensor& at(ValueId id) const {
    return producer_[id] ? part_.layers[*producer_[id]].output : used_.at(graph_.value(id).name);
  }

private:
  const Graph& graph_;
  const Trace& part_;
  std::vector<std::optional<std::size_t>> producer_;
  Inputs used_;
};

StoredTensor with_sample_axis(const StoredTensor& tensor) {
  Shape shape = tensor.shape();
  shape.insert(shape.begin(), 1);
  return StoredTensor(tensor.type(), std::move(shape), tensor.bytes(), std::make_shared<const StoredTensor>(tensor));
}

/// Every layer by itself, one after the other.
class LayersAlone {
public:
  LayersAlone(const Graph& graph, bool is_batched, const JudgeOptions& options)
      : graph_(graph), options_(options), varies_(depends_on_input(graph)), is_batched_(is_batched) {}

  /// Searches the kernels of a part's layers.
  void search(const Trace& part, std::int64_t first_sample) {
    const ValuesOfPart values(graph_, part);
    if (alone_.empty()) start(values);
    for (std::size_t i = 0; i < alone_.size(); ++i) {
      if (!varies_[graph_.nodes[i].output] && first_sample > 0) continue;
      search_layers_alone(alone_[i], trace_of(i, part, values), kernels_[i]);
    }
  }

  /// `share`: of the failure probability. `takes_found`: whether all parts have been searched.
  void add(const Trace& part, std::int64_t first_sample, double share, bool takes_found) {
    const ValuesOfPart values(graph_, part);
    if (alone_.empty()) start(values);
    JudgeOptions options = options_;
    options.failure_probability *= share / static_cast<double>(std::max<std::size_t>(alone_.size(), 1));
    for (std::size_t i = 0; i < alone_.size(); ++i) {
      if (!varies_[graph_.nodes[i].output] && first_sample > 0) continue;  // the same for every sample
      const FoundArithmetics found = takes_found ? kernels_[i].arithmetics(part.arithmetic) : FoundArithmetics();
      add_layers_alone(alone_[i], trace_of(i, part, values), options, first_sample, found, *comparers_[i]);
    }
  }

  Comparison finish(std::int64_t samples) {
    Comparison all;
    all.threshold = options_.threshold;
    all.failure_probability = options_.failure_probability;
    all.samples = samples;
    const double of_one = options_.failure_probability / static_cast<double>(std::max<std::size_t>(alone_.size(), 1));
    for (std::unique_ptr<Comparer>& comparer : comparers_) append(all, comparer->finish(of_one));
    settle(all);
    return all;
  }

private:
  void start(const ValuesOfPart& values) {
    alone_.reserve(graph_.nodes.size());  // comparers refer to them
    for (const Node& node : graph_.nodes) {
      alone_.push_back(lone_node(node, values));
      comparers_.push_back(std::make_unique<Comparer>(alone_.back(), std::vector<Scalar>(), options_.threshold));
      kernels_.emplace_back(1, options_, *comparers_.back());
    }
  }

  /// The operands that differ from sample to sample, each once.
  std::vector<ValueId> inputs_of(const Node& node) const {
    std::vector<ValueId> inputs;
    for (const ValueId id : node.inputs)
      if (varies_[id] && std::find(inputs.begin(), inputs.end(), id) == inputs.end()) inputs.push_back(id);
    return inputs;
  }

  /// One node, whose operands are inputs where they differ from sample to sample, else constants.
  Graph lone_node(const Node& node, const ValuesOfPart& values) const {
    Graph alone;
    std::map<ValueId, ValueId> placed;
    for (const ValueId id : inputs_of(node)) {
      const StoredTensor& recorded = values.at(id);  // of another type where the run stores wider numbers than declared
      std::vector<DeclaredDimension> declared;
      for (const std::int64_t extent : recorded.shape()) declared.push_back({extent, ""});
      if (is_batched_) declared.front() = {-1, "samples"};
      placed[id] = alone.add_input(graph_.value(id).name, recorded.type(), std::move(declared));
      alone.values[placed[id]].has_declared_shape = true;
    }
    std::vector<ValueId> operands;
    for (const ValueId id : node.inputs) {
      if (placed.count(id) == 0) {
        const StoredTensor& constant = graph_.is_constant(id) ? graph_.value(id).constant : values.at(id);
        placed[id] = alone.add_constant(graph_.value(id).name, constant);
      }
      operands.push_back(placed[id]);
    }
    Value result = graph_.value(node.output);
    result.kind = ValueKind::computed;
    alone.values.push_back(std::move(result));
    alone.nodes.push_back({node.name, node.op, std::move(operands), alone.values.size() - 1});
    alone.outputs = {alone.values.size() - 1};
    return alone;
  }

  Trace trace_of(std::size_t i, const Trace& part, const ValuesOfPart& values) const {
    const Graph& alone = alone_[i];
    const bool has_sample_axis = !alone.inputs.empty() && !batch_layout(alone).batched;
    const auto as_sample = [&](const StoredTensor& tensor) {
      return has_sample_axis ? with_sample_axis(tensor) : tensor;
    };
    Trace one;
    one.arithmetic = part.arithmetic;
    one.provenance = part.provenance;
    one.samples = is_batched_ && !alone.inputs.empty() ? part.samples : 1;
    for (const ValueId id : inputs_of(graph_.nodes[i]))
      one.inputs.tensors.emplace_back(graph_.value(id).name, as_sample(values.at(id)));
    one.layers.push_back({part.layers[i].name, as_sample(part.layers[i].output)});
    return one;
  }

  const Graph& graph_;
  const JudgeOptions& options_;
  std::vector<bool> varies_;
  bool is_batched_;
  std::vector<Graph> alone_;
  std::vector<std::unique_ptr<Comparer>> comparers_;
  std::vector<FoundInParts> kernels_;
};

Judgement judge_layers_alone(const Graph& graph, const RunInParts& run, const JudgeOptions& options) {
  const BatchLayout layout = batch_layout(graph);
  const std::int64_t samples = run.about->samples;
  const std::int64_t at_once = layout.batched ? std::max<std::int64_t>(run.at_once, 1) : 1;
  LayersAlone layers(graph, layout.batched, options);
  const bool searches = options.kernel_searches != KernelSearches::none, is_whole = at_once >= samples;
  for (std::int64_t first = 0; first < samples && searches && run.is_kept && !is_whole; first += at_once)
    layers.search(run.part(first, std::min(at_once, samples - first)), first);
  Judgement judgement;
  std::int64_t done = 0;
  while (done < samples && !judgement.interrupted) {
    const std::int64_t count = std::min(at_once, samples - done);
    const Trace part = run.part(done, count);
    if (searches && (is_whole || !run.is_kept)) layers.search(part, done);
    const double share = static_cast<double>(count) / static_cast<double>(samples);
    layers.add(part, done, share, searches && (is_whole || run.is_kept));
    done += count;
    judgement.interrupted = options.progress && !options.progress(done, samples) && done < samples;
  }
  judgement.comparison = layers.finish(done);
  return judgement;
}

}  // namespace

FoundInParts::FoundInParts(std::size_t nodes, const JudgeOptions& options, Comparer& comparer)
    : options_(options), comparer_(comparer), findings_(nodes) {}

void FoundInParts::add(const Graph& graph, Trace part) {
  part.inputs = used_inputs(graph, part);
  for (std::size_t node = 0; node < findings_.size(); ++node) {
    std::optional<KernelFinding> finding = comparer_.search_kernel(graph, part, node, work_of_search(options_));
    if (is_first_ || findings_[node]) findings_[node] = std::move(finding);
  }
  is_first_ = false;
}

FoundArithmetics FoundInParts::arithmetics(const ArithmeticModel& declared) const {
  if (declared.order.kind != SummationOrder::Kind::unknown) return {};
  FoundArithmetics found;
  for (const std::optional<KernelFinding>& finding : findings_)
    found.push_back(finding ? with_finding(declared, *finding) : std::nullopt);
  const bool any = std::any_of(found.begin(), found.end(), [](const auto& one) { return one.has_value(); });
  return any ? found : FoundArithmetics();
}

KernelsByNode FoundInParts::kernels() const {
  KernelsByNode kernels;
  for (const std::optional<KernelFinding>& finding : findings_) {
    const bool is_one = finding && finding->tells() && finding->others.empty() && finding->kernel->of_products;
    kernels.push_back(is_one ? finding->kernel : std::nullopt);
  }
  const bool any = std::any_of(kernels.begin(), kernels.end(), [](const auto& one) { return one.has_value(); });
  return any ? kernels : KernelsByNode();
}

void check_failure_probability(double probability) {
  if (!(probability > 0.0 && probability < 1.0))
    throw InvalidArgument("--failure-probability: give a number between 0 and 1");
}

Judgement judge(const Graph& graph, const RunInParts& run, const JudgeOptions& asked) {
  const std::int64_t samples = run.about->samples;
  if (asks_for_layers_alone(asked) && samples > 0) return judge_layers_alone(graph, run, asked);
  JudgeOptions options = asked;
  const Trace one = samples > 0 ? run.part(0, 1) : *run.about;
  check_scalars(graph, one, options.scalars);
  const std::optional<Box> box = options.box.empty() ? std::nullopt : std::optional(box_of(graph, options.box));
  const BatchLayout layout = batch_layout(graph);
  const std::int64_t block = block_of(graph, layout, options.block);
  Judgement judgement;
  if (samples > 0) leave_out_costly(graph, one, layout.batched ? std::min(block, samples) : 1, options, judgement);
  const bool wants_all = asked.bounds.empty() && judgement.left_out.empty();  // so that bounds need norms too
  leave_out(options.without, options.bounds);
  BoundOptions how = how_to_bound(graph, options, (samples + block - 1) / block);
  const std::vector<OutputTarget> outputs = add_outputs(graph, one, how.targets);
  Comparer comparer(graph, options.scalars, options.threshold, outputs);
  const Bounder bounder(graph, std::move(how));
  const ReferenceMaker reference_maker(
      graph, wants_all ? [&](ValueId id) { return bounder.spectral_norm(id); } : ReferenceMaker::SpectralNorm());
  FoundInParts found_in_parts(graph.nodes.size(), options, comparer);
  const bool searches = options.kernel_searches != KernelSearches::none, searches_first = searches && run.is_kept;
  for (std::int64_t first = 0; first < samples && searches_first; first += block)
    found_in_parts.add(graph, run.part(first, std::min(block, samples - first)));
  const FoundArithmetics found = found_in_parts.arithmetics(run.about->arithmetic);
  const KernelsByNode kernels = found_in_parts.kernels();
  for (std::int64_t first = 0; first < samples; first += block) {
    const std::int64_t count = std::min(block, samples - first);
    const Trace part = run.part(first, count);
    if (searches && !searches_first) found_in_parts.add(graph, part);
    SharpenedReferences references(reference_maker, part, options.precision, false);
    const Bounds bounds = wanted_bounds(bounder, part, {&references.local().layers, &references.accumulated()->layers},
                                        found, kernels, options);
    comparer.add(layout, part, references.accumulated(), references.local(), bounds, first,
                 [&](std::size_t layer) { references.sharpen(layer, bounds.layers[layer]); });
    if (options.keep_block) options.keep_block(*references.accumulated(), bounds, first, count);
    if (options.progress && !options.progress(first + count, samples) && first + count < samples) {
      judgement.interrupted = true;
      break;
    }
  }
  judgement.comparison = comparer.finish(options.failure_probability);
  if (box && !judgement.interrupted) add_boxes(graph, *run.about, options, *box, outputs, judgement.comparison);
  return judgement;
}

Judgement judge(const Graph& graph, const Trace& trace, const JudgeOptions& options) {
  constexpr std::int64_t many = 4096;
  const BatchLayout layout = batch_layout(graph);
  const auto part = [&](std::int64_t first, std::int64_t count) { return slice(graph, layout, trace, first, count); };
  return judge(graph, RunInParts{&trace, part, many, true}, options);
}

namespace {

/// Samples of a trace that are judged together, layer by layer.
std::int64_t block_of_alone(const Graph& graph, const BatchLayout& layout, const Trace& trace) {
  constexpr std::int64_t most_elements = std::int64_t{1} << 21;
  const std::int64_t numbers = std::max(elements_of_sample(trace), numbers_between(graph, layout.sample_shapes));
  return layout.batched ? std::max<std::int64_t>(most_elements / std::max<std::int64_t>(numbers, 1), 1) : 1;
}

}  // namespace

void search_layers_alone(const Graph& graph, const Trace& trace, FoundInParts& kernels) {
  const BatchLayout layout = batch_layout(graph);
  const std::int64_t block = block_of_alone(graph, layout, trace);
  for (std::int64_t first = 0; first < trace.samples; first += block)
    kernels.add(graph, slice(graph, layout, trace, first, std::min(block, trace.samples - first)));
}

void add_layers_alone(const Graph& graph, const Trace& trace, const JudgeOptions& asked, std::int64_t first_sample,
                      const FoundArithmetics& found, Comparer& comparer) {
  JudgeOptions options = asked;
  options.bounds = local_bounds(asked.bounds);
  const BatchLayout layout = batch_layout(graph);
  const std::int64_t block = block_of_alone(graph, layout, trace);
  const Bounder bounder(graph, how_to_bound(graph, options, (trace.samples + block - 1) / block));
  const ReferenceMaker reference_maker(graph);
  for (std::int64_t first = 0; first < trace.samples; first += block) {
    const Trace part = slice(graph, layout, trace, first, std::min(block, trace.samples - first));
    SharpenedReferences references(reference_maker, part, options.precision, true);
    const Bounds bounds = wanted_bounds(bounder, part, {&references.local().layers, nullptr}, found, {}, options);
    comparer.add(layout, part, nullptr, references.local(), bounds, first_sample + first,
                 [&](std::size_t layer) { references.sharpen(layer, bounds.layers[layer]); });
  }
}

}  // namespace driftbound::analysis
