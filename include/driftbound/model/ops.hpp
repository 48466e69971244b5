#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "driftbound/model/tensor.hpp"

namespace driftbound {

struct Graph;  // graph.hpp

/// What an op is to the parts of the library, which answer for a whole group at once (op_groups.hpp).
enum class OpGroup : std::uint8_t {
  none,                 ///< parts answer for the op alone
  unary,                ///< y_i = f(x_i)
  binary,               ///< y_i = f(a_i, b_i) with broadcasting
  comparison,           ///< a truth value of two numbers, 0 or 1, with broadcasting
  reduction,            ///< one output element for every group of input elements
  reshaping,            ///< a selection of all elements in the order they have
  selection,            ///< every output element is an input element, or a constant of the op (fill_value)
  composite,            ///< means a graph of simpler ops (model/composite.hpp)
  composite_function,   ///< a composite with y_i = f(x_i)
  composite_reduction,  ///< a composite that reduces `axes`
};

/// Operations as data. Every op states its ONNX name and its group. The loader resolves attributes that ONNX passes as
/// constant inputs (axes, target shapes), so that every input of a node is a tensor of reals. Formulas are over the
/// reals: this is the exact function that the library measures against.
namespace op {

/// y = alpha op(A) op(B) + beta C;  A [..., m, k], B [..., k, n] after the transpositions asked for, leading axes
/// broadcast, C (optional) broadcasts to [..., m, n]
struct Gemm {
  static constexpr std::string_view name = "Gemm";
  static constexpr OpGroup group = OpGroup::none;
  double alpha = 1.0;
  double beta = 1.0;
  bool transpose_a = false;
  bool transpose_b = false;
};
/// numpy.matmul: batch dimensions broadcast, vectors get a dimension that is dropped again
struct MatMul {
  static constexpr std::string_view name = "MatMul";
  static constexpr OpGroup group = OpGroup::none;
};
struct Add {
  static constexpr std::string_view name = "Add";
  static constexpr OpGroup group = OpGroup::binary;
};
struct Sub {
  static constexpr std::string_view name = "Sub";
  static constexpr OpGroup group = OpGroup::binary;
};
struct Mul {
  static constexpr std::string_view name = "Mul";
  static constexpr OpGroup group = OpGroup::binary;
};
struct Div {
  static constexpr std::string_view name = "Div";
  static constexpr OpGroup group = OpGroup::binary;
};
struct Neg {
  static constexpr std::string_view name = "Neg";
  static constexpr OpGroup group = OpGroup::unary;
};
/// max(x, 0)
struct Relu {
  static constexpr std::string_view name = "Relu";
  static constexpr OpGroup group = OpGroup::unary;
};
/// x for x >= 0, alpha x below
struct LeakyRelu {
  static constexpr std::string_view name = "LeakyRelu";
  static constexpr OpGroup group = OpGroup::unary;
  double alpha = 0.01;
};
/// x for x >= 0, alpha (e^x - 1) below
struct Elu {
  static constexpr std::string_view name = "Elu";
  static constexpr OpGroup group = OpGroup::unary;
  double alpha = 1.0;
};
struct Tanh {
  static constexpr std::string_view name = "Tanh";
  static constexpr OpGroup group = OpGroup::unary;
};
/// 1 / (1 + e^-x)
struct Sigmoid {
  static constexpr std::string_view name = "Sigmoid";
  static constexpr OpGroup group = OpGroup::unary;
};
/// log(1 + e^x)
struct Softplus {
  static constexpr std::string_view name = "Softplus";
  static constexpr OpGroup group = OpGroup::unary;
};
struct Sin {
  static constexpr std::string_view name = "Sin";
  static constexpr OpGroup group = OpGroup::unary;
};
struct Cos {
  static constexpr std::string_view name = "Cos";
  static constexpr OpGroup group = OpGroup::unary;
};
struct Exp {
  static constexpr std::string_view name = "Exp";
  static constexpr OpGroup group = OpGroup::unary;
};
struct Erf {
  static constexpr std::string_view name = "Erf";
  static constexpr OpGroup group = OpGroup::unary;
};
struct Sqrt {
  static constexpr std::string_view name = "Sqrt";
  static constexpr OpGroup group = OpGroup::unary;
};
/// e^x_i / sum_j e^x_j over `axis` alone, or over every axis from `axis` on (opset < 13)
struct Softmax {
  static constexpr std::string_view name = "Softmax";
  static constexpr OpGroup group = OpGroup::none;
  std::int64_t axis = -1;
  bool all_trailing_axes = false;
};
struct Concat {
  static constexpr std::string_view name = "Concat";
  static constexpr OpGroup group = OpGroup::selection;
  std::int64_t axis = 0;
};
/// ONNX rules: 0 copies an extent (unless allow_zero), -1 is inferred
struct Reshape {
  static constexpr std::string_view name = "Reshape";
  static constexpr OpGroup group = OpGroup::reshaping;
  std::vector<std::int64_t> target;
  bool allow_zero = false;
};
struct Flatten {
  static constexpr std::string_view name = "Flatten";
  static constexpr OpGroup group = OpGroup::reshaping;
  std::int64_t axis = 1;
};
/// Empty axes: every extent of 1
struct Squeeze {
  static constexpr std::string_view name = "Squeeze";
  static constexpr OpGroup group = OpGroup::reshaping;
  std::vector<std::int64_t> axes;
};
struct Unsqueeze {
  static constexpr std::string_view name = "Unsqueeze";
  static constexpr OpGroup group = OpGroup::reshaping;
  std::vector<std::int64_t> axes;
};
/// Empty permutation: reversed
struct Transpose {
  static constexpr std::string_view name = "Transpose";
  static constexpr OpGroup group = OpGroup::selection;
  std::vector<std::int64_t> permutation;
};
/// Identity, and Dropout at inference
struct Identity {
  static constexpr std::string_view name = "Identity";
  static constexpr OpGroup group = OpGroup::reshaping;
};
/// The identity as an exact function; evaluators round to the target type
struct Cast {
  static constexpr std::string_view name = "Cast";
  static constexpr OpGroup group = OpGroup::unary;
  ElementType to = ElementType::f32;
};

// ---- functions of one element

struct Abs {
  static constexpr std::string_view name = "Abs";
  static constexpr OpGroup group = OpGroup::unary;
};
/// 1 / x
struct Reciprocal {
  static constexpr std::string_view name = "Reciprocal";
  static constexpr OpGroup group = OpGroup::unary;
};
struct Log {
  static constexpr std::string_view name = "Log";
  static constexpr OpGroup group = OpGroup::unary;
};
struct Tan {
  static constexpr std::string_view name = "Tan";
  static constexpr OpGroup group = OpGroup::unary;
};
struct Atan {
  static constexpr std::string_view name = "Atan";
  static constexpr OpGroup group = OpGroup::unary;
};
struct Sinh {
  static constexpr std::string_view name = "Sinh";
  static constexpr OpGroup group = OpGroup::unary;
};
struct Cosh {
  static constexpr std::string_view name = "Cosh";
  static constexpr OpGroup group = OpGroup::unary;
};
struct Floor {
  static constexpr std::string_view name = "Floor";
  static constexpr OpGroup group = OpGroup::unary;
};
struct Ceil {
  static constexpr std::string_view name = "Ceil";
  static constexpr OpGroup group = OpGroup::unary;
};
/// The nearest integer, the even one of two
struct Round {
  static constexpr std::string_view name = "Round";
  static constexpr OpGroup group = OpGroup::unary;
};
/// -1, 0 or 1
struct Sign {
  static constexpr std::string_view name = "Sign";
  static constexpr OpGroup group = OpGroup::unary;
};
/// x^exponent
struct Pow {
  static constexpr std::string_view name = "Pow";
  static constexpr OpGroup group = OpGroup::unary;
  double exponent = 1.0;
};
/// min(max(x, least), most)
struct Clip {
  static constexpr std::string_view name = "Clip";
  static constexpr OpGroup group = OpGroup::unary;
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
};
/// x above alpha, else 0
struct ThresholdedRelu {
  static constexpr std::string_view name = "ThresholdedRelu";
  static constexpr OpGroup group = OpGroup::unary;
  double alpha = 1.0;
};

// ---- arithmetic of two operands, with broadcasting

struct Min {
  static constexpr std::string_view name = "Min";
  static constexpr OpGroup group = OpGroup::binary;
};
struct Max {
  static constexpr std::string_view name = "Max";
  static constexpr OpGroup group = OpGroup::binary;
};
/// x for x >= 0, slope x below; inputs x, slope
struct PRelu {
  static constexpr std::string_view name = "PRelu";
  static constexpr OpGroup group = OpGroup::binary;
};
// Comparisons give truth values: the numbers 1 (it holds) and 0.
/// 1 where a > b, else 0
struct Greater {
  static constexpr std::string_view name = "Greater";
  static constexpr OpGroup group = OpGroup::comparison;
};
/// 1 where a >= b, else 0
struct GreaterOrEqual {
  static constexpr std::string_view name = "GreaterOrEqual";
  static constexpr OpGroup group = OpGroup::comparison;
};
/// 1 where a = b, else 0
struct Equal {
  static constexpr std::string_view name = "Equal";
  static constexpr OpGroup group = OpGroup::comparison;
};

// ---- three operands, with broadcasting

/// a where c > 1/2, else b; inputs c, a, b. That is Where for truth values c, and with truth values for a and b every
/// logical operation.
struct Choice {
  static constexpr std::string_view name = "Where";
  static constexpr OpGroup group = OpGroup::none;
};

// ---- reductions over `axes` (empty: all), kept with extent 1 where `keep_axes`

struct ReduceSum {
  static constexpr std::string_view name = "ReduceSum";
  static constexpr OpGroup group = OpGroup::reduction;
  std::vector<std::int64_t> axes;
  bool keep_axes = true;
  bool is_of_moment = false;  ///< other programs may merge the mean from means of parts (docs/theory.md T-136)
};
struct ReduceMax {
  static constexpr std::string_view name = "ReduceMax";
  static constexpr OpGroup group = OpGroup::reduction;
  std::vector<std::int64_t> axes;
  bool keep_axes = true;
};
struct ReduceMin {
  static constexpr std::string_view name = "ReduceMin";
  static constexpr OpGroup group = OpGroup::reduction;
  std::vector<std::int64_t> axes;
  bool keep_axes = true;
};

// ---- elements moved, repeated, left out

/// numpy's x[starts:ends:steps] along `axes`; bounds are clamped, negative ones count from the end
struct Slice {
  static constexpr std::string_view name = "Slice";
  static constexpr OpGroup group = OpGroup::selection;
  std::vector<std::int64_t> starts, ends, axes, steps;
};
/// Slices of `axis` picked by constant indices (negative: from the end); their shape replaces the axis
struct Gather {
  static constexpr std::string_view name = "Gather";
  static constexpr OpGroup group = OpGroup::selection;
  std::int64_t axis = 0;
  Shape indices_shape;
  std::vector<std::int64_t> indices;
};
/// Broadcasts to `target` and the input's shape together
struct Expand {
  static constexpr std::string_view name = "Expand";
  static constexpr OpGroup group = OpGroup::selection;
  std::vector<std::int64_t> target;
};
struct Tile {
  static constexpr std::string_view name = "Tile";
  static constexpr OpGroup group = OpGroup::selection;
  std::vector<std::int64_t> repeats;
};
/// `before` and `after` elements added (negative: cut off) along every axis
struct Pad {
  static constexpr std::string_view name = "Pad";
  static constexpr OpGroup group = OpGroup::selection;
  enum class Mode { constant, reflect, edge, wrap };
  Mode mode = Mode::constant;
  std::vector<std::int64_t> before, after;
  double value = 0.0;
};
/// a where the constant condition holds, else b; inputs a, b
struct Where {
  static constexpr std::string_view name = "Where";
  static constexpr OpGroup group = OpGroup::selection;
  Shape condition_shape;
  std::vector<bool> condition;
};

/// How a window moves over the axes behind [N, C]: one entry an axis; empty: 1 (0 for pads).
struct WindowGeometry {
  enum class AutoPad { none, same_upper, same_lower, valid };
  std::vector<std::int64_t> kernel, strides, dilations, pads_before, pads_after;
  AutoPad auto_pad = AutoPad::none;
  bool ceil_mode = false;  ///< the last window may reach beyond the padding
};
/// The elements under every window: [N, C, D...] to [N, C, product(kernel), product(outputs)]. Outside the input there
/// are zeros, or the window's nearest elements inside, which change no maximum.
struct Windows {
  static constexpr std::string_view name = "Windows";
  static constexpr OpGroup group = OpGroup::selection;
  enum class Outside { zero, nearest };
  WindowGeometry geometry;
  Outside outside = Outside::zero;
};

// ---- composites: each means the graph of simpler ops that composite_body() gives (model/composite.hpp)

/// x for x >= 0, alpha (e^x - 1) below, all times gamma
struct Selu {
  static constexpr std::string_view name = "Selu";
  static constexpr OpGroup group = OpGroup::composite_function;
  double alpha = 1.67326319217681884765625;
  double gamma = 1.05070102214813232421875;
};
/// max(0, x) + min(0, alpha (e^(x / alpha) - 1))
struct Celu {
  static constexpr std::string_view name = "Celu";
  static constexpr OpGroup group = OpGroup::composite_function;
  double alpha = 1.0;
};
/// min(max(alpha x + beta, 0), 1)
struct HardSigmoid {
  static constexpr std::string_view name = "HardSigmoid";
  static constexpr OpGroup group = OpGroup::composite_function;
  double alpha = 0.20000000298023223876953125;
  double beta = 0.5;
};
/// x min(max(x / 6 + 1 / 2, 0), 1)
struct HardSwish {
  static constexpr std::string_view name = "HardSwish";
  static constexpr OpGroup group = OpGroup::composite_function;
};
/// x / (1 + e^(-alpha x))
struct Swish {
  static constexpr std::string_view name = "Swish";
  static constexpr OpGroup group = OpGroup::composite_function;
  double alpha = 1.0;
};
/// x tanh(log(1 + e^x))
struct Mish {
  static constexpr std::string_view name = "Mish";
  static constexpr OpGroup group = OpGroup::composite_function;
};
/// x / (1 + |x|)
struct Softsign {
  static constexpr std::string_view name = "Softsign";
  static constexpr OpGroup group = OpGroup::composite_function;
};
/// x (1 + erf(x / sqrt 2)) / 2; tanh_form: x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2
struct Gelu {
  static constexpr std::string_view name = "Gelu";
  static constexpr OpGroup group = OpGroup::composite_function;
  bool tanh_form = false;
};
/// x_i - m - log sum_j e^(x_j - m), m = max x_j, over the axes of Softmax
struct LogSoftmax {
  static constexpr std::string_view name = "LogSoftmax";
  static constexpr OpGroup group = OpGroup::composite;
  std::int64_t axis = -1;
  bool all_trailing_axes = false;
};

/// e^x_i / sum_j e^x_j over the elements of `axis` that are not masked, 0 for those that are: what Softmax makes of minus
/// infinity. Inputs x and, where the mask is no constant, truth values: 1 keeps an element
struct MaskedSoftmax {
  static constexpr std::string_view name = "MaskedSoftmax";
  static constexpr OpGroup group = OpGroup::composite;
  std::int64_t axis = -1;
  Shape kept_shape;
  std::vector<bool> kept;  ///< a constant mask; empty: it is the second input
};

/// Sums, means and extrema of any number of operands, with broadcasting
struct SumOf {
  static constexpr std::string_view name = "Sum";
  static constexpr OpGroup group = OpGroup::composite;
};
struct MeanOf {
  static constexpr std::string_view name = "Mean";
  static constexpr OpGroup group = OpGroup::composite;
};
struct MinOf {
  static constexpr std::string_view name = "Min";
  static constexpr OpGroup group = OpGroup::composite;
};
struct MaxOf {
  static constexpr std::string_view name = "Max";
  static constexpr OpGroup group = OpGroup::composite;
};

struct ReduceMean {
  static constexpr std::string_view name = "ReduceMean";
  static constexpr OpGroup group = OpGroup::composite_reduction;
  std::vector<std::int64_t> axes;
  bool keep_axes = true;
};
struct ReduceL1 {
  static constexpr std::string_view name = "ReduceL1";
  static constexpr OpGroup group = OpGroup::composite_reduction;
  std::vector<std::int64_t> axes;
  bool keep_axes = true;
};
struct ReduceL2 {
  static constexpr std::string_view name = "ReduceL2";
  static constexpr OpGroup group = OpGroup::composite_reduction;
  std::vector<std::int64_t> axes;
  bool keep_axes = true;
};
struct ReduceSumSquare {
  static constexpr std::string_view name = "ReduceSumSquare";
  static constexpr OpGroup group = OpGroup::composite_reduction;
  std::vector<std::int64_t> axes;
  bool keep_axes = true;
};
/// log sum x
struct ReduceLogSum {
  static constexpr std::string_view name = "ReduceLogSum";
  static constexpr OpGroup group = OpGroup::composite_reduction;
  std::vector<std::int64_t> axes;
  bool keep_axes = true;
};
/// log sum e^x
struct ReduceLogSumExp {
  static constexpr std::string_view name = "ReduceLogSumExp";
  static constexpr OpGroup group = OpGroup::composite_reduction;
  std::vector<std::int64_t> axes;
  bool keep_axes = true;
};

/// (x - mean) / sqrt(variance + epsilon) scale + bias with stored mean and variance; inputs x, scale, bias, mean,
/// variance
struct BatchNormalization {
  static constexpr std::string_view name = "BatchNormalization";
  static constexpr OpGroup group = OpGroup::composite;
  double epsilon = 1e-5f;
};
/// The same with mean and variance of every sample and channel; inputs x, scale, bias
struct InstanceNormalization {
  static constexpr std::string_view name = "InstanceNormalization";
  static constexpr OpGroup group = OpGroup::composite;
  double epsilon = 1e-5f;
};
/// … of every sample and group of channels; scale and bias a channel, or (before opset 21) a group
struct GroupNormalization {
  static constexpr std::string_view name = "GroupNormalization";
  static constexpr OpGroup group = OpGroup::composite;
  std::int64_t groups = 1;
  double epsilon = 1e-5f;
  bool scales_groups = false;
};
/// … over the axes from `axis` on; inputs x, scale, bias (optional)
struct LayerNormalization {
  static constexpr std::string_view name = "LayerNormalization";
  static constexpr OpGroup group = OpGroup::composite;
  std::int64_t axis = -1;
  double epsilon = 1e-5f;
};
/// x / sqrt(mean of x^2 over the axes from `axis` on + epsilon) scale; inputs x, scale
struct RMSNormalization {
  static constexpr std::string_view name = "RMSNormalization";
  static constexpr OpGroup group = OpGroup::composite;
  std::int64_t axis = -1;
  double epsilon = 1e-5f;
};
/// x / (sum |x|) for p = 1, x / sqrt(sum x^2) for p = 2, along `axis`
struct LpNormalization {
  static constexpr std::string_view name = "LpNormalization";
  static constexpr OpGroup group = OpGroup::composite;
  std::int64_t axis = -1;
  std::int64_t p = 2;
};

/// Cross-correlation of [N, C, D...] with weights [M, C / groups, kernel...], plus a bias [M] (optional); the kernel's
/// extents come from the weights
struct Conv {
  static constexpr std::string_view name = "Conv";
  static constexpr OpGroup group = OpGroup::composite;
  WindowGeometry geometry;
  std::int64_t groups = 1;
};
/// The transposed map of Conv; weights [C, M / groups, kernel...]
struct ConvTranspose {
  static constexpr std::string_view name = "ConvTranspose";
  static constexpr OpGroup group = OpGroup::composite;
  WindowGeometry geometry;
  std::int64_t groups = 1;
  std::vector<std::int64_t> output_padding, output_shape;
};
struct MaxPool {
  static constexpr std::string_view name = "MaxPool";
  static constexpr OpGroup group = OpGroup::composite;
  WindowGeometry geometry;
};
/// Means over windows; padding counts as zeros where `counts_padding`, else only what lies inside is averaged
struct AveragePool {
  static constexpr std::string_view name = "AveragePool";
  static constexpr OpGroup group = OpGroup::composite;
  WindowGeometry geometry;
  bool counts_padding = false;
};
/// Index of the largest, or smallest, element of x along `axis`: the first of equal ones, or the last
struct ArgMax {
  static constexpr std::string_view name = "ArgMax";
  static constexpr OpGroup group = OpGroup::composite;
  std::int64_t axis = 0;
  bool keep_axis = true;
  bool last = false;
  bool smallest = false;
};
/// The `count` largest elements of x along `axis` in falling order, or the smallest in rising order, or their indices; of
/// equal ones the first comes first
struct TopK {
  static constexpr std::string_view name = "TopK";
  static constexpr OpGroup group = OpGroup::composite;
  enum class Result { values, indices };
  std::int64_t axis = -1;
  std::int64_t count = 1;
  Result result = Result::values;
  bool smallest = false;
};
/// x without what follows the point, as an integer type
struct Truncate {
  static constexpr std::string_view name = "Truncate";
  static constexpr OpGroup group = OpGroup::composite_function;
  ElementType to = ElementType::i64;
};
/// x [N, C, H, W] read between its pixels, at places (column, row) in [-1, 1]: inputs x, places [N, H', W', 2]
struct GridSample {
  static constexpr std::string_view name = "GridSample";
  static constexpr OpGroup group = OpGroup::composite;
  enum class Mode { linear, nearest, cubic };
  enum class Outside { zero, border, reflected };
  Mode mode = Mode::linear;
  Outside outside = Outside::zero;
  bool align_corners = false;  ///< -1 and 1 are the middles of the first and last pixel, not their outer edges
};
struct GlobalAveragePool {
  static constexpr std::string_view name = "GlobalAveragePool";
  static constexpr OpGroup group = OpGroup::composite;
};
struct GlobalMaxPool {
  static constexpr std::string_view name = "GlobalMaxPool";
  static constexpr OpGroup group = OpGroup::composite;
};

/// softmax(softcap(scale Q K^T) + mask) V, softcap(s) = c tanh(s / c); inputs Q, K, V, mask (optional). [N, heads,
/// length, size], or [N, length, heads size] with the numbers of heads given. A key that a query does not see weighs 0;
/// a query that sees none has weights 0.
struct Attention {
  static constexpr std::string_view name = "Attention";
  static constexpr OpGroup group = OpGroup::composite;
  /// The last step that is computed: scale Q K^T, softcap(…), … + mask, the softmax, or all.
  enum class Result { products, capped, masked, weights, attended };

  bool is_causal = false;  ///< query i sees keys up to i + first_query
  double scale = 0.0;      ///< 0: 1 / sqrt(size)
  double softcap = 0.0;
  std::int64_t query_heads = 0, key_heads = 0;
  std::int64_t first_query = 0;    ///< keys before the first query's own
  Shape visible_shape = {};        ///< broadcasts to [N, heads, queries, keys]
  std::vector<bool> visible = {};  ///< which keys a query sees; empty: all
  Result result = Result::attended;
};
/// Pairs of coordinates rotated by angles whose cosines and sines are inputs; inputs x, cos, sin
struct RotaryEmbedding {
  static constexpr std::string_view name = "RotaryEmbedding";
  static constexpr OpGroup group = OpGroup::composite;
  bool interleaved = false;
  std::int64_t heads = 0;
  std::int64_t rotary_size = 0;  ///< 0: all coordinates
};
/// Sums of products over repeated indices, one or more operands
struct Einsum {
  static constexpr std::string_view name = "Einsum";
  static constexpr OpGroup group = OpGroup::composite;
  std::string equation;
};

/// Several nodes of a graph of which only the result is known: the output of `graph`, one with one output whose input
/// i is the op's input i. Programs fuse nodes, and recordings leave values out.
struct Segment {
  static constexpr std::string_view name = "Segment";
  static constexpr OpGroup group = OpGroup::composite;
  std::shared_ptr<const Graph> graph;
};

}  // namespace op

/// Adding an op means adding an alternative here; every std::visit over Op then fails to compile
/// until it has an answer (docs/adding-an-op.md is the checklist).
using OpAlternatives =
    std::variant<op::Gemm, op::MatMul, op::Add, op::Sub, op::Mul, op::Div, op::Neg, op::Relu, op::LeakyRelu, op::Elu,
                 op::Tanh, op::Sigmoid, op::Softplus, op::Sin, op::Cos, op::Exp, op::Erf, op::Sqrt, op::Softmax,
                 op::Concat, op::Reshape, op::Flatten, op::Squeeze, op::Unsqueeze, op::Transpose, op::Identity,
                 op::Cast, op::Abs, op::Reciprocal, op::Log, op::Tan, op::Atan, op::Sinh, op::Cosh, op::Floor, op::Ceil,
                 op::Round, op::Sign, op::Pow, op::Clip, op::ThresholdedRelu, op::Min, op::Max, op::PRelu, op::Greater,
                 op::GreaterOrEqual, op::Equal, op::Choice, op::ReduceSum, op::ReduceMax, op::ReduceMin, op::Slice,
                 op::Gather, op::Expand, op::Tile, op::Pad, op::Where, op::Windows, op::Selu, op::Celu, op::HardSigmoid,
                 op::HardSwish, op::Swish, op::Mish, op::Softsign, op::Gelu, op::LogSoftmax, op::MaskedSoftmax,
                 op::SumOf, op::MeanOf, op::MinOf, op::MaxOf, op::ReduceMean, op::ReduceL1, op::ReduceL2,
                 op::ReduceSumSquare, op::ReduceLogSum, op::ReduceLogSumExp, op::BatchNormalization,
                 op::InstanceNormalization, op::GroupNormalization, op::LayerNormalization, op::RMSNormalization,
                 op::LpNormalization, op::Conv, op::ConvTranspose, op::MaxPool, op::AveragePool, op::GlobalAveragePool,
                 op::GlobalMaxPool, op::ArgMax, op::TopK, op::Truncate, op::GridSample, op::Attention,
                 op::RotaryEmbedding, op::Einsum, op::Segment>;

template <class T, class... Alternatives>
constexpr bool is_alternative(const std::variant<Alternatives...>*) {
  return (std::is_same_v<T, Alternatives> || ...);
}

/// One of the ops. Copied, moved and destroyed in one file: std::variant would have every file that holds a graph
/// compile that anew for every alternative.
class Op : public OpAlternatives {
public:
  Op();
  Op(const Op& other);
  Op(Op&& other) noexcept;
  Op& operator=(const Op& other);
  Op& operator=(Op&& other) noexcept;
  ~Op();
  template <class T>
  requires(is_alternative<T>(static_cast<const OpAlternatives*>(nullptr))) Op(T value)
      : OpAlternatives(std::in_place_type<T>, std::move(value)) {}
};

/// ONNX name of the op ("Gemm", "LeakyRelu" …).
std::string_view name_of(const Op& op);

}  // namespace driftbound
