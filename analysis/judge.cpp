#include "analysis/judge.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "analysis/vectorised.hpp"
#include "driftbound/model/composite.hpp"
#include "driftbound/num/errors.hpp"

namespace driftbound::analysis {
namespace {

void keep_only(std::vector<BoundResult>& bounds, const std::vector<BoundRequest>& wanted) {
  std::erase_if(bounds, [&](const BoundResult& bound) {
    return std::find(wanted.begin(), wanted.end(), BoundRequest(bound.kind)) == wanted.end();
  });
}

void check_scalars(const Graph& graph, const Trace& trace, const std::vector<Scalar>& scalars) {
  const std::vector<bool> varies = depends_on_input(graph);
  const auto check = [&](const Scalar& scalar, const OutputElement& element) {
    const auto node = graph.producer(graph.outputs[element.output]);
    const std::size_t size = node ? trace.layers.at(*node).output.size() : 0;
    const std::int64_t samples = varies[graph.outputs[element.output]] ? std::max<std::int64_t>(trace.samples, 1) : 1;
    require_element(graph, scalar, element, size, samples);
  };
  for (const Scalar& scalar : scalars) {
    check(scalar, scalar.positive);
    if (scalar.negative) check(scalar, *scalar.negative);
  }
}

/// Every output that is one number a sample becomes a target, unless a scalar already is that number.
std::vector<OutputTarget> add_outputs(const Graph& graph, const Trace& trace, std::vector<Target>& targets) {
  const std::vector<bool> varies = depends_on_input(graph);
  std::vector<OutputTarget> outputs;
  for (std::size_t output = 0; output < graph.outputs.size(); ++output) {
    const auto node = graph.producer(graph.outputs[output]);
    if (!node || !varies[graph.outputs[output]]) continue;
    if (static_cast<std::int64_t>(trace.layers.at(*node).output.size()) != trace.samples) continue;
    const auto same = std::find_if(targets.begin(), targets.end(), [&](const Target& target) {
      return target.positive.output == output && !target.negative;
    });
    outputs.push_back({output, static_cast<std::size_t>(same - targets.begin())});
    if (same == targets.end()) targets.push_back({{output, 0}, std::nullopt});
  }
  return outputs;
}

BoundOptions how_to_bound(const JudgeOptions& options, std::int64_t calls) {
  BoundOptions how;
  how.failure_probability = options.failure_probability / static_cast<double>(std::max<std::int64_t>(calls, 1));
  how.threads = options.precision.threads;
  how.targets.assign(options.scalars.begin(), options.scalars.end());
  how.requests = options.bounds;
  how.trace_is_declared_run = options.trace_is_declared_run;
  return how;
}

Bounds wanted_bounds(const Bounder& bounder, const Trace& trace, const KnownExact& exact, const JudgeOptions& options) {
  Bounds bounds = bounder(trace, exact);
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
std::uint64_t numbers_of_block(const Graph& graph, const BatchLayout& layout, const Trace& trace, std::int64_t block) {
  if (trace.samples < 1) return 0;
  const std::int64_t samples = layout.batched ? std::min(block, trace.samples) : 1;
  const Inputs used = used_inputs(graph, slice(graph, layout, trace, 0, 1));
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
void leave_out_costly(const Graph& graph, const BatchLayout& layout, const Trace& trace, std::int64_t block,
                      JudgeOptions& options, Judgement& judgement) {
  if (options.memory == 0 || !options.bounds.empty()) return;
  const std::uint64_t numbers = numbers_of_block(graph, layout, trace, block);
  std::vector<BoundRequest> kept;
  for (const BoundRequest& request : every_bound_request()) {
    const std::uint64_t needed = bytes_per_number(request) * numbers;
    const bool fits = needed <= options.memory;
    (fits ? kept : judgement.left_out).push_back(request);
    if (!fits) judgement.memory_needed = std::max(judgement.memory_needed, needed);
  }
  if (!judgement.left_out.empty()) options.bounds = std::move(kept);
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

}  // namespace

Judgement judge(const Graph& graph, const Trace& trace, const JudgeOptions& asked) {
  JudgeOptions options = asked;
  check_scalars(graph, trace, options.scalars);
  const std::optional<Box> box = options.box.empty() ? std::nullopt : std::optional(box_of(graph, options.box));
  const BatchLayout layout = batch_layout(graph);
  const std::int64_t block = block_of(graph, layout, options.block);
  Judgement judgement;
  leave_out_costly(graph, layout, trace, block, options, judgement);
  BoundOptions how = how_to_bound(options, (trace.samples + block - 1) / block);
  const std::vector<OutputTarget> outputs = add_outputs(graph, trace, how.targets);
  Comparer comparer(graph, options.scalars, options.threshold, outputs);
  const Bounder bounder(graph, std::move(how));
  const bool wants_all = options.bounds.empty();  // so that bounds need norms too
  const ReferenceMaker reference_maker(
      graph, wants_all ? [&](ValueId id) { return bounder.spectral_norm(id); } : ReferenceMaker::SpectralNorm());
  for (std::int64_t first = 0; first < trace.samples; first += block) {
    const std::int64_t count = std::min(block, trace.samples - first);
    const Trace part = slice(graph, layout, trace, first, count);
    SharpenedReferences references(reference_maker, part, options.precision, false);
    const Bounds bounds =
        wanted_bounds(bounder, part, {&references.local().layers, &references.accumulated()->layers}, options);
    comparer.add(layout, part, references.accumulated(), references.local(), bounds, first,
                 [&](std::size_t layer) { references.sharpen(layer, bounds.layers[layer]); });
    if (options.keep_reference) options.keep_reference(*references.accumulated(), first, count);
    if (options.progress && !options.progress(first + count, trace.samples) && first + count < trace.samples) {
      judgement.interrupted = true;
      break;
    }
  }
  judgement.comparison = comparer.finish(options.failure_probability);
  if (box && !judgement.interrupted) add_boxes(graph, trace, options, *box, outputs, judgement.comparison);
  return judgement;
}

void add_layers_alone(const Graph& graph, const Trace& trace, const JudgeOptions& asked, std::int64_t first_sample,
                      Comparer& comparer) {
  constexpr std::int64_t most_elements = std::int64_t{1} << 21;
  JudgeOptions options = asked;
  options.bounds = local_bounds(asked.bounds);
  const BatchLayout layout = batch_layout(graph);
  const std::int64_t block =
      layout.batched ? std::max<std::int64_t>(most_elements / std::max<std::int64_t>(elements_of_sample(trace), 1), 1)
                     : 1;
  const Bounder bounder(graph, how_to_bound(options, (trace.samples + block - 1) / block));
  const ReferenceMaker reference_maker(graph);
  for (std::int64_t first = 0; first < trace.samples; first += block) {
    const Trace part = slice(graph, layout, trace, first, std::min(block, trace.samples - first));
    SharpenedReferences references(reference_maker, part, options.precision, true);
    const Bounds bounds = wanted_bounds(bounder, part, {&references.local().layers, nullptr}, options);
    comparer.add(layout, part, nullptr, references.local(), bounds, first_sample + first,
                 [&](std::size_t layer) { references.sharpen(layer, bounds.layers[layer]); });
  }
}

}  // namespace driftbound::analysis
