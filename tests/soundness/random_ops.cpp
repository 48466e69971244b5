#include "soundness/random_ops.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

#include "driftbound/model/layout.hpp"
#include "driftbound/num/errors.hpp"
#include "model/shapes.hpp"

namespace driftbound::soundness {
namespace {

constexpr std::int64_t batch_extent = 2;  ///< stands for the open axis 0 while a graph is built
constexpr std::int64_t largest_result = 160;

struct Typed {
  ValueId id = 0;
  Shape shape;
};

using Extents = std::vector<std::int64_t>;

class OpChain {
public:
  OpChain(Random& random, OpFamily family, Family data) : random_(random), family_(family), data_(data) {
    weight_type_ = random_element_type(random_, 0.75);
    input_type_ = random_element_type(random_, 0.75);
    const bool reads_samples_in_rows = family_ == OpFamily::norms || family_ == OpFamily::convolutions ||
                                       family_ == OpFamily::pooling || family_ == OpFamily::activations;
    batched_ = reads_samples_in_rows && random_.chance(0.5);
  }

  Graph build() {
    Shape shape = first_shape();
    while (element_count(shape) > largest_result / batch_extent) shape = first_shape();
    last_ = input(shape);
    const std::int64_t length = random_.integer(1, 3);
    for (int attempt = 0; attempt < 400 && static_cast<std::int64_t>(graph_.nodes.size()) < length; ++attempt) grow();
    graph_.outputs.push_back(last_.id);
    return std::move(graph_);
  }

private:
  void grow() {
    switch (family_) {
      case OpFamily::norms:
        return norm();
      case OpFamily::attention:
        return random_.chance(0.75) ? attention() : rotary();
      case OpFamily::convolutions:
        return random_.chance(0.6) ? conv() : conv_transpose();
      case OpFamily::pooling:
        return pool();
      case OpFamily::activations:
        return activation();
      case OpFamily::reductions:
        return reduction();
      case OpFamily::functions:
        return random_.chance(0.6) ? function() : arithmetic();
      case OpFamily::contractions:
        return random_.chance(0.5) ? einsum() : product();
      case OpFamily::selections:
        return selection();
      case OpFamily::choices:
        return choice();
    }
  }

  Shape first_shape() {
    switch (family_) {
      case OpFamily::norms:
        return {random_.integer(1, 2), random_.pick(Extents{2, 3, 4, 6}), random_.integer(1, 9)};
      case OpFamily::attention:
        return random_.chance(0.6)
                   ? Shape{1, random_.pick(Extents{1, 2, 4}), random_.integer(1, 6), random_.pick(Extents{2, 4, 6})}
                   : Shape{1, random_.integer(1, 6), random_.pick(Extents{8, 16})};
      case OpFamily::convolutions:
      case OpFamily::pooling:
        return windowed_shape();
      default:
        return extents(1, 4, 5);
    }
  }

  /// [N, C, D...] with one to three axes D.
  Shape windowed_shape() {
    const std::int64_t axes = random_.integer(1, 3);
    const std::int64_t largest = axes == 1 ? 14 : axes == 2 ? 6 : 4;
    Shape shape = {1, random_.pick(Extents{1, 2, 3, 4, 6})};
    for (std::int64_t axis = 0; axis < axes; ++axis) shape.push_back(random_.integer(2, largest));
    return shape;
  }

  Shape extents(std::int64_t least_rank, std::int64_t most_rank, std::int64_t largest) {
    Shape shape(static_cast<std::size_t>(random_.integer(least_rank, most_rank)));
    for (std::int64_t& extent : shape) extent = random_.integer(1, largest);
    return shape;
  }

  Typed input(Shape shape) {
    std::vector<DeclaredDimension> declared;
    for (const std::int64_t extent : shape) declared.push_back({extent, ""});
    const bool has_rows = batched_ && graph_.inputs.empty();
    if (has_rows) {
      declared[0] = {-1, "batch"};
      shape[0] = batch_extent;
    }
    return {graph_.add_input(fmt::format("x{}", graph_.inputs.size()), input_type_, declared), shape};
  }

  ValueId weight(const Shape& shape, std::size_t axis, bool is_positive = false) {
    std::vector<double> values = draw_values(random_, data_, Role::weight, shape, axis);
    if (is_positive) {
      for (double& value : values) value = std::abs(value);
    }
    return graph_.add_constant(fmt::format("w{}", graph_.values.size()), store(weight_type_, shape, values));
  }

  /// A further operand: a constant, or (where samples do not lie in rows) an input.
  ValueId operand(const Shape& shape) {
    return batched_ || random_.chance(0.5) ? weight(shape, shape.empty() ? 0 : shape.size() - 1) : input(shape).id;
  }

  /// No window of a maximum lies in the padding alone: evaluation refuses it.
  static void require_windows_inside(const Op& op, const std::vector<Shape>& shapes) {
    const auto* pool = std::get_if<op::MaxPool>(&op);
    const Op windows = pool == nullptr ? op : op::Windows{pool->geometry, op::Windows::Outside::nearest};
    if (std::holds_alternative<op::Windows>(windows)) plan_selection(windows, shapes, output_shape(windows, shapes));
  }

  /// Whether the op takes operands of these shapes and its result is of a size wanted here.
  static bool fits(const Op& op, const std::vector<Shape>& shapes) {
    try {
      require_windows_inside(op, shapes);
      const std::int64_t count = element_count(output_shape(op, shapes));
      return count > 0 && count <= largest_result;
    } catch (const ShapeMismatch&) {
      return false;
    }
  }

  /// Puts an op behind the last one, if it fits; `make` gives its further operands, of these shapes.
  template <class Make>
  void append_with(const Op& op, const std::vector<Shape>& others, Make make) {
    std::vector<Shape> shapes = {last_.shape};
    shapes.insert(shapes.end(), others.begin(), others.end());
    if (!fits(op, shapes)) return;
    std::vector<ValueId> ids = {last_.id};
    for (const Shape& shape : others) ids.push_back(make(shape));
    last_ = {graph_.add_node(fmt::format("{}{}", name_of(op), graph_.nodes.size()), op, ids), output_shape(op, shapes)};
  }

  void append(const Op& op, const std::vector<Shape>& others = {}) {
    append_with(op, others, [&](const Shape& shape) { return operand(shape); });
  }

  /// The same with constants whose products are summed over `axis`.
  void append_weighted(const Op& op, const std::vector<Shape>& others, std::size_t axis) {
    append_with(op, others, [&](const Shape& shape) { return weight(shape, shape.size() > axis ? axis : 0); });
  }

  std::int64_t rank() const { return static_cast<std::int64_t>(last_.shape.size()); }
  std::int64_t extent(std::int64_t axis) const { return last_.shape[static_cast<std::size_t>(axis)]; }
  std::int64_t first_axis() const { return batched_ ? 1 : 0; }
  std::int64_t some_axis() { return random_.integer(std::min(first_axis(), rank() - 1), rank() - 1); }
  double one_of(const std::vector<double>& values) { return random_.pick(values); }

  Extents some_axes() {
    Extents axes;
    for (std::int64_t axis = first_axis(); axis < rank(); ++axis) {
      if (random_.chance(0.5)) axes.push_back(random_.chance(0.5) ? axis : axis - rank());
    }
    return axes.empty() ? Extents{some_axis()} : axes;
  }

  // ---- norms

  double epsilon() { return one_of({static_cast<double>(1e-5f), 1e-3, 1e-12, 0.1, 1.0}); }

  void norm() {
    const std::int64_t channels = rank() > 1 ? extent(1) : 1;
    const Shape per_channel = {channels};
    const std::int64_t axis = random_.integer(1, rank() - 1);
    const Shape trailing(last_.shape.begin() + axis, last_.shape.end());
    switch (random_.integer(0, 5)) {
      case 0:
        return append_with(op::BatchNormalization{epsilon()}, std::vector<Shape>(4, per_channel),
                           [&, slot = 0](const Shape& shape) mutable {  // the last one is a variance
                             return ++slot < 4 ? operand(shape) : weight(shape, 0, true);
                           });
      case 1:
        return append(op::InstanceNormalization{epsilon()}, {per_channel, per_channel});
      case 2: {
        op::GroupNormalization group{1, epsilon(), random_.chance(0.3)};
        group.groups = random_.pick(Extents{1, 2, 3, channels});
        const Shape scales = {group.scales_groups ? group.groups : channels};
        return append(group, {scales, scales});
      }
      case 3: {
        const op::LayerNormalization layer{random_.chance(0.5) ? axis : axis - rank(), epsilon()};
        return append(layer, std::vector<Shape>(random_.chance(0.7) ? 2 : 1, trailing));
      }
      case 4:
        return append(op::RMSNormalization{random_.chance(0.5) ? axis : axis - rank(), epsilon()}, {trailing});
      default:
        return append(op::LpNormalization{axis, random_.integer(1, 2)});
    }
  }

  // ---- attention

  void attention() {
    op::Attention attention;
    attention.is_causal = random_.chance(0.4);
    if (random_.chance(0.5)) attention.scale = one_of({1.0, 0.3, 0.125, 1e-3, -0.5});
    if (random_.chance(0.4)) attention.softcap = one_of({1.0, 5.0, 30.0});
    const std::int64_t queries = extent(rank() - 2), keys = random_.integer(1, 7);
    Shape key = last_.shape, value;
    key[last_.shape.size() - 2] = keys;
    value = key;
    if (rank() == 4) {
      value.back() = random_.integer(1, 6);
      if (random_.chance(0.4)) key[1] = value[1] = 1;
    } else {
      attention.query_heads = random_.pick(Extents{1, 2, 4});
      attention.key_heads = random_.chance(0.5) ? attention.query_heads : 1;
      key.back() = extent(2) / attention.query_heads * attention.key_heads;
      value.back() = random_.integer(1, 4) * attention.key_heads;
    }
    if (random_.chance(0.25)) {
      return append_with(attention, {last_.shape, last_.shape}, [&](const Shape&) { return last_.id; });
    }
    std::vector<Shape> others = {key, value};
    if (random_.chance(0.4)) others.push_back({queries, keys});
    append(attention, others);
  }

  void rotary() {
    op::RotaryEmbedding rotary;
    rotary.interleaved = random_.chance(0.5);
    if (rank() == 3) rotary.heads = random_.pick(Extents{1, 2, 4});
    const std::int64_t size = rank() == 3 ? extent(2) / rotary.heads : extent(3);
    if (random_.chance(0.4) && size > 2) rotary.rotary_size = 2 * random_.integer(1, size / 2);
    const std::int64_t pairs = (rotary.rotary_size == 0 ? size : rotary.rotary_size) / 2;
    const Shape angles = {extent(0), extent(rank() - 2), pairs};
    append(rotary, {angles, angles});
  }

  // ---- windows

  op::WindowGeometry geometry(bool has_kernel) {
    using AutoPad = op::WindowGeometry::AutoPad;
    op::WindowGeometry g;
    const bool has_strides = random_.chance(0.6), has_dilations = random_.chance(0.4), has_pads = random_.chance(0.5);
    for (std::int64_t axis = 2; axis < rank(); ++axis) {
      if (has_kernel) g.kernel.push_back(random_.integer(1, 3));
      if (has_strides) g.strides.push_back(random_.integer(1, 3));
      if (has_dilations) g.dilations.push_back(random_.integer(1, 2));
      if (has_pads) g.pads_before.push_back(random_.integer(0, has_kernel ? g.kernel.back() - 1 : 2));
      if (has_pads) g.pads_after.push_back(random_.integer(0, has_kernel ? g.kernel.back() - 1 : 2));
    }
    if (random_.chance(0.25)) {
      g.auto_pad = random_.pick(std::vector<AutoPad>{AutoPad::same_upper, AutoPad::same_lower, AutoPad::valid});
      g.pads_before.clear();
      g.pads_after.clear();
    }
    return g;
  }

  Shape kernel_behind(std::int64_t first, std::int64_t second) {
    Shape shape = {first, second};
    for (std::int64_t axis = 2; axis < rank(); ++axis) shape.push_back(random_.integer(1, 3));
    return shape;
  }

  std::int64_t groups() {
    Extents divisors;
    for (std::int64_t g = 1; g <= extent(1); ++g) {
      if (extent(1) % g == 0) divisors.push_back(g);
    }
    return random_.chance(0.5) ? 1 : random_.pick(divisors);
  }

  void conv() {
    op::Conv conv{geometry(false), groups()};
    const std::int64_t filters = conv.groups * random_.integer(1, 3);
    std::vector<Shape> others = {kernel_behind(filters, extent(1) / conv.groups)};
    if (random_.chance(0.6)) others.push_back({filters});
    append_weighted(conv, others, 1);
  }

  void conv_transpose() {
    op::ConvTranspose conv{geometry(false), groups(), {}, {}};
    const bool has_padding = random_.chance(0.3) && !conv.geometry.strides.empty();
    for (std::size_t axis = 0; has_padding && axis < conv.geometry.strides.size(); ++axis) {
      conv.output_padding.push_back(random_.integer(0, conv.geometry.strides[axis] - 1));
    }
    const std::int64_t per_group = random_.integer(1, 3);
    std::vector<Shape> others = {kernel_behind(extent(1), per_group)};
    if (random_.chance(0.6)) others.push_back({per_group * conv.groups});
    append_weighted(conv, others, 0);
  }

  void pool() {
    op::WindowGeometry g = geometry(true);
    g.ceil_mode = random_.chance(0.4);
    switch (random_.integer(0, 9)) {
      case 0:
        return append(op::GlobalAveragePool{});
      case 1:
        return append(op::GlobalMaxPool{});
      case 2:
      case 3:
      case 4:
        return append(op::MaxPool{g});
      default:
        return append(op::AveragePool{g, random_.chance(0.5)});
    }
  }

  // ---- functions of one element

  Op some_activation() {
    return random_.pick(std::vector<Op>{
        op::Relu{},
        op::LeakyRelu{one_of({0.01, 0.1, 1.5, -0.3, 0.0, 1e-40})},
        op::Elu{one_of({1.0, 0.5, 0.1, -1.0, 3.0})},
        op::Tanh{},
        op::Sigmoid{},
        op::Softplus{},
        op::ThresholdedRelu{one_of({0.5, 1.0, 0.1, -1.0})},
        op::Clip{one_of({-1.0, -0.1, 0.0}), one_of({1.0, 0.3, 6.0})},
        op::Selu{},
        op::Celu{one_of({1.0, 0.7, 3.0})},
        op::HardSigmoid{},
        op::HardSigmoid{one_of({0.25, -1.0 / 6.0}), one_of({0.5, 0.1})},
        op::HardSwish{},
        op::Swish{one_of({1.0, 1.3, -0.7})},
        op::Mish{},
        op::Softsign{},
        op::Gelu{false},
        op::Gelu{true},
    });
  }

  void activation() {
    switch (random_.integer(0, 9)) {
      case 0:
        return append(op::LogSoftmax{some_axis(), random_.chance(0.3)});
      case 1:
        return append(op::Softmax{some_axis(), random_.chance(0.3)});
      case 2:
        return append(op::PRelu{}, {Shape{extent(rank() - 1)}});
      default:
        return append(some_activation());
    }
  }

  void function() {
    append(random_.pick(std::vector<Op>{op::Abs{}, op::Reciprocal{}, op::Log{}, op::Tan{}, op::Atan{}, op::Sinh{},
                                        op::Cosh{}, op::Floor{}, op::Ceil{}, op::Round{}, op::Sign{}, op::Sin{},
                                        op::Cos{}, op::Exp{}, op::Erf{}, op::Sqrt{}, op::Neg{},
                                        op::Pow{one_of({2.0, 3.0, 0.5, -1.0, -2.0, 1.7, 0.3, 0.0})}}));
  }

  void compare() {
    append(random_.pick(std::vector<Op>{op::Greater{}, op::GreaterOrEqual{}, op::Equal{}}), {broadcast_shape()});
  }

  /// a or b, as the last value says.
  void choose(const Typed& a, const Typed& b) {
    const std::array<ValueId, 2> ids = {a.id, b.id};
    append_with(op::Choice{}, {a.shape, b.shape}, [&, next = 0u](const Shape&) mutable { return ids[next++]; });
  }

  Typed truth(bool value) {
    StoredTensor stored(ElementType::boolean, {}, {std::byte{value}});
    return {graph_.add_constant(fmt::format("w{}", graph_.values.size()), std::move(stored)), {}};
  }

  /// Not, And, Or or Xor of the last truth value and of another comparison, as the loader of ONNX writes them.
  void logic(const Typed& compared) {
    const Typed first = last_, no = truth(false), yes = truth(true);
    const std::int64_t which = random_.integer(0, 3);
    if (which == 0) return choose(no, yes);
    last_ = compared;
    compare();
    const Typed second = last_;
    if (which == 3) choose(no, yes);
    const Typed inverse = last_;
    last_ = first;
    if (which == 1) return choose(second, no);
    choose(which == 2 ? yes : inverse, second);
  }

  /// What came before or another tensor, as comparisons of it say.
  void choice() {
    const Typed before = last_;
    compare();
    if (random_.chance(0.5)) logic(before);
    const Shape shape = broadcast_shape();
    choose(before, {operand(shape), shape});
  }

  /// Of two and of several operands, with broadcasting.
  void arithmetic() {
    if (random_.chance(0.2)) return choice();
    const Op two =
        random_.pick(std::vector<Op>{op::Add{}, op::Sub{}, op::Mul{}, op::Div{}, op::Min{}, op::Max{}, op::PRelu{}});
    if (random_.chance(0.5)) return append(two, {broadcast_shape()});
    const Op several = random_.pick(std::vector<Op>{op::SumOf{}, op::MeanOf{}, op::MinOf{}, op::MaxOf{}});
    std::vector<Shape> others;
    for (std::int64_t i = random_.integer(0, 3); i > 0; --i) others.push_back(broadcast_shape());
    append(several, others);
  }

  Shape broadcast_shape() {
    Shape shape = last_.shape;
    for (std::int64_t& extent : shape) extent = random_.chance(0.3) ? 1 : extent;
    const std::int64_t dropped = random_.integer(0, static_cast<std::int64_t>(shape.size()));
    if (random_.chance(0.5)) shape.erase(shape.begin(), shape.begin() + dropped);
    return shape;
  }

  // ---- sums and extrema

  void reduction() {
    const Extents axes = random_.chance(0.2) ? Extents{} : some_axes();
    const bool keep = random_.chance(0.7);
    if (rank() == 0) return append(op::Unsqueeze{{0}});
    if (random_.chance(0.25)) return pick();
    append(random_.pick(std::vector<Op>{op::ReduceSum{axes, keep}, op::ReduceMax{axes, keep}, op::ReduceMin{axes, keep},
                                        op::ReduceMean{axes, keep}, op::ReduceL1{axes, keep}, op::ReduceL2{axes, keep},
                                        op::ReduceSumSquare{axes, keep}, op::ReduceLogSum{axes, keep},
                                        op::ReduceLogSumExp{axes, keep}}));
  }

  /// The largest elements and where they are, as numbers; elements without what follows the point; places of a map.
  void pick() {
    const std::int64_t axis = some_axis(), count = random_.integer(1, std::max<std::int64_t>(extent(axis), 1));
    using Result = op::TopK::Result;
    const auto as_numbers = [&](const Op& op) {
      append(op);
      if (!is_float(graph_.value(last_.id).type)) append(op::Cast{ElementType::f32});
    };
    switch (random_.integer(0, 4)) {
      case 0:
        return as_numbers(op::ArgMax{axis, random_.chance(0.5), random_.chance(0.5), random_.chance(0.5)});
      case 1:
        return append(op::TopK{axis, count, Result::values, random_.chance(0.5)});
      case 2:
        return as_numbers(op::TopK{axis, count, Result::indices, random_.chance(0.5)});
      case 3:
        return as_numbers(op::Truncate{});
      default: {
        if (rank() != 4) return as_numbers(op::Truncate{});
        using Sample = op::GridSample;
        Sample sample{
            random_.pick(std::vector<Sample::Mode>{Sample::Mode::linear, Sample::Mode::nearest, Sample::Mode::cubic}),
            random_.pick(std::vector<Sample::Outside>{Sample::Outside::zero, Sample::Outside::border,
                                                      Sample::Outside::reflected}),
            random_.chance(0.5)};
        const bool jumps = sample.mode == Sample::Mode::cubic && sample.outside == Sample::Outside::border;
        sample.align_corners = sample.align_corners || jumps;
        return append(sample, {{extent(0), random_.integer(1, 2), 2, 2}});
      }
    }
  }

  // ---- products

  void product() {
    if (rank() == 0) return;
    const std::int64_t k = extent(rank() - 1), n = random_.integer(1, 6);
    if (rank() != 2 || random_.chance(0.4)) return append_weighted(op::MatMul{}, {{k, n}}, 0);
    op::Gemm gemm{one_of({1.0, 1.0, -1.0, 0.7, 3.0, 0.0, 1e-39}), one_of({1.0, 1.0, -1.0, 0.3, 0.0, 1e-39}), false,
                  random_.chance(0.5)};
    gemm.transpose_a = random_.chance(0.3);
    const std::int64_t terms = gemm.transpose_a ? extent(0) : k;
    const Shape b = gemm.transpose_b ? Shape{n, terms} : Shape{terms, n};
    const std::size_t axis = gemm.transpose_b ? 1 : 0;
    if (random_.chance(0.3)) return append_weighted(gemm, {b}, axis);
    append_weighted(gemm, {b, random_.chance(0.7) ? Shape{n} : Shape{1}}, axis);
  }

  struct Equation {
    std::string text;
    std::vector<std::string> others;  ///< indices of the further operands
  };

  /// Equations whose first operand has the rank of the last value.
  void einsum() {
    static const std::vector<std::vector<Equation>> by_rank = {
        {},
        {{"i,j->ij", {"j"}}, {"i,ij,j->", {"ij", "j"}}, {"i,i->i", {"i"}}, {"i,ij->j", {"ij"}}},
        {{"ij,jk->ik", {"jk"}}, {"ij->i", {}}, {"ij->ji", {}}, {"ij,ij->", {"ij"}}, {"ij,kj,k->i", {"kj", "k"}}},
        {{"bij,bjk->bik", {"bjk"}}, {"bij,jk->bki", {"jk"}}, {"bij->bj", {}}, {"bij,bkj->bik", {"bkj"}}},
        {{"bhqd,bhkd->bhqk", {"bhkd"}}, {"bhqd,dm->bqhm", {"dm"}}, {"bhqd->bd", {}}},
    };
    const auto& equations = by_rank[static_cast<std::size_t>(std::min<std::int64_t>(rank(), 4))];
    if (equations.empty()) return append(op::Unsqueeze{{0}});
    const Equation& equation = random_.pick(equations);
    std::vector<Shape> others;
    Extents free_extents(128, 0);
    for (const std::string& indices : equation.others) {
      Shape shape;
      for (const char index : indices) shape.push_back(extent_of(equation.text, index, free_extents));
      others.push_back(shape);
    }
    append(op::Einsum{equation.text}, others);
  }

  /// That of the first operand, or one drawn once for all that share the index.
  std::int64_t extent_of(const std::string& equation, char index, Extents& free_extents) {
    const std::size_t at = equation.find(index);
    if (at < last_.shape.size()) return last_.shape[at];
    std::int64_t& drawn = free_extents[static_cast<std::size_t>(index)];
    if (drawn == 0) drawn = random_.integer(1, 5);
    return drawn;
  }

  // ---- elements moved

  void selection() {
    if (rank() == 0) return append(op::Unsqueeze{{0}});
    const std::int64_t axis = some_axis();
    switch (random_.integer(0, 12)) {
      case 0: {
        Shape other = last_.shape;
        other[static_cast<std::size_t>(axis)] = random_.integer(1, 3);
        return append(op::Concat{axis}, {other});
      }
      case 1:
        return append(op::Reshape{{-1}, false});
      case 2:
        return append(op::Flatten{random_.integer(0, rank())});
      case 3:
        return append(random_.chance(0.5) ? Op(op::Squeeze{}) : Op(op::Unsqueeze{{random_.integer(0, rank())}}));
      case 4: {
        op::Transpose transpose;
        transpose.permutation.resize(last_.shape.size());
        std::iota(transpose.permutation.begin(), transpose.permutation.end(), 0);
        std::swap(transpose.permutation[static_cast<std::size_t>(axis)], transpose.permutation.back());
        return append(transpose);
      }
      case 5:
        return append(op::Identity{});
      case 6:
        return append(op::Cast{random_.pick(
            std::vector<ElementType>{ElementType::f16, ElementType::bf16, ElementType::f32, ElementType::f64})});
      case 7:
        return append(
            op::Slice{{random_.integer(-2, 1)}, {random_.integer(-2, 6)}, {axis}, {random_.pick(Extents{1, 2, -1})}});
      case 8:
        return append(op::Gather{axis, {3}, {random_.integer(-extent(axis), extent(axis) - 1), 0, -1}});
      case 9:
        return append(random_.chance(0.5) ? Op(op::Expand{{2, 1, 1, 1}})
                                          : Op(op::Tile{Extents(last_.shape.size(), random_.integer(1, 2))}));
      case 10: {
        using Mode = op::Pad::Mode;
        op::Pad pad{random_.pick(std::vector<Mode>{Mode::constant, Mode::reflect, Mode::edge, Mode::wrap}),
                    {},
                    {},
                    one_of({0.0, 0.1, -2.0, 1e-40})};
        for (std::int64_t i = 0; i < rank(); ++i) {
          pad.before.push_back(random_.integer(-1, 2));
          pad.after.push_back(random_.integer(-1, 2));
        }
        return append(pad);
      }
      case 11: {
        op::Where where{{extent(rank() - 1)}, {}};
        for (std::int64_t i = 0; i < extent(rank() - 1); ++i) where.condition.push_back(random_.chance(0.5));
        return append(where, {broadcast_shape()});
      }
      default:
        if (rank() < 3) return append(op::Unsqueeze{{0}});
        return append(op::Windows{geometry(true),
                                  random_.chance(0.5) ? op::Windows::Outside::zero : op::Windows::Outside::nearest});
    }
  }

  Random& random_;
  OpFamily family_;
  Family data_;
  bool batched_ = false;
  ElementType weight_type_ = ElementType::f32;
  ElementType input_type_ = ElementType::f32;
  Graph graph_;
  Typed last_;
};

}  // namespace

const std::vector<OpFamily>& all_op_families() {
  static const std::vector<OpFamily> families = {
      OpFamily::norms,      OpFamily::attention, OpFamily::convolutions, OpFamily::pooling,    OpFamily::activations,
      OpFamily::reductions, OpFamily::functions, OpFamily::contractions, OpFamily::selections, OpFamily::choices};
  return families;
}

std::string_view family_name(OpFamily family) {
  switch (family) {
    case OpFamily::norms:
      return "norms";
    case OpFamily::attention:
      return "attention";
    case OpFamily::convolutions:
      return "convolutions";
    case OpFamily::pooling:
      return "pooling";
    case OpFamily::activations:
      return "activations";
    case OpFamily::reductions:
      return "reductions";
    case OpFamily::functions:
      return "functions";
    case OpFamily::contractions:
      return "contractions";
    case OpFamily::selections:
      return "selections";
    case OpFamily::choices:
      return "choices";
  }
  return "";
}

Case random_op_case(OpFamily family, std::uint64_t seed) {
  Random random(seed);
  const Family data = random.pick(all_families());
  Graph graph = OpChain(random, family, data).build();
  graph.name = fmt::format("{} {:#x}, data {}", family_name(family), seed, family_name(data));
  return case_of(random, data, std::move(graph));
}

}  // namespace driftbound::soundness
