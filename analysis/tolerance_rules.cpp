#include "analysis/tolerance_rules.hpp"

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "driftbound/num/errors.hpp"

namespace driftbound::analysis {
namespace {

constexpr std::int64_t rows = 64, columns = 16, heads = 1, queries = 16;

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
template <class Norm>
Op norm_op(const ToleranceRequest& request) {
  Norm norm;
  norm.axis = -1;
  norm.epsilon = request.epsilon.value();
  return norm;
}
Op gelu_op(const ToleranceRequest&) {
  return op::Gelu{false};
}
Op rotary_op(const ToleranceRequest&) {
  return op::RotaryEmbedding{};
}

/// Which keys a mask shows.
std::vector<bool> shown_by(const StoredTensor& mask) {
  std::vector<bool> shown;
  const bool is_boolean = mask.type() == ElementType::boolean;
  for (const double x : mask.to_double().values)
    shown.push_back(is_boolean ? x != 0.0 : x != -std::numeric_limits<double>::infinity());
  return shown;
}

Op attention_op(const ToleranceRequest& request) {
  op::Attention attention;
  attention.is_causal = request.is_causal;
  attention.scale = request.scale.value_or(0.0);
  if (request.data.size() > 3) {
    attention.visible_shape = request.data[3].shape();
    attention.visible = shown_by(request.data[3]);
  }
  return attention;
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

std::vector<OpRule> products_and_sums() {
  return {
      {.op = {"gemm", "a [m, k], b [k, n], bias [n]", "(k - 1) u sum |a b| + u' |y|"},
       .shapes = gemm_shapes,
       .make = product_op,
       .has_worst_data = true,
       .is_product = true,
       .axes = 2,
       .fewest = 2,
       .most = 3},
      {.op = {"conv", "patches [m, k], weights [k, n], bias [n]; k = channels x kernel extents",
              "(k - 1) u sum |x w| + u' |y|, of direct convolutions and implicit products, not of Winograd or FFT"},
       .shapes = gemm_shapes,
       .make = product_op,
       .has_worst_data = true,
       .is_product = true,
       .axes = 2,
       .fewest = 2,
       .most = 3},
      {.op = {"all-reduce", "parts [n, k]; k = ranks", "(k - 1) u sum |x| + u' |y|"},
       .shapes = row_shapes,
       .make = sum_of_last_axis,
       .has_worst_data = true},
  };
}

std::vector<OpRule> softmax_and_norms() {
  return {
      {.op = {"softmax", "x [m, k]", "y ((k + 2) u + |x - max x| u + accuracy of exp) + u' y"},
       .shapes = row_shapes,
       .make = softmax_op},
      {.op = {"attention", "q [1, h, m, k], k [1, h, keys, k], v [1, h, keys, k], mask [m, keys]",
              "sum over keys of weight times (error of the score + that of the softmax) |v|, + keys u sum |weight v| + "
              "u' |y|"},
       .shapes = attention_shapes,
       .make = attention_op,
       .is_attention = true,
       .axes = 4,
       .fewest = 3,
       .most = 4},
      {.op = {"layernorm", "x [m, k], scale [k]", "|scale| / sigma (k u mean |x| + u |x|) + 3 u |y| + u' |y|"},
       .shapes = norm_shapes,
       .make = norm_op<op::LayerNormalization>,
       .has_unit_scales = true,
       .epsilon = 1e-5,
       .fewest = 2,
       .most = 2},
      {.op = {"rmsnorm", "x [m, k], scale [k]", "|y| (k / 2 + 4) u + u' |y|"},
       .shapes = norm_shapes,
       .make = norm_op<op::RMSNormalization>,
       .has_unit_scales = true,
       .epsilon = 1e-6,
       .fewest = 2,
       .most = 2},
  };
}

std::vector<OpRule> functions_of_elements() {
  return {
      {.op = {"gelu", "x [m, k]", "|x| / 2 (accuracy of erf + 2 u) + u' |y|"},
       .shapes = row_shapes,
       .make = gelu_op,
       .has_sums = false},
      {.op = {"silu-and-mul", "x [m, k], gate and up side by side", "|y| (accuracy of sigmoid + 2 u) + u' |y|"},
       .shapes = row_shapes,
       .make = silu_and_mul_op,
       .has_halves = true,
       .has_sums = false},
      {.op = {"rotary", "x [1, h, m, k], cos [1, m, k/2], sin [1, m, k/2]", "2 u (|x1 cos| + |x2 sin|) + u' |y|"},
       .shapes = rotary_shapes,
       .make = rotary_op,
       .has_halves = true,
       .has_sums = false,
       .axes = 4,
       .fewest = 3,
       .most = 3},
  };
}

}  // namespace

const std::vector<OpRule>& tolerance_rules() {
  static const std::vector<OpRule> rules = [] {
    std::vector<OpRule> all;
    for (const auto& family : {products_and_sums(), softmax_and_norms(), functions_of_elements()})
      all.insert(all.end(), family.begin(), family.end());
    return all;
  }();
  return rules;
}

const OpRule& tolerance_rule(const std::string& name) {
  for (const OpRule& rule : tolerance_rules())
    if (rule.op.name == name) return rule;
  throw InvalidArgument("tolerance: there is no op '" + name + "'; there are: " + names_of_tolerance_ops());
}

std::optional<Tensor<double>> added_by_mask(const StoredTensor& mask) {
  Tensor<double> added = mask.to_double();
  const std::vector<bool> shown = shown_by(mask);
  for (std::size_t i = 0; i < added.size(); ++i)
    if (!shown[i]) added.values[i] = 0.0;
  const bool is_nothing = std::all_of(added.values.begin(), added.values.end(), [](double x) { return x == 0.0; });
  if (mask.type() == ElementType::boolean || is_nothing) return std::nullopt;
  return added;
}

const std::vector<ToleranceOp>& tolerance_ops() {
  static const std::vector<ToleranceOp> ops = [] {
    std::vector<ToleranceOp> all;
    for (const OpRule& rule : tolerance_rules()) all.push_back(rule.op);
    return all;
  }();
  return ops;
}

std::string names_of_tolerance_ops() {
  std::string names;
  for (const ToleranceOp& op : tolerance_ops()) names += (names.empty() ? "" : ", ") + std::string(op.name);
  return names;
}

}  // namespace driftbound::analysis
