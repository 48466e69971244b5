#include "analysis/promotion.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>
#include <variant>

#include "analysis/compensated.hpp"
#include "driftbound/evaluate/evaluator.hpp"
#include "driftbound/num/errors.hpp"
#include "driftbound/num/format.hpp"

namespace driftbound::analysis {
namespace {

struct RemedyWords {
  Remedy remedy;
  std::string_view name, text;
};
constexpr std::array<RemedyWords, 3> remedies = {{{Remedy::float64, "fp64", "in float64"},
                                                  {Remedy::three_tf32, "3xtf32", "by 3xTF32"},
                                                  {Remedy::compensated, "compensated", "by compensated sums"}}};

const RemedyWords& words_of(Remedy remedy) {
  return *std::find_if(remedies.begin(), remedies.end(), [&](const RemedyWords& one) { return one.remedy == remedy; });
}

/// Whether the layer adds up products of its first two operands, and then at most a third one.
bool is_plain_product(const Op& op) {
  if (const auto* gemm = std::get_if<op::Gemm>(&op)) return gemm->alpha == 1.0 && gemm->beta == 1.0;
  return std::holds_alternative<op::MatMul>(op) || std::holds_alternative<op::Conv>(op);
}

/// The shape of an input that takes a recorded layer: open along the samples where the model has an axis of them.
std::vector<DeclaredDimension> declared_as(const StoredTensor& recorded, bool is_batched) {
  std::vector<DeclaredDimension> declared;
  const Shape& shape = recorded.shape();
  for (std::size_t axis = 0; axis < shape.size(); ++axis)
    declared.push_back(axis == 0 && is_batched ? DeclaredDimension{-1, "samples"} : DeclaredDimension{shape[axis], ""});
  return declared;
}

ValueId add_recorded(Graph& graph, std::string name, const StoredTensor& recorded, bool is_batched) {
  const ValueId id = graph.add_input(std::move(name), recorded.type(), declared_as(recorded, is_batched));
  graph.values[id].has_declared_shape = true;
  return id;
}

/// A layer by itself, and what it reads in a run.
class LayerAlone {
public:
  LayerAlone(const Graph& graph, const Trace& base, std::size_t node)
      : layer_(graph.nodes[node]), is_batched_(batch_layout(graph).batched) {
    const std::vector<bool> varies = depends_on_input(graph);
    for (const ValueId id : layer_.inputs) {
      const std::optional<std::size_t> producer = graph.producer(id);
      if (graph.is_constant(id))
        operands_.push_back({graph.value(id).constant, true});
      else if (producer)
        operands_.push_back({base.layers[*producer].output, !varies[id]});
      else
        operands_.push_back({base.inputs.at(graph.value(id).name), false});
    }
  }

  std::size_t operand_count() const { return operands_.size(); }
  Tensor<double> operand(std::size_t slot) const { return operands_[slot].tensor.to_double(); }
  void replace(std::size_t slot, StoredTensor tensor) { operands_[slot].tensor = std::move(tensor); }
  void drop_operands_from(std::size_t slot) { operands_.resize(std::min(slot, operands_.size())); }

  /// Calls `f` with the layer as a graph, and its inputs.
  template <class F>
  auto with_graph(F f) const {
    Graph alone;
    Inputs inputs;
    std::vector<ValueId> read;
    for (std::size_t slot = 0; slot < operands_.size(); ++slot) {
      const auto& [tensor, is_constant] = operands_[slot];
      const std::string name = "operand/" + std::to_string(slot);
      read.push_back(is_constant ? alone.add_constant(name, tensor) : add_recorded(alone, name, tensor, is_batched_));
      if (!is_constant) inputs.tensors.emplace_back(name, tensor);
    }
    alone.outputs = {alone.add_node(layer_.name, layer_.op, std::move(read))};
    return f(alone, inputs);
  }

  Tensor<double> evaluate(const char* arithmetic, const SummationOrder& order) const {
    const Evaluator evaluator = cpu_evaluator(cpu_arithmetic(arithmetic, order));
    return with_graph([&](const Graph& graph, const Inputs& inputs) {
      return evaluator.run(graph, inputs).layers.front().output.to_double();
    });
  }

private:
  struct Operand {
    StoredTensor tensor;
    bool is_constant = false;
  };
  const Node& layer_;
  bool is_batched_ = false;
  std::vector<Operand> operands_;
};

StoredTensor in_float32(const Tensor<double>& values) {
  Tensor<float> narrow(values.shape);
  std::transform(values.values.begin(), values.values.end(), narrow.values.begin(),
                 [](double x) { return static_cast<float>(x); });
  return StoredTensor::from(narrow);
}

StoredTensor rounded_operand(Tensor<double> values, const Format& format) {
  for (double& x : values.values) x = round_to(x, format, Rounding::nearest_even);
  return in_float32(values);
}

/// What rounding to TF32 leaves of each number, rounded to TF32.
StoredTensor small_part(Tensor<double> values) {
  const Format& tf32 = format(FormatId::tf32);
  for (double& x : values.values) x -= round_to(x, tf32, Rounding::nearest_even);
  return rounded_operand(std::move(values), tf32);
}

/// The order of the three sums: the run's, where it states one.
SummationOrder order_of(const Trace& base) {
  const SummationOrder& order = base.arithmetic.order;
  return order.gives_partial_sums() ? order : SummationOrder{SummationOrder::Kind::sequential, 0, true};
}

Tensor<double> by_three_tf32(const LayerAlone& layer, const Trace& base) {
  const Format& tf32 = format(FormatId::tf32);
  const std::array<StoredTensor, 2> large = {rounded_operand(layer.operand(0), tf32),
                                             rounded_operand(layer.operand(1), tf32)},
                                    small = {small_part(layer.operand(0)), small_part(layer.operand(1))};
  const auto product = [&](const StoredTensor& a, const StoredTensor& b, bool is_first) {
    LayerAlone part = layer;
    part.replace(0, a);
    part.replace(1, b);
    if (is_first) part.drop_operands_from(2);
    return part.evaluate("fp32", order_of(base));
  };
  const Tensor<double> left = product(small[0], large[1], true), right = product(large[0], small[1], true);
  Tensor<double> sum = product(large[0], large[1], false);
  for (std::size_t i = 0; i < sum.size(); ++i) {
    const float correction = static_cast<float>(left.values[i]) + static_cast<float>(right.values[i]);
    sum.values[i] = static_cast<double>(correction + static_cast<float>(sum.values[i]));
  }
  return sum;
}

Tensor<double> by_compensated_sums(LayerAlone layer, const Trace& base) {
  for (const std::size_t slot : {std::size_t{0}, std::size_t{1}})
    layer.replace(slot, rounded_operand(layer.operand(slot), format(base.arithmetic.input)));
  return layer.with_graph([](const Graph& graph, const Inputs& inputs) { return evaluate_compensated(graph, inputs); });
}

/// How many products each sum of a plain product has.
std::int64_t terms_of(const Op& op, const Shape& a, const Shape& b) {
  if (std::holds_alternative<op::Conv>(op)) return element_count(b) / std::max<std::int64_t>(b.front(), 1);
  const auto* gemm = std::get_if<op::Gemm>(&op);
  return gemm != nullptr && gemm->transpose_a ? a.front() : a.back();
}

double smallest_magnitude(const Tensor<double>& tensor) {
  double least = std::numeric_limits<double>::infinity();
  for (const double x : tensor.values)
    if (x != 0.0) least = std::min(least, std::abs(x));
  return least;
}

/// Throws:    Unsupported
void require_serves(const Graph& graph, const Trace& base, const Promotion& promotion, const LayerAlone& layer) {
  if (promotion.remedy == Remedy::float64) return;
  constexpr std::int64_t most_terms = (std::int64_t{1} << 20) - 1;  // T-142, with a bias
  const std::string what = "drift: --promote: " + text_of(graph, promotion);
  const ArithmeticModel& arithmetic = base.arithmetic;
  if (arithmetic.accumulator != FormatId::fp32 || arithmetic.tensor_core)
    throw Unsupported(what +
                      ": the run has no plain float32 sums; run the model in fp32, tf32 or bf16 (--arithmetics)");
  if (promotion.remedy == Remedy::three_tf32 && arithmetic.input != FormatId::tf32)
    throw Unsupported(
        fmt::format("{}: the run reads operands in {}, and 3xtf32 is for runs that read them in TF32 "
                    "(--arithmetics tf32)",
                    what, format(arithmetic.input).name));
  const std::int64_t terms = terms_of(graph.nodes[promotion.node].op, layer.operand(0).shape, layer.operand(1).shape);
  if (terms > most_terms)
    throw Unsupported(fmt::format("{}: its sums have {} terms, and at most {} are served", what, terms, most_terms));
  constexpr double least_product = 0x1p-100;  // parts of smaller ones may underflow (T-142)
  if (promotion.remedy == Remedy::three_tf32 &&
      smallest_magnitude(layer.operand(0)) * smallest_magnitude(layer.operand(1)) < least_product)
    throw Unsupported(what + ": products of its operands are below 2^-100, whose small parts float32 does not hold");
}

Tensor<double> remedied(const LayerAlone& layer, const Trace& base, Remedy remedy, const Tensor<double>& in_float64) {
  if (remedy == Remedy::three_tf32) return by_three_tf32(layer, base);
  return remedy == Remedy::compensated ? by_compensated_sums(layer, base) : in_float64;
}

/// What is left of the errors of a layer, of which `after` are those of the remedy.
ErrorLeft error_left(const Tensor<double>& before, const Tensor<double>& after, const Tensor<double>& in_float64) {
  double squares = 0.0, products = 0.0, squares_after = 0.0;
  for (std::size_t i = 0; i < before.size(); ++i) {
    const double old_error = before.values[i] - in_float64.values[i],
                 new_error = after.values[i] - in_float64.values[i];
    squares += old_error * old_error;
    products += old_error * new_error;
    squares_after += new_error * new_error;
  }
  if (squares == 0.0) return {1.0, 0.0};
  const double same = products / squares;
  return {same, std::sqrt(std::max(0.0, squares_after / squares - same * same))};
}

/// The layer's name, and the remedy: what follows the last colon, where the whole text names no layer.
std::pair<std::string_view, std::string_view> layer_and_remedy(const Graph& graph, std::string_view text) {
  const bool is_layer =
      std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const Node& node) { return node.name == text; });
  const std::size_t colon = text.rfind(':');
  if (is_layer || colon == std::string_view::npos) return {text, words_of(Remedy::float64).name};
  return {text.substr(0, colon), text.substr(colon + 1)};
}

/// Throws:    InvalidArgument
Remedy remedy_of(std::string_view name, std::string_view text) {
  std::string known;
  for (const RemedyWords& one : remedies) {
    if (one.name == name) return one.remedy;
    known += (known.empty() ? "" : ", ") + std::string(one.name);
  }
  throw InvalidArgument(
      fmt::format("drift: --promote {}: there is no remedy '{}'; give LAYER:REMEDY with one of {}", text, name, known));
}

std::string some_layers(const Graph& graph) {
  constexpr std::size_t most = 400;
  std::string known;
  for (const Node& node : graph.nodes) known += (known.empty() ? "" : ", ") + node.name;
  return known.size() > most ? known.substr(0, most) + " …" : known;
}

}  // namespace

std::string text_of(const Graph& graph, const Promotion& promotion) {
  return fmt::format("'{}' {}", graph.nodes[promotion.node].name, words_of(promotion.remedy).text);
}

Promotion promotion_of(const Graph& graph, std::string_view text) {
  const auto [layer, remedy] = layer_and_remedy(graph, text);
  const auto found = std::find_if(graph.nodes.begin(), graph.nodes.end(),
                                  [name = layer](const Node& node) { return node.name == name; });
  if (found == graph.nodes.end())
    throw InvalidArgument(
        fmt::format("drift: --promote {}: there is no such layer (LAYER or LAYER:REMEDY; `best` takes the most "
                    "promising); there are: {}",
                    text, some_layers(graph)));
  if (!depends_on_input(graph)[found->output])
    throw Unsupported(fmt::format("drift: --promote {}: the layer depends on no input", text));
  const Promotion promotion = {static_cast<std::size_t>(found - graph.nodes.begin()), remedy_of(remedy, text)};
  if (promotion.remedy != Remedy::float64 && !is_plain_product(found->op))
    throw Unsupported(
        fmt::format("drift: --promote {}: {} is for Gemm without factors, MatMul and Conv, and '{}' is {}", text,
                    remedy, found->name, name_of(found->op)));
  return promotion;
}

PromotedLayer promoted_layer(const Graph& graph, const Trace& base, const Promotion& promotion) {
  const LayerAlone layer(graph, base, promotion.node);
  require_serves(graph, base, promotion, layer);
  const StoredTensor& recorded = base.layers[promotion.node].output;
  const Tensor<double> in_float64 = layer.evaluate("fp64", {SummationOrder::Kind::pairwise, 0, false});
  Tensor<double> values = remedied(layer, base, promotion.remedy, in_float64);
  const ValueId output = graph.nodes[promotion.node].output;
  const Format& stored = format(stored_format(base.arithmetic, graph.value(output).type));
  for (double& x : values.values) x = round_to(x, stored, Rounding::nearest_even);
  const ErrorLeft left = error_left(recorded.to_double(), values, in_float64);
  values.shape = recorded.shape();
  return {recorded.type() == ElementType::f64 ? StoredTensor::from(values) : in_float32(values), left};
}

Trace promoted_run(const Graph& graph, const Trace& base, const Promotion& promotion, const StoredTensor& result,
                   const std::function<Trace(const Graph&, const Inputs&)>& evaluate) {
  const std::string given = "promoted";
  Graph changed = graph;
  const ValueId input = add_recorded(changed, given, result, batch_layout(graph).batched);
  changed.nodes[promotion.node].op = op::Identity{};
  changed.nodes[promotion.node].inputs = {input};
  Inputs inputs = base.inputs;
  inputs.tensors.emplace_back(given, result);
  Trace trace = evaluate(changed, inputs);
  for (std::size_t i = 0; i < trace.layers.size(); ++i) {  // samples of a model without an axis of them are stacked
    StoredTensor& output = trace.layers[i].output;
    if (const Shape& shape = base.layers[i].output.shape(); output.shape() != shape && element_count(shape) > 0)
      output = StoredTensor(output.type(), shape, {output.bytes().begin(), output.bytes().end()});
  }
  trace.inputs = base.inputs;
  trace.provenance.program = text_of(graph, promotion) + ", else " + trace.provenance.program;
  if (promotion.remedy != Remedy::float64) trace.arithmetic.order = {};
  return trace;
}

std::optional<double> estimate_rms(const TracedRun& run, const Promotion& promotion, const ErrorLeft& left) {
  if (promotion.node >= run.rms_without.size()) return std::nullopt;
  const double own = run.rms_of_layer[promotion.node], without = run.rms_without[promotion.node], all = run.rms.value();
  const double gone = 1.0 - left.same;
  const double twice_covariance = all * all + own * own - without * without;
  const double squares = all * all - gone * twice_covariance + (gone * gone + left.other * left.other) * own * own;
  return std::sqrt(std::max(0.0, squares));
}

std::vector<std::size_t> most_promising(const TracedRun& run) {
  std::vector<std::pair<double, std::size_t>> predicted;
  const std::vector<bool> varies = depends_on_input(run.graph);
  for (std::size_t node = 0; node < run.graph.nodes.size() && node < run.rms_without.size(); ++node) {
    if (!varies[run.graph.nodes[node].output] || run.rms_of_layer[node] == 0.0) continue;
    const Promotion promotion = {node, Remedy::float64};
    const ErrorLeft left = promoted_layer(run.graph, run.trace, promotion).left;
    const std::optional<double> rms = estimate_rms(run, promotion, left);
    if (rms && *rms < *run.rms) predicted.emplace_back(*rms, node);
  }
  std::stable_sort(predicted.begin(), predicted.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::size_t> nodes;
  for (const auto& [rms, node] : predicted) nodes.push_back(node);
  return nodes;
}

}  // namespace driftbound::analysis
