#include "bounds/rows/row_step.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "bounds/kernels/element_kernels.hpp"
#include "bounds/nodes/centre.hpp"
#include "bounds/nodes/function_rules.hpp"
#include "bounds/nodes/operand_cache.hpp"
#include "bounds/nodes/product_node.hpp"
#include "bounds/rows/pair_norms.hpp"
#include "bounds/theorems/norms.hpp"
#include "bounds/theorems/rows.hpp"
#include "bounds/theorems/slope_ranges.hpp"
#include "driftbound/num/directed.hpp"
#include "linalg/ordered_product.hpp"

namespace driftbound::bounds {
namespace {

const Magnitude one(1.0);

Magnitude count(std::size_t n) {
  return Magnitude(static_cast<double>(n));
}

/// 2-norm of the underflow errors of `elements` elements, each at most `each` times 2^-1074.
Magnitude underflow(std::size_t elements, Magnitude each) {
  return sqrt_up(count(elements)) * each * Magnitude(0x1p-1074);
}

std::size_t row_size(const Tensor<double>& tensor, std::int64_t rows) {
  return tensor.size() / static_cast<std::size_t>(rows);
}

/// Any op with known Lipschitz constants, evaluated by centre_of_node().
class AnyStep : public RowStep {
public:
  AnyStep(const RowNode& node, std::vector<Magnitude> gains) : rows_(node.rows()), gains_(std::move(gains)) {}

  std::optional<RowRounding> evaluate(const NodeView& view, Tensor<double>& output,
                                      const Setting& setting) const override {
    Centre centre = centre_of_node(view, output.shape, setting);
    const bool is_finite =
        std::all_of(centre.error.begin(), centre.error.end(), [](double e) { return std::isfinite(e); });
    if (!is_finite) return std::nullopt;
    output.values = std::move(centre.value.values);
    RowRounding rounding;
    const std::size_t size = row_size(output, rows_);
    for (std::size_t first = 0; size > 0 && first < centre.error.size(); first += size)
      rounding.by_row.push_back(
          theorems::norm_of_vector(std::span<const double>(centre.error).subspan(first, size)).value());
    return rounding;
  }
  std::vector<Magnitude> gains() const override { return gains_; }

private:
  std::int64_t rows_;
  std::vector<Magnitude> gains_;
};

/// A function of one element with a vector kernel. Its error is at most `units` 2^-53, relative or absolute.
class FunctionStep : public RowStep {
public:
  FunctionStep(const RowNode& node, ElementKernels::Function f, double units, bool is_absolute)
      : any_(node, {one}), op_(node.node.op), rows_(node.rows()), f_(f), units_(units), is_absolute_(is_absolute) {}

  std::optional<RowRounding> evaluate(const NodeView& view, Tensor<double>& output,
                                      const Setting& setting) const override {
    if (!f_(view.input(0).values.data(), output.values.data(), output.size())) {
      if (setting.rows_are_apart && rows_ > 1) return std::nullopt;
      return any_.evaluate(view, output, setting);
    }
    RowRounding rounding;
    if (units_ == 0.0) return rounding;
    if (is_absolute_) {
      rounding.fixed = theorems::norm_of_rounding(units_, sqrt_up(count(row_size(output, rows_))));
    } else {
      rounding.per_norm = theorems::norm_of_rounding(units_, one);
    }
    return rounding;
  }
  std::vector<Magnitude> gains() const override {
    return {theorems::norm_of_function(theorems::steepest_slope(op_), one)};
  }
  bool is_constant_near(std::span<const double> row, double radius) const override {
    return std::holds_alternative<op::Relu>(op_) && theorems::stays_below_zero(row, radius);
  }

private:
  AnyStep any_;
  Op op_;
  std::int64_t rows_;
  ElementKernels::Function f_;
  double units_;
  bool is_absolute_;
};

/// Both forms of Gelu.
class GeluStep : public RowStep {
public:
  GeluStep(const Op& op, std::int64_t rows, const Smooth& f) : op_(op), rows_(rows), f_(f) {}

  std::optional<RowRounding> evaluate(const NodeView& view, Tensor<double>& output, const Setting&) const override {
    const ElementKernels::Bends f = fastest_element_kernels().*f_.bends;
    if (!f(view.input(0).values.data(), output.values.data(), nullptr, nullptr, output.size())) return std::nullopt;
    RowRounding rounding;
    rounding.per_norm = theorems::norm_of_rounding(f_.numbers.relative * 0x1p53, one);
    rounding.fixed = theorems::norm_of_rounding(f_.numbers.absolute * 0x1p53, sqrt_up(count(row_size(output, rows_))));
    return rounding;
  }
  std::vector<Magnitude> gains() const override {
    return {theorems::norm_of_function(theorems::steepest_slope(op_), one)};
  }

private:
  Op op_;
  std::int64_t rows_;
  const Smooth& f_;
};

/// Returns copies of a row one after the other: about 256 elements, so that a vector loop is long enough, and at most
/// `most` copies.
std::vector<double> repeated(const std::vector<double>& row, std::size_t most) {
  constexpr std::size_t worth_it = 256;
  const std::size_t times = std::clamp<std::size_t>(worth_it / row.size(), 1, most);
  std::vector<double> rows;
  for (std::size_t i = 0; i < times; ++i) rows.insert(rows.end(), row.begin(), row.end());
  return rows;
}

/// An operand of an elementwise sum, difference or product of two: a value that varies, or a constant row.
struct PairOperand {
  std::vector<double> rows;  ///< copies of the constant row; empty: the operand varies

  const double* at(const Tensor<double>& tensor, std::size_t first) const {
    return rows.empty() ? tensor.values.data() + first : rows.data();
  }
};

class PairStep : public RowStep {
public:
  PairStep(const RowNode& node, ElementKernels::Pair f, PairOperand a, PairOperand b, std::vector<Magnitude> gains,
           bool may_underflow)
      : rows_(node.rows()),
        f_(f),
        a_(std::move(a)),
        b_(std::move(b)),
        gains_(std::move(gains)),
        may_underflow_(may_underflow) {}

  std::optional<RowRounding> evaluate(const NodeView& view, Tensor<double>& output, const Setting&) const override {
    const bool both_vary = a_.rows.empty() && b_.rows.empty();
    const std::size_t at_once = both_vary ? output.size() : std::max(a_.rows.size(), b_.rows.size());
    bool is_finite = true;
    for (std::size_t first = 0; first < output.size(); first += at_once) {
      const std::size_t size = std::min(at_once, output.size() - first);
      is_finite =
          f_(a_.at(view.input(0), first), b_.at(view.input(1), first), output.values.data() + first, size) && is_finite;
    }
    if (!is_finite) return std::nullopt;
    RowRounding rounding;
    rounding.per_norm = theorems::norm_of_rounding(1.0, one);
    if (may_underflow_) rounding.fixed = underflow(row_size(output, rows_), one);
    return rounding;
  }
  std::vector<Magnitude> gains() const override { return gains_; }

private:
  std::int64_t rows_;
  ElementKernels::Pair f_;
  PairOperand a_, b_;
  std::vector<Magnitude> gains_;
  bool may_underflow_;
};

/// An op whose Lipschitz constants depend on the values of its operands. Another step evaluates it.
class LocalStep : public RowStep {
public:
  LocalStep(const Op& op, std::unique_ptr<const RowStep> values) : op_(op), values_(std::move(values)) {}

  std::optional<RowRounding> evaluate(const NodeView& view, Tensor<double>& output,
                                      const Setting& setting) const override {
    return values_->evaluate(view, output, setting);
  }
  std::vector<Magnitude> gains() const override { return {}; }
  bool moves_by_rows() const override { return true; }

protected:
  const Op op_;

private:
  const std::unique_ptr<const RowStep> values_;
};

/// Products and quotients of two values of one shape.
class ValuesStep : public LocalStep {
public:
  using LocalStep::LocalStep;

  Magnitude moved(std::span<const std::span<const double>> rows, std::span<const double> norms) const override {
    const MovingRow a{rows[0], {}, Magnitude(norms[0])}, b{rows[1], {}, Magnitude(norms[1])};
    return std::holds_alternative<op::Div>(op_) ? norm_of_moving_quotient(a, b) : norm_of_moving_product(a, b);
  }
};

/// Functions of one element whose slope has no bound: the largest slope within the radius of a row (T-77).
class SteepStep : public LocalStep {
public:
  using LocalStep::LocalStep;

  Magnitude moved(std::span<const std::span<const double>> rows, std::span<const double> norms) const override {
    if (norms[0] == 0.0) return {};
    const auto [least, most] = std::minmax_element(rows[0].begin(), rows[0].end());
    const double lower = sub_down(*least, norms[0]), upper = add_up(*most, norms[0]);
    if (!std::isfinite(lower) || !std::isfinite(upper)) return Magnitude::infinite();
    const Magnitude slope = theorems::slope_range(op_, Interval(lower, upper)).magnitude();
    return theorems::norm_of_function(slope, Magnitude(norms[0]));
  }
};

/// Data movement: elements are moved, dropped or repeated.
class SelectionStep : public RowStep {
public:
  explicit SelectionStep(const RowNode& node) : op_(node.node.op) {
    std::vector<Shape> shapes;
    for (std::size_t slot = 0; slot < node.constants.size(); ++slot) shapes.push_back(node.shape(slot));
    sources_ = plan_selection(op_, shapes, node.shape());
    std::vector<std::vector<std::size_t>> uses;
    for (const Shape& shape : shapes) uses.emplace_back(static_cast<std::size_t>(element_count(shape)), 0);
    for (const ElementSource& source : sources_)
      if (!source.is_fill()) ++uses[source.input][source.index];
    for (const std::vector<std::size_t>& of : uses)
      most_uses_.push_back(of.empty() ? 0 : *std::max_element(of.begin(), of.end()));
  }

  std::optional<RowRounding> evaluate(const NodeView& view, Tensor<double>& output, const Setting&) const override {
    for (std::size_t i = 0; i < sources_.size(); ++i)
      output.values[i] =
          sources_[i].is_fill() ? fill_value(op_) : view.input(sources_[i].input).values[sources_[i].index];
    return RowRounding();
  }
  std::vector<Magnitude> gains() const override {
    std::vector<Magnitude> gains;
    for (const std::size_t uses : most_uses_) {
      const SelectedPart part{uses, one};
      gains.push_back(theorems::norm_of_selection({&part, 1}));
    }
    return gains;
  }

private:
  Op op_;
  std::vector<ElementSource> sources_;
  std::vector<std::size_t> most_uses_;
};

/// Sums of products are computed in chains of 16, and the chains are added one after the other: a product meets about
/// k/16 + 16 roundings instead of k.
constexpr std::int64_t chain = 16;
constexpr SummationOrder short_chains{SummationOrder::Kind::blocked, chain, true};

std::int64_t most_roundings(std::int64_t k) {
  return std::min(k, chain) + (k + chain - 1) / chain - 1;
}

/// A product with a constant right matrix, plus a constant row if there is an addend.
class ProductStep : public RowStep {
public:
  ProductStep(const RowNode& node, const Product& product, std::vector<double> addend, const Setting& setting,
              OperandCache& operands)
      : plan_(product.plan),
        alpha_(product.alpha),
        beta_(product.beta),
        addend_(std::move(addend)),
        packed_(operands.forward_right(plan_, *node.constants[1]).matrices),
        uses_(most_uses(plan_.a_batch)),
        spectral_(operands.norm_of_right(plan_, *node.constants[1], setting.threads)) {
    for (const auto& [offset, matrix] : packed_) frobenius_ = std::max(frobenius_, norm_of_vector(matrix));
    const auto sums = static_cast<std::size_t>(plan_.batches * plan_.m / node.rows());
    addend_norm_ = sqrt_up(count(sums)) * norm_of_vector(addend_) * Magnitude(beta_);
    for (double& c : addend_) c *= beta_;
    addend_ = repeated(addend_, static_cast<std::size_t>(plan_.batches * plan_.m));
    const Magnitude each = (count(static_cast<std::size_t>(plan_.k)) + Magnitude(2.0)) * (one + Magnitude(alpha_));
    underflow_ = underflow(sums * static_cast<std::size_t>(plan_.n), each);
  }

  std::optional<RowRounding> evaluate(const NodeView& view, Tensor<double>& output,
                                      const Setting& setting) const override {
    multiply_into<double>(plan_, view.input(0).values, packed_, short_chains, setting.threads, output.values);
    if (alpha_ != 1.0)
      for (double& y : output.values) y *= alpha_;
    const ElementKernels& kernels = fastest_element_kernels();
    bool is_finite = true;
    for (std::size_t first = 0; first < output.size(); first += addend_.size()) {
      double* rows = output.values.data() + first;
      is_finite = kernels.add(rows, addend_.data(), rows, std::min(addend_.size(), output.size() - first)) && is_finite;
    }
    if (!is_finite) return std::nullopt;
    const std::int64_t roundings = most_roundings(plan_.k) + 2;
    RowRounding rounding;
    rounding.measures_output = false;
    rounding.per_norm = theorems::norm_of_product_rounding(
        roundings, theorems::norm_of_copies(one, uses_) * Magnitude(alpha_) * frobenius_, Magnitude());
    rounding.fixed = theorems::norm_of_product_rounding(roundings, Magnitude(), addend_norm_) + underflow_;
    return rounding;
  }
  std::vector<Magnitude> gains() const override {
    const Magnitude product = theorems::norm_of_constant_product({Magnitude(), one}, spectral_, Magnitude(), uses_);
    return {theorems::norm_with_addend(alpha_, product, beta_, Magnitude())};
  }

private:
  ProductPlan plan_;
  double alpha_, beta_;
  std::vector<double> addend_;  ///< copies of the row beta c; zeros without an addend
  const PackedMatrices<double>& packed_;
  std::size_t uses_;
  Magnitude spectral_, frobenius_, addend_norm_, underflow_;
};

using StepPointer = std::unique_ptr<const RowStep>;

/// Chooses a step by op.
class StepOf {
public:
  StepOf(const RowNode& node, const Setting& setting, OperandCache& operands)
      : node_(node), setting_(setting), operands_(operands) {}

  StepPointer operator()(const ElementwiseUnary auto& op) const {
    const FunctionRules rules = function_rules(op);
    if (rules.values != nullptr)
      return std::make_unique<FunctionStep>(node_, kernels_.*rules.values, rules.units, rules.is_absolute);
    const Magnitude slope = theorems::steepest_slope(op);
    if (!slope.is_finite()) return std::make_unique<SteepStep>(op, any({}));
    return any({theorems::norm_of_function(slope, one)});
  }
  StepPointer operator()(const op::Gelu& gelu) const {
    const Smooth& f = gelu.tanh_form ? smooth_gelu_tanh : smooth_gelu;
    return std::make_unique<GeluStep>(node_.node.op, node_.rows(), f);
  }
  StepPointer operator()(const op::Add&) const { return sum(kernels_.add); }
  StepPointer operator()(const op::Sub&) const { return sum(kernels_.sub); }
  StepPointer operator()(const OneOf<op::Min, op::Max> auto&) const { return any(gains_of_sum()); }
  StepPointer operator()(const op::Mul&) const {
    if (node_.varies(0) && node_.varies(1)) return of_values(pair(kernels_.mul, {}, true));
    const std::size_t fixed = node_.varies(0) ? 1 : 0;
    const ElementwiseFactor moving{Magnitude(), Magnitude(), theorems::norm_of_copies(one, copies(1 - fixed))};
    const Magnitude gain = theorems::norm_of_elementwise_product(moving, {largest(fixed), Magnitude(), Magnitude()});
    return pair(kernels_.mul, fixed == 1 ? Gains{gain, Magnitude()} : Gains{Magnitude(), gain}, true);
  }
  StepPointer operator()(const op::Div&) const {
    if (node_.varies(1)) return node_.varies(0) ? of_values(any({})) : nullptr;
    double smallest = std::numeric_limits<double>::infinity();
    for (const double x : node_.constants[1]->values) smallest = std::min(smallest, std::abs(x));
    return any({theorems::norm_of_quotient(theorems::norm_of_copies(one, copies(0)), smallest), Magnitude()});
  }

  /// |f(x, s) - f(x', s)| <= max(1, |s|) |x - x'|
  StepPointer operator()(const op::PRelu&) const {
    if (node_.varies(1)) return nullptr;
    const Magnitude slope = std::max(one, largest(1));
    return any({theorems::norm_of_function(slope, theorems::norm_of_copies(one, copies(0))), Magnitude()});
  }

  StepPointer operator()(const op::ReduceSum& op) const {
    return any({theorems::norm_of_reduce_sum(one, plan_groups(op, node_.shape(0)).elements.size())});
  }
  StepPointer operator()(const OneOf<op::ReduceMax, op::ReduceMin> auto&) const {
    return any({theorems::norm_of_extremum(one)});
  }
  StepPointer operator()(const op::Softmax&) const { return any({theorems::norm_of_softmax(one)}); }

  StepPointer operator()(const Selection auto&) const { return std::make_unique<SelectionStep>(node_); }

  StepPointer operator()(const OneOf<op::Gemm, op::MatMul> auto&) const {
    if (!node_.varies(0) || node_.varies(1)) return nullptr;
    const Product product = node_.product();
    if (product.has_addend && node_.shape(0).size() > 2) return nullptr;
    auto addend = addend_of(product);
    if (!addend || product.plan.k == 0) return nullptr;
    return std::make_unique<ProductStep>(node_, product, std::move(*addend), setting_, operands_);
  }

  StepPointer operator()(const Comparison auto&) const { return nullptr; }  // not continuous
  StepPointer operator()(const op::Choice&) const { return nullptr; }
  StepPointer operator()(const Composite auto&) const { return nullptr; }

private:
  using Gains = std::vector<Magnitude>;

  StepPointer any(Gains gains) const { return std::make_unique<AnyStep>(node_, std::move(gains)); }

  std::size_t elements(std::size_t slot) const { return static_cast<std::size_t>(element_count(node_.shape(slot))); }
  std::size_t elements() const { return static_cast<std::size_t>(element_count(node_.shape())); }

  /// Number of copies of an operand that broadcasting makes within a row.
  std::size_t copies(std::size_t slot) const {
    return std::max<std::size_t>(1, elements() / std::max<std::size_t>(elements(slot), 1));
  }
  Magnitude largest(std::size_t slot) const {
    Magnitude largest;
    for (const double x : node_.constants[slot]->values) largest = std::max(largest, Magnitude(x));
    return largest;
  }

  /// Null where an operand is broadcast within a row.
  StepPointer of_values(StepPointer values) const {
    if (elements(0) != elements() || elements(1) != elements()) return nullptr;
    return std::make_unique<ValuesStep>(node_.node.op, std::move(values));
  }

  Gains gains_of_sum() const {
    return {theorems::norm_of_sum(theorems::norm_of_copies(one, copies(0)), Magnitude()),
            theorems::norm_of_sum(Magnitude(), theorems::norm_of_copies(one, copies(1)))};
  }
  StepPointer sum(ElementKernels::Pair f) const { return pair(f, gains_of_sum(), false); }

  /// Uses a kernel if each operand has the size of the result or is one constant row.
  StepPointer pair(ElementKernels::Pair f, Gains gains, bool may_underflow) const {
    auto a = operand(0), b = operand(1);
    if (!a || !b) return any(std::move(gains));
    return std::make_unique<PairStep>(node_, f, std::move(*a), std::move(*b), std::move(gains), may_underflow);
  }

  std::optional<PairOperand> operand(std::size_t slot) const {
    if (node_.varies(slot)) return elements(slot) == elements() ? std::optional(PairOperand()) : std::nullopt;
    const auto row = node_.constant_row(slot);
    if (!row) return std::nullopt;
    return PairOperand{repeated(*row, static_cast<std::size_t>(node_.rows()))};
  }

  /// One row of the addend, zeros without one; empty if the addend varies or is not one row.
  std::optional<std::vector<double>> addend_of(const Product& product) const {
    const auto n = static_cast<std::size_t>(product.plan.n);
    if (!product.has_addend) return std::vector<double>(n, 0.0);
    if (node_.varies(2)) return std::nullopt;
    const std::vector<double>& values = node_.constants[2]->values;
    const Shape& shape = node_.shape(2);
    if (values.size() == 1) return std::vector<double>(n, values[0]);
    return values.size() == n && shape.back() == product.plan.n ? std::optional(values) : std::nullopt;
  }

  const RowNode& node_;
  const Setting& setting_;
  OperandCache& operands_;
  const ElementKernels& kernels_ = fastest_element_kernels();
};

}  // namespace

Magnitude RowStep::moved(std::span<const std::span<const double>>, std::span<const double>) const {
  return Magnitude::infinite();
}

bool RowStep::is_constant_near(std::span<const double>, double) const {
  return false;
}

std::optional<std::vector<double>> RowNode::constant_row(std::size_t slot) const {
  const BroadcastIndex index(shape(slot), shape());
  const auto elements = static_cast<std::size_t>(element_count(shape()));
  const std::size_t size = elements / static_cast<std::size_t>(rows());
  std::vector<double> row;
  for (std::size_t i = 0; i < elements; ++i) {
    if (i < size) row.push_back(constants[slot]->values[index(i)]);
    if (index(i) != index(i % size)) return std::nullopt;
  }
  return row;
}

Product RowNode::product() const {
  std::vector<Tensor<double>> shapes(constants.size());
  NodeView view;
  view.node = &node;
  for (std::size_t slot = 0; slot < shapes.size(); ++slot) {
    shapes[slot].shape = shape(slot);
    view.inputs.push_back(&shapes[slot]);
  }
  return product_of(view).value();
}

std::string describe_obstacle(const Node& node) {
  return "node '" + node.name + "' (" + std::string(name_of(node.op)) + ")";
}

StepPointer row_step_of(const RowNode& node, const Setting& setting, OperandCache& operands) {
  const bool is_empty = element_count(node.shape()) == 0 || node.rows() == 0;
  if (is_empty) return nullptr;
  return std::visit(StepOf(node, setting, operands), node.node.op);
}

}  // namespace driftbound::bounds
