#include "analysis/judge.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "driftbound/num/errors.hpp"

namespace driftbound::analysis {
namespace {

void keep_only(std::vector<BoundResult>& bounds, const std::vector<std::string>& names) {
  std::erase_if(bounds, [&](const BoundResult& bound) {
    return std::find(names.begin(), names.end(), bound.name) == names.end();
  });
}

void check_names(const std::vector<std::string>& names) {
  for (const std::string& name : names)
    if (std::find(bound_names().begin(), bound_names().end(), name) == bound_names().end())
      throw InvalidArgument(
          fmt::format("--bounds: there is no bound '{}'; choose among: {}", name, fmt::join(bound_names(), ", ")));
}

Bounds wanted_bounds(const Graph& graph, const Trace& trace, const JudgeOptions& options) {
  BoundOptions how;
  how.threads = options.precision.threads;
  Bounds bounds = bound(graph, trace, how);
  if (options.bounds.empty()) return bounds;
  for (LayerBounds& layer : bounds.layers) {
    keep_only(layer.local, options.bounds);
    keep_only(layer.accumulated, options.bounds);
  }
  return bounds;
}

}  // namespace

const std::vector<std::string>& bound_names() {
  static const std::vector<std::string> names = {"componentwise",      "order-aware", "seed-gamma",
                                                 "seed-gamma/note",    "forward",     "seed-sum-gamma",
                                                 "seed-sum-gamma/note"};
  return names;
}

Judgement judge(const Graph& graph, const Trace& trace, const JudgeOptions& options) {
  check_names(options.bounds);
  const BatchLayout layout = batch_layout(graph);
  const std::int64_t block = layout.batched ? std::max<std::int64_t>(options.block, 1) : 1;
  Comparer comparer(graph, options.scalars, options.threshold);
  Judgement judgement;
  for (std::int64_t first = 0; first < trace.samples; first += block) {
    const std::int64_t count = std::min(block, trace.samples - first);
    const Trace part = slice(graph, layout, trace, first, count);
    const Reference accumulated = certified_reference(graph, part.inputs, options.precision, &part);
    const Reference local = local_reference(graph, part, options.precision);
    comparer.add(layout, part, accumulated, local, wanted_bounds(graph, part, options), first);
    if (options.keep_reference) options.keep_reference(accumulated, first, count);
    if (options.progress && !options.progress(first + count, trace.samples) && first + count < trace.samples) {
      judgement.interrupted = true;
      break;
    }
  }
  judgement.comparison = comparer.finish();
  return judgement;
}

}  // namespace driftbound::analysis
