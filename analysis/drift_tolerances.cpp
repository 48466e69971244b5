#include "analysis/drift_tolerances.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "analysis/drift_verdict.hpp"
#include "analysis/text.hpp"
#include "driftbound/bounds/bound.hpp"
#include "driftbound/num/errors.hpp"

namespace driftbound::analysis {
namespace {

struct NamedFile {
  ToleranceFile file;
  std::string_view name;
};
constexpr std::array named_files = {NamedFile{ToleranceFile::torch, "torch"}, NamedFile{ToleranceFile::numpy, "numpy"},
                                    NamedFile{ToleranceFile::polygraphy, "polygraphy"},
                                    NamedFile{ToleranceFile::json, "json"}};

std::optional<double> larger(std::optional<double> a, std::optional<double> b) {
  return a && b ? std::optional(std::max(*a, *b)) : std::nullopt;
}

double chosen(const OutputTolerance& one) {
  if (!one.proven)
    throw Unsupported("drift: --tolerances: not every number of output '" + one.name +
                      "' has a bound that holds for any run: a bound is infinite (`driftbound report` says where)");
  return one.by_chance ? std::min(*one.proven, *one.by_chance) : *one.proven;
}

/// Whether a file that has no room for what is unknown names the tensor.
bool is_written(const OutputTolerance& one) {
  return one.is_output || one.proven.has_value();
}

nlohmann::ordered_json arguments_of(const std::vector<OutputTolerance>& tolerances) {
  nlohmann::ordered_json all = nlohmann::ordered_json::object();
  for (const OutputTolerance& one : tolerances)
    if (is_written(one)) all[one.name] = {{"rtol", 0.0}, {"atol", chosen(one)}};
  return all;
}

nlohmann::ordered_json number_or_null(std::optional<double> number) {
  return number ? nlohmann::ordered_json(*number) : nlohmann::ordered_json();
}

nlohmann::ordered_json numbers_of(const std::vector<OutputTolerance>& tolerances) {
  nlohmann::ordered_json outputs = nlohmann::ordered_json::array(), others = outputs;
  for (const OutputTolerance& one : tolerances)
    (one.is_output ? outputs : others)
        .push_back({{"name", one.name},
                    {"largest", one.largest},
                    {"proven", number_or_null(one.proven)},
                    {"guarantee", one.proven ? nlohmann::ordered_json(name_of(one.guarantee)) : nullptr},
                    {"by_chance", number_or_null(one.by_chance)},
                    {"estimate", number_or_null(one.estimate)}});
  return {{"schema", "driftbound/tolerances/1"}, {"outputs", outputs}, {"tensors", others}};
}

/// "--atol y:1e-4 z:2e-4 --rtol y:0.0 z:0.0"
std::string options_of(const std::vector<OutputTolerance>& tolerances) {
  std::string absolute = "--atol", relative = "--rtol";
  for (const OutputTolerance& one : tolerances) {
    if (!is_written(one)) continue;
    if (one.name.find_first_of(" :\t\n") != std::string::npos)
      throw Unsupported("drift: --tolerances polygraphy: the name '" + one.name +
                        "' has a blank or a colon, which its command does not take; write json");
    absolute += fmt::format(" {}:{}", one.name, chosen(one));
    relative += fmt::format(" {}:0.0", one.name);
  }
  return absolute + " " + relative;
}

/// A tensor and the nodes that it depends on, as a network of their own, and the run of it.
struct NetworkOfTensor {
  Graph graph;
  Trace trace;
};

NetworkOfTensor network_of(const Graph& graph, const Trace& trace, std::size_t node) {
  std::vector<bool> is_read(graph.values.size());
  is_read[graph.nodes[node].output] = true;
  for (std::size_t i = node + 1; i-- > 0;)
    if (is_read[graph.nodes[i].output])
      for (const ValueId id : graph.nodes[i].inputs) is_read[id] = true;
  NetworkOfTensor part{graph, {}};
  part.graph.nodes.clear();
  part.graph.outputs = {graph.nodes[node].output};
  part.trace.model_sha256 = trace.model_sha256;
  part.trace.arithmetic = trace.arithmetic;
  part.trace.provenance = trace.provenance;
  part.trace.inputs = trace.inputs;
  part.trace.samples = trace.samples;
  for (std::size_t i = 0; i <= node; ++i)
    if (is_read[graph.nodes[i].output]) {
      part.graph.nodes.push_back(graph.nodes[i]);
      part.trace.layers.push_back(trace.layers[i]);
    }
  return part;
}

/// Bounds of all elements of one tensor, some of them at a time.
class TensorBounder {
public:
  /// `layout`: of the whole network, in which the run is stored. That of the part may differ.
  TensorBounder(const Graph& graph, const Trace& trace, const BatchLayout& layout, std::size_t node,
                const TensorBounds& how)
      : part_(network_of(graph, trace, node)),
        layout_(layout),
        rows_at_once_(layout.batched && batch_layout(part_.graph).batched ? most_rows : 1),
        how_(how) {
    const std::size_t size = part_.trace.layers.back().output.size();
    const bool varies = depends_on_input(part_.graph)[part_.graph.outputs.front()];
    samples_ = std::max<std::int64_t>(part_.trace.samples, 1);
    elements_ = static_cast<std::int64_t>(size) / (varies ? samples_ : 1);
    if (!varies) samples_ = 1;
  }

  std::int64_t numbers() const { return elements_ * samples_; }

  bool takes_too_long() const {
    return static_cast<double>(numbers()) * work_of(part_.graph, part_.trace).steps > how_.most_work;
  }

  /// `share`: of the failure probability, for one number. Returns false where the work was ended.
  bool bound_all(double share, std::int64_t& done, std::int64_t in_all, OutputTolerance& tolerance) {
    constexpr std::int64_t elements_at_once = 64;
    tolerance.proven = tolerance.by_chance = tolerance.estimate = 0.0;
    for (std::int64_t first = 0; first < samples_; first += rows_at_once_) {
      const std::int64_t count = std::min(rows_at_once_, samples_ - first);
      const Trace block = slice(part_.graph, layout_, part_.trace, first, count);
      for (std::int64_t element = 0; element < elements_; element += elements_at_once) {
        const std::int64_t here = std::min(elements_at_once, elements_ - element);
        bound_some(block, element, here, share * static_cast<double>(here * count), tolerance);
        done += here * count;
        if (how_.progress && !how_.progress(done, in_all)) return false;
      }
    }
    return true;
  }

private:
  void bound_some(const Trace& block, std::int64_t first, std::int64_t count, double failure_probability,
                  OutputTolerance& tolerance) const {
    BoundOptions options;
    options.threads = how_.threads;
    options.failure_probability = failure_probability;
    options.most_output_elements = 0;
    options.requests = {BoundKind::adjoint_any_order, BoundKind::adjoint_probabilistic, BoundKind::adjoint_statistical};
    for (std::int64_t i = 0; i < count; ++i) options.targets.push_back({{0, first + i}, std::nullopt});
    const Bounds bounds = bound(part_.graph, block, options);
    for (const TargetBounds& target : bounds.targets) {
      take(target, BoundKind::adjoint_any_order, tolerance.proven, &tolerance.guarantee);
      take(target, BoundKind::adjoint_probabilistic, tolerance.by_chance, nullptr);
      take(target, BoundKind::adjoint_statistical, tolerance.estimate, nullptr);
    }
  }

  /// Widens a number to twice the largest bound of a target; empties it where there is no bound of some sample.
  static void take(const TargetBounds& target, BoundKind kind, std::optional<double>& largest, Guarantee* guarantee) {
    const auto found = std::find_if(target.bounds.begin(), target.bounds.end(),
                                    [&](const BoundResult& bound) { return bound.kind == kind; });
    if (found == target.bounds.end() || !found->not_applicable.empty()) {
      largest.reset();
      return;
    }
    for (const double value : found->values.values) {
      if (!std::isfinite(value)) largest.reset();
      if (largest) largest = std::max(*largest, 2.0 * value);
    }
    if (guarantee != nullptr && found->guarantee != Guarantee::proven) *guarantee = found->guarantee;
  }

  static constexpr std::int64_t most_rows = 64;
  NetworkOfTensor part_;
  BatchLayout layout_;
  std::int64_t rows_at_once_;
  const TensorBounds& how_;
  std::int64_t samples_ = 1, elements_ = 0;
};

double largest_number(const StoredTensor& tensor) {
  double largest = 0.0;
  for (const double x : tensor.to_double().values)
    if (std::isfinite(x)) largest = std::max(largest, std::abs(x));
  return largest;
}

const std::string& name_of_tensor(const Graph& graph, std::size_t node) {
  const std::string& name = graph.value(graph.nodes[node].output).name;
  return name.empty() ? graph.nodes[node].name : name;
}

}  // namespace

bool add_tensors(const Graph& graph, const Trace& trace, const TensorBounds& how, std::vector<OutputTolerance>& all) {
  struct Asked {
    std::size_t node, position;
    TensorBounder bounder;
  };
  const BatchLayout layout = batch_layout(graph);
  std::vector<Asked> asked;
  std::int64_t numbers = 0, done = 0;
  for (std::size_t node = 0; node < graph.nodes.size(); ++node) {
    const ValueId value = graph.nodes[node].output;
    const bool is_output = std::count(graph.outputs.begin(), graph.outputs.end(), value) > 0;
    if (!is_float(trace.layers[node].output.type()) || (how.outputs_alone && !is_output)) continue;
    const std::string& name = name_of_tensor(graph, node);
    const auto known =
        std::find_if(all.begin(), all.end(), [&](const OutputTolerance& one) { return one.name == name; });
    if (known != all.end() && known->proven) continue;
    TensorBounder bounder(graph, trace, layout, node, how);
    const bool is_left_out = !is_output && bounder.takes_too_long();
    const auto position = static_cast<std::size_t>(known - all.begin());
    if (known == all.end()) {
      OutputTolerance one;
      one.name = name;
      one.largest = largest_number(trace.layers[node].output);
      one.is_output = is_output;
      all.push_back(std::move(one));
    }
    if (is_left_out) continue;
    numbers += bounder.numbers();
    asked.push_back({node, position, std::move(bounder)});
  }
  const double share = how.failure_probability / static_cast<double>(std::max<std::int64_t>(numbers, 1));
  for (Asked& one : asked)
    if (!one.bounder.bound_all(share, done, numbers, all[one.position])) return false;
  return true;
}

std::vector<OutputTolerance> tolerances_of(const Comparison& run) {
  std::vector<OutputTolerance> all;
  for (const OutputSummary& output : run.outputs) {
    if (output.scope.bounds.empty()) continue;  // integers, and what no node computes
    OutputTolerance one;
    one.name = output.name;
    one.largest = output.scope.scale;
    const auto apart = [&](BoundKind kind) { return any_runs_apart(run, output.name, run, output.name, kind); };
    one.proven = apart(BoundKind::adjoint_any_order);
    one.by_chance = apart(BoundKind::adjoint_probabilistic);
    one.estimate = apart(BoundKind::adjoint_statistical);
    const BoundSummary* bound = find_bound(output.scope, BoundKind::adjoint_any_order);
    if (bound != nullptr) one.guarantee = bound->guarantee;
    all.push_back(std::move(one));
  }
  return all;
}

void widen(std::vector<OutputTolerance>& all, const std::vector<OutputTolerance>& more,
           const std::map<std::string, std::string>& names) {
  if (all.empty()) {
    all = more;
    return;
  }
  const auto name_in_all = [&](const OutputTolerance& one) -> const std::string& {
    const auto found = names.find(one.name);
    return found == names.end() ? one.name : found->second;
  };
  for (OutputTolerance& one : all) {
    const auto other =
        std::find_if(more.begin(), more.end(), [&](const OutputTolerance& of) { return name_in_all(of) == one.name; });
    if (other == more.end()) {  // of a run that has no such tensor
      one.proven = one.by_chance = one.estimate = std::nullopt;
      continue;
    }
    one.largest = std::max(one.largest, other->largest);
    one.proven = larger(one.proven, other->proven);
    one.by_chance = larger(one.by_chance, other->by_chance);
    one.estimate = larger(one.estimate, other->estimate);
    if (other->guarantee != Guarantee::proven) one.guarantee = other->guarantee;
  }
}

ToleranceFile tolerance_file_of(std::string_view name) {
  std::string known;
  for (const NamedFile& one : named_files) {
    if (one.name == name) return one.file;
    known += (known.empty() ? "" : ", ") + std::string(one.name);
  }
  throw InvalidArgument("drift: --tolerances " + std::string(name) + ": choose among " + known);
}

std::string text_of(const std::vector<OutputTolerance>& tolerances, ToleranceFile file) {
  if (tolerances.empty())
    throw Unsupported("drift: --tolerances: the runs are not judged from the input on, so that no output has a bound");
  switch (file) {
    case ToleranceFile::torch:
    case ToleranceFile::numpy:
      return arguments_of(tolerances).dump(2) + "\n";
    case ToleranceFile::polygraphy:
      return options_of(tolerances) + "\n";
    case ToleranceFile::json:
      return numbers_of(tolerances).dump(2) + "\n";
  }
  return "";
}

}  // namespace driftbound::analysis
