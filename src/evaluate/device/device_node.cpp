#include "evaluate/device/device_node.hpp"

#include <algorithm>
#include <string>

#include "driftbound/model/layout.hpp"
#include "driftbound/num/errors.hpp"
#include "evaluate/device/arithmetic.hpp"
#include "evaluate/device/views.hpp"
#include "evaluate/rounding.hpp"
#include "linalg/summation.hpp"
#include "model/shapes.hpp"
#include "model/strides.hpp"
#include "model/variant.hpp"

namespace driftbound::device {
namespace {

FormatId cast_format(ElementType type) {
  if (const auto format = float_format(type)) return *format;
  throw Unsupported("a Cast to " + std::string(name_of(type)) + " is not an op on reals");
}

const std::byte* at_element(const void* data, std::int64_t element, std::uint64_t width) {
  return static_cast<const std::byte*>(data) + static_cast<std::uint64_t>(element) * width;
}

/// A matrix of a product, as a BLAS takes it.
struct Matrix {
  const void* data = nullptr;
  std::int64_t row = 0, col = 0;
  std::shared_ptr<const Buffer> gathered;  ///< keeps a copy alive
};

/// Ops as visitors: one overload of operator() each, all inputs read through `values_`.
template <class Real>
class DeviceNode {
public:
  DeviceNode(const Program& program, std::size_t node, const DeviceRules& rules, Device& device,
             DeviceValues<Real>& values, const UseOfAlgorithm& used)
      : program_(program),
        node_(program.nodes()[node]),
        rules_(rules),
        device_(device),
        values_(values),
        used_(used),
        shape_(program.shape(node_.output)) {}

  DeviceTensor operator()(const op::Gemm& gemm) {
    DeviceTensor y = product(gemm);
    if (gemm.alpha != 1.0) apply(DRIFTBOUND_SCALE, attribute(gemm.alpha), y, y);
    if (node_.inputs.size() > 2) add_bias(attribute(gemm.beta), y);
    return y;
  }
  DeviceTensor operator()(const op::MatMul& matmul) { return product(matmul); }

  DeviceTensor operator()(const op::Add&) { return pairs(DRIFTBOUND_ADD); }
  DeviceTensor operator()(const op::Sub&) { return pairs(DRIFTBOUND_SUB); }
  DeviceTensor operator()(const op::Mul&) { return pairs(DRIFTBOUND_MUL); }
  DeviceTensor operator()(const op::Div&) { return pairs(DRIFTBOUND_DIV); }

  DeviceTensor operator()(const op::Neg&) { return elements(DRIFTBOUND_NEG); }
  DeviceTensor operator()(const op::Relu&) { return elements(DRIFTBOUND_RELU); }
  DeviceTensor operator()(const op::LeakyRelu& leaky) {
    return elements(DRIFTBOUND_LEAKY_RELU, attribute(leaky.alpha));
  }
  DeviceTensor operator()(const op::Elu& elu) { return elements(DRIFTBOUND_ELU, attribute(elu.alpha)); }
  DeviceTensor operator()(const op::Tanh&) { return elements(DRIFTBOUND_TANH); }
  DeviceTensor operator()(const op::Sigmoid&) { return elements(DRIFTBOUND_SIGMOID); }
  DeviceTensor operator()(const op::Softplus&) { return elements(DRIFTBOUND_SOFTPLUS); }
  DeviceTensor operator()(const op::Sin&) { return elements(DRIFTBOUND_SIN); }
  DeviceTensor operator()(const op::Cos&) { return elements(DRIFTBOUND_COS); }
  DeviceTensor operator()(const op::Exp&) { return elements(DRIFTBOUND_EXP); }
  DeviceTensor operator()(const op::Erf&) { return elements(DRIFTBOUND_ERF); }
  DeviceTensor operator()(const op::Sqrt&) { return elements(DRIFTBOUND_SQRT); }

  DeviceTensor operator()(const op::Cast& cast) {
    return rounded_on_device(input(0), cast_format(cast.to), rules_, device_, values_);
  }

  DeviceTensor operator()(const op::Softmax& softmax) {
    const DeviceTensor x = input(0);
    const ReductionPlan plan = plan_reduction(softmax, x.shape);
    DeviceTensor y = values_.allocate(shape_);
    if (count(y) == 0) return y;
    const auto chain = static_cast<std::int64_t>(chain_length(rules_.order, plan.length));
    device_.call(device_.functions().softmax, real_of<Real>, x.data(), y.data(), plan.outer, plan.length, plan.inner,
                 chain);
    return y;
  }

  DeviceTensor operator()(const op::Reshape&) { return reshaped(); }
  DeviceTensor operator()(const op::Flatten&) { return reshaped(); }
  DeviceTensor operator()(const op::Squeeze&) { return reshaped(); }
  DeviceTensor operator()(const op::Unsqueeze&) { return reshaped(); }
  DeviceTensor operator()(const op::Identity&) { return reshaped(); }

  DeviceTensor operator()(const op::Transpose& transpose) {
    const DeviceTensor x = input(0);
    DeviceTensor y = values_.allocate(shape_);
    if (count(y) == 0) return y;
    const std::vector<std::int64_t> own = row_major_strides(x.shape);
    Strided from;
    for (const std::size_t axis : permutation_of(transpose, x.shape.size())) from.strides.push_back(own[axis]);
    move(shape_, sizeof(Real), x.data(), from, y.data(), {0, row_major_strides(shape_)});
    return y;
  }

  DeviceTensor operator()(const op::Concat& concat) {
    const std::size_t axis = normalized_axis(concat.axis, shape_.size());
    DeviceTensor y = values_.allocate(shape_);
    Strided to{0, row_major_strides(shape_)};
    for (std::size_t slot = 0; slot < node_.inputs.size(); ++slot) {
      const DeviceTensor x = input(slot);
      if (count(x) > 0) move(x.shape, sizeof(Real), x.data(), {0, row_major_strides(x.shape)}, y.data(), to);
      to.offset += x.shape[axis] * to.strides[axis];
    }
    return y;
  }

  DeviceTensor operator()(const op::Abs&) { return elements(DRIFTBOUND_ABS); }
  DeviceTensor operator()(const op::Reciprocal&) { return elements(DRIFTBOUND_RECIPROCAL); }
  DeviceTensor operator()(const op::Log&) { return elements(DRIFTBOUND_LOG); }
  DeviceTensor operator()(const op::Tan&) { return elements(DRIFTBOUND_TAN); }
  DeviceTensor operator()(const op::Atan&) { return elements(DRIFTBOUND_ATAN); }
  DeviceTensor operator()(const op::Sinh&) { return elements(DRIFTBOUND_SINH); }
  DeviceTensor operator()(const op::Cosh&) { return elements(DRIFTBOUND_COSH); }
  DeviceTensor operator()(const op::Floor&) { return elements(DRIFTBOUND_FLOOR); }
  DeviceTensor operator()(const op::Ceil&) { return elements(DRIFTBOUND_CEIL); }
  DeviceTensor operator()(const op::Round&) { return elements(DRIFTBOUND_ROUND); }
  DeviceTensor operator()(const op::Sign&) { return elements(DRIFTBOUND_SIGN); }
  DeviceTensor operator()(const op::Pow& power) { return elements(DRIFTBOUND_POW, power.exponent); }
  DeviceTensor operator()(const op::ThresholdedRelu& relu) {
    return elements(DRIFTBOUND_THRESHOLDED_RELU, attribute(relu.alpha));
  }
  DeviceTensor operator()(const op::Clip& clip) {
    const DeviceTensor y = elements(DRIFTBOUND_RAISE, attribute(clip.least));
    apply(DRIFTBOUND_LOWER, attribute(clip.most), y, y);
    return y;
  }
  DeviceTensor operator()(const op::Min&) { return pairs(DRIFTBOUND_MIN); }
  DeviceTensor operator()(const op::Max&) { return pairs(DRIFTBOUND_MAX); }
  DeviceTensor operator()(const op::PRelu&) { return pairs(DRIFTBOUND_PRELU); }
  DeviceTensor operator()(const op::Greater&) { return pairs(DRIFTBOUND_GREATER); }
  DeviceTensor operator()(const op::GreaterOrEqual&) { return pairs(DRIFTBOUND_GREATER_OR_EQUAL); }
  DeviceTensor operator()(const op::Equal&) { return pairs(DRIFTBOUND_EQUAL); }
  DeviceTensor operator()(const op::Choice&) {
    const DeviceTensor c = input(0), a = input(1), b = input(2);
    DeviceTensor y = values_.allocate(shape_);
    if (count(y) == 0) return y;
    const std::vector<driftbound_view> views = merged_views(
        shape_,
        {broadcast_strides(c.shape, shape_), broadcast_strides(a.shape, shape_), broadcast_strides(b.shape, shape_)});
    device_.call(device_.functions().choose, real_of<Real>, c.data(), &views[0], a.data(), &views[1], b.data(),
                 &views[2], y.data());
    return y;
  }

  DeviceTensor operator()(const op::ReduceSum&) { return reduced(DRIFTBOUND_REDUCE_SUM); }
  DeviceTensor operator()(const op::ReduceMax&) { return reduced(DRIFTBOUND_REDUCE_MAX); }
  DeviceTensor operator()(const op::ReduceMin&) { return reduced(DRIFTBOUND_REDUCE_MIN); }

  /// By the plan, one table an input.
  DeviceTensor operator()(
      const OneOf<op::Slice, op::Gather, op::Expand, op::Tile, op::Pad, op::Where, op::Windows> auto&) {
    std::vector<Shape> shapes;
    for (const ValueId id : node_.inputs) shapes.push_back(program_.shape(id));
    const std::vector<ElementSource> sources = plan_selection(node_.op, shapes, shape_);
    DeviceTensor y = values_.allocate(shape_);
    if (count(y) == 0) return y;
    if (std::any_of(sources.begin(), sources.end(), [](const ElementSource& s) { return s.is_fill(); }))
      device_.call(device_.functions().fill, real_of<Real>, attribute(fill_value(node_.op)), y.data(), count(y));
    for (std::size_t slot = 0; slot < node_.inputs.size(); ++slot) {
      std::vector<std::int64_t> table;
      table.reserve(sources.size());
      for (const ElementSource& source : sources) {
        table.push_back(source.input == slot ? static_cast<std::int64_t>(source.index) : -1);
      }
      const auto uploaded = device_.uploaded(table.data(), table.size() * sizeof(std::int64_t));
      const DeviceTensor x = input(slot);
      device_.call(device_.functions().gather, static_cast<std::int32_t>(sizeof(Real)), x.data(),
                   static_cast<const std::int64_t*>(uploaded->data()), y.data(), count(y));
    }
    return y;
  }

  DeviceTensor operator()(const Composite auto&) {
    throw std::logic_error("evaluate_on_device: a program has no composites");
  }

private:
  DeviceTensor input(std::size_t slot) { return values_.operand(node_.inputs[slot]); }
  double attribute(double value) const {
    return static_cast<double>(rounded<Real>(value, rules_.arithmetic.accumulator));
  }
  static std::int64_t count(const DeviceTensor& tensor) { return element_count(tensor.shape); }

  DeviceTensor reshaped() { return {shape_, input(0).memory}; }

  DeviceTensor elements(driftbound_unary function, double parameter = 0.0) {
    DeviceTensor y = values_.allocate(shape_);
    apply(function, parameter, input(0), y);
    return y;
  }

  /// y = function(x), where x may be y itself.
  void apply(driftbound_unary function, double parameter, const DeviceTensor& x, const DeviceTensor& y) {
    if (count(y) > 0)
      device_.call(device_.functions().unary, real_of<Real>, function, parameter, x.data(), y.data(), count(y));
  }

  DeviceTensor reduced(driftbound_reduction reduction) {
    const DeviceTensor x = input(0);
    const GroupPlan plan = plan_groups(node_.op, x.shape);
    DeviceTensor y = values_.allocate(shape_);
    if (count(y) == 0) return y;
    if (plan.elements.empty()) {
      device_.call(device_.functions().fill, real_of<Real>, 0.0, y.data(), count(y));
      return y;
    }
    const auto groups = table_of(plan.groups), elements = table_of(plan.elements);
    const auto terms = static_cast<std::int64_t>(plan.elements.size());
    const auto chain = static_cast<std::int64_t>(chain_length(rules_.order, terms));
    device_.call(device_.functions().reduce, real_of<Real>, reduction, x.data(),
                 static_cast<const std::int64_t*>(groups->data()), count(y),
                 static_cast<const std::int64_t*>(elements->data()), terms, chain, y.data());
    return y;
  }

  std::shared_ptr<const Buffer> table_of(const std::vector<std::size_t>& offsets) const {
    const std::vector<std::int64_t> table(offsets.begin(), offsets.end());
    return device_.uploaded(table.data(), table.size() * sizeof(std::int64_t));
  }

  DeviceTensor pairs(driftbound_binary function) {
    DeviceTensor y = values_.allocate(shape_);
    combine(function, input(0), input(1), y);
    return y;
  }

  /// y = a op b, where a or b may be y itself.
  void combine(driftbound_binary function, const DeviceTensor& a, const DeviceTensor& b, const DeviceTensor& y) {
    if (count(y) == 0) return;
    const std::vector<driftbound_view> views =
        merged_views(y.shape, {broadcast_strides(a.shape, y.shape), broadcast_strides(b.shape, y.shape)});
    device_.call(device_.functions().binary, real_of<Real>, function, a.data(), &views[0], b.data(), &views[1],
                 y.data());
  }

  void add_bias(double beta, const DeviceTensor& y) {
    DeviceTensor bias = input(2);
    if (beta != 1.0) {
      const DeviceTensor scaled = values_.allocate(bias.shape);
      apply(DRIFTBOUND_SCALE, beta, bias, scaled);
      bias = scaled;
    }
    combine(DRIFTBOUND_ADD, y, bias, y);
  }

  void move(const Shape& extents, std::uint64_t width, const void* from, Strided from_strides, void* to,
            Strided to_strides) {
    const std::vector<driftbound_view> views = merged_views(extents, {std::move(from_strides), std::move(to_strides)});
    device_.call(device_.functions().move, static_cast<std::int32_t>(width), from, &views[0], to, &views[1]);
  }

  template <class ProductOp>
  DeviceTensor product(const ProductOp& op) {
    const ProductPlan plan = plan_product(op, program_.shape(node_.inputs[0]), program_.shape(node_.inputs[1]));
    const DeviceTensor a = values_.product_operand(node_.inputs[0]);
    const DeviceTensor b = values_.product_operand(node_.inputs[1]);
    DeviceTensor c = values_.allocate(shape_);
    if (count(c) == 0) return c;
    for (const StackedProduct& part : stacked_products(plan)) {
      const auto batch = static_cast<std::size_t>(part.first);
      const std::int64_t rows = part.batches * plan.m;
      const Matrix left = matrix(a, plan.a_batch[batch], rows, plan.k, plan.a_row, plan.a_col);
      const Matrix right = matrix(b, plan.b_batch[batch], plan.k, plan.n, plan.b_row, plan.b_col);
      driftbound_product task{};
      task.m = rows;
      task.n = plan.n;
      task.k = plan.k;
      task.a = left.data;
      task.a_row = left.row;
      task.a_col = left.col;
      task.b = right.data;
      task.b_row = right.row;
      task.b_col = right.col;
      task.c = static_cast<Real*>(c.data()) + part.first * plan.m * plan.n;
      multiply(task);
    }
    return c;
  }

  void multiply(const driftbound_product& task) {
    if (rules_.product == CudaProduct::by_algorithm) {
      driftbound_algorithm algorithm{};
      device_.call(device_.functions().gemm_by, rules_.mode, &task, rules_.algorithm, &algorithm);
      used_(algorithm);
      return;
    }
    if (rules_.product != CudaProduct::ordered) {
      device_.call(device_.functions().gemm, rules_.mode, &task);
      return;
    }
    const auto chain = static_cast<std::int64_t>(chain_length(rules_.order, task.k));
    device_.call(device_.functions().ordered_product, real_of<Real>, &task, chain, rules_.order.fma ? 1 : 0);
  }

  /// The matrix of an operand that starts at an element, copied where its strides fit no BLAS.
  Matrix matrix(const DeviceTensor& operand, std::int64_t offset, std::int64_t rows, std::int64_t cols,
                std::int64_t row_stride, std::int64_t col_stride) {
    const std::uint64_t width = rules_.operands == OperandForm::narrowed ? 2 : sizeof(Real);
    const MatrixStrides strides = matrix_strides(rows, cols, row_stride, col_stride);
    if (strides.fits_blas) return {at_element(operand.data(), offset, width), strides.row, strides.col, nullptr};
    auto copy = device_.allocate(static_cast<std::uint64_t>(rows * cols) * width);
    move({rows, cols}, width, operand.data(), {offset, {row_stride, col_stride}}, copy->data(), {0, {cols, 1}});
    return {copy->data(), cols, 1, copy};
  }

  const Program& program_;
  const Node& node_;
  const DeviceRules& rules_;
  Device& device_;
  DeviceValues<Real>& values_;
  const UseOfAlgorithm& used_;
  const Shape& shape_;
};

}  // namespace

DeviceRules device_rules(const CudaOptions& options, const ArithmeticModel& arithmetic) {
  DeviceRules rules;
  rules.product = options.product;
  rules.algorithm = options.algorithm;
  rules.order = options.order;
  rules.arithmetic = arithmetic;
  const bool is_ordered = options.product == CudaProduct::ordered;
  if (!is_ordered) rules.mode = gemm_mode(options);
  const bool is_16_bits = arithmetic.input == FormatId::bf16 || arithmetic.input == FormatId::fp16;
  if (is_ordered) {
    rules.operands = OperandForm::rounded;
  } else if (is_16_bits) {
    rules.operands = OperandForm::narrowed;
  }
  return rules;
}

template <class Real>
DeviceTensor rounded_on_device(const DeviceTensor& x, FormatId target, const DeviceRules& rules, Device& device,
                               DeviceValues<Real>& values) {
  if (holds_all_of(format(target), format(rules.arithmetic.accumulator))) return x;
  DeviceTensor y = values.allocate(x.shape);
  const std::int64_t count = element_count(x.shape);
  if (count > 0) device.call(device.functions().round, real_of<Real>, device_format(target), x.data(), y.data(), count);
  return y;
}

template <class Real>
DeviceTensor evaluate_on_device(const Program& program, std::size_t node, const DeviceRules& rules, Device& device,
                                DeviceValues<Real>& values, const UseOfAlgorithm& used) {
  return std::visit(DeviceNode<Real>(program, node, rules, device, values, used), program.nodes()[node].op);
}

template DeviceTensor rounded_on_device<float>(const DeviceTensor&, FormatId, const DeviceRules&, Device&,
                                               DeviceValues<float>&);
template DeviceTensor rounded_on_device<double>(const DeviceTensor&, FormatId, const DeviceRules&, Device&,
                                                DeviceValues<double>&);
template DeviceTensor evaluate_on_device<float>(const Program&, std::size_t, const DeviceRules&, Device&,
                                                DeviceValues<float>&, const UseOfAlgorithm&);
template DeviceTensor evaluate_on_device<double>(const Program&, std::size_t, const DeviceRules&, Device&,
                                                 DeviceValues<double>&, const UseOfAlgorithm&);

}  // namespace driftbound::device
