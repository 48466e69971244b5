#include "soundness/random_networks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>

#include "driftbound/evaluate/evaluator.hpp"
#include "driftbound/model/layout.hpp"

namespace driftbound::soundness {
namespace {

constexpr std::int64_t batch_extent = 3;  ///< stands for the open axis 0 while a graph is built
constexpr std::int64_t largest_value = 96;

/// A value that later nodes may use.
struct Live {
  ValueId id = 0;
  Shape shape;
  bool nonnegative = false;
  bool moderate = false;  ///< within [-2, 2], whatever the weights are
};

class NetworkBuilder {
public:
  NetworkBuilder(Random& random, Family family) : random_(random), family_(family) {
    batched_ = random_.chance(0.7);
    weight_type_ = random_element_type(random_, 0.75);
    input_type_ = random_element_type(random_, 0.85);
    widest_ = random_.chance(0.1) ? 40 : random_.pick(std::vector<std::int64_t>{4, 8, 16});
  }

  Graph build() {
    const std::int64_t inputs = random_.chance(0.15) ? 2 : 1;
    for (std::int64_t i = 0; i < inputs; ++i) add_input(fmt::format("x{}", i));
    const std::int64_t depth = random_.chance(0.1) ? random_.integer(15, 40) : random_.integer(1, 12);
    while (static_cast<std::int64_t>(graph_.nodes.size()) < depth) grow();
    mark_outputs();
    return std::move(graph_);
  }

private:
  std::int64_t width() { return random_.integer(1, widest_); }

  void add_input(const std::string& name) {
    Shape shape = random_.chance(0.7) ? Shape{width()} : Shape{random_.integer(1, 5), random_.integer(1, 8)};
    std::vector<DeclaredDimension> declared;
    for (const std::int64_t extent : shape) declared.push_back({extent, ""});
    if (batched_) {
      declared.insert(declared.begin(), DeclaredDimension{-1, "batch"});
      shape.insert(shape.begin(), batch_extent);
    }
    live_.push_back({graph_.add_input(name, input_type_, declared), shape, false, false});
  }

  ValueId constant(const Shape& shape, std::size_t axis) {
    const ElementType type = random_.chance(0.9) ? weight_type_ : random_element_type(random_, 0.5);
    const std::vector<double> values = draw_values(random_, family_, Role::weight, shape, axis);
    const ValueId id = graph_.add_constant(fmt::format("w{}", graph_.values.size()), store(type, shape, values));
    return random_.chance(0.08) ? constant_expression(id, shape, axis) : id;
  }

  /// A node that depends on no input: the same for every sample.
  ValueId constant_expression(ValueId id, const Shape& shape, std::size_t axis) {
    const std::vector<double> values = draw_values(random_, family_, Role::weight, shape, axis);
    const ValueId other =
        graph_.add_constant(fmt::format("w{}", graph_.values.size()), store(weight_type_, shape, values));
    return random_.chance(0.5) ? append(op::Add{}, {id, other}) : append(op::Tanh{}, {id});
  }

  ValueId append(const Op& op, const std::vector<ValueId>& inputs) {
    return graph_.add_node(fmt::format("{}{}", name_of(op), graph_.nodes.size()), op, inputs);
  }

  Shape shape_of(ValueId id) const {
    std::vector<Shape> inputs;
    for (const ValueId input : graph_.inputs) {
      Shape shape;
      for (const DeclaredDimension& dimension : graph_.value(input).declared)
        shape.push_back(dimension.extent < 0 ? batch_extent : dimension.extent);
      inputs.push_back(shape);
    }
    return infer_shapes(graph_, inputs)[id];
  }

  Live& add(const Op& op, const std::vector<ValueId>& inputs) {
    const ValueId id = append(op, inputs);
    live_.push_back({id, shape_of(id), false, false});
    return live_.back();
  }

  /// Recent values are preferred, so that networks become deep.
  Live choose() {
    const auto count = static_cast<std::int64_t>(live_.size());
    const std::int64_t oldest = random_.chance(0.7) ? std::max<std::int64_t>(0, count - 2) : 0;
    return live_[static_cast<std::size_t>(random_.integer(oldest, count - 1))];
  }

  template <class Predicate>
  bool choose_where(const Predicate& predicate, Live& chosen) {
    std::vector<Live> suitable;
    std::copy_if(live_.begin(), live_.end(), std::back_inserter(suitable), predicate);
    if (suitable.empty()) return false;
    chosen = random_.pick(suitable);
    return true;
  }

  void grow() {
    const Live x = choose();
    switch (random_.integer(0, 15)) {
      case 0:
      case 1:
      case 2:
      case 3:
        return dense(x);
      case 4:
      case 5:
      case 6:
        return activation(x);
      case 7:
        return unusual_function(x);
      case 8:
      case 9:
        return with_constant(x);
      case 10:
      case 11:
        return with_activation(x);
      case 12:
        return rearrange(x);
      case 13:
        return product_of_activations(x);
      case 14:
        return random_.chance(0.5) ? softmax(x) : concat(x);
      default:
        return random_.chance(0.5) ? attention(x) : cast(x);
    }
  }

  void dense(const Live& x) {
    if (x.shape.empty() || (batched_ && x.shape.size() < 2)) return activation(x);
    if (x.shape.size() == 2 && random_.chance(0.6)) return gemm(x);
    const std::int64_t k = x.shape.back();
    if (random_.chance(0.1)) {
      add(op::MatMul{}, {x.id, constant({k}, 0)});
    } else if (!batched_ && random_.chance(0.2)) {
      const std::size_t summed = x.shape.size() == 1 ? 0 : x.shape.size() - 2;
      add(op::MatMul{}, {constant({random_.integer(1, 5), x.shape[summed]}, 1), x.id});
    } else {
      add(op::MatMul{}, {x.id, constant({k, limited_width(x)}, 0)});
    }
  }

  std::int64_t limited_width(const Live& x) {
    const std::int64_t rows = std::max<std::int64_t>(1, element_count(x.shape) / x.shape.back());
    return std::max<std::int64_t>(1, std::min(width(), largest_value * (batched_ ? batch_extent : 1) / rows));
  }

  void gemm(const Live& x) {
    op::Gemm gemm;
    if (random_.chance(0.2)) gemm.alpha = random_.pick(std::vector<double>{0.5, -1.0, 0.1, 3.0, 0.0});
    if (random_.chance(0.2)) gemm.beta = random_.pick(std::vector<double>{0.5, -1.0, 0.1, 3.0, 0.0});
    gemm.transpose_a = !batched_ && random_.chance(0.2);
    gemm.transpose_b = random_.chance(0.5);
    const std::int64_t m = gemm.transpose_a ? x.shape[1] : x.shape[0];
    const std::int64_t k = gemm.transpose_a ? x.shape[0] : x.shape[1];
    const std::int64_t n = limited_width(x);
    std::vector<ValueId> inputs = {x.id, gemm.transpose_b ? constant({n, k}, 1) : constant({k, n}, 0)};
    Live residual;
    const bool has_residual = choose_where([&](const Live& y) { return y.shape == Shape{m, n}; }, residual);
    if (has_residual && random_.chance(0.3))
      inputs.push_back(residual.id);
    else if (random_.chance(0.75))
      inputs.push_back(constant(random_.pick(std::vector<Shape>{{n}, {n}, {1, n}, {1}, {}}), 0));
    add(gemm, inputs);
  }

  void activation(const Live& x) {
    switch (random_.integer(0, 9)) {
      case 0:
      case 1:
      case 2:
        add(op::Relu{}, {x.id}).nonnegative = true;
        break;
      case 3:
        add(op::LeakyRelu{random_.pick(std::vector<double>{0.01, 0.1, 0.25, 1.5, -0.3})}, {x.id});
        break;
      case 4:
        add(op::Elu{random_.pick(std::vector<double>{1.0, 0.5, 0.1, -1.0})}, {x.id});
        break;
      case 5:
        add(op::Tanh{}, {x.id}).moderate = true;
        break;
      case 6:
        mark(add(op::Sigmoid{}, {x.id}), true, true);
        break;
      case 7:
        add(op::Softplus{}, {x.id}).nonnegative = true;
        break;
      case 8:
        add(op::Sin{}, {x.id}).moderate = true;
        break;
      default:
        add(op::Erf{}, {x.id}).moderate = true;
        break;
    }
  }

  static void mark(Live& value, bool nonnegative, bool moderate) {
    value.nonnegative = nonnegative;
    value.moderate = moderate;
  }

  void unusual_function(const Live& x) {
    Live argument = x;
    switch (random_.integer(0, 4)) {
      case 0:
        if (!random_.chance(0.2)) choose_where([](const Live& y) { return y.nonnegative; }, argument);
        if (argument.nonnegative || random_.chance(0.2)) add(op::Sqrt{}, {argument.id}).nonnegative = true;
        break;
      case 1:
        if (!random_.chance(0.2)) choose_where([](const Live& y) { return y.moderate; }, argument);
        if (argument.moderate || random_.chance(0.2)) add(op::Exp{}, {argument.id}).nonnegative = true;
        break;
      case 2:
        add(op::Cos{}, {x.id}).moderate = true;
        break;
      case 3:
        add(op::Neg{}, {x.id}).moderate = x.moderate;
        break;
      default:
        mark(add(op::Identity{}, {x.id}), x.nonnegative, x.moderate);
        break;
    }
  }

  Shape broadcastable_shape(const Live& x) {
    Shape shape = x.shape;
    if (batched_ && !shape.empty()) shape[0] = 1;
    for (std::size_t d = batched_ ? 1 : 0; d < shape.size(); ++d)
      if (random_.chance(0.3)) shape[d] = 1;
    const std::int64_t dropped = random_.integer(0, static_cast<std::int64_t>(shape.size()));
    if (random_.chance(0.6)) shape.erase(shape.begin(), shape.begin() + dropped);
    return shape;
  }

  void with_constant(const Live& x) {
    const Shape shape = broadcastable_shape(x);
    const ValueId other = constant(shape, shape.empty() ? 0 : shape.size() - 1);
    const bool first = random_.chance(0.8);
    const std::vector<ValueId> inputs = first ? std::vector<ValueId>{x.id, other} : std::vector<ValueId>{other, x.id};
    add(random_binary(first || random_.chance(0.1)), inputs);
  }

  Op random_binary(bool may_divide) {
    switch (random_.integer(0, may_divide ? 3 : 2)) {
      case 0:
        return op::Add{};
      case 1:
        return op::Sub{};
      case 2:
        return op::Mul{};
      default:
        return op::Div{};
    }
  }

  bool combine(const Live& x, const Live& y) const {
    if (x.shape == y.shape) return true;
    if (batched_ && x.shape.size() != y.shape.size()) return false;
    for (std::size_t d = 1; d <= std::min(x.shape.size(), y.shape.size()); ++d) {
      const std::int64_t a = x.shape[x.shape.size() - d], b = y.shape[y.shape.size() - d];
      if (a != b && a != 1 && b != 1) return false;
    }
    return element_count(broadcast(x.shape, y.shape)) <= largest_value * batch_extent;
  }

  void with_activation(const Live& x) {
    Live y = x;
    if (!random_.chance(0.1)) choose_where([&](const Live& other) { return combine(x, other); }, y);
    const Op op = random_binary(y.nonnegative || random_.chance(0.25));
    if (!std::holds_alternative<op::Div>(op)) {
      add(op, {x.id, y.id}).nonnegative = std::holds_alternative<op::Mul>(op) && x.id == y.id;
    } else if (random_.chance(0.25)) {
      add(op, {x.id, y.id});
    } else {
      const ValueId one =
          graph_.add_constant(fmt::format("w{}", graph_.values.size()), store(ElementType::f32, {1}, {1.0}));
      const Live square = add(op::Mul{}, {y.id, y.id});
      const Live denominator = add(op::Add{}, {square.id, one});
      add(op, {x.id, denominator.id});
    }
  }

  void rearrange(const Live& x) {
    const std::int64_t kept = batched_ ? 1 : 0;
    const auto rank = static_cast<std::int64_t>(x.shape.size());
    Live* result = nullptr;
    switch (random_.integer(0, 4)) {
      case 0:
        result = &reshape(x);
        break;
      case 1:
        result =
            &add(op::Flatten{random_.integer(std::min(kept, rank), batched_ ? std::min(kept, rank) : rank)}, {x.id});
        break;
      case 2:
        if (rank >= 4) return activation(x);
        result = &add(op::Unsqueeze{{random_.integer(std::min(kept, rank), rank)}}, {x.id});
        break;
      case 3:
        result = squeeze(x);
        break;
      default:
        result = &transpose(x);
        break;
    }
    if (result != nullptr) mark(*result, x.nonnegative, x.moderate);
  }

  Live& reshape(const Live& x) {
    const bool splits =
        !x.shape.empty() && x.shape.back() % 2 == 0 && x.shape.size() < 4 && (!batched_ || x.shape.size() > 1);
    op::Reshape reshape;
    if (batched_) reshape.target.push_back(0);
    if (splits)
      reshape.target.push_back(-1), reshape.target.push_back(2);
    else
      reshape.target.push_back(-1);
    return add(reshape, {x.id});
  }

  Live* squeeze(const Live& x) {
    for (std::size_t d = batched_ ? 1 : 0; d < x.shape.size(); ++d)
      if (x.shape[d] == 1) return &add(op::Squeeze{{static_cast<std::int64_t>(d)}}, {x.id});
    return nullptr;
  }

  Live& transpose(const Live& x) {
    op::Transpose transpose;
    for (std::size_t d = 0; d < x.shape.size(); ++d) transpose.permutation.push_back(static_cast<std::int64_t>(d));
    for (std::size_t d = x.shape.size(); d > (batched_ ? 2u : 1u); --d) {
      const auto other = static_cast<std::size_t>(random_.integer(batched_ ? 1 : 0, static_cast<std::int64_t>(d) - 1));
      std::swap(transpose.permutation[d - 1], transpose.permutation[other]);
    }
    return add(transpose, {x.id});
  }

  void product_of_activations(const Live& x) {
    const std::size_t matrix = batched_ ? 3 : 2;
    if (x.shape.size() != matrix) return with_activation(x);
    Live y = x;
    choose_where(
        [&](const Live& other) { return other.shape.size() == matrix && other.shape[matrix - 2] == x.shape.back(); },
        y);
    if (y.shape[matrix - 2] != x.shape.back()) y = last_two_swapped(x);
    if (x.shape[matrix - 2] * y.shape.back() > largest_value) return activation(x);
    if (matrix == 2 && random_.chance(0.5))
      add(op::Gemm{}, {x.id, y.id});
    else
      add(op::MatMul{}, {x.id, y.id});
  }

  Live last_two_swapped(const Live& x) {
    op::Transpose transpose;
    for (std::size_t d = 0; d < x.shape.size(); ++d) transpose.permutation.push_back(static_cast<std::int64_t>(d));
    std::swap(transpose.permutation[x.shape.size() - 1], transpose.permutation[x.shape.size() - 2]);
    return add(transpose, {x.id});
  }

  void softmax(const Live& x) {
    const auto rank = static_cast<std::int64_t>(x.shape.size());
    const std::int64_t first = batched_ ? 1 : 0;
    if (rank <= first) return activation(x);
    op::Softmax softmax{random_.integer(first, rank - 1), random_.chance(0.3)};
    if (random_.chance(0.4)) softmax = {-1, false};
    mark(add(softmax, {x.id}), true, true);
  }

  void concat(const Live& x) {
    const auto rank = static_cast<std::int64_t>(x.shape.size());
    if (rank <= (batched_ ? 1 : 0) || element_count(x.shape) > largest_value) return activation(x);
    const auto axis = static_cast<std::size_t>(random_.integer(batched_ ? 1 : 0, rank - 1));
    const auto fits = [&](const Live& other) {
      if (other.shape.size() != x.shape.size() || element_count(other.shape) > largest_value) return false;
      for (std::size_t d = 0; d < x.shape.size(); ++d)
        if (d != axis && other.shape[d] != x.shape[d]) return false;
      return true;
    };
    Live y = x;
    choose_where(fits, y);
    std::vector<ValueId> inputs = {x.id, y.id};
    if (random_.chance(0.2)) inputs.push_back(x.id);
    add(op::Concat{static_cast<std::int64_t>(axis)}, inputs);
  }

  /// softmax(Q K^T s) V with Q, K and V linear in x.
  void attention(const Live& x) {
    const std::size_t matrix = batched_ ? 3 : 2;
    if (x.shape.size() != matrix || x.shape.back() > 16) return softmax(x);
    const std::int64_t d = x.shape.back();
    const Live q = add(op::MatMul{}, {x.id, constant({d, 4}, 0)});
    const Live k = add(op::MatMul{}, {x.id, constant({d, 4}, 0)});
    const Live v = add(op::MatMul{}, {x.id, constant({d, 4}, 0)});
    const Live scores = add(op::MatMul{}, {q.id, last_two_swapped(k).id});
    const ValueId scale =
        graph_.add_constant(fmt::format("w{}", graph_.values.size()), store(ElementType::f32, {}, {0.5}));
    const Live scaled = add(op::Mul{}, {scores.id, scale});
    const Live weights = add(op::Softmax{}, {scaled.id});
    add(op::MatMul{}, {weights.id, v.id});
  }

  void cast(const Live& x) {
    const ElementType to =
        random_.pick(std::vector<ElementType>{ElementType::f16, ElementType::bf16, ElementType::f32, ElementType::f64});
    mark(add(op::Cast{to}, {x.id}), x.nonnegative, x.moderate);
  }

  void mark_outputs() {
    graph_.outputs.push_back(live_.back().id);
    if (live_.size() > 3 && random_.chance(0.2)) {
      const Live& other = live_[live_.size() - 3];
      if (graph_.value(other.id).kind == ValueKind::computed) graph_.outputs.push_back(other.id);
    }
  }

  Random& random_;
  Family family_;
  bool batched_ = true;
  ElementType weight_type_ = ElementType::f32;
  ElementType input_type_ = ElementType::f32;
  std::int64_t widest_ = 8;
  Graph graph_;
  std::vector<Live> live_;
};

Inputs random_inputs(Random& random, Family family, const Graph& graph, std::int64_t samples) {
  const BatchLayout layout = batch_layout(graph);
  Inputs inputs;
  for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
    Shape shape = layout.sample_shapes[i];
    if (layout.batched)
      shape[0] = samples;
    else
      shape.insert(shape.begin(), samples);
    const Value& value = graph.value(graph.inputs[i]);
    const ElementType type = random.chance(0.85) ? value.type : ElementType::f64;
    inputs.tensors.emplace_back(value.name,
                                store(type, shape, draw_values(random, family, Role::input, shape, shape.size() - 1)));
  }
  return inputs;
}

SummationOrder random_order(Random& random) {
  if (random.chance(0.25)) {
    const std::vector<std::string> dealt = {"lanes:4x1/halves",    "lanes:8x2/neighbours", "lanes:3x1",
                                            "slices:5/neighbours", "slices:8/lanes:2x1",   "balanced:3:1",
                                            "lanes:2x1:8:last",    "lanes:32x1/halves",    "halved"};
    return parse_summation_order(random.pick(dealt) + (random.chance(0.5) ? "+fma" : ""));
  }
  SummationOrder order;
  order.kind =
      random.pick(std::vector<SummationOrder::Kind>{SummationOrder::Kind::sequential, SummationOrder::Kind::pairwise,
                                                    SummationOrder::Kind::blocked, SummationOrder::Kind::split_k});
  if (order.kind == SummationOrder::Kind::blocked)
    order.parameter = random.pick(std::vector<std::int64_t>{1, 2, 3, 8, 32});
  if (order.kind == SummationOrder::Kind::split_k)
    order.parameter = random.pick(std::vector<std::int64_t>{1, 2, 3, 4, 16});
  order.fma = random.chance(0.5);
  return order;
}

/// Stores results in a narrower format, some of the time: one for all, or the types that the graph declares.
void draw_stored_format(Random& random, ArithmeticModel& arithmetic) {
  if (!random.chance(0.3)) return;
  arithmetic.stores_declared_types = random.chance(0.5);
  if (!arithmetic.stores_declared_types) arithmetic.output = random.chance(0.5) ? FormatId::fp16 : FormatId::bf16;
}

}  // namespace

ArithmeticModel random_arithmetic(Random& random) {
  const std::string name =
      random.pick(std::vector<std::string>{"fp32", "fp32", "fp64", "tf32", "bf16", "fp16", "fp8_e4m3", "fp8_e5m2"});
  return cpu_arithmetic(name, random_order(random));
}

Case case_of(Random& random, Family family, Graph graph) {
  Case result;
  result.graph = std::move(graph);
  result.samples = random.integer(1, 8);
  result.inputs = random_inputs(random, family, result.graph, result.samples);
  result.arithmetic = random_arithmetic(random);
  result.batch = random.pick(std::vector<std::int64_t>{0, 1, 3});
  result.threads = random.chance(0.1) ? 2 : 1;
  draw_stored_format(random, result.arithmetic);
  return result;
}

Case random_case(Family family, std::uint64_t seed) {
  Random random(seed);
  Graph graph = NetworkBuilder(random, family).build();
  graph.name = fmt::format("{} {:#x}", family_name(family), seed);
  return case_of(random, family, std::move(graph));
}

Trace evaluate(const Case& the_case) {
  RunOptions options;
  options.batch = the_case.batch;
  options.threads = the_case.threads;
  return cpu_evaluator(the_case.arithmetic).run(the_case.graph, the_case.inputs, options);
}

std::string describe(const Case& the_case) {
  const Graph& graph = the_case.graph;
  const BatchLayout layout = batch_layout(graph);
  const std::vector<Shape> shapes = infer_shapes(graph, layout.sample_shapes);
  std::string text =
      fmt::format("{}: {} {}, results {}, {} samples, {}\n", graph.name, the_case.arithmetic.name,
                  to_string(the_case.arithmetic.order),
                  the_case.arithmetic.stores_declared_types ? "as declared" : format(the_case.arithmetic.output).name,
                  the_case.samples, layout.batched ? "batched" : "one sample at a time");
  const auto value = [&](ValueId id) {
    return fmt::format("{} {} {}", graph.value(id).name, name_of(graph.value(id).type),
                       driftbound::to_string(shapes[id]));
  };
  for (const Node& node : graph.nodes) {
    text += fmt::format("  {} = {}(", value(node.output), name_of(node.op));
    for (std::size_t i = 0; i < node.inputs.size(); ++i) text += (i > 0 ? ", " : "") + value(node.inputs[i]);
    text += ")\n";
  }
  return text;
}

}  // namespace driftbound::soundness
