#include "analysis/tolerance.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>

#include "driftbound/num/errors.hpp"
#include "driftbound/reference/reference.hpp"
#include "driftbound/trace/function_libraries.hpp"

namespace driftbound::analysis {
namespace {

constexpr double unbounded = std::numeric_limits<double>::infinity();

/// The result of the op as one recorded layer of a program that is not this one.
Trace trace_of(const Graph& graph, const Inputs& inputs, const ArithmeticModel& arithmetic,
               const Tensor<double>& result) {
  Trace trace;
  trace.arithmetic = arithmetic;
  trace.provenance.program = "any";
  trace.samples = 1;
  trace.inputs = inputs;
  trace.layers.push_back({graph.nodes.front().name, StoredTensor::from(result)});
  return trace;
}

/// The smallest of some local bounds, by element.
std::vector<double> smallest(const LayerBounds& bounds, std::size_t size, bool by_chance) {
  std::vector<double> values(size, unbounded);
  for (const BoundResult& bound : bounds.local) {
    const bool counts = bound.guarantee == Guarantee::proven || bound.guarantee == Guarantee::conditional ||
                        (by_chance && bound.guarantee == Guarantee::probabilistic);
    for (std::size_t i = 0; counts && i < size; ++i) values[i] = std::min(values[i], bound.values.values[i]);
  }
  return values;
}

/// Away from 0 to a number of the format that a result is stored in, if it is off by `error` at most.
double largest_result(double exact, double error, const Format& stored) {
  const double largest = round_to(std::nextafter(std::abs(exact) + error, unbounded), stored, Rounding::up);
  return std::copysign(std::isfinite(largest) ? largest : stored.largest, exact);
}

}  // namespace

OpTolerance tolerance_of(const Graph& graph, const Inputs& inputs, const ArithmeticModel& arithmetic,
                         double failure_probability, int threads) {
  PrecisionPolicy policy;
  policy.threads = threads;
  const Tensor<Ball> exact = certified_reference(graph, inputs, policy).layers.back();
  OpTolerance tolerance;
  tolerance.exact.shape = exact.shape;
  std::vector<double> radii;
  for (const Ball& ball : exact.values) {
    tolerance.exact.values.push_back(ball.hi);
    radii.push_back(Magnitude(ball.radius + Magnitude(ball.lo)).value());
  }
  BoundOptions options;
  options.threads = threads;
  options.failure_probability = failure_probability;
  options.tests_readings = false;
  for (const BoundKind kind :
       {BoundKind::componentwise, BoundKind::partial_sums, BoundKind::probabilistic, BoundKind::order_aware})
    options.requests.emplace_back(kind);
  constexpr std::size_t most_estimated = 1024;
  const bool has_estimate = exact.size() <= most_estimated;
  const Format& stored = format(arithmetic.output);
  Tensor<double> result = tolerance.exact;
  for (double& y : result.values) y = round_to(y, stored, Rounding::nearest_even);
  // The bounds at the exact result, and then at the largest one that these allow: T-138.
  LayerBounds bounds = bound(graph, trace_of(graph, inputs, arithmetic, result), options).layers.back();
  const std::vector<double> first = smallest(bounds, result.size(), false);
  for (std::size_t i = 0; i < result.size(); ++i)
    if (std::isfinite(first[i]))
      result.values[i] = largest_result(tolerance.exact.values[i], first[i] + radii[i], stored);
  if (has_estimate) options.requests.emplace_back(BoundKind::adjoint_statistical);
  options.most_output_elements = static_cast<std::int64_t>(most_estimated);
  Bounds second = bound(graph, trace_of(graph, inputs, arithmetic, result), options);
  bounds = std::move(second.layers.back());
  tolerance.assumptions = std::move(second.assumptions);
  tolerance.proven = {exact.shape, smallest(bounds, result.size(), false)};
  tolerance.by_chance = {exact.shape, smallest(bounds, result.size(), true)};
  for (std::size_t i = 0; i < result.size(); ++i) {
    if (!std::isfinite(first[i])) tolerance.proven.values[i] = tolerance.by_chance.values[i] = unbounded;
    for (Tensor<double>* of : {&tolerance.proven, &tolerance.by_chance})
      of->values[i] = (Magnitude(of->values[i]) + Magnitude(radii[i])).value();
  }
  for (const BoundResult& one : bounds.accumulated)
    if (one.kind == BoundKind::adjoint_statistical && one.not_applicable.empty()) tolerance.estimate = one.values;
  for (std::size_t i = 0; i < tolerance.estimate.size(); ++i)
    tolerance.estimate.values[i] = std::min(tolerance.estimate.values[i], tolerance.proven.values[i]);
  const auto is_conditional = [](const BoundResult& bound) { return bound.guarantee == Guarantee::conditional; };
  if (std::any_of(bounds.local.begin(), bounds.local.end(), is_conditional))
    tolerance.guarantee = Guarantee::conditional;
  return tolerance;
}

namespace {

constexpr std::int64_t rows = 64, columns = 16, heads = 1, queries = 16;

struct OpRule {
  ToleranceOp op;
  /// Shapes of the operands that are made, where none are given.
  std::vector<Shape> (*shapes)(const ToleranceRequest& request);
  Op (*make)(const ToleranceRequest& request);
  bool has_worst_data;        ///< whether data of the largest magnitude make the largest errors
  bool is_product = false;    ///< its operands alone are read in TF32, and it may have a bias
  std::size_t axes = 0;       ///< of the first operand; 0: any number
  std::size_t fewest = 1;     ///< operands
  std::size_t most = fewest;  ///< operands
  bool has_sums = true;
};

std::vector<Shape> gemm_shapes(const ToleranceRequest& request) {
  std::vector<Shape> shapes = {{rows, request.k}, {request.k, columns}};
  if (request.has_bias) shapes.push_back({columns});
  return shapes;
}
std::vector<Shape> row_shapes(const ToleranceRequest& request) {
  return {{rows, request.k}};
}
std::vector<Shape> norm_shapes(const ToleranceRequest& request) {
  return {{rows, request.k}, {request.k}};
}
std::vector<Shape> attention_shapes(const ToleranceRequest& request) {
  return {{1, heads, queries, request.k}, {1, heads, request.keys, request.k}, {1, heads, request.keys, request.k}};
}
std::vector<Shape> rotary_shapes(const ToleranceRequest& request) {
  return {{1, heads, rows, request.k}, {1, rows, request.k / 2}, {1, rows, request.k / 2}};
}

Op product_op(const ToleranceRequest& request) {
  if (request.has_bias || request.data.size() > 2) return op::Gemm{};
  return op::MatMul{};
}
Op sum_of_last_axis(const ToleranceRequest&) {
  return op::ReduceSum{{-1}, false};
}
Op softmax_op(const ToleranceRequest&) {
  op::Softmax softmax;
  softmax.axis = -1;
  return softmax;
}
Op layer_norm_op(const ToleranceRequest&) {
  op::LayerNormalization norm;
  norm.axis = -1;
  norm.epsilon = 1e-5;
  return norm;
}
Op rms_norm_op(const ToleranceRequest&) {
  op::RMSNormalization norm;
  norm.axis = -1;
  norm.epsilon = 1e-6;
  return norm;
}
Op gelu_op(const ToleranceRequest&) {
  return op::Gelu{false};
}
Op attention_op(const ToleranceRequest&) {
  return op::Attention{};
}
Op rotary_op(const ToleranceRequest&) {
  return op::RotaryEmbedding{};
}

/// x1 sigmoid(x1) x2, the halves x1, x2 of a row
Op silu_and_mul_op(const ToleranceRequest& request) {
  Graph steps;
  const std::int64_t width = request.data.empty() ? request.k : request.data.front().shape().back();
  const ValueId x = steps.add_input("x", ElementType::f64, {});
  const auto half = [&](std::int64_t first) {
    return steps.add_node(first == 0 ? "gate" : "up", op::Slice{{first}, {first + width / 2}, {-1}, {}}, {x});
  };
  const ValueId gate = steps.add_node("silu", op::Swish{}, {half(0)});
  steps.outputs = {steps.add_node("product", op::Mul{}, {gate, half(width / 2)})};
  return op::Segment{std::make_shared<const Graph>(std::move(steps))};
}

const std::vector<OpRule>& rules() {
  static const std::vector<OpRule> all = {
      {{"gemm", "a [m, k], b [k, n], bias [n]", "(k - 1) u sum |a b| + u' |y|"},
       gemm_shapes,
       product_op,
       true,
       true,
       2,
       2,
       3},
      {{"conv", "patches [m, k], weights [k, n], bias [n]; k = channels x kernel extents",
        "(k - 1) u sum |x w| + u' |y|, of direct convolutions and implicit products, not of Winograd or FFT"},
       gemm_shapes,
       product_op,
       true,
       true,
       2,
       2,
       3},
      {{"all-reduce", "parts [n, k]; k = ranks", "(k - 1) u sum |x| + u' |y|"}, row_shapes, sum_of_last_axis, true},
      {{"softmax", "x [m, k]", "y ((k + 2) u + |x - max x| u + accuracy of exp) + u' y"},
       row_shapes,
       softmax_op,
       false},
      {{"attention", "q [1, h, m, k], k [1, h, keys, k], v [1, h, keys, k]",
        "sum over keys of weight times (error of the score + that of the softmax) |v|, + keys u sum |weight v| + u' "
        "|y|"},
       attention_shapes,
       attention_op,
       false,
       false,
       4,
       3},
      {{"layernorm", "x [m, k], scale [k]", "|scale| / sigma (k u mean |x| + u |x|) + 3 u |y| + u' |y|"},
       norm_shapes,
       layer_norm_op,
       false,
       false,
       0,
       2},
      {{"rmsnorm", "x [m, k], scale [k]", "|y| (k / 2 + 4) u + u' |y|"}, norm_shapes, rms_norm_op, false, false, 0, 2},
      {{"gelu", "x [m, k]", "|x| / 2 (accuracy of erf + 2 u) + u' |y|"},
       row_shapes,
       gelu_op,
       false,
       false,
       0,
       1,
       1,
       false},
      {{"silu-and-mul", "x [m, k], gate and up side by side", "|y| (accuracy of sigmoid + 2 u) + u' |y|"},
       row_shapes,
       silu_and_mul_op,
       false,
       false,
       0,
       1,
       1,
       false},
      {{"rotary", "x [1, h, m, k], cos [1, m, k/2], sin [1, m, k/2]", "2 u (|x1 cos| + |x2 sin|) + u' |y|"},
       rotary_shapes,
       rotary_op,
       false,
       false,
       4,
       3,
       3,
       false},
  };
  return all;
}

const OpRule& rule_of(const std::string& name) {
  std::string known;
  for (const OpRule& rule : rules()) {
    if (rule.op.name == name) return rule;
    known += (known.empty() ? "" : ", ") + std::string(rule.op.name);
  }
  throw InvalidArgument("tolerance: there is no op '" + name + "'; there are: " + known);
}

ArithmeticModel arithmetic_of(const ToleranceRequest& request) {
  ArithmeticModel arithmetic;
  arithmetic.name = fmt::format("{} operands, {} sums, {} results", format(request.input).name,
                                format(request.accumulator).name, format(request.output).name);
  arithmetic.input = request.input;
  arithmetic.accumulator = request.accumulator;
  arithmetic.output = request.output;
  arithmetic.order = request.order;
  arithmetic.functions = function_library(request.functions).functions;
  arithmetic.evidence = Evidence::assumed;
  arithmetic.source = "the command";
  return arithmetic;
}

/// A number as memory holds it: of the operands' format, of float32 where products alone read them in TF32.
double as_operand(double x, const ToleranceRequest& request) {
  const FormatId id = request.input == FormatId::tf32 ? FormatId::fp32 : request.input;
  return round_to(x, format(id), Rounding::nearest_even);
}

/// What k terms within ±magnitude lose where a sum reads them in a narrower format: half a unit each (T-138).
Magnitude error_of_reading_terms(std::int64_t k, double magnitude, const Format& narrow) {
  return Magnitude(static_cast<double>(k)) * Magnitude(0.5 * ulp(magnitude, narrow));
}

/// What k products of numbers within ±magnitude lose where their factors are rounded to TF32: every factor by e at most,
/// half the distance of numbers of TF32 below the magnitude, so that a product is off by 2 magnitude e + e^2 (T-138).
Magnitude error_of_reading_tf32(std::int64_t k, double magnitude) {
  const Magnitude e(0.5 * ulp(std::nextafter(magnitude, 0.0), format(FormatId::tf32)));
  return Magnitude(static_cast<double>(k)) * (Magnitude(2.0) * Magnitude(magnitude) * e + e * e);
}

std::string operand_name(std::size_t slot) {
  return fmt::format("operand {}", slot);
}

/// One op with operands of these shapes.
Graph graph_of(const std::string& name, const Op& op, const std::vector<Shape>& shapes) {
  Graph graph;
  std::vector<ValueId> operands;
  for (std::size_t slot = 0; slot < shapes.size(); ++slot) {
    std::vector<DeclaredDimension> declared;
    for (const std::int64_t extent : shapes[slot]) declared.push_back({extent, ""});
    operands.push_back(graph.add_input(operand_name(slot), ElementType::f64, std::move(declared)));
    graph.values[operands.back()].has_declared_shape = true;
  }
  graph.outputs = {graph.add_node(name, op, std::move(operands))};
  graph.values[graph.outputs.front()].type = ElementType::f64;
  return graph;
}

ToleranceOf summed_up(std::string data, OpTolerance tolerance) {
  ToleranceOf part{std::move(data), std::move(tolerance), 0.0, 0.0, 0.0, std::nullopt};
  const auto largest = [](const Tensor<double>& of) {
    double most = 0.0;
    for (const double x : of.values) most = std::max(most, std::abs(x));
    return most;
  };
  part.largest_result = largest(part.tolerance.exact);
  part.proven = largest(part.tolerance.proven);
  part.by_chance = largest(part.tolerance.by_chance);
  if (!part.tolerance.estimate.values.empty()) part.estimate = largest(part.tolerance.estimate);
  return part;
}

class Answer {
public:
  explicit Answer(const ToleranceRequest& request)
      : request_(request), rule_(rule_of(request.op)), arithmetic_(arithmetic_of(request)) {}

  ToleranceReport report() const {
    ToleranceReport report;
    report.request = request_;
    report.op = rule_.op;
    report.arithmetic = arithmetic_;
    if (request_.has_bias && !rule_.is_product)
      throw InvalidArgument(fmt::format("tolerance: {} has no bias; leave --bias out", rule_.op.name));
    if (request_.keys > 0 && request_.op != "attention")
      throw InvalidArgument(fmt::format("tolerance: {} has no keys; leave --keys out", rule_.op.name));
    const bool knows_order = request_.order.kind != SummationOrder::Kind::unknown;
    if (knows_order && !rule_.has_sums)
      throw InvalidArgument(fmt::format("tolerance: {} has no sums; leave --order and --split-k out", rule_.op.name));
    if (request_.input == FormatId::tf32 && !rule_.is_product && request_.op != "attention")
      throw InvalidArgument(fmt::format("tolerance: {} has no product that reads operands in TF32", rule_.op.name));
    if (!request_.data.empty()) {
      report.parts.push_back(of_data());
      return report;
    }
    const Format& input = format(request_.input);
    if (request_.magnitude > input.largest)
      throw InvalidArgument(fmt::format("tolerance: --magnitude {} is above the largest number of {}, {}",
                                        request_.magnitude, input.name, input.largest));
    if (as_operand(request_.magnitude, request_) == 0.0)
      throw InvalidArgument(fmt::format("tolerance: --magnitude {} is 0 in {}", request_.magnitude, input.name));
    if (request_.k < 1) throw InvalidArgument("tolerance: give --k, the length of the sum or row, or --data");
    if (request_.op == "attention" && request_.keys < 1)
      throw InvalidArgument("tolerance: attention needs --keys, the number of keys, beside --k, the size of a head");
    if (has_halves() && request_.k % 2 != 0)
      throw InvalidArgument("tolerance: --k is odd, and the op takes halves of a row");
    if (rule_.has_worst_data) report.parts.push_back(of_largest());
    report.parts.push_back(of_normal());
    return report;
  }

private:
  bool has_halves() const { return request_.op == "silu-and-mul" || request_.op == "rotary"; }

  Graph graph(const std::vector<Shape>& shapes) const { return graph_of(request_.op, rule_.make(request_), shapes); }

  Tensor<double> made_operand(std::size_t slot, const Inputs& made, const Shape& shape) const {
    Tensor<double> operand(shape, made.at(operand_name(slot)).to_double().values);
    if (request_.op == "rotary" && slot > 0) {  // cosines and sines of the same angles
      operand.values = made.at(operand_name(1)).to_double().values;
      for (double& x : operand.values) x = slot == 1 ? std::cos(x) : std::sin(x);
    }
    if (rule_.shapes == norm_shapes && slot > 0) std::fill(operand.values.begin(), operand.values.end(), 1.0);
    return operand;
  }

  /// The operands are rounded to their format first.
  OpTolerance tolerance(std::vector<Tensor<double>> operands) const {
    std::vector<Shape> shapes;
    Inputs inputs;
    for (Tensor<double>& operand : operands) {
      for (double& x : operand.values) x = as_operand(x, request_);
      shapes.push_back(operand.shape);
      inputs.tensors.emplace_back(operand_name(inputs.tensors.size()), StoredTensor::from(operand));
    }
    const bool is_one_sum = rule_.has_worst_data;
    if (is_one_sum || request_.stores_inside || request_.output == request_.accumulator)
      return tolerance_of(graph(shapes), inputs, arithmetic_, request_.failure_probability, request_.threads);
    ArithmeticModel inside = arithmetic_;
    inside.output = inside.accumulator;
    return stored(tolerance_of(graph(shapes), inputs, inside, request_.failure_probability, request_.threads));
  }

  /// The results of a kernel that keeps everything in the accumulator, rounded once to the format of the results.
  OpTolerance stored(OpTolerance tolerance) const {
    const Format& to = format(request_.output);
    for (Tensor<double>* of : {&tolerance.proven, &tolerance.by_chance, &tolerance.estimate})
      for (std::size_t i = 0; i < of->values.size(); ++i) {
        const Magnitude largest = Magnitude(tolerance.exact.values[i]) + Magnitude(of->values[i]);
        const bool fits = largest.value() <= to.largest;
        const Magnitude last = fits ? Magnitude(0.5 * ulp(largest.value(), to)) : Magnitude::infinite();
        of->values[i] = (Magnitude(of->values[i]) + last).value();
      }
    return tolerance;
  }

  ToleranceOf of_data() const {
    const std::size_t count = request_.data.size();
    if (count < rule_.fewest || count > rule_.most)
      throw InvalidArgument(fmt::format("tolerance: --data has {} array{}, and {} reads {}", count,
                                        count == 1 ? "" : "s", rule_.op.name, rule_.op.operands));
    if (rule_.axes > 0 && request_.data.front().shape().size() != rule_.axes)
      throw InvalidArgument(fmt::format("tolerance: the first array of --data has the shape {}, and {} reads {}",
                                        to_string(request_.data.front().shape()), rule_.op.name, rule_.op.operands));
    std::vector<Tensor<double>> operands;
    for (const StoredTensor& tensor : request_.data) {
      if (!is_float(tensor.type()) || !tensor.all_finite())
        throw InvalidArgument(
            "tolerance: --data holds integers, NaN or infinities; give finite floating-point numbers");
      if (tensor.shape().empty() || tensor.size() == 0)
        throw InvalidArgument(
            fmt::format("tolerance: --data has the shape {}, and every op takes rows of numbers; {} reads {}",
                        to_string(tensor.shape()), rule_.op.name, rule_.op.operands));
      operands.push_back(tensor.to_double());
    }
    if (has_halves() && operands.front().shape.back() % 2 != 0)
      throw InvalidArgument(fmt::format("tolerance: rows of {} numbers are odd, and {} takes halves of a row",
                                        operands.front().shape.back(), rule_.op.name));
    return summed_up("the data given", tolerance(std::move(operands)));
  }

  /// All factors as large as they may be, and of one sign: one result says it.
  ToleranceOf of_largest() const {
    std::vector<Tensor<double>> operands;
    for (Shape shape : rule_.shapes(request_)) {
      if (operands.empty()) shape.front() = 1;
      if (!operands.empty()) shape.back() = 1;  // [k, n] and [n]
      Tensor<double> operand(shape);
      operands.push_back(std::move(operand));
    }
    double largest = request_.magnitude;
    const bool reads_tf32 = request_.input == FormatId::tf32 && rule_.is_product;
    if (reads_tf32) largest = round_to(largest, format(FormatId::tf32), Rounding::up);
    const Format& sums = format(request_.accumulator);
    const bool narrows = !rule_.is_product && !holds_all_of(sums, format(request_.input));
    if (narrows) largest = round_to(largest, sums, Rounding::up);
    for (Tensor<double>& operand : operands) std::fill(operand.values.begin(), operand.values.end(), largest);
    OpTolerance of_all = tolerance(std::move(operands));
    if (narrows)
      for (Tensor<double>* of : {&of_all.proven, &of_all.by_chance, &of_all.estimate})
        for (double& x : of->values)
          x = (Magnitude(x) + error_of_reading_terms(request_.k, request_.magnitude, sums)).value();
    if (reads_tf32)
      for (Tensor<double>* of : {&of_all.proven, &of_all.by_chance, &of_all.estimate})
        for (double& x : of->values) x = (Magnitude(x) + error_of_reading_tf32(request_.k, request_.magnitude)).value();
    return summed_up(fmt::format("any data within ±{}", request_.magnitude), std::move(of_all));
  }

  ToleranceOf of_normal() const {
    InputGenerator generator;
    generator.distribution = InputDistribution::normal;
    generator.samples = 1;
    generator.seed = request_.seed;
    generator.domain = {{-request_.magnitude, request_.magnitude}};
    const std::vector<Shape> shapes = rule_.shapes(request_);
    const Inputs made = generate_inputs(graph(shapes), generator);
    std::vector<Tensor<double>> operands;
    for (std::size_t slot = 0; slot < shapes.size(); ++slot) operands.push_back(made_operand(slot, made, shapes[slot]));
    return summed_up(fmt::format("normal data, standard deviation {}", request_.magnitude),
                     tolerance(std::move(operands)));
  }

  const ToleranceRequest& request_;
  const OpRule& rule_;
  const ArithmeticModel arithmetic_;
};

}  // namespace

const std::vector<ToleranceOp>& tolerance_ops() {
  static const std::vector<ToleranceOp> ops = [] {
    std::vector<ToleranceOp> all;
    for (const OpRule& rule : rules()) all.push_back(rule.op);
    return all;
  }();
  return ops;
}

ToleranceReport answer(const ToleranceRequest& request) {
  return Answer(request).report();
}

}  // namespace driftbound::analysis
