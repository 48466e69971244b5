#include "driftbound/trace/record_parts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <set>

#include "driftbound/model/composite.hpp"
#include "driftbound/model/layout.hpp"
#include "driftbound/model/op_groups.hpp"
#include "driftbound/num/errors.hpp"
#include "driftbound/num/format.hpp"
#include "driftbound/trace/run_scores.hpp"
#include "model/shapes.hpp"
#include "model/text.hpp"
#include "model/variant.hpp"
#include "model/windows.hpp"
#include "trace/audit_choice.hpp"
#include "trace/value_view.hpp"

namespace driftbound {
namespace {

using Numbers = std::vector<std::int64_t>;

constexpr std::int64_t most_numbers_of_part = std::int64_t{1} << 20;
constexpr std::int64_t most_numbers_of_right = std::int64_t{1} << 21;
constexpr std::int64_t most_numbers_of_sampled_rows = std::int64_t{1} << 17;
constexpr std::int64_t most_numbers_of_sampled_heads = std::int64_t{1} << 21;

template <class T>
concept AnyReduction = Reduction<T> || CompositeReduction<T>;

template <class Test>
bool all_nodes(const Graph& graph, const Test& test) {
  return std::all_of(graph.nodes.begin(), graph.nodes.end(), test);
}

bool is_elementwise(const Op& op) {
  return std::visit(
      []<class T>(const T&) {
        return ElementwiseUnary<T> || ElementwiseBinary<T> || CompositeFunction<T> ||
               OneOf<T, op::Choice, op::SumOf, op::MeanOf, op::MinOf, op::MaxOf>;
      },
      op);
}

bool is_reshaping(const Op& op) {
  return std::visit([]<class T>(const T&) { return Reshaping<T>; }, op);
}

/// NaN where one of them is.
double larger(double x, double y) {
  return std::isnan(x) || std::isnan(y) ? x + y : std::max(x, y);
}

std::optional<double> result_of_infinite(const Graph& steps, std::vector<double> operands);

/// What IEEE arithmetic makes of operands that are not all finite; empty: that is not known here.
std::optional<double> result_of_infinite(const Op& op, const std::vector<double>& x) {
  return std::visit(
      Overloaded{
          [&](const op::Add&) { return std::optional(x[0] + x[1]); },
          [&](const op::Sub&) { return std::optional(x[0] - x[1]); },
          [&](const op::Mul&) { return std::optional(x[0] * x[1]); },
          [&](const op::Div&) { return std::optional(x[0] / x[1]); },
          [&](const op::Max&) { return std::optional(larger(x[0], x[1])); },
          [&](const op::Min&) { return std::optional(-larger(-x[0], -x[1])); },
          [&](const op::Relu&) { return std::optional(larger(x[0], 0.0)); },
          [&](const op::Clip& clip) { return std::optional(-larger(-larger(x[0], clip.least), -clip.most)); },
          [&](const op::Sign&) { return std::optional(std::isnan(x[0]) ? x[0] : std::copysign(1.0, x[0])); },
          [&](const OneOf<op::Floor, op::Ceil, op::Round> auto&) { return std::optional(x[0]); },
          [&](const op::Sqrt&) { return std::optional(std::sqrt(x[0])); },
          [&](const op::Log&) { return std::optional(std::log(x[0])); },
          [&](const op::Reciprocal&) { return std::optional(1.0 / x[0]); },
          [&](const op::Sigmoid&) { return std::optional(1.0 / (1.0 + std::exp(-x[0]))); },
          [&](const op::Softplus&) { return std::optional(std::log1p(std::exp(x[0]))); },
          [&](const op::Tanh&) { return std::optional(std::tanh(x[0])); },
          [&](const op::Erf&) { return std::optional(std::erf(x[0])); },
          [&](const op::Neg&) { return std::optional(-x[0]); },
          [&](const op::Abs&) { return std::optional(std::abs(x[0])); },
          [&](const op::Exp&) { return std::optional(std::exp(x[0])); },
          [&](const op::Identity&) { return std::optional(x[0]); },
          [&](const op::Cast&) { return std::optional(x[0]); },
          [&](const op::Choice&) { return std::optional(x[0] > 0.5 ? x[1] : x[2]); },
          [&](const op::Segment& segment) { return result_of_infinite(*segment.graph, x); },
          [](const auto&) { return std::optional<double>(); },
      },
      op);
}

/// The same of several steps, whose constants are numbers.
std::optional<double> result_of_infinite(const Graph& steps, std::vector<double> operands) {
  std::vector<double> numbers(steps.values.size());
  for (std::size_t i = 0; i < operands.size(); ++i) numbers[steps.inputs[i]] = operands[i];
  for (ValueId id = 0; id < steps.values.size(); ++id)
    if (steps.is_constant(id)) numbers[id] = steps.value(id).constant.to_double().values.front();
  for (const Node& node : steps.nodes) {
    std::vector<double> inputs;
    for (const ValueId id : node.inputs) inputs.push_back(numbers[id]);
    const std::optional<double> result = result_of_infinite(node.op, inputs);
    if (!result) return std::nullopt;
    numbers[node.output] = *result;
  }
  return numbers[steps.outputs.front()];
}

/// Whether one of two numbers is the least one of the format, as a mask is, and their sum rounds to minus infinity.
bool is_masked_beyond(double x, double y, const Format& f) {
  return std::min(x, y) == -f.largest && round_to(x + y, f, Rounding::nearest_even) == -HUGE_VAL;
}

/// Where the element of an operand lies that belongs to an element of a result it is broadcast to. BroadcastIndex without
/// its table, which takes more memory than the result.
class BroadcastPlace {
public:
  BroadcastPlace(const Shape& operand, const Shape& result) : is_identity_(operand == result) {
    if (!broadcasts_to(operand, result))
      throw ShapeMismatch(to_string(operand) + " does not broadcast to " + to_string(result));
    std::size_t stride = 1, axis = operand.size();
    for (std::size_t i = result.size(); i-- > 0;) {
      const std::int64_t extent = axis > 0 ? operand[--axis] : 1;
      axes_.push_back({static_cast<std::size_t>(result[i]), extent == 1 ? 0 : stride});
      stride *= static_cast<std::size_t>(extent);
    }
  }
  std::size_t operator()(std::size_t element) const {
    if (is_identity_) return element;
    std::size_t place = 0;
    for (const Axis& axis : axes_) {
      place += element % axis.extent * axis.stride;
      element /= axis.extent;
    }
    return place;
  }

private:
  struct Axis {
    std::size_t extent, stride;
  };
  std::vector<Axis> axes_;  ///< of the result, from the last one on
  bool is_identity_;
};

/// Where the elements of a selection come from: of a Gather without a table of all of them.
class Sources {
public:
  Sources(const Op& op, const std::vector<Shape>& shapes, const Shape& result) : gather_(std::get_if<op::Gather>(&op)) {
    if (gather_ == nullptr) {
      table_ = plan_selection(op, shapes, result);
      return;
    }
    const std::size_t axis = normalized_axis(gather_->axis, shapes[0].size());
    extent_ = shapes[0][axis];
    inner_ = element_count(Shape(shapes[0].begin() + static_cast<std::ptrdiff_t>(axis) + 1, shapes[0].end()));
    for (const std::int64_t index : gather_->indices)
      if (index < -extent_ || index >= extent_) throw ShapeMismatch("it reads an element that is not there");
  }
  ElementSource at(std::int64_t element) const {
    if (gather_ == nullptr) return table_[static_cast<std::size_t>(element)];
    const auto count = static_cast<std::int64_t>(gather_->indices.size());
    const std::int64_t index = gather_->indices[static_cast<std::size_t>(element / inner_ % count)];
    const std::int64_t outer = element / inner_ / count, from = index < 0 ? index + extent_ : index;
    return {0, static_cast<std::size_t>((outer * extent_ + from) * inner_ + element % inner_)};
  }

private:
  const op::Gather* gather_;
  std::int64_t extent_ = 1, inner_ = 1;
  std::vector<ElementSource> table_;
};

bool are_same(double a, double b) {
  return a == b || (std::isnan(a) && std::isnan(b));
}

/// The nodes of a graph that one of its values needs, as a graph with that output.
Graph graph_of(const Graph& all, ValueId output, std::vector<std::size_t>& inputs) {
  std::vector<bool> needed(all.values.size(), false);
  needed[output] = true;
  for (std::size_t i = all.nodes.size(); i-- > 0;)
    if (needed[all.nodes[i].output])
      for (const ValueId id : all.nodes[i].inputs) needed[id] = true;
  Graph graph;
  std::vector<ValueId> placed(all.values.size());
  for (std::size_t i = 0; i < all.inputs.size(); ++i) {
    const Value& value = all.value(all.inputs[i]);
    if (!needed[all.inputs[i]]) continue;
    placed[all.inputs[i]] = graph.add_input(value.name, value.type, value.declared);
    inputs.push_back(i);
  }
  for (ValueId id = 0; id < all.values.size(); ++id)
    if (needed[id] && all.is_constant(id)) placed[id] = graph.add_constant(all.value(id).name, all.value(id).constant);
  for (const Node& node : all.nodes) {
    if (!needed[node.output]) continue;
    std::vector<ValueId> operands;
    for (const ValueId id : node.inputs) operands.push_back(placed[id]);
    placed[node.output] = graph.add_node(node.name, node.op, std::move(operands));
  }
  graph.outputs = {placed[output]};
  return graph;
}

/// One result of a record, and how it is cut.
class Cutter {
public:
  using Take = std::function<bool(RecordPart&&)>;

  Cutter(const RecordedRun& run, const Record& record, std::size_t result, Graph graph, std::vector<ValueView> operands,
         ValueView computed, std::int64_t recorded_draws, Trace empty, const CutOptions& options, const Take& take)
      : run_(run),
        record_(record),
        graph_(std::move(graph)),
        operands_(std::move(operands)),
        computed_(std::move(computed)),
        empty_(std::move(empty)),
        options_(options),
        take_(take),
        random_(options.seed) {
    coverage_.result = result;
    coverage_.elements = computed_.size();
    if (!computed_.is_whole()) coverage_.draws = recorded_draws;
    std::vector<Shape> shapes;
    for (const ValueView& operand : operands_) shapes.push_back(operand.shape());
    shapes_ = infer_shapes(graph_, shapes);
    if (shapes_[graph_.outputs.front()] != computed_.shape())
      throw ShapeMismatch(fmt::format("its result is {}, and its operands make it {}", to_string(computed_.shape()),
                                      to_string(shapes_[graph_.outputs.front()])));
  }

  ResultCoverage cut() {
    if (computed_.size() == 0) {
      coverage_.why_not = "its result has no elements";
      return coverage_;
    }
    if (all_nodes(graph_, [](const Node& node) { return is_elementwise(node.op); })) {
      cut_elements();
    } else if (const Node* root = root_node(); root == nullptr) {
      if (!cut_sum_of_parts() && !cut_segment_by_rows()) cut_whole();
    } else {
      std::visit(Overloaded{
                     [&](const op::Gemm& gemm) { cut_product(*root, gemm); },
                     [&](const op::MatMul& product) { cut_product(*root, product); },
                     [&](const op::Softmax& softmax) {
                       cut_softmax(*root, softmax, op::Softmax{-1, false});
                     },
                     [&](const op::LogSoftmax& softmax) {
                       cut_softmax(*root, softmax, op::LogSoftmax{-1, false});
                     },
                     [&](const op::LayerNormalization& norm) {
                       cut_norm(*root, norm.axis, op::LayerNormalization{-1, norm.epsilon});
                     },
                     [&](const op::RMSNormalization& norm) {
                       cut_norm(*root, norm.axis, op::RMSNormalization{-1, norm.epsilon});
                     },
                     [&](const Reduction auto& reduction) { cut_reduction(*root, reduction); },
                     [&](const CompositeReduction auto& reduction) { cut_reduction(*root, reduction); },
                     [&](const op::Attention& attention) { cut_attention(*root, attention); },
                     [&](const op::Conv& conv) { cut_convolution(*root, conv); },
                     [&](const op::BatchNormalization& norm) { cut_channels(*root, norm); },
                     [&](const Selection auto&) { cut_moves(*root); },
                     [&](const auto&) { cut_whole(); },
                 },
                 root->op);
    }
    if (coverage_.judged == 0 && coverage_.infinite == 0 && coverage_.lacking > 0)
      coverage_.why_not = "its operands lack what the recorded elements of its result need";
    return coverage_;
  }

private:
  // ---- the graph

  /// The value before it was reshaped.
  ValueId before_reshaping(ValueId id) const {
    for (auto producer = graph_.producer(id); producer && is_reshaping(graph_.nodes[*producer].op);
         producer = graph_.producer(id))
      id = graph_.nodes[*producer].inputs.front();
    return id;
  }

  /// The one node that computes the result of operands that are given, but for reshaping both; null: there is no such.
  const Node* root_node() const {
    const std::optional<std::size_t> producer = graph_.producer(before_reshaping(graph_.outputs.front()));
    if (!producer) return nullptr;
    const Node& root = graph_.nodes[*producer];
    const bool are_given = std::all_of(root.inputs.begin(), root.inputs.end(),
                                       [&](ValueId id) { return !graph_.producer(before_reshaping(id)); });
    return are_given ? &root : nullptr;
  }

  /// A given operand, in the order of its elements.
  ValueView operand_of(ValueId id) const {
    id = before_reshaping(id);
    if (graph_.is_constant(id)) return ValueView(graph_.value(id).constant, graph_.value(id).constant.shape());
    const auto at = std::find(graph_.inputs.begin(), graph_.inputs.end(), id);
    return operands_[static_cast<std::size_t>(at - graph_.inputs.begin())];
  }
  const Shape& shape_of(ValueId id) const { return shapes_[id]; }

  // ---- which elements

  /// Of a result that is recorded in part, all that is recorded is judged.
  bool is_sampled() const { return options_.draws > 0 && options_.draws < computed_.size() && computed_.is_whole(); }

  /// Numbers below `end`: all of them, or as many as are drawn. `columns`: of the matrix that these are.
  Numbers chosen(std::int64_t end, std::int64_t draws, std::int64_t columns = 1) {
    if (!computed_.is_whole() && end == computed_.size()) return computed_.recorded();
    if (is_sampled() && draws < end) {
      coverage_.draws = draws;
      return stratified_draws(end / columns, columns, draws, random_);
    }
    Numbers numbers(static_cast<std::size_t>(end));
    std::iota(numbers.begin(), numbers.end(), std::int64_t{0});
    return numbers;
  }

  /// Elements of a result of which the computed value is recorded. `suspects`: the numbers of more, asked for where
  /// elements are drawn.
  template <class Suspects>
  Numbers chosen_elements(const Suspects& suspects) {
    const std::int64_t columns = computed_.shape().empty() ? 1 : computed_.shape().back();
    Numbers numbers = chosen(computed_.size(), options_.draws, columns);
    if (!is_sampled()) return numbers;
    for (const Numbers& more : {extreme_elements(computed_), suspects()}) add_chosen(numbers, more);
    return numbers;
  }
  Numbers chosen_elements() {
    return chosen_elements([] { return Numbers(); });
  }

  /// More elements, or rows, that were chosen for what was computed for them.
  static void add_chosen(Numbers& numbers, const Numbers& more) {
    Numbers all;
    std::set_union(numbers.begin(), numbers.end(), more.begin(), more.end(), std::back_inserter(all));
    numbers = std::move(all);
  }

  // ---- parts

  static DeclaredDimension samples() { return {-1, "samples"}; }

  /// A part without samples yet.
  struct Draft {
    RecordPart part;
    std::vector<ValueId> inputs;
  };

  ValueId add_input(Draft& draft, ElementType type, const Shape& of_sample) {
    std::vector<DeclaredDimension> declared = {samples()};
    for (const std::int64_t extent : of_sample) declared.push_back({extent, ""});
    const ValueId id =
        draft.part.graph.add_input(fmt::format("operand/{}", draft.inputs.size()), type, std::move(declared));
    draft.part.graph.values[id].has_declared_shape = true;
    draft.inputs.push_back(id);
    return id;
  }

  void finish(Draft& draft, ValueId output) {
    draft.part.graph.outputs = {output};
    draft.part.graph.values[output].type = computed_.type();
    draft.part.result = coverage_.result;
  }

  ValueId add_node(Draft& draft, const Op& op, std::vector<ValueId> inputs) {
    const ValueId output = draft.part.graph.add_node(record_.name, op, std::move(inputs));
    finish(draft, output);
    return output;
  }

  /// Hands a part out. `tensors`: by input of the draft, its samples.
  /// Returns:   whether to go on
  bool hand_out(const Draft& draft, std::vector<StoredTensor> tensors, StoredTensor result, Numbers places,
                std::int64_t stride, double share, Numbers elements = {}) {
    if (places.empty()) return true;
    RecordPart part = draft.part;
    part.trace = empty_;
    part.trace.samples = static_cast<std::int64_t>(places.size());
    for (std::size_t i = 0; i < tensors.size(); ++i)
      part.trace.inputs.tensors.emplace_back(part.graph.value(draft.inputs[i]).name, std::move(tensors[i]));
    coverage_.judged += static_cast<std::int64_t>(result.size());
    part.trace.layers.push_back({record_.name, std::move(result)});
    part.places = std::move(places);
    part.stride = stride;
    part.elements = std::move(elements);
    part.share = share;
    return take_(std::move(part));
  }

  /// Lines of elements of a view, one a sample: the elements numbers[s], numbers[s] + step, ... `count` of them.
  static StoredTensor lines(const ValueView& view, const Numbers& numbers, std::int64_t step, std::int64_t count,
                            const Shape& of_sample) {
    Shape shape = of_sample;
    shape.insert(shape.begin(), static_cast<std::int64_t>(numbers.size()));
    const auto is_gap = [count](std::int64_t a, std::int64_t b) { return b - a != count; };
    const bool are_together =
        step == 1 && !numbers.empty() && std::adjacent_find(numbers.begin(), numbers.end(), is_gap) == numbers.end();
    if (are_together) return view.range(numbers.front(), shape);
    view.require_room(element_count(shape));
    const std::size_t width = bytes_per_element(view.type());
    std::vector<std::byte> bytes(static_cast<std::size_t>(element_count(shape)) * width);
    for (std::size_t s = 0; s < numbers.size(); ++s)
      if (!view.copy(numbers[s], step, count, bytes.data() + s * static_cast<std::size_t>(count) * width))
        throw Unsupported("a part of an operand that this needs is not recorded");
    return StoredTensor(view.type(), std::move(shape), std::move(bytes));
  }

  /// A line that one sample reads.
  struct Line {
    std::int64_t first = 0, step = 1, count = 1;
  };

  /// Drops the samples for which a line is not recorded. `line_of`: by sample, of this view.
  template <class LineOf>
  void drop_lacking(const ValueView& view, Numbers& samples, std::int64_t elements_of_sample, const LineOf& line_of) {
    if (view.is_whole()) return;
    const std::size_t before = samples.size();
    std::erase_if(samples, [&](std::int64_t sample) {
      const Line line = line_of(sample);
      return !view.has(line.first, line.step, line.count);
    });
    coverage_.lacking += static_cast<std::int64_t>(before - samples.size()) * elements_of_sample;
  }

  /// Of the elements among which those of a part were chosen. An audit chooses some for what was computed for them, so
  /// that these are all elements of the result, whichever are judged.
  double share_of(std::size_t samples, std::size_t all, std::int64_t elements_of_sample = 1) const {
    const double among =
        is_sampled() ? static_cast<double>(computed_.size() / elements_of_sample) : static_cast<double>(all);
    return static_cast<double>(samples) / std::max(among, 1.0);
  }

  /// Calls cut(numbers of some of the samples) for all of them, so many at a time.
  template <class Cut>
  void in_turn(const Numbers& samples, std::int64_t at_once, const Cut& cut) {
    const auto step = static_cast<std::size_t>(std::max<std::int64_t>(at_once, 1));
    for (std::size_t first = 0; first < samples.size(); first += step) {
      const std::size_t last = std::min(first + step, samples.size());
      if (!cut(Numbers(samples.begin() + static_cast<std::ptrdiff_t>(first),
                       samples.begin() + static_cast<std::ptrdiff_t>(last))))
        return;
    }
  }

  // ---- functions of single elements

  void cut_elements() {
    Draft draft;
    std::vector<std::pair<ValueView, BroadcastPlace>> reads;
    Graph& graph = draft.part.graph;
    std::vector<ValueId> placed(graph_.values.size());
    const auto add_read = [&](ValueId id, ValueView view) {
      placed[id] = add_input(draft, view.type(), {});
      reads.emplace_back(std::move(view), BroadcastPlace(shape_of(id), computed_.shape()));
    };
    for (ValueId id = 0; id < graph_.values.size(); ++id) {
      if (graph_.value(id).kind == ValueKind::computed) continue;
      const ValueView view = operand_of(id);
      if (graph_.is_constant(id) && view.size() == 1) {
        placed[id] = graph.add_constant(graph_.value(id).name, finite_or_largest(view));
      } else {
        add_read(id, view);
      }
    }
    const Op op = elementwise_op(placed, draft);
    const Numbers all = chosen_elements();
    in_turn(all, most_numbers_of_part / 4, [&](Numbers samples) {
      for (const auto& [view, index] : reads)
        drop_lacking(view, samples, 1, [&index = index](std::int64_t e) {
          return Line{static_cast<std::int64_t>(index(static_cast<std::size_t>(e)))};
        });
      if (samples.empty()) return true;
      std::vector<StoredTensor> tensors;
      StoredTensor result = lines(computed_, samples, 1, 1, {});
      for (const auto& [view, index] : reads) {
        Numbers numbers;
        for (const std::int64_t e : samples)
          numbers.push_back(static_cast<std::int64_t>(index(static_cast<std::size_t>(e))));
        tensors.push_back(lines(view, numbers, 1, 1, {}));
      }
      const double share = share_of(samples.size(), all.size());
      set_infinite_aside(op, tensors, result, samples);
      return hand_out(draft, std::move(tensors), std::move(result), std::move(samples), 1, share);
    });
  }

  /// A constant; the largest float32 number stands for an infinite one, which samples that are handed out do not read
  /// where they are right.
  static StoredTensor finite_or_largest(const ValueView& view) {
    constexpr double largest = std::numeric_limits<float>::max();
    const StoredTensor tensor = view.tensor();
    const double number = tensor.to_double().values.front();
    if (std::isinf(number)) return StoredTensor::from(Tensor<double>({}, {std::copysign(largest, number)}));
    return StoredTensor(view.type(), {}, {tensor.bytes().begin(), tensor.bytes().end()});
  }

  /// Adds the one node of the part: the op itself, or all nodes as one segment.
  Op elementwise_op(const std::vector<ValueId>& placed, Draft& draft) {
    if (graph_.nodes.size() == 1) {
      std::vector<ValueId> inputs;
      for (const ValueId id : graph_.nodes.front().inputs) inputs.push_back(placed[id]);
      add_node(draft, graph_.nodes.front().op, inputs);
      return graph_.nodes.front().op;
    }
    std::vector<ValueId> inputs;
    Graph steps;
    std::vector<ValueId> inside(graph_.values.size());
    for (ValueId id = 0; id < graph_.values.size(); ++id) {
      if (graph_.value(id).kind == ValueKind::computed) continue;
      inside[id] = steps.add_input(graph_.value(id).name, graph_.value(id).type, {});
      inputs.push_back(placed[id]);
    }
    for (const Node& node : graph_.nodes) {
      std::vector<ValueId> operands;
      for (const ValueId id : node.inputs) operands.push_back(inside[id]);
      inside[node.output] = steps.add_node(node.name, node.op, std::move(operands));
    }
    steps.outputs = {inside[graph_.outputs.front()]};
    const op::Segment segment{std::make_shared<const Graph>(std::move(steps))};
    add_node(draft, segment, inputs);
    return segment;
  }

  /// Whether nothing but softmax and attention reads the result, and nothing but masks on the way to them.
  bool are_scores() {
    if (!are_scores_) are_scores_ = ScoreFinder(run_).are_scores(*record_.results[coverage_.result]);
    return *are_scores_;
  }

  /// Takes the samples out whose operands are not finite, where the result is what IEEE arithmetic makes of them; and
  /// those of scores where a mask and another number add up to minus infinity.
  void set_infinite_aside(const Op& op, std::vector<StoredTensor>& tensors, StoredTensor& result, Numbers& samples) {
    const auto is_finite = [](const StoredTensor& tensor) { return !is_float(tensor.type()) || tensor.all_finite(); };
    const bool reads_finite = std::all_of(tensors.begin(), tensors.end(), is_finite) && has_finite_constants();
    if (reads_finite && is_finite(result)) return;
    const std::optional<FormatId> id = float_format(result.type());
    std::vector<std::vector<double>> numbers;
    for (const StoredTensor& tensor : tensors) numbers.push_back(tensor.to_double().values);
    const std::vector<double> computed = result.to_double().values;
    std::vector<bool> keeps(samples.size(), true);
    for (std::size_t s = 0; s < samples.size(); ++s) {
      std::vector<double> operands;
      for (const std::vector<double>& values : numbers) operands.push_back(values[s]);
      operands = with_constants(operands);
      if (std::all_of(operands.begin(), operands.end(), [](double x) { return std::isfinite(x); })) {
        const bool may_be_masks = std::holds_alternative<op::Add>(op) && id && computed[s] == -HUGE_VAL;
        keeps[s] = !(may_be_masks && is_masked_beyond(operands[0], operands[1], format(*id)) && are_scores());
      } else {
        const std::optional<double> expected = result_of_infinite(op, operands);
        const bool reads_infinite = expected && !(std::holds_alternative<op::Choice>(op) && std::isfinite(*expected));
        keeps[s] = !(reads_infinite && are_same(*expected, computed[s]));
      }
      coverage_.infinite += keeps[s] ? 0 : 1;
    }
    for (StoredTensor& tensor : tensors) tensor = kept(tensor, keeps);
    result = kept(result, keeps);
    Numbers left;
    for (std::size_t s = 0; s < samples.size(); ++s)
      if (keeps[s]) left.push_back(samples[s]);
    samples = std::move(left);
  }

  bool has_finite_constants() const {
    return std::all_of(graph_.values.begin(), graph_.values.end(), [](const Value& value) {
      return value.kind != ValueKind::constant || !is_float(value.type) || value.constant.all_finite();
    });
  }

  /// The operands of the one node, or of the segment that several are, of those that the samples have and of constants.
  std::vector<double> with_constants(const std::vector<double>& of_sample) const {
    std::vector<std::size_t> position(graph_.values.size(), 0);
    std::vector<std::optional<double>> fixed(graph_.values.size());
    std::size_t next = 0;
    for (ValueId id = 0; id < graph_.values.size(); ++id) {
      if (graph_.value(id).kind == ValueKind::computed) continue;
      if (graph_.is_constant(id) && graph_.value(id).constant.size() == 1) {
        fixed[id] = graph_.value(id).constant.to_double().values.front();
      } else {
        position[id] = next++;
      }
    }
    std::vector<double> operands;
    const auto add = [&](ValueId id) { operands.push_back(fixed[id] ? *fixed[id] : of_sample[position[id]]); };
    if (graph_.nodes.size() == 1) {
      for (const ValueId id : graph_.nodes.front().inputs) add(id);
      return operands;
    }
    for (ValueId id = 0; id < graph_.values.size(); ++id)
      if (graph_.value(id).kind != ValueKind::computed) add(id);
    return operands;
  }

  static StoredTensor kept(const StoredTensor& tensor, const std::vector<bool>& keeps) {
    const std::size_t width = tensor.bytes().size() / std::max<std::size_t>(keeps.size(), 1);
    std::vector<std::byte> bytes;
    for (std::size_t s = 0; s < keeps.size(); ++s)
      if (keeps[s])
        bytes.insert(bytes.end(), tensor.bytes().begin() + static_cast<std::ptrdiff_t>(s * width),
                     tensor.bytes().begin() + static_cast<std::ptrdiff_t>((s + 1) * width));
    Shape shape = tensor.shape();
    shape.front() = std::count(keeps.begin(), keeps.end(), true);
    return StoredTensor(tensor.type(), std::move(shape), std::move(bytes));
  }

  // ---- moves of elements that were recorded as computed

  void cut_moves(const Node& root) {
    std::vector<Shape> shapes;
    std::vector<ValueView> views;
    for (const ValueId id : root.inputs) {
      shapes.push_back(shape_of(id));
      views.push_back(operand_of(id));
    }
    const Sources sources(root.op, shapes, shape_of(root.output));
    const double fill = fill_value(root.op);
    Draft draft;
    const ValueId x = add_input(draft, ElementType::f64, {});
    add_node(draft, op::Identity{}, {x});
    const Numbers all = chosen_elements();
    in_turn(all, most_numbers_of_part / 4, [&](const Numbers& drawn) {
      Numbers samples;
      Tensor<double> moved;
      for (const std::int64_t e : drawn) {
        const ElementSource source = sources.at(e);
        const auto from = static_cast<std::int64_t>(source.index);
        if (!source.is_fill() && !views[source.input].has(from, 1, 1)) {
          ++coverage_.lacking;
          continue;
        }
        moved.values.push_back(source.is_fill() ? fill
                                                : views[source.input].range(from, {1}).to_double().values.front());
        samples.push_back(e);
      }
      if (samples.empty()) return true;
      moved.shape = {static_cast<std::int64_t>(samples.size())};
      std::vector<StoredTensor> tensors = {StoredTensor::from(moved)};
      StoredTensor result = lines(computed_, samples, 1, 1, {});
      const double share = share_of(samples.size(), all.size());
      set_infinite_aside(op::Identity{}, tensors, result, samples);
      return hand_out(draft, std::move(tensors), std::move(result), std::move(samples), 1, share);
    });
  }

  // ---- products

  struct Factors {
    ProductPlan plan;
    double alpha = 1.0, beta = 1.0;
    ValueView a, b;
    std::optional<ValueView> c;
    Shape c_shape;
  };

  void cut_product(const Node& root, const op::Gemm& gemm) {
    Factors factors{plan_product(gemm, shape_of(root.inputs[0]), shape_of(root.inputs[1])),
                    gemm.alpha,
                    gemm.beta,
                    operand_of(root.inputs[0]),
                    operand_of(root.inputs[1]),
                    std::nullopt,
                    {}};
    if (root.inputs.size() > 2) {
      factors.c = operand_of(root.inputs[2]);
      factors.c_shape = shape_of(root.inputs[2]);
    }
    cut_product(factors, shape_of(root.output));
  }

  void cut_product(const Node& root, const op::MatMul& product) {
    const Factors factors{plan_product(product, shape_of(root.inputs[0]), shape_of(root.inputs[1])),
                          1.0,
                          1.0,
                          operand_of(root.inputs[0]),
                          operand_of(root.inputs[1]),
                          std::nullopt,
                          {}};
    cut_product(factors, shape_of(root.output));
  }

  void add_product(Draft& draft, const Factors& factors, bool is_transposed, const std::vector<ValueId>& inputs) {
    add_node(draft, op::Gemm{factors.alpha, factors.beta, false, is_transposed}, inputs);
  }

  void cut_product(const Factors& factors, const Shape& result) {
    const bool masks = factors.c && factors.c->is_whole() && !factors.c->tensor().all_finite();
    if (masks || is_sampled() || !factors.a.is_whole() || !factors.b.is_whole() || !computed_.is_whole() ||
        (factors.c && !factors.c->is_whole()))
      return cut_product_by_elements(factors, result);
    cut_product_by_rows(factors, result);
  }

  /// Elements of one row of the result a sample: a row of the left factor times some columns of the right one.
  void cut_product_by_elements(const Factors& factors, const Shape& result) {
    const ProductPlan& plan = factors.plan;
    std::optional<BroadcastPlace> c_index;
    if (factors.c) c_index.emplace(factors.c_shape, result);
    const auto row = [&](std::int64_t e) { return e / plan.n; };  // over all batches
    const auto a_line = [&](std::int64_t e) {
      return Line{static_cast<std::int64_t>(plan.a_index(row(e) / plan.m, row(e) % plan.m, 0)), plan.a_col, plan.k};
    };
    const auto b_line = [&](std::int64_t e) {
      return Line{static_cast<std::int64_t>(plan.b_index(row(e) / plan.m, 0, e % plan.n)), plan.b_row, plan.k};
    };
    const auto c_line = [&](std::int64_t e) {
      return Line{static_cast<std::int64_t>((*c_index)(static_cast<std::size_t>(e)))};
    };
    const auto firsts = [](const Numbers& elements, const auto& line_of) {
      Numbers numbers;
      for (const std::int64_t e : elements) numbers.push_back(line_of(e).first);
      return numbers;
    };
    Numbers all = chosen_elements([&] {
      const auto addend_of = [&](std::int64_t e) { return c_line(e).first; };
      return suspects_of_product({plan, factors.alpha, factors.beta, factors.a, factors.b,
                                  factors.c ? &*factors.c : nullptr, addend_of, computed_},
                                 random_);
    });
    drop_lacking(factors.a, all, 1, a_line);
    drop_lacking(factors.b, all, 1, b_line);
    if (factors.c) drop_lacking(*factors.c, all, 1, c_line);
    if (factors.c) set_infinite_addends_aside(*factors.c, all, c_line);
    for (const auto& [width, elements] : by_width(all, plan.n)) {
      Draft draft;
      std::vector<ValueId> inputs = {add_input(draft, factors.a.type(), {1, plan.k}),
                                     add_input(draft, factors.b.type(), {width, plan.k})};
      if (factors.c) inputs.push_back(add_input(draft, factors.c->type(), {1, width}));
      add_product(draft, factors, true, inputs);
      const std::int64_t samples = most_numbers_of_part / std::max<std::int64_t>(plan.k * (width + 1), 1);
      bool goes_on = true;
      in_turn(elements, width * std::max<std::int64_t>(samples, 1), [&, width = width](const Numbers& some) {
        Numbers leading;
        for (std::size_t i = 0; i < some.size(); i += static_cast<std::size_t>(width)) leading.push_back(some[i]);
        const auto in_rows = [&](StoredTensor tensor, const Shape& of_sample) {
          Shape shape = of_sample;
          shape.insert(shape.begin(), static_cast<std::int64_t>(leading.size()));
          return StoredTensor(tensor.type(), std::move(shape), tensor.bytes(),
                              std::make_shared<const StoredTensor>(tensor));
        };
        std::vector<StoredTensor> tensors = {
            lines(factors.a, firsts(leading, a_line), plan.a_col, plan.k, {1, plan.k}),
            in_rows(lines(factors.b, firsts(some, b_line), plan.b_row, plan.k, {plan.k}), {width, plan.k})};
        if (factors.c) tensors.push_back(in_rows(lines(*factors.c, firsts(some, c_line), 1, 1, {}), {1, width}));
        StoredTensor computed = in_rows(lines(computed_, some, 1, 1, {}), {1, width});
        const double share = share_of(some.size(), all.size());
        goes_on = hand_out(draft, std::move(tensors), std::move(computed), std::move(leading), 1, share, some);
        return goes_on;
      });
      if (!goes_on) return;
    }
  }

  /// A mask of minus infinity may be added by the product: its result is infinite then.
  template <class LineOf>
  void set_infinite_addends_aside(const ValueView& addend, Numbers& elements, const LineOf& line_of) {
    Numbers firsts;
    for (const std::int64_t e : elements) firsts.push_back(line_of(e).first);
    if (elements.empty()) return;
    const std::vector<double> added = lines(addend, firsts, 1, 1, {}).to_double().values;
    const std::vector<double> computed = lines(computed_, elements, 1, 1, {}).to_double().values;
    Numbers left;
    for (std::size_t i = 0; i < elements.size(); ++i) {
      const bool is_masked = std::isinf(added[i]) && are_same(added[i], computed[i]);
      if (!is_masked) left.push_back(elements[i]);
      coverage_.infinite += is_masked ? 1 : 0;
    }
    elements = std::move(left);
  }

  /// Elements, ascending, in groups of one row each, by the number of elements of a group: powers of 2, since products
  /// with few columns take as long as those with more.
  static std::map<std::int64_t, Numbers> by_width(const Numbers& elements, std::int64_t row_length) {
    constexpr std::size_t widest = 256;
    std::map<std::int64_t, Numbers> groups;
    for (std::size_t first = 0, last = 0; first < elements.size(); first = last) {
      const std::int64_t row = elements[first] / row_length;
      while (last < elements.size() && elements[last] / row_length == row) ++last;
      for (std::size_t width = widest; first < last; width /= 2)
        for (; last - first >= width; first += width) {
          Numbers& group = groups[static_cast<std::int64_t>(width)];
          group.insert(group.end(), elements.begin() + static_cast<std::ptrdiff_t>(first),
                       elements.begin() + static_cast<std::ptrdiff_t>(first + width));
        }
    }
    return groups;
  }

  /// Elements of one row of the result a sample, some columns of the right factor a constant.
  void cut_product_by_rows(const Factors& factors, const Shape& result) {
    const ProductPlan& plan = factors.plan;
    if (plan.a_col != 1) return cut_product_by_elements(factors, result);
    std::optional<BroadcastPlace> c_index;
    if (factors.c) c_index.emplace(factors.c_shape, result);
    const std::int64_t at_once =
        std::clamp<std::int64_t>(most_numbers_of_right / std::max<std::int64_t>(plan.k, 1), 1, plan.n);
    for (std::int64_t batch = 0; batch < plan.batches; ++batch)
      for (std::int64_t column = 0; column < plan.n; column += at_once)
        if (!cut_columns(factors, c_index, batch, column, std::min(at_once, plan.n - column))) return;
  }

  /// Columns [column, column + width) of a batch. Returns whether to go on.
  bool cut_columns(const Factors& factors, const std::optional<BroadcastPlace>& c_index, std::int64_t batch,
                   std::int64_t column, std::int64_t width) {
    const ProductPlan& plan = factors.plan;
    Draft draft;
    const bool is_transposed = plan.b_row == 1;
    std::vector<ValueId> inputs = {add_input(draft, factors.a.type(), {plan.k})};
    inputs.push_back(draft.part.graph.add_constant("right", columns_of(factors, batch, column, width)));
    const std::int64_t first = batch * plan.m * plan.n + column;
    const auto addend_of = [&](std::int64_t element) {
      return static_cast<std::int64_t>((*c_index)(static_cast<std::size_t>(element)));
    };
    const bool has_rows = factors.c && plan.m > 1 && addend_of(first) != addend_of(first + plan.n);
    const bool is_spread = factors.c && width > 1 && addend_of(first) == addend_of(first + 1);
    const std::int64_t addends_of_row = is_spread ? 1 : width;
    if (factors.c)
      inputs.push_back(
          has_rows ? add_input(draft, factors.c->type(), {addends_of_row})
                   : draft.part.graph.add_constant("addend", factors.c->range(addend_of(first), {addends_of_row})));
    add_product(draft, factors, is_transposed, inputs);
    Numbers rows(static_cast<std::size_t>(plan.m));
    std::iota(rows.begin(), rows.end(), std::int64_t{0});
    const double share_of_columns =
        static_cast<double>(width) / static_cast<double>(std::max<std::int64_t>(plan.n * plan.batches, 1));
    bool goes_on = true;
    in_turn(rows, std::max<std::int64_t>(4 * most_numbers_of_part / std::max<std::int64_t>(width + plan.k, 1), 64),
            [&](const Numbers& samples) {
              Numbers left, places, addends;
              for (const std::int64_t i : samples) {
                left.push_back(static_cast<std::int64_t>(plan.a_index(batch, i, 0)));
                places.push_back(first + i * plan.n);
                if (has_rows) addends.push_back(addend_of(places.back()));
              }
              std::vector<StoredTensor> tensors = {lines(factors.a, left, 1, plan.k, {plan.k})};
              if (has_rows) tensors.push_back(lines(*factors.c, addends, 1, addends_of_row, {addends_of_row}));
              StoredTensor computed = lines(computed_, places, 1, width, {width});
              const double share = share_of_columns * share_of(samples.size(), static_cast<std::size_t>(plan.m));
              goes_on = hand_out(draft, std::move(tensors), std::move(computed), std::move(places), 1, share);
              return goes_on;
            });
    return goes_on;
  }

  /// [k, width], or [width, k] where the right factor lies transposed.
  static StoredTensor columns_of(const Factors& factors, std::int64_t batch, std::int64_t column, std::int64_t width) {
    const ProductPlan& plan = factors.plan;
    const std::int64_t first = plan.b_batch[static_cast<std::size_t>(batch)];
    if (plan.b_row == 1) return factors.b.range(first + column * plan.k, {width, plan.k});
    if (width == plan.n) return factors.b.range(first, {plan.k, plan.n});
    Numbers starts;
    for (std::int64_t row = 0; row < plan.k; ++row) starts.push_back(first + row * plan.n + column);
    return lines(factors.b, starts, 1, width, {width});
  }

  // ---- sums of parts

  /// The operands of a sum of parts of one shape, which are stacked along a new axis, in their order (all-reduce); empty: it
  /// is none. A division of the sum by one number may follow.
  std::vector<ValueId> parts_of_sum() const {
    const auto op_at = [&](ValueId id) {
      const auto producer = graph_.producer(before_reshaping(id));
      return producer ? &graph_.nodes[*producer] : nullptr;
    };
    const Node* root = op_at(graph_.outputs.front());
    if (root != nullptr && std::holds_alternative<op::Div>(root->op) && graph_.is_constant(root->inputs[1]) &&
        graph_.value(root->inputs[1]).constant.size() == 1)
      root = op_at(root->inputs[0]);
    const auto* sum = root == nullptr ? nullptr : std::get_if<op::ReduceSum>(&root->op);
    const Node* stack = sum == nullptr ? nullptr : op_at(root->inputs[0]);
    if (stack == nullptr || !std::holds_alternative<op::Concat>(stack->op)) return {};
    const bool is_along_new_axis =
        sum->axes == std::vector<std::int64_t>{0} && std::get<op::Concat>(stack->op).axis == 0;
    const auto is_one_part = [&](ValueId id) {
      return shape_of(id).front() == 1 && !graph_.producer(before_reshaping(id)) &&
             element_count(shape_of(id)) == computed_.size();
    };
    return is_along_new_axis && std::all_of(stack->inputs.begin(), stack->inputs.end(), is_one_part)
               ? stack->inputs
               : std::vector<ValueId>{};
  }

  /// One element of every part a sample. Returns whether it is such a sum.
  bool cut_sum_of_parts() {
    const std::vector<ValueId> parts = parts_of_sum();
    if (parts.empty()) return false;
    std::vector<ValueView> views;
    for (const ValueId part : parts) views.push_back(operand_of(part));
    const auto is_of_first_type = [&](const ValueView& view) { return view.type() == views.front().type(); };
    if (!std::all_of(views.begin(), views.end(), is_of_first_type)) return false;
    const auto count = static_cast<std::int64_t>(parts.size());
    Draft draft;
    const ValueId x = add_input(draft, views.front().type(), {count});
    const Node& last = graph_.nodes[*graph_.producer(before_reshaping(graph_.outputs.front()))];
    if (std::holds_alternative<op::Div>(last.op)) {
      Graph steps;
      const ValueId stacked = steps.add_input("parts", views.front().type(), {});
      const ValueId total = steps.add_node("sum", op::ReduceSum{{-1}, false}, {stacked});
      const ValueId number = steps.add_constant("number", graph_.value(last.inputs[1]).constant);
      steps.outputs = {steps.add_node("mean", op::Div{}, {total, number})};
      add_node(draft, op::Segment{std::make_shared<const Graph>(std::move(steps))}, {x});
    } else {
      add_node(draft, op::ReduceSum{{-1}, false}, {x});
    }
    Numbers all = chosen_elements();
    for (const ValueView& view : views) drop_lacking(view, all, 1, [](std::int64_t e) { return Line{e}; });
    in_turn(all, std::max<std::int64_t>(most_numbers_of_part / count, 1), [&](const Numbers& samples) {
      const std::size_t width = bytes_per_element(views.front().type());
      std::vector<std::byte> bytes(samples.size() * parts.size() * width);
      for (std::size_t part = 0; part < views.size(); ++part) {
        const StoredTensor column = lines(views[part], samples, 1, 1, {});
        for (std::size_t s = 0; s < samples.size(); ++s)
          std::memcpy(bytes.data() + (s * views.size() + part) * width, column.bytes().data() + s * width, width);
      }
      std::vector<StoredTensor> tensors;
      tensors.emplace_back(views.front().type(), Shape{static_cast<std::int64_t>(samples.size()), count},
                           std::move(bytes));
      StoredTensor computed = lines(computed_, samples, 1, 1, {});
      const double share = share_of(samples.size(), all.size());
      return hand_out(draft, std::move(tensors), std::move(computed), samples, 1, share);
    });
    return true;
  }

  // ---- rows of softmax, norms and reductions

  /// The lines of a value along some axes, which are brought to the end.
  struct Rows {
    ValueView view;
    std::int64_t count = 0, length = 0;
  };

  /// The value with these axes last, and the others in their order; empty: its elements do not lie regularly.
  static std::optional<ValueView> with_last(const ValueView& view, const Shape& shape, const std::vector<bool>& last) {
    std::optional<ValueView> shaped = view.reshaped(shape);
    if (!shaped) shaped = ValueView(view.tensor(), view.shape()).reshaped(shape);
    std::vector<std::size_t> order;
    for (const bool is_last : {false, true})
      for (std::size_t axis = 0; axis < shape.size(); ++axis)
        if (last[axis] == is_last) order.push_back(axis);
    return shaped->transposed(order);
  }

  std::int64_t drawn_rows(std::int64_t length) const {
    return std::min(options_.draws,
                    std::max<std::int64_t>(most_numbers_of_sampled_rows / std::max<std::int64_t>(length, 1), 16));
  }

  /// Rows of which the whole result is recorded. `longest`: elements of the longest row that a row of the result needs.
  Numbers chosen_rows(const ValueView& results, std::int64_t count, std::int64_t length, std::int64_t longest) {
    Numbers rows = chosen(count, drawn_rows(longest));
    if (is_sampled()) add_chosen(rows, outlying_rows(results, length));
    if (results.is_whole()) return rows;
    std::erase_if(rows, [&](std::int64_t row) { return !results.has(row * length, 1, length); });
    return rows;
  }

  template <class Op>
  void cut_softmax(const Node& root, const Op& softmax, const Op& of_row) {
    const Shape& shape = shape_of(root.inputs[0]);
    const std::size_t axis = normalized_axis(softmax.axis, shape.size());
    std::vector<bool> last(shape.size(), false);
    for (std::size_t i = axis; i < (softmax.all_trailing_axes ? shape.size() : axis + 1); ++i) last[i] = true;
    const ValueView x = *with_last(operand_of(root.inputs[0]), shape, last);
    const ValueView y = *with_last(computed_, shape, last);
    std::int64_t length = 1;
    for (std::size_t i = 0; i < shape.size(); ++i) length *= last[i] ? shape[i] : 1;
    cut_rows(x, y, length, std::is_same_v<Op, op::Softmax>, is_at_end(last),
             [&](Draft& draft, ValueId row, std::optional<ValueId> kept) {
               if (kept) {
                 add_node(draft, op::MaskedSoftmax{-1, {}, {}}, {row, *kept});
               } else {
                 add_node(draft, of_row, {row});
               }
             });
  }

  template <class Op>
  void cut_norm(const Node& root, std::int64_t first_axis, const Op& of_row) {
    const Shape& shape = shape_of(root.inputs[0]);
    const std::size_t axis = normalized_axis(first_axis, shape.size());
    std::vector<bool> last(shape.size(), false);
    std::fill(last.begin() + static_cast<std::ptrdiff_t>(axis), last.end(), true);
    const ValueView x = *with_last(operand_of(root.inputs[0]), shape, last);
    const ValueView y = *with_last(computed_, shape, last);
    const std::int64_t length = element_count(Shape(shape.begin() + static_cast<std::ptrdiff_t>(axis), shape.end()));
    std::vector<StoredTensor> scales;
    for (std::size_t slot = 1; slot < root.inputs.size(); ++slot) {
      const ValueView scale = operand_of(root.inputs[slot]);
      if (scale.size() != length) return cut_whole();
      scales.push_back(scale.range(0, {length}));
    }
    cut_rows(x, y, length, false, true, [&](Draft& draft, ValueId row, std::optional<ValueId>) {
      std::vector<ValueId> inputs = {row};
      for (const StoredTensor& scale : scales)
        inputs.push_back(draft.part.graph.add_constant(fmt::format("scale/{}", inputs.size()), scale));
      add_node(draft, of_row, inputs);
    });
  }

  static bool is_at_end(const std::vector<bool>& last) { return std::is_sorted(last.begin(), last.end()); }

  /// Rows of `length` elements, of which the op makes as many. `masks`: minus infinity hides an element.
  template <class AddNode>
  void cut_rows(const ValueView& x, const ValueView& y, std::int64_t length, bool masks, bool is_in_order,
                const AddNode& add) {
    if (!is_in_order) return cut_whole();
    const std::int64_t count = length == 0 ? 0 : x.size() / length;
    const Numbers all = chosen_rows(y, count, length, length);
    const auto line_of = [&](std::int64_t row) { return Line{row * length, 1, length}; };
    in_turn(all, std::max<std::int64_t>(most_numbers_of_part / std::max<std::int64_t>(length, 1), 1),
            [&](Numbers rows) {
              drop_lacking(x, rows, length, line_of);
              if (rows.empty()) return true;
              Numbers places;
              for (const std::int64_t row : rows) places.push_back(row * length);
              std::vector<StoredTensor> tensors = {lines(x, places, 1, length, {length})};
              Draft draft;
              const ValueId row = add_input(draft, x.type(), {length});
              std::optional<ValueId> kept;
              if (masks && !tensors.front().all_finite()) {
                kept = add_input(draft, ElementType::boolean, {length});
                tensors.push_back(seen(tensors.front()));
                tensors.front() = without_minus_infinity(tensors.front());
              }
              add(draft, row, kept);
              StoredTensor computed = lines(y, places, 1, length, {length});
              const double share = share_of(rows.size(), all.size(), length);
              return hand_out(draft, std::move(tensors), std::move(computed), std::move(places), 1, share);
            });
  }

  static bool is_minus_infinity(double x) { return x == -std::numeric_limits<double>::infinity(); }

  static StoredTensor seen(const StoredTensor& scores) {
    std::vector<std::byte> truths;
    for (const double score : scores.to_double().values) truths.push_back(std::byte{!is_minus_infinity(score)});
    return StoredTensor(ElementType::boolean, scores.shape(), std::move(truths));
  }

  /// The score of an element that is not seen may be any number: 0.
  static StoredTensor without_minus_infinity(const StoredTensor& scores) {
    std::vector<std::byte> bytes(scores.bytes().begin(), scores.bytes().end());
    const std::size_t width = bytes_per_element(scores.type());
    const Tensor<double> numbers = scores.to_double();
    for (std::size_t i = 0; i < numbers.size(); ++i)
      if (is_minus_infinity(numbers.values[i]))
        std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(i * width), width, std::byte{0});
    return StoredTensor(scores.type(), scores.shape(), std::move(bytes));
  }

  template <class Op>
  void cut_reduction(const Node& root, Op reduction) {
    const Shape& shape = shape_of(root.inputs[0]);
    const std::vector<bool> last = reduced_axes(reduction.axes, shape.size());
    const ValueView x = *with_last(operand_of(root.inputs[0]), shape, last);
    std::int64_t length = 1;
    for (std::size_t i = 0; i < shape.size(); ++i) length *= last[i] ? shape[i] : 1;
    if (length == 0) return cut_whole();
    reduction.axes = {-1};
    reduction.keep_axes = false;
    Draft draft;
    add_node(draft, reduction, {add_input(draft, x.type(), {length})});
    const std::int64_t draws = drawn_rows(length);
    const Numbers all = chosen(computed_.size(), draws);
    in_turn(all, std::max<std::int64_t>(most_numbers_of_part / length, 1), [&](Numbers samples) {
      drop_lacking(x, samples, 1, [&](std::int64_t e) { return Line{e * length, 1, length}; });
      if (samples.empty()) return true;
      Numbers firsts;
      for (const std::int64_t e : samples) firsts.push_back(e * length);
      std::vector<StoredTensor> tensors = {lines(x, firsts, 1, length, {length})};
      StoredTensor computed = lines(computed_, samples, 1, 1, {});
      const double share = share_of(samples.size(), all.size());
      return hand_out(draft, std::move(tensors), std::move(computed), std::move(samples), 1, share);
    });
  }

  // ---- several nodes that compute every row by itself

  /// Whether a node computes every row of its last axis from the same rows of its operands.
  bool works_by_rows(const Node& node) const {
    const std::size_t rank = shape_of(node.output).size();
    const auto is_last = [&](std::int64_t axis) { return normalized_axis(axis, rank) + 1 == rank; };
    return is_elementwise(node.op) ||
           std::visit(Overloaded{
                          [&](const AnyReduction auto& reduction) {
                            return reduction.keep_axes && reduction.axes.size() == 1 && is_last(reduction.axes.front());
                          },
                          [&](const op::Softmax& softmax) { return is_last(softmax.axis); },
                          [&](const op::LogSoftmax& softmax) { return is_last(softmax.axis); },
                          [&](const op::LayerNormalization& norm) { return is_last(norm.axis); },
                          [&](const op::RMSNormalization& norm) { return is_last(norm.axis); },
                          [&](const op::Slice& slice) { return slice.axes.size() == 1 && is_last(slice.axes.front()); },
                          [](const auto&) { return false; },
                      },
                      node.op);
  }

  /// A node of the same op whose axis is counted from the end.
  static Op with_last_axis(Op op) {
    std::visit(Overloaded{
                   [](AnyReduction auto& reduction) { reduction.axes = {-1}; },
                   [](op::Softmax& softmax) { softmax.axis = -1; },
                   [](op::LogSoftmax& softmax) { softmax.axis = -1; },
                   [](op::LayerNormalization& norm) { norm.axis = -1; },
                   [](op::RMSNormalization& norm) { norm.axis = -1; },
                   [](op::Slice& slice) { slice.axes = {-1}; },
                   [](auto&) {},
               },
               static_cast<OpAlternatives&>(op));
    return op;
  }

  /// Returns false, and hands out nothing, where some node or operand is not of that kind.
  bool cut_segment_by_rows() {
    const Shape& shape = computed_.shape();
    if (shape.size() < 2) return false;
    const Shape outer(shape.begin(), shape.end() - 1);
    // A value has a row for every row of the result, or is the same for all.
    const auto has_rows = [&](const Shape& of) { return Shape(of.begin(), of.end() - (of.empty() ? 0 : 1)) == outer; };
    const auto is_same = [](const Shape& of) { return of.empty() || element_count(of) == of.back(); };
    for (ValueId id = 0; id < graph_.values.size(); ++id)
      if (!has_rows(shapes_[id]) && !(is_same(shapes_[id]) && graph_.value(id).kind != ValueKind::computed))
        return false;
    if (!all_nodes(graph_, [&](const Node& node) { return works_by_rows(node); })) return false;
    Draft draft;
    Graph steps;
    std::vector<ValueId> inside(graph_.values.size()), inputs;
    std::vector<std::pair<ValueView, std::int64_t>> reads;  // by input of the draft: the view and the length of a row
    for (ValueId id = 0; id < graph_.values.size(); ++id) {
      if (graph_.value(id).kind == ValueKind::computed) continue;
      const ValueView view = operand_of(id);
      inside[id] = steps.add_input(graph_.value(id).name, view.type(), {});
      if (has_rows(shapes_[id])) {
        const std::int64_t length = shapes_[id].back();
        inputs.push_back(add_input(draft, view.type(), {length}));
        reads.emplace_back(view, length);
      } else {
        const Shape row = shapes_[id].empty() ? Shape{} : Shape{shapes_[id].back()};
        inputs.push_back(draft.part.graph.add_constant(graph_.value(id).name, view.range(0, row)));
      }
    }
    for (const Node& node : graph_.nodes) {
      std::vector<ValueId> operands;
      for (const ValueId id : node.inputs) operands.push_back(inside[id]);
      inside[node.output] = steps.add_node(node.name, with_last_axis(node.op), std::move(operands));
    }
    steps.outputs = {inside[graph_.outputs.front()]};
    add_node(draft, op::Segment{std::make_shared<const Graph>(std::move(steps))}, inputs);
    const std::int64_t length = shape.back();
    std::int64_t longest = length;
    for (const auto& [view, of_row] : reads) longest = std::max(longest, of_row);
    const Numbers all = chosen_rows(computed_, computed_.size() / std::max<std::int64_t>(length, 1), length, longest);
    in_turn(all, std::max<std::int64_t>(most_numbers_of_part / std::max<std::int64_t>(longest, 1), 1),
            [&](Numbers rows) {
              const auto firsts = [&](std::int64_t of_row) {
                Numbers numbers;
                for (const std::int64_t row : rows) numbers.push_back(row * of_row);
                return numbers;
              };
              for (const auto& [view, of_row] : reads)
                drop_lacking(view, rows, length, [of_row = of_row](std::int64_t row) {
                  return Line{row * of_row, 1, of_row};
                });
              if (rows.empty()) return true;
              std::vector<StoredTensor> tensors;
              for (const auto& [view, of_row] : reads)
                tensors.push_back(lines(view, firsts(of_row), 1, of_row, {of_row}));
              StoredTensor computed = lines(computed_, firsts(length), 1, length, {length});
              const double share = share_of(rows.size(), all.size(), length);
              return hand_out(draft, std::move(tensors), std::move(computed), firsts(length), 1, share);
            });
    return true;
  }

  // ---- attention

  /// One query of one head a part, with the keys that it sees.
  void cut_attention(const Node& root, const op::Attention& attention) {
    const Shape q = shape_of(root.inputs[0]), k = shape_of(root.inputs[1]), v = shape_of(root.inputs[2]);
    const bool is_plain = q.size() == 4 && k.size() == 4 && v.size() == 4 &&
                          q[1] % std::max<std::int64_t>(k[1], 1) == 0 &&
                          attention.result == op::Attention::Result::attended;
    if (!is_plain) return cut_whole();
    const ValueView query = operand_of(root.inputs[0]), key = operand_of(root.inputs[1]);
    const ValueView value = operand_of(root.inputs[2]);
    const Shape scores = {q[0], q[1], q[2], k[2]};
    std::optional<ValueView> addend;
    std::optional<BroadcastPlace> addend_index, visible_index;
    if (root.inputs.size() > 3) {
      addend = operand_of(root.inputs[3]);
      addend_index.emplace(shape_of(root.inputs[3]), scores);
    }
    if (!attention.visible.empty())
      visible_index.emplace(attention.visible_shape.empty() ? Shape{1} : attention.visible_shape, scores);
    const std::int64_t shared = q[1] / std::max<std::int64_t>(k[1], 1);
    const std::int64_t draws = std::min(
        options_.draws,
        std::max<std::int64_t>(most_numbers_of_sampled_heads / std::max<std::int64_t>(k[2] * (k[3] + v[3]), 1), 8));
    Numbers queries = chosen(q[0] * q[1] * q[2], draws);
    if (!computed_.is_whole())
      std::erase_if(queries, [&](std::int64_t at) { return !computed_.has(at * v[3], 1, v[3]); });
    for (const std::int64_t at : queries) {
      const std::int64_t i = at % q[2], head = at / q[2], n = head / q[1];
      const std::int64_t key_head = n * k[1] + head % q[1] / shared;
      Numbers seen, keys, values, addends;
      for (std::int64_t j = 0; j < k[2]; ++j) {
        const std::int64_t score = at * k[2] + j;
        if (attention.is_causal && j > i + attention.first_query) continue;
        if (visible_index && !attention.visible[(*visible_index)(static_cast<std::size_t>(score))]) continue;
        seen.push_back(j);
        keys.push_back((key_head * k[2] + j) * k[3]);
        values.push_back((key_head * k[2] + j) * v[3]);
        if (addend) addends.push_back(static_cast<std::int64_t>((*addend_index)(static_cast<std::size_t>(score))));
      }
      const auto is_there = [](const ValueView& view, const Numbers& firsts, std::int64_t count) {
        return std::all_of(firsts.begin(), firsts.end(), [&](std::int64_t f) { return view.has(f, 1, count); });
      };
      if (!query.has(at * q[3], 1, q[3]) || !is_there(key, keys, k[3]) || !is_there(value, values, v[3]) ||
          (addend && !is_there(*addend, addends, 1))) {
        coverage_.lacking += v[3];
        continue;
      }
      if (seen.empty()) continue;
      const auto count = static_cast<std::int64_t>(seen.size());
      Draft draft;
      std::vector<ValueId> inputs = {add_input(draft, query.type(), {1, 1, q[3]}),
                                     add_input(draft, key.type(), {1, count, k[3]}),
                                     add_input(draft, value.type(), {1, count, v[3]})};
      const auto one = [](StoredTensor tensor, Shape shape) {
        return StoredTensor(tensor.type(), std::move(shape), tensor.bytes(),
                            std::make_shared<const StoredTensor>(tensor));
      };
      std::vector<StoredTensor> tensors = {one(lines(query, {at * q[3]}, 1, q[3], {q[3]}), {1, 1, 1, q[3]}),
                                           one(lines(key, keys, 1, k[3], {k[3]}), {1, 1, count, k[3]}),
                                           one(lines(value, values, 1, v[3], {v[3]}), {1, 1, count, v[3]})};
      if (addend) {
        inputs.push_back(add_input(draft, addend->type(), {1, 1, count}));
        tensors.push_back(one(lines(*addend, addends, 1, 1, {}), {1, 1, 1, count}));
      }
      op::Attention of_query;
      of_query.scale = attention.scale;
      of_query.softcap = attention.softcap;
      add_node(draft, of_query, inputs);
      StoredTensor computed = one(lines(computed_, {at * v[3]}, 1, v[3], {v[3]}), {1, 1, 1, v[3]});
      const double share = share_of(1, queries.size(), v[3]);
      if (!hand_out(draft, std::move(tensors), std::move(computed), {at * v[3]}, 1, share)) return;
    }
  }

  // ---- convolutions and norms of channels, where some elements are judged

  bool is_in_part() const {
    return is_sampled() || !computed_.is_whole() ||
           !std::all_of(operands_.begin(), operands_.end(), [](const ValueView& view) { return view.is_whole(); });
  }

  /// What an element of a convolution reads: numbers of the elements of its window, -1 for padding, in the order of its
  /// filter.
  class WindowReader {
  public:
    WindowReader(const op::Conv& conv, const Shape& x, const Shape& w)
        : x_(x), channels_(w[1]), filters_(w[0] / std::max<std::int64_t>(conv.groups, 1)) {
      axes_ = window_axes(conv.geometry, Shape(w.begin() + 2, w.end()), x);
      for (const WindowAxis& axis : axes_) windows_ *= axis.output;
    }
    std::int64_t windows() const { return windows_; }
    Numbers read(std::int64_t image, std::int64_t filter, std::int64_t window) const {
      Numbers origins(axes_.size());
      for (std::size_t a = axes_.size(); a-- > 0; window /= axes_[a].output)
        origins[a] = window % axes_[a].output * axes_[a].stride - axes_[a].before;
      Numbers numbers;
      const std::int64_t first = filter / filters_ * channels_;
      for (std::int64_t channel = first; channel < first + channels_; ++channel)
        add_taps(0, image * x_[1] + channel, origins, true, numbers);
      return numbers;
    }

  private:
    void add_taps(std::size_t a, std::int64_t number, const Numbers& origins, bool is_inside, Numbers& numbers) const {
      if (a == axes_.size()) return numbers.push_back(is_inside ? number : -1);
      for (std::int64_t tap = 0; tap < axes_[a].kernel; ++tap) {
        const std::int64_t at = origins[a] + tap * axes_[a].dilation;
        const bool lies_inside = is_inside && at >= 0 && at < axes_[a].input;
        add_taps(a + 1, number * axes_[a].input + (lies_inside ? at : 0), origins, lies_inside, numbers);
      }
    }

    const Shape& x_;
    std::vector<WindowAxis> axes_;
    std::int64_t channels_, filters_, windows_ = 1;
  };

  /// The product of a window and a filter an element, and its bias.
  void cut_convolution(const Node& root, const op::Conv& conv) {
    if (!is_in_part()) return cut_whole();
    const Shape &x_shape = shape_of(root.inputs[0]), &w_shape = shape_of(root.inputs[1]), &y_shape = computed_.shape();
    const WindowReader windows(conv, x_shape, w_shape);
    const ValueView x = operand_of(root.inputs[0]), w = operand_of(root.inputs[1]);
    std::optional<ValueView> bias;
    if (root.inputs.size() > 2) bias = operand_of(root.inputs[2]);
    const std::int64_t k = element_count(w_shape) / std::max<std::int64_t>(w_shape[0], 1);
    Draft draft;
    std::vector<ValueId> inputs = {add_input(draft, x.type(), {1, k}), add_input(draft, w.type(), {1, k})};
    if (bias) inputs.push_back(add_input(draft, bias->type(), {1, 1}));
    add_node(draft, op::Gemm{1.0, 1.0, false, true}, inputs);
    const auto filter_of = [&](std::int64_t e) { return e / windows.windows() % y_shape[1]; };
    Numbers all = chosen_elements();
    drop_lacking(w, all, 1, [&](std::int64_t e) { return Line{filter_of(e) * k, 1, k}; });
    if (bias) drop_lacking(*bias, all, 1, [&](std::int64_t e) { return Line{filter_of(e)}; });
    in_turn(all, most_numbers_of_part / std::max<std::int64_t>(2 * k, 1), [&](const Numbers& some) {
      const std::size_t width = bytes_per_element(x.type());
      Numbers samples, filters, biases;
      std::vector<std::byte> patches;
      for (const std::int64_t e : some) {
        const Numbers taps = windows.read(e / windows.windows() / y_shape[1], filter_of(e), e % windows.windows());
        const std::size_t before = patches.size();
        patches.resize(before + taps.size() * width);
        bool is_there = true;
        for (std::size_t i = 0; i < taps.size() && is_there; ++i)
          if (taps[i] >= 0) is_there = x.copy(taps[i], 1, 1, patches.data() + before + i * width);
        if (!is_there) {
          patches.resize(before);
          ++coverage_.lacking;
          continue;
        }
        samples.push_back(e);
        filters.push_back(filter_of(e) * k);
        biases.push_back(filter_of(e));
      }
      if (samples.empty()) return true;
      const auto count = static_cast<std::int64_t>(samples.size());
      std::vector<StoredTensor> tensors = {StoredTensor(x.type(), {count, 1, k}, std::move(patches)),
                                           lines(w, filters, 1, k, {1, k})};
      if (bias) tensors.push_back(lines(*bias, biases, 1, 1, {1, 1}));
      StoredTensor computed = lines(computed_, samples, 1, 1, {1, 1});
      const double share = share_of(samples.size(), all.size());
      return hand_out(draft, std::move(tensors), std::move(computed), std::move(samples), 1, share);
    });
  }

  /// The elements of one channel a part, its numbers constants.
  void cut_channels(const Node& root, const op::BatchNormalization& norm) {
    if (!is_in_part()) return cut_whole();
    const Shape& shape = computed_.shape();
    const ValueView x = operand_of(root.inputs[0]);
    const std::int64_t inner = element_count(Shape(shape.begin() + 2, shape.end()));
    std::map<std::int64_t, Numbers> by_channel;
    Numbers all = chosen_elements();
    drop_lacking(x, all, 1, [](std::int64_t e) { return Line{e}; });
    for (const std::int64_t e : all) by_channel[e / std::max<std::int64_t>(inner, 1) % shape[1]].push_back(e);
    for (const auto& [channel, elements] : by_channel) {
      Draft draft;
      std::vector<ValueId> inputs = {add_input(draft, x.type(), {1})};
      bool is_known = true;
      for (std::size_t slot = 1; slot < root.inputs.size(); ++slot) {
        const ValueView numbers = operand_of(root.inputs[slot]);
        is_known = is_known && numbers.has(channel, 1, 1);
        if (is_known)
          inputs.push_back(draft.part.graph.add_constant(fmt::format("number/{}", slot), numbers.range(channel, {1})));
      }
      if (!is_known) {
        coverage_.lacking += static_cast<std::int64_t>(elements.size());
        continue;
      }
      add_node(draft, norm, inputs);
      const double share = share_of(elements.size(), all.size());
      if (!hand_out(draft, {lines(x, elements, 1, 1, {1})}, lines(computed_, elements, 1, 1, {1}), elements, 1, share))
        return;
    }
  }

  // ---- anything else

  void cut_whole() {
    if (!computed_.is_whole() ||
        !std::all_of(operands_.begin(), operands_.end(), [](const ValueView& view) { return view.is_whole(); })) {
      coverage_.lacking = computed_.size();
      return;
    }
    Draft draft;
    std::vector<ValueId> inputs;
    std::vector<StoredTensor> tensors;
    for (const ValueView& operand : operands_) {
      std::vector<DeclaredDimension> declared;
      for (const std::int64_t extent : operand.shape()) declared.push_back({extent, ""});
      const ValueId id = draft.part.graph.add_input(fmt::format("operand/{}", inputs.size()), operand.type(), declared);
      draft.part.graph.values[id].has_declared_shape = true;
      draft.inputs.push_back(id);
      inputs.push_back(id);
    }
    const bool is_one = graph_.nodes.size() == 1 && all_are_inputs(graph_.nodes.front());
    if (is_one) {
      std::vector<ValueId> operands;
      for (const ValueId id : graph_.nodes.front().inputs)
        operands.push_back(inputs[static_cast<std::size_t>(std::find(graph_.inputs.begin(), graph_.inputs.end(), id) -
                                                           graph_.inputs.begin())]);
      add_node(draft, graph_.nodes.front().op, operands);
    } else {
      add_node(draft, op::Segment{std::make_shared<const Graph>(graph_)}, inputs);
    }
    // An axis 0 of extent 1 may count samples: then the part is one.
    const bool has_sample_axis = !batch_layout(draft.part.graph).batched;
    const auto as_sample = [&](const StoredTensor& tensor) {
      Shape shape = tensor.shape();
      if (has_sample_axis) shape.insert(shape.begin(), 1);
      return StoredTensor(tensor.type(), std::move(shape), tensor.bytes(),
                          std::make_shared<const StoredTensor>(tensor));
    };
    for (const ValueView& operand : operands_) tensors.push_back(as_sample(operand.tensor()));
    hand_out(draft, std::move(tensors), as_sample(computed_.tensor()), {0}, 1, 1.0);
  }

  bool all_are_inputs(const Node& node) const {
    return std::all_of(node.inputs.begin(), node.inputs.end(),
                       [&](ValueId id) { return graph_.value(id).kind == ValueKind::input; });
  }

  const RecordedRun& run_;
  const Record& record_;
  Graph graph_;
  std::vector<ValueView> operands_;  ///< by input of the graph
  ValueView computed_;
  Trace empty_;
  CutOptions options_;
  const Take& take_;
  Random random_;
  std::vector<Shape> shapes_;
  ResultCoverage coverage_;
  std::optional<bool> are_scores_;
};

bool is_unknown_op(const Unsupported& error) {
  return std::string_view(error.what()).starts_with("this version does not know the op");
}

}  // namespace

std::int64_t RecordPart::place_of(std::int64_t sample, std::int64_t element) const {
  if (elements.empty()) return places.at(static_cast<std::size_t>(sample)) + element * stride;
  const auto of_sample = static_cast<std::int64_t>(elements.size() / places.size());
  return elements.at(static_cast<std::size_t>(sample * of_sample + element));
}

std::vector<ResultCoverage> cut_record(const RecordedRun& run, std::size_t index, const CutOptions& options,
                                       const std::function<bool(RecordPart&&)>& take) {
  if (index >= run.records().size()) throw InvalidArgument("the run has no record " + std::to_string(index));
  const Record& record = run.records()[index];
  const RecordedValues values(run);
  std::vector<ResultCoverage> all;
  const auto note = [&](std::size_t result, const std::string& why) {
    ResultCoverage coverage;
    coverage.result = result;
    coverage.why_not = why;
    all.push_back(coverage);
  };
  const auto may_be_judged = [&](const std::optional<std::string>& id) {
    return id && (!run.has(*id) || is_float(run.type_of(*id)));
  };
  if (std::none_of(record.results.begin(), record.results.end(), may_be_judged)) return all;  // integers, truth values
  CallMeaning meaning;
  try {
    for (const auto& id : record.operands)
      if (id && !run.has(*id)) throw InvalidArgument("its operand " + in_quotes(*id) + " is not in the recording");
    meaning = meaning_of(values.call_of(record));
  } catch (const Unsupported& error) {
    note(0, error.what());
    all.back().is_op_unknown = is_unknown_op(error);
    return all;
  } catch (const Error& error) {
    note(0, error.what());
    return all;
  }
  bool goes_on = true;
  const auto take_part = [&](RecordPart&& part) { return goes_on = take(std::move(part)); };
  for (std::size_t result = 0; result < record.results.size() && goes_on; ++result) {
    const std::optional<std::string>& id = record.results[result];
    if (!id) continue;
    try {
      if (!run.has(*id)) throw InvalidArgument("its result " + in_quotes(*id) + " is not in the recording");
      const bool is_known = result < meaning.results.size() && meaning.results[result].has_value();
      if (!is_known || !is_float(run.type_of(*id))) continue;  // statistics, places of maxima: beside the result
      const bool is_double = run.type_of(*id) == ElementType::f64;
      if (!run.is_stored(*id)) {
        values.view(*id);  // says why, where it does not follow from others
        note(result, "");
        all.back().is_view = true;
        continue;
      }
      std::vector<std::size_t> inputs;
      Graph graph = graph_of(meaning.graph, *meaning.results[result], inputs);
      std::vector<ValueView> operands;
      for (const std::size_t input : inputs)
        operands.push_back(values.view(record.operands[meaning.slots[input]].value()));
      if (graph.nodes.empty()) {
        const ValueId x = graph.outputs.front();
        graph.outputs = {graph.add_node("copy", op::Identity{}, {x})};
      }
      Trace empty;
      empty.arithmetic = run.arithmetic_of(record, is_double);
      empty.provenance = run.provenance();
      CutOptions of_result = options;
      of_result.seed = options.seed * 0x9e3779b97f4a7c15u + index * 64 + result;
      const std::optional<RecordedPart> part = run.part_of(*id);
      all.push_back(Cutter(run, record, result, std::move(graph), std::move(operands),
                           ValueView(run.stored(*id), run.shape_of(*id), part), part ? part->draws : 0,
                           std::move(empty), of_result, take_part)
                        .cut());
    } catch (const Error& error) {
      note(result, error.what());
    }
  }
  return all;
}

}  // namespace driftbound
