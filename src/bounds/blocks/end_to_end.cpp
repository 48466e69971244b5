#include "bounds/blocks/end_to_end.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <utility>

#include "bounds/nodes/own_run.hpp"
#include "bounds/theorems/chance.hpp"
#include "driftbound/num/directed.hpp"
#include "driftbound/num/errors.hpp"
#include "num/elapsed.hpp"

namespace driftbound::bounds {
namespace {

constexpr double sigmas = 6.0;
constexpr const char* too_large = "samples with more than 2^22 numbers on the way have it for named scalars alone";
constexpr const char* random_order_condition =
    "no bound but an estimate: sums in random order, rounding errors spread evenly and not alike (T-75)";

void append(std::vector<double>& to, const std::vector<double>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

void append(Certificate& to, const Certificate& more) {
  append(to.total, more.total);
  append(to.local, more.local);
  append(to.remainder, more.remainder);
  to.layers.resize(more.layers.size());
  for (std::size_t node = 0; node < more.layers.size(); ++node) append(to.layers[node], more.layers[node]);
}

void append(RunEnclosures& to, const RunEnclosures& more) {
  to.runs.insert(to.runs.end(), more.runs.begin(), more.runs.end());
  to.exact.insert(to.exact.end(), more.exact.begin(), more.exact.end());
}

void append(std::optional<ChanceBound>& to, const std::optional<ChanceBound>& more) {
  if (!more) return;
  append(to->total, more->total);
  append(to->remainder, more->remainder);
  to->patterns.insert(to->patterns.end(), more->patterns.begin(), more->patterns.end());
}

void append(Condition& to, const Condition& more) {
  append(to.target, more.target);
  for (std::size_t node = 0; node < more.layers.size(); ++node) append(to.layers[node], more.layers[node]);
}

void append(Attribution& to, const Attribution& more) {
  append(to.inputs, more.inputs);
  for (std::size_t node = 0; node < more.layers.size(); ++node) append(to.layers[node], more.layers[node]);
}

/// One row of a tensor, with axis 0 of extent 1; a tensor that is the same for all rows is returned unchanged.
template <class T>
Tensor<T> row_of(const Tensor<T>& tensor, bool varies, std::int64_t row, std::int64_t rows) {
  if (!varies) return tensor;
  Tensor<T> part;
  part.shape = tensor.shape;
  part.shape.front() = 1;
  const auto size = static_cast<std::ptrdiff_t>(tensor.size()) / rows;
  part.values.assign(tensor.values.begin() + row * size, tensor.values.begin() + (row + 1) * size);
  return part;
}

std::vector<double> row_of(const std::vector<double>& values, std::int64_t row, std::int64_t rows) {
  const auto size = static_cast<std::ptrdiff_t>(values.size()) / rows;
  return {values.begin() + row * size, values.begin() + (row + 1) * size};
}

class EndToEnd {
public:
  EndToEnd(const Evaluation& evaluation, const BoundOptions& options, const Setting& setting, BoundCache& cache)
      : evaluation_(evaluation), options_(options), setting_(setting), cache_(cache) {
    request_.this_run = options.wants(BoundKind::shadow);
    request_.any_order = options.wants(BoundKind::adjoint_any_order);
    const bool order_is_known =
        setting.machine.order.kind != SummationOrder::Kind::unknown && !setting.machine.tensor_core;
    const bool any_is_found =
        setting.found != nullptr &&
        std::any_of(setting.found->begin(), setting.found->end(), [](const auto& found) { return found.has_value(); });
    request_.declared_order = (order_is_known || any_is_found) && options.wants(BoundKind::adjoint_order_aware);
    if (any_is_found) order_conditions_ = {found_in_every_run_condition};
    request_.rounded = options.wants(BoundKind::rounded_shadow);
    request_.refined_radii = options.refined_radii;
    is_batched_ = batch_layout(evaluation.graph).batched;
    rows_ = is_batched_ ? evaluation.run.given.front().shape.front() : 1;
    varies_ = depends_on_input(evaluation.graph);
    if (options.wants(Diagnostic::attribution)) request_.attributed = options.targets.size();
    if (options.wants(Diagnostic::condition)) request_.conditioned = options.targets.size();
    find_targets();
    run_conditions_ = any_run_conditions(evaluation.graph);
    ask_for_chance();
  }

  void add_to(Bounds& bounds) {
    const bool asks = request_.this_run || request_.follows_any_order() || request_.declared_order ||
                      request_.rounded || request_.attributed > 0 || request_.conditioned > 0;
    if (rows_ == 0 || (!asks && refused_.empty())) return;
    const auto start = std::chrono::steady_clock::now();
    follow();
    const double seconds = seconds_since(start);
    for (std::size_t node = 0; node < block_.this_run.size(); ++node) {
      bounds.layers[node].accumulated.push_back(this_run(block_.this_run_theorem, evaluation_.run.layers[node]->shape,
                                                         std::move(block_.this_run[node]), seconds));
    }
    for (std::size_t node = 0; node < block_.ambiguous.size(); ++node)
      bounds.layers[node].ambiguous = block_.ambiguous[node];
    for (std::size_t node = 0; node < block_.readings.size(); ++node)
      if (const auto reading = block_.readings[node]) bounds.layers[node].reading = reading->operands;
    note_conditions(bounds);
    for (const NotByRows& one : block_.not_by_rows) driftbound::add_to(bounds.not_by_rows, one);
    if (block_.infinite) bounds.infinite.push_back(*block_.infinite);
    for (const Output& output : outputs_) add_output(output, bounds.layers[output.node], seconds);
    for (std::size_t i = 0; i < options_.targets.size(); ++i) bounds.targets.push_back(target_bounds(i, seconds));
  }

private:
  /// An output with elements that are targets; `targets` are positions in targets_.
  struct Output {
    std::size_t node = 0;
    std::vector<std::int64_t> elements;  ///< of a sample
    std::vector<std::size_t> targets;
    bool is_whole = true;  ///< whether all elements are targets
  };

  void find_targets() {
    if (rows_ == 0) return;
    for (const Target& target : options_.targets) {
      require_element(target.positive);
      if (target.negative) require_element(*target.negative);
    }
    targets_ = options_.targets;
    add_outputs(true);
    request_.chanced = targets_.size();
    add_outputs(false);
  }

  /// Adds the outputs whose elements are all targets, or those of which only the largest are.
  void add_outputs(bool are_whole) {
    const Graph& graph = evaluation_.graph;
    for (std::size_t i = 0; i < graph.outputs.size(); ++i) {
      const auto node = graph.producer(graph.outputs[i]);
      const bool is_known =
          std::any_of(outputs_.begin(), outputs_.end(), [&](const Output& output) { return output.node == node; });
      if (!node || is_known) continue;
      const auto size = static_cast<std::int64_t>(evaluation_.run.layers[*node]->size());
      const std::int64_t elements = varies_[graph.outputs[i]] ? size / std::max<std::int64_t>(rows_, 1) : size;
      Output output{*node, {}, {}, elements <= options_.most_output_elements};
      if (output.is_whole != are_whole || (!are_whole && !asks_for_any_run())) continue;
      output.elements = followed_elements(*evaluation_.run.layers[*node], elements);
      for (const std::int64_t element : output.elements) output.targets.push_back(target_of({i, element}));
      outputs_.push_back(std::move(output));
    }
  }

  bool asks_for_any_run() const {
    return request_.any_order || request_.declared_order || request_.rounded || wants(&ChanceBounds::martingale) ||
           wants(&ChanceBounds::random_order);
  }

  /// Returns the elements of a sample that are targets, in order: all, or at most BoundOptions::most_output_elements. The
  /// largest number of every sample comes first, then the second largest of every sample, and so on.
  std::vector<std::int64_t> followed_elements(const Tensor<double>& output, std::int64_t elements) const {
    const std::int64_t most = std::min(options_.most_output_elements, elements);
    std::vector<std::int64_t> followed(static_cast<std::size_t>(std::max<std::int64_t>(most, 0)));
    std::iota(followed.begin(), followed.end(), std::int64_t{0});
    if (most == elements || most <= 0) return followed;
    std::vector<std::vector<std::int64_t>> largest;  // by sample
    std::vector<std::int64_t> order(static_cast<std::size_t>(elements));
    for (std::size_t first = 0; first < output.size(); first += static_cast<std::size_t>(elements)) {
      const double* const row = output.values.data() + first;
      const auto is_larger = [&](std::int64_t a, std::int64_t b) {
        const auto rank = [&](std::int64_t i) { return std::isfinite(row[i]) ? row[i] : -HUGE_VAL; };
        return rank(a) != rank(b) ? rank(a) > rank(b) : a < b;
      };
      std::iota(order.begin(), order.end(), std::int64_t{0});
      std::partial_sort(order.begin(), order.begin() + most, order.end(), is_larger);
      largest.emplace_back(order.begin(), order.begin() + most);
    }
    std::set<std::int64_t> chosen;
    for (std::size_t rank = 0; rank < followed.size(); ++rank) {
      for (const std::vector<std::int64_t>& of_row : largest)
        if (chosen.size() < followed.size()) chosen.insert(of_row[rank]);
    }
    return {chosen.begin(), chosen.end()};
  }

  /// Chooses one factor for every target and sample such that all bounds together fail with the probability requested.
  void ask_for_chance() {
    const bool wants_bound = wants(&ChanceBounds::martingale), wants_estimate = wants(&ChanceBounds::random_order);
    if (rows_ == 0 || targets_.empty() || !(wants_bound || wants_estimate)) return;
    refused_ = refused_by(setting_.machine);
    if (!refused_.empty()) return;
    // Which elements of a large output are followed depends on the run, so that the bound must hold for all of them.
    std::int64_t statements = static_cast<std::int64_t>(targets_.size()) * rows_;
    for (const Output& output : outputs_)
      if (!output.is_whole) statements += static_cast<std::int64_t>(evaluation_.run.layers[output.node]->size());
    if (wants_bound) request_.chance.martingale = theorems::tail_factor(options_.failure_probability, statements);
    if (wants_estimate) request_.chance.random_order = sigmas;
  }

  void note_conditions(Bounds& bounds) const {
    if (!request_.follows_any_order() && !request_.declared_order && block_.ambiguous.empty()) return;
    std::set<std::string> conditions = run_conditions_;
    if (request_.declared_order) conditions.insert(order_conditions_.begin(), order_conditions_.end());
    if (!block_.ambiguous.empty())
      conditions.insert(block_.rounded_conditions.begin(), block_.rounded_conditions.end());
    for (const std::string& condition : conditions) {
      const bool is_known = std::count(bounds.assumptions.begin(), bounds.assumptions.end(), condition) > 0;
      if (!is_known) bounds.assumptions.push_back(condition);
    }
  }

  /// The position of the target that is this element alone: one of the options, or a new one.
  std::size_t target_of(const OutputElement& element) {
    for (std::size_t i = 0; i < options_.targets.size(); ++i) {
      const Target& asked = options_.targets[i];
      const bool same = asked.positive.output == element.output && asked.positive.element == element.element;
      if (same && !asked.negative) return i;
    }
    targets_.push_back({element, std::nullopt});
    return targets_.size() - 1;
  }

  void require_element(const OutputElement& element) const {
    const Graph& graph = evaluation_.graph;
    if (element.output >= graph.outputs.size())
      throw InvalidArgument("bounds: there is no output " + std::to_string(element.output));
    const auto node = graph.producer(graph.outputs[element.output]);
    const std::string& name = graph.value(graph.outputs[element.output]).name;
    if (!node) throw InvalidArgument("bounds: output '" + name + "' is an input of the model");
    const auto size = static_cast<std::int64_t>(evaluation_.run.layers[*node]->size());
    const std::int64_t elements =
        varies_[graph.outputs[element.output]] ? size / std::max<std::int64_t>(rows_, 1) : size;
    if (element.element < 0 || element.element >= elements)
      throw InvalidArgument("bounds: output '" + name + "' has " + std::to_string(elements) + " elements per sample");
  }

  std::vector<Shape> input_shapes(std::int64_t rows) const {
    std::vector<Shape> shapes;
    for (const Tensor<double>& input : evaluation_.run.given) {
      shapes.push_back(input.shape);
      if (rows != rows_) shapes.back().front() = rows;
    }
    return shapes;
  }

  /// Computes the bounds of all rows at once. Rows are processed one after the other if an op combines elements of
  /// several rows, or if a layer to be attributed is the same for all rows.
  void follow() {
    const auto program =
        cache_.program(evaluation_.graph, input_shapes(rows_), is_batched_ ? std::optional(rows_) : std::nullopt);
    if (program->keeps_rows_apart() && !(request_.attributed > 0 && rows_ > 1 && any_layer_is_fixed())) {
      block_ = block_bounds(*program, evaluation_.run, targets_, request_, setting_, cache_);
      return;
    }
    const auto one = cache_.program(evaluation_.graph, input_shapes(1), std::nullopt);
    for (std::int64_t row = 0; row < rows_; ++row) {
      BlockBounds of_row = follow_row(*one, row);
      if (of_row.infinite) of_row.infinite->sample = row;
      join(std::move(of_row));
    }
  }

  /// Whether a layer is the same for all samples. It rounds once, and its error contributes to that of every sample.
  bool any_layer_is_fixed() const {
    const std::vector<Node>& nodes = evaluation_.graph.nodes;
    return std::any_of(nodes.begin(), nodes.end(), [&](const Node& node) { return !varies_[node.output]; });
  }

  BlockBounds follow_row(const Program& program, std::int64_t row) {
    std::vector<Tensor<double>> recorded;
    std::vector<Tensor<Ball>> network;
    RecordedBlock part;
    for (std::size_t node = 0; node < evaluation_.run.layers.size(); ++node) {
      const bool varies = varies_[evaluation_.graph.nodes[node].output];
      recorded.push_back(row_of(*evaluation_.run.layers[node], varies, row, rows_));
      if (!evaluation_.run.network.empty())
        network.push_back(row_of(*evaluation_.run.network[node], varies, row, rows_));
    }
    for (const Tensor<double>& tensor : recorded) part.layers.push_back(&tensor);
    for (const Tensor<Ball>& tensor : network) part.network.push_back(&tensor);
    for (std::size_t i = 0; i < evaluation_.run.given.size(); ++i) {
      part.given.push_back(row_of(evaluation_.run.given[i], true, row, rows_));
      part.used.push_back(row_of(evaluation_.run.used[i], true, row, rows_));
      part.input_error.push_back(row_of(evaluation_.run.input_error[i], row, rows_));
    }
    return block_bounds(program, part, targets_, request_, setting_, cache_);
  }

  void join(BlockBounds row) {
    if (block_.targets.empty() && block_.this_run.empty()) {
      block_ = std::move(row);
      return;
    }
    for (const NotByRows& one : row.not_by_rows) driftbound::add_to(block_.not_by_rows, one);
    if (!block_.infinite && row.infinite) block_.infinite = row.infinite;
    for (const auto conditions : {&BlockBounds::any_order_conditions, &BlockBounds::declared_order_conditions,
                                  &BlockBounds::rounded_conditions, &BlockBounds::estimate_conditions})
      (block_.*conditions).insert((row.*conditions).begin(), (row.*conditions).end());
    for (std::size_t node = 0; node < row.this_run.size(); ++node) {
      if (varies_[evaluation_.graph.nodes[node].output]) append(block_.this_run[node], row.this_run[node]);
    }
    for (std::size_t node = 0; node < row.ambiguous.size(); ++node) block_.ambiguous[node] += row.ambiguous[node];
    for (std::size_t node = 0; node < row.readings.size(); ++node)
      if (const auto& read = row.readings[node])
        block_.readings[node] = {*joined(block_.readings[node]->operands, read->operands),
                                 block_.readings[node]->may_flush || read->may_flush};
    for (std::size_t i = 0; i < row.targets.size(); ++i) {
      append(block_.targets[i].this_run, row.targets[i].this_run);
      append(block_.targets[i].any_order, row.targets[i].any_order);
      append(block_.targets[i].declared_order, row.targets[i].declared_order);
      append(block_.targets[i].rounded, row.targets[i].rounded);
      append(block_.targets[i].enclosures, row.targets[i].enclosures);
      append(block_.targets[i].chance.martingale, row.targets[i].chance.martingale);
      append(block_.targets[i].chance.random_order, row.targets[i].chance.random_order);
      if (row.targets[i].condition) append(*block_.targets[i].condition, *row.targets[i].condition);
      if (row.targets[i].attribution) append(*block_.targets[i].attribution, *row.targets[i].attribution);
    }
  }

  BoundResult this_run(std::string theorem, Shape shape, std::vector<double> values, double seconds) const {
    BoundResult result;
    result.kind = BoundKind::shadow;
    result.theorem = std::move(theorem);
    result.values = Tensor<double>(std::move(shape), std::move(values));
    result.seconds = seconds;
    return result;
  }

  static BoundResult any_run(BoundKind kind, const std::set<std::string>& conditions, Shape shape,
                             std::vector<double> values, std::vector<double> remainder, double seconds) {
    BoundResult result;
    result.kind = kind;
    result.question = Question::any_run;
    result.theorem = kind == BoundKind::rounded_shadow ? "T-76" : "T-71";
    result.guarantee = conditions.empty() ? Guarantee::proven : Guarantee::conditional;
    result.condition = joined(conditions);
    result.values = Tensor<double>(std::move(shape), std::move(values));
    result.remainder = std::move(remainder);
    result.seconds = seconds;
    return result;
  }

  std::set<std::string> in_order_conditions() const {
    std::set<std::string> conditions = block_.declared_order_conditions;
    conditions.insert(order_conditions_.begin(), order_conditions_.end());
    return conditions;
  }

  std::set<std::string> conditions_of(std::size_t node, const std::set<std::string>& of_roundings) const {
    std::set<std::string> conditions = evaluation_.conditions[node];
    conditions.insert(run_conditions_.begin(), run_conditions_.end());
    conditions.insert(of_roundings.begin(), of_roundings.end());
    return conditions;
  }

  /// The numbers of bounds in the layout of a tensor of `size` elements, `per_sample` of a sample: `number_of` for the
  /// position among `elements` and the sample, `others` elsewhere.
  static std::vector<double> laid_out(const std::vector<std::int64_t>& elements, std::size_t size,
                                      std::size_t per_sample, double others, const auto& number_of) {
    std::vector<double> values(size, others);
    for (std::size_t sample = 0; sample < size / per_sample; ++sample)
      for (std::size_t i = 0; i < elements.size(); ++i)
        values[sample * per_sample + static_cast<std::size_t>(elements[i])] = number_of(i, sample);
    return values;
  }

  /// The bound of T-74 or the estimate of T-75 for `elements`, `bounds` one for each; the result has `size` elements.
  BoundResult by_chance(BoundKind kind, const std::vector<const ChanceBound*>& bounds,
                        const std::vector<std::int64_t>& elements, std::size_t size, std::size_t per_sample,
                        std::set<std::string> conditions, Shape shape, double seconds) const {
    const bool is_estimate = kind == BoundKind::adjoint_statistical;
    conditions.insert(is_estimate ? random_order_condition : chance_condition);
    if (is_estimate) conditions.insert(block_.estimate_conditions.begin(), block_.estimate_conditions.end());
    constexpr double infinite = std::numeric_limits<double>::infinity();
    std::vector<double> values(size, infinite), remainder;
    if (!bounds.empty()) {
      values = laid_out(elements, size, per_sample, infinite,
                        [&](std::size_t i, std::size_t sample) { return bounds[i]->total.at(sample); });
      remainder = laid_out(elements, size, per_sample, 0.0,
                           [&](std::size_t i, std::size_t sample) { return bounds[i]->remainder.at(sample); });
    }
    BoundResult result = any_run(kind, conditions, std::move(shape), std::move(values), std::move(remainder), seconds);
    result.theorem = is_estimate ? "T-75" : "T-74";
    result.guarantee = is_estimate ? Guarantee::heuristic : Guarantee::probabilistic;
    result.not_applicable = !refused_.empty() ? refused_ : bounds.empty() ? too_large : pattern_in(bounds);
    if (!is_estimate && refused_.empty() && !bounds.empty())
      result.failure_probability = failure_probability_of(request_.chance.martingale, static_cast<std::int64_t>(size));
    return result;
  }

  static std::string pattern_in(const std::vector<const ChanceBound*>& bounds) {
    for (const ChanceBound* bound : bounds) {
      for (const TermPattern pattern : bound->patterns)
        if (pattern != TermPattern::none) return describe(pattern);
    }
    return "";
  }

  using Chance = std::optional<ChanceBound> ChanceBounds::*;

  bool wants(Chance which) const {
    if (which == &ChanceBounds::random_order) return options_.wants(BoundKind::adjoint_statistical);
    return options_.wants(BoundKind::adjoint_probabilistic) && options_.failure_probability > 0.0;
  }

  /// Adds the bound of T-74 and the estimate of T-75 for the targets of one output, or for one target: a tensor of
  /// `size` elements, `per_sample` of a sample.
  void add_by_chance(const std::vector<std::size_t>& targets, const std::vector<std::int64_t>& elements,
                     std::size_t size, std::size_t per_sample, const std::set<std::string>& conditions,
                     const Shape& shape, double seconds, std::vector<BoundResult>& results) const {
    for (const Chance which : {&ChanceBounds::martingale, &ChanceBounds::random_order}) {
      if (!wants(which)) continue;
      std::vector<const ChanceBound*> bounds;
      for (const std::size_t target : targets)
        if (const auto& bound = block_.targets[target].chance.*which; refused_.empty() && bound)
          bounds.push_back(&*bound);
      const BoundKind kind =
          which == &ChanceBounds::martingale ? BoundKind::adjoint_probabilistic : BoundKind::adjoint_statistical;
      results.push_back(by_chance(kind, bounds, elements, size, per_sample, conditions, shape, seconds));
      if (elements.size() < per_sample) results.back().elements = elements;
    }
  }

  using Part = Certificate TargetCertificate::*;

  /// Elements of a sample of an output.
  std::size_t per_sample(const Output& output) const {
    const std::size_t size = evaluation_.run.layers[output.node]->size();
    const bool varies = varies_[evaluation_.graph.nodes[output.node].output];
    return varies ? size / static_cast<std::size_t>(rows_) : size;
  }

  /// Values of all rows and followed elements in the layout of the output's tensor; `others` elsewhere.
  std::vector<double> gathered(const Output& output, double others, const auto& row_values) const {
    return laid_out(
        output.elements, evaluation_.run.layers[output.node]->size(), per_sample(output), others,
        [&](std::size_t i, std::size_t sample) { return row_values(block_.targets[output.targets[i]]).at(sample); });
  }

  void add_output(const Output& output, LayerBounds& layer, double seconds) const {
    if (output.targets.empty()) return;
    constexpr double infinite = std::numeric_limits<double>::infinity();
    const Shape& shape = evaluation_.run.layers[output.node]->shape;
    const auto add = [&](BoundKind kind, Part part, const std::set<std::string>& of_roundings) {
      layer.accumulated.push_back(any_run(
          kind, conditions_of(output.node, of_roundings), shape,
          gathered(output, infinite,
                   [&](const TargetCertificate& t) -> const std::vector<double>& { return (t.*part).total; }),
          gathered(output, 0.0,
                   [&](const TargetCertificate& t) -> const std::vector<double>& { return (t.*part).remainder; }),
          seconds));
      if (!output.is_whole) layer.accumulated.back().elements = output.elements;
    };
    if (request_.this_run) sharpen(output, layer);
    if (request_.any_order)
      add(BoundKind::adjoint_any_order, &TargetCertificate::any_order, block_.any_order_conditions);
    if (request_.declared_order)
      add(BoundKind::adjoint_order_aware, &TargetCertificate::declared_order, in_order_conditions());
    if (!block_.ambiguous.empty())
      add(BoundKind::rounded_shadow, &TargetCertificate::rounded, block_.rounded_conditions);
    add_by_chance(output.targets, output.elements, evaluation_.run.layers[output.node]->size(), per_sample(output),
                  conditions_of(output.node, block_.any_order_conditions), shape, seconds, layer.accumulated);
  }

  /// Replaces the bounds of an output of this run by those of the adjoints where these are smaller.
  void sharpen(const Output& output, LayerBounds& layer) const {
    BoundResult& shadow = *std::find_if(layer.accumulated.begin(), layer.accumulated.end(),
                                        [](const BoundResult& bound) { return bound.kind == BoundKind::shadow; });
    const std::vector<double> adjoint =
        gathered(output, std::numeric_limits<double>::infinity(),
                 [](const TargetCertificate& t) -> const std::vector<double>& { return t.this_run; });
    for (std::size_t i = 0; i < adjoint.size(); ++i)
      shadow.values.values[i] = std::min(shadow.values.values[i], adjoint[i]);
    shadow.theorem = "T-70";
  }

  TargetBounds target_bounds(std::size_t index, double seconds) const {
    const TargetCertificate& certificate = block_.targets[index];
    const Shape shape = {rows_};
    TargetBounds result;
    if (request_.this_run) result.bounds.push_back(this_run("T-70", shape, certificate.this_run, seconds));
    const auto add = [&](BoundKind kind, const Certificate& part, const std::set<std::string>& of_roundings) {
      result.bounds.push_back(any_run(kind, target_conditions(options_.targets[index], of_roundings), shape, part.total,
                                      part.remainder, seconds));
    };
    if (request_.any_order) {
      add(BoundKind::adjoint_any_order, certificate.any_order, block_.any_order_conditions);
      result.layer_shares = certificate.any_order.layers;
    }
    if (request_.declared_order) add(BoundKind::adjoint_order_aware, certificate.declared_order, in_order_conditions());
    if (!block_.ambiguous.empty()) {
      add(BoundKind::rounded_shadow, certificate.rounded, block_.rounded_conditions);
      result.enclosures = certificate.enclosures;
    }
    add_by_chance({index}, {0}, static_cast<std::size_t>(rows_), 1,
                  target_conditions(options_.targets[index], block_.any_order_conditions), shape, seconds,
                  result.bounds);
    result.attribution = certificate.attribution;
    result.condition = certificate.condition;
    return result;
  }

  std::set<std::string> target_conditions(const Target& target, const std::set<std::string>& of_roundings) const {
    std::set<std::string> conditions = of_roundings;
    conditions.insert(run_conditions_.begin(), run_conditions_.end());
    const Graph& graph = evaluation_.graph;
    const auto add = [&](const OutputElement& element) {
      const auto node = graph.producer(graph.outputs.at(element.output));
      if (node) conditions.insert(evaluation_.conditions[*node].begin(), evaluation_.conditions[*node].end());
    };
    add(target.positive);
    if (target.negative) add(*target.negative);
    return conditions;
  }

  const Evaluation& evaluation_;
  const BoundOptions& options_;
  const Setting& setting_;
  BoundCache& cache_;
  AdjointRequest request_;
  bool is_batched_ = false;
  std::int64_t rows_ = 1;
  std::vector<bool> varies_;
  std::vector<Target> targets_;
  std::vector<Output> outputs_;
  std::set<std::string> run_conditions_;
  std::set<std::string> order_conditions_;  ///< of bounds for sums in order alone
  std::string refused_;                     ///< why T-74 and T-75 do not apply; empty: they apply or are not requested
  BlockBounds block_;
};

}  // namespace

void add_end_to_end(const Evaluation& evaluation, const BoundOptions& options, const Setting& setting,
                    BoundCache& cache, Bounds& bounds) {
  EndToEnd(evaluation, options, setting, cache).add_to(bounds);
}

}  // namespace driftbound::bounds
