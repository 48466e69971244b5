#include "implicit/packed_network.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <new>
#include <optional>
#include <utility>

#include "bounds/adjoint/network.hpp"
#include "driftbound/model/layout.hpp"
#include "driftbound/model/op_groups.hpp"
#include "driftbound/num/interval.hpp"
#include "implicit/packed_step.hpp"
#include "num/double_double.hpp"

namespace driftbound::implicit {
namespace {

constexpr std::align_val_t alignment{64};
constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
/// So many points cost less one by one than as a block.
constexpr std::size_t few_rows = 8;

/// The numbers of a constant, one a feature.
AlignedDoubles aligned(const std::vector<double>& values) {
  AlignedDoubles copy(values.size());
  std::copy(values.begin(), values.end(), copy.data());
  return copy;
}

class DenseStep final : public PackedStep {
public:
  DenseStep(const BlockKernels& kernels, std::size_t inputs, std::size_t outputs)
      : kernels_(kernels),
        inputs_(inputs),
        weights_(inputs * packed_outputs(outputs) + tile_outputs),
        bias_(packed_outputs(outputs)) {
    features = packed_outputs(outputs);
  }

  void set_weight(std::size_t k, std::size_t j, double value) {
    const std::size_t tile = j / tile_outputs * tile_outputs;
    const std::size_t width = std::min(tile_outputs, features - tile);
    weights_[tile * inputs_ + k * width + j - tile] = value;
  }
  void set_bias(std::size_t j, double value) { bias_[j] = value; }
  void rectify() { rectified_ = true; }

  bool run(double* workspace, std::size_t rows, double* check) const override {
    loop_for(kernels_.dense, rows)(weights_.data(), bias_.data(), operand(workspace, 0, rows), result(workspace, rows),
                                   inputs_, features, rectified_, check);
    return true;
  }

private:
  const BlockKernels& kernels_;
  std::size_t inputs_;
  AlignedDoubles weights_, bias_;
  bool rectified_ = false;
};

class FunctionStep final : public PackedStep {
public:
  FunctionStep(BlockKernels::Function f, std::size_t size) : f_(f) {
    features = size;
    may_overwrite = true;
  }
  bool run(double* workspace, std::size_t rows, double*) const override {
    return f_(operand(workspace, 0, rows), result(workspace, rows), features * rows);
  }

private:
  BlockKernels::Function f_;
};

class RectifyStep final : public PackedStep {
public:
  RectifyStep(const BlockKernels& kernels, std::size_t size) : kernels_(kernels) {
    features = size;
    may_overwrite = true;
  }
  bool run(double* workspace, std::size_t rows, double*) const override {
    kernels_.rectify(operand(workspace, 0, rows), result(workspace, rows), features * rows);
    return true;
  }

private:
  const BlockKernels& kernels_;
};

/// x for x >= 0, alpha (e^x - 1) below; without the exponential alpha x.
class BentStep final : public PackedStep {
public:
  BentStep(const BlockKernels& kernels, BlockKernels::Function expm1, double alpha, std::size_t size)
      : kernels_(kernels), expm1_(expm1), alpha_(alpha) {
    features = size;
  }
  bool run(double* workspace, std::size_t rows, double* check) const override {
    const double* const x = operand(workspace, 0, rows);
    double* const y = result(workspace, rows);
    kernels_.negative_part(x, y, features * rows);
    if (expm1_ != nullptr && !expm1_(y, y, features * rows)) return false;
    loop_for(kernels_.join, rows)(x, alpha_, y, features, check);
    return true;
  }

private:
  const BlockKernels& kernels_;
  BlockKernels::Function expm1_;
  double alpha_;
};

using PairKernel = BlockKernels::Both<BlockKernels::Pair>;

class PairStep final : public PackedStep {
public:
  PairStep(PairKernel f, std::size_t size) : f_(f) {
    features = size;
    may_overwrite = true;
  }
  bool run(double* workspace, std::size_t rows, double* check) const override {
    loop_for(f_, rows)(operand(workspace, 0, rows), operand(workspace, 1, rows), result(workspace, rows), features,
                       check);
    return true;
  }

private:
  PairKernel f_;
};

class ConstantStep final : public PackedStep {
public:
  ConstantStep(PairKernel f, const std::vector<double>& constants) : f_(f), constants_(aligned(constants)) {
    features = constants.size();
    may_overwrite = true;
  }
  bool run(double* workspace, std::size_t rows, double* check) const override {
    loop_for(f_, rows)(operand(workspace, 0, rows), constants_.data(), result(workspace, rows), features, check);
    return true;
  }

private:
  PairKernel f_;
  AlignedDoubles constants_;
};

/// The high parts of erf in double-double.
bool erf(const double* x, double* y, std::size_t n) {
  constexpr std::size_t at_once = block_rows;
  constexpr double zeros[at_once] = {};
  const auto function =
      num::fastest_double_double_kernels().loops[static_cast<std::size_t>(num::DoubleDoubleFunction::erf)];
  double low[at_once];
  bool is_known = true;
  for (std::size_t i = 0; i < n; i += at_once) {
    const std::size_t count = std::min(at_once, n - i);
    function(x + i, zeros, count, y + i, low);
    for (std::size_t j = i; j < i + count; ++j) is_known = is_known && std::isfinite(y[j]);
  }
  return is_known;
}

/// Features copied one by one.
class MoveStep final : public PackedStep {
public:
  explicit MoveStep(std::size_t size) { features = size; }
  bool run(double* workspace, std::size_t rows, double*) const override {
    double* const y = result(workspace, rows);
    for (std::size_t f = 0; f < features; ++f) std::copy_n(operand(workspace, f, rows), rows, y + f * rows);
    return true;
  }
};

}  // namespace

AlignedDoubles::AlignedDoubles(std::size_t size)
    : values_(static_cast<double*>(::operator new[](std::max<std::size_t>(size, 1) * sizeof(double), alignment))) {
  std::fill_n(values_.get(), size, 0.0);
}

void AlignedDoubles::Free::operator()(double* p) const {
  ::operator delete[](p, alignment);
}

/// Writes a graph out as steps.
class Packer {
public:
  Packer(const Graph& graph, const Shape& sample, const BlockKernels& kernels)
      : network_(graph, {with_one_row(sample)}, 1),
        graph_(network_.flat().graph),
        kernels_(kernels),
        places_(network_.size()),
        uses_(network_.size(), 0) {
    for (const Node& node : graph_.nodes)
      for (const ValueId id : node.inputs) ++uses_[id];
    ++uses_[graph_.outputs.front()];
  }

  std::unique_ptr<const PackedNetwork> pack() {
    if (!network_.keeps_rows_apart()) return nullptr;
    std::unique_ptr<PackedNetwork> packed(new PackedNetwork);
    packed->dimension_ = size_of(graph_.inputs.front());
    places_[graph_.inputs.front()] = new_buffer(packed->dimension_);
    for (const Node& node : graph_.nodes)
      if (!fold(node) && !std::visit([&](const auto& op) { return add(node, op); }, node.op)) return nullptr;
    const std::optional<PackedStep::Place>& output = places_[graph_.outputs.front()];
    if (!output) return nullptr;
    lay_out(*packed, *output);
    return packed;
  }

private:
  static Shape with_one_row(Shape shape) {
    shape.at(0) = 1;
    return shape;
  }

  std::size_t size_of(ValueId id) const { return static_cast<std::size_t>(element_count(network_.shape(id))); }

  PackedStep::Place new_buffer(std::size_t features) {
    buffers_.push_back(features);
    return {buffers_.size() - 1, 0, 0};
  }

  /// What no input reaches, where it is stored or folded.
  std::optional<Tensor<double>> constant(ValueId id) const {
    if (graph_.is_constant(id)) return graph_.value(id).constant.to_double();
    const auto found = folded_.find(id);
    if (found == folded_.end()) return std::nullopt;
    return found->second;
  }

  /// Numbers of a constant, one for each feature of a value of the shape; empty where there is no such constant.
  std::vector<double> constants(ValueId id, const Shape& shape) const {
    const std::optional<Tensor<double>> tensor = constant(id);
    if (!tensor) return {};
    const BroadcastIndex index(tensor->shape, shape);
    std::vector<double> values(static_cast<std::size_t>(element_count(shape)));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = tensor->values[index(i)];
    return values;
  }

  /// Computes what no input reaches, as a run of arithmetic() does: elements moved, or one rounding each.
  bool fold(const Node& node) {
    std::vector<Tensor<double>> operands;
    for (const ValueId id : node.inputs) {
      std::optional<Tensor<double>> operand = constant(id);
      if (!operand) return false;
      operands.push_back(std::move(*operand));
    }
    if (operands.empty()) return false;
    Tensor<double> result(network_.shape(node.output));
    if (!std::visit([&](const auto& op) { return fold(op, operands, result); }, node.op)) return false;
    if (!std::all_of(result.values.begin(), result.values.end(), [](double x) { return std::isfinite(x); }))
      return false;
    folded_.emplace(node.output, std::move(result));
    return true;
  }

  using Operands = std::vector<Tensor<double>>;
  template <class F>
  static bool fold_elements(const Operands& operands, Tensor<double>& result, const F& f) {
    const BroadcastIndex first(operands.front().shape, result.shape), last(operands.back().shape, result.shape);
    for (std::size_t i = 0; i < result.size(); ++i)
      result.values[i] = f(operands.front().values[first(i)], operands.back().values[last(i)]);
    return true;
  }
  static bool fold(const op::Add&, const Operands& operands, Tensor<double>& result) {
    return fold_elements(operands, result, [](double a, double b) { return a + b; });
  }
  static bool fold(const op::Sub&, const Operands& operands, Tensor<double>& result) {
    return fold_elements(operands, result, [](double a, double b) { return a - b; });
  }
  static bool fold(const op::Mul&, const Operands& operands, Tensor<double>& result) {
    return fold_elements(operands, result, [](double a, double b) { return a * b; });
  }
  static bool fold(const op::Div&, const Operands& operands, Tensor<double>& result) {
    return fold_elements(operands, result, [](double a, double b) { return a / b; });
  }
  static bool fold(const op::Neg&, const Operands& operands, Tensor<double>& result) {
    return fold_elements(operands, result, [](double a, double) { return -a; });
  }
  static bool fold(const op::Reciprocal&, const Operands& operands, Tensor<double>& result) {
    return fold_elements(operands, result, [](double a, double) { return 1.0 / a; });
  }
  static bool fold(const op::Sqrt&, const Operands& operands, Tensor<double>& result) {
    return fold_elements(operands, result, [](double a, double) { return std::sqrt(a); });
  }
  /// One end of the interval between neighbouring doubles.
  static bool fold(const op::Atan&, const Operands& operands, Tensor<double>& result) {
    return fold_elements(operands, result, [](double a, double) { return driftbound::atan(Interval(a)).lower(); });
  }
  template <class Op>
  requires Selection<Op>
  static bool fold(const Op& op, const Operands& operands, Tensor<double>& result) {
    std::vector<Shape> shapes;
    for (const Tensor<double>& operand : operands) shapes.push_back(operand.shape);
    const std::vector<ElementSource> sources = plan_selection(op, shapes, result.shape);
    for (std::size_t i = 0; i < sources.size(); ++i) {
      if (sources[i].is_fill()) return false;
      result.values[i] = operands[sources[i].input].values[sources[i].index];
    }
    return sources.size() == result.size();
  }
  template <class Op>
  static bool fold(const Op&, const Operands&, Tensor<double>&) {
    return false;
  }

  template <class Step>
  PackedStep::Place write(std::unique_ptr<Step> step, std::vector<PackedStep::Place> reads) {
    const PackedStep::Place result = new_buffer(step->features);
    step->reads = std::move(reads);
    step->writes = result;
    steps_.push_back(std::move(step));
    return result;
  }

  template <class Step>
  bool append(const Node& node, std::unique_ptr<Step> step, const std::vector<ValueId>& operands) {
    std::vector<PackedStep::Place> reads = std::move(step->reads);
    for (const ValueId id : operands) {
      if (!places_[id]) return false;
      reads.push_back(*places_[id]);
    }
    places_[node.output] = write(std::move(step), std::move(reads));
    return true;
  }

  template <class Product>
  bool add_product(const Node& node, const Product& product, const std::vector<double>& bias) {
    const ValueId x = node.inputs[0], w = node.inputs[1];
    const std::optional<Tensor<double>> weights = constant(w);
    if (!weights) return false;
    const ProductPlan plan = plan_product(product, network_.shape(x), network_.shape(w));
    const bool is_row = plan.batches == 1 && plan.m == 1 && plan.k > 0 && (plan.k == 1 || plan.a_col == 1);
    if (!is_row) return false;
    const auto inputs = static_cast<std::size_t>(plan.k), outputs = static_cast<std::size_t>(plan.n);
    auto step = std::make_unique<DenseStep>(kernels_, inputs, outputs);
    for (std::size_t k = 0; k < inputs; ++k)
      for (std::size_t j = 0; j < outputs; ++j)
        step->set_weight(k, j,
                         weights->values[plan.b_index(0, static_cast<std::int64_t>(k), static_cast<std::int64_t>(j))]);
    for (std::size_t j = 0; j < bias.size(); ++j) step->set_bias(j, bias[j]);
    dense_of_ = {step.get(), node.output};
    return append(node, std::move(step), {x});
  }

  /// alpha (A B) + beta C: the complete sum is scaled, beta C is one rounded product, and added last.
  bool add(const Node& node, const op::Gemm& gemm) {
    std::vector<double> addend;
    if (node.inputs.size() > 2 && gemm.beta != 0.0) {
      addend = constants(node.inputs[2], network_.shape(node.output));
      if (addend.empty()) return false;
      for (double& value : addend) value *= gemm.beta;
    }
    if (gemm.alpha == 1.0) return add_product(node, gemm, addend);
    if (!add_product(node, gemm, {})) return false;
    dense_of_.step = nullptr;
    const std::vector<double> factors(size_of(node.output), gemm.alpha);
    places_[node.output] = write(std::make_unique<ConstantStep>(kernels_.scale, factors), {*places_[node.output]});
    if (!addend.empty())
      places_[node.output] = write(std::make_unique<ConstantStep>(kernels_.shift, addend), {*places_[node.output]});
    return true;
  }
  bool add(const Node& node, const op::MatMul& matmul) { return add_product(node, matmul, {}); }

  bool add(const Node& node, const op::Relu&) {
    const ValueId x = node.inputs[0];
    if (dense_of_.step != nullptr && dense_of_.output == x && uses_[x] == 1) {
      dense_of_.step->rectify();
      places_[node.output] = places_[x];
      return true;
    }
    return append(node, std::make_unique<RectifyStep>(kernels_, size_of(node.output)), {x});
  }

  bool add_function(const Node& node, BlockKernels::Function f) {
    return append(node, std::make_unique<FunctionStep>(f, size_of(node.output)), {node.inputs[0]});
  }
  bool add(const Node& node, const op::Tanh&) { return add_function(node, kernels_.tanh); }
  bool add(const Node& node, const op::Sigmoid&) { return add_function(node, kernels_.sigmoid); }
  bool add(const Node& node, const op::Softplus&) { return add_function(node, kernels_.softplus); }
  bool add(const Node& node, const op::Sin&) { return add_function(node, kernels_.sin); }
  bool add(const Node& node, const op::Cos&) { return add_function(node, kernels_.cos); }
  bool add(const Node& node, const op::Exp&) { return add_function(node, kernels_.exp); }
  bool add(const Node& node, const op::Erf&) { return add_function(node, &erf); }

  bool add(const Node& node, const op::Elu& elu) {
    return append(node, std::make_unique<BentStep>(kernels_, kernels_.expm1, elu.alpha, size_of(node.output)),
                  {node.inputs[0]});
  }
  bool add(const Node& node, const op::LeakyRelu& leaky) {
    return append(node, std::make_unique<BentStep>(kernels_, nullptr, leaky.alpha, size_of(node.output)),
                  {node.inputs[0]});
  }

  bool add(const Node& node, const op::Abs&) {
    return append(node, std::make_unique<BentStep>(kernels_, nullptr, -1.0, size_of(node.output)), {node.inputs[0]});
  }
  bool add_constants(const Node& node, PairKernel f, const std::vector<double>& values) {
    return append(node, std::make_unique<ConstantStep>(f, values), {node.inputs[0]});
  }
  bool add(const Node& node, const op::Neg&) {
    return add_constants(node, kernels_.scale, std::vector<double>(size_of(node.output), -1.0));
  }
  bool add(const Node& node, const op::Clip& clip) {
    if (!places_[node.inputs[0]]) return false;
    PackedStep::Place at = *places_[node.inputs[0]];
    const auto limit = [&](PairKernel f, double by) {
      const std::vector<double> limits(size_of(node.output), by);
      if (std::isfinite(by)) at = write(std::make_unique<ConstantStep>(f, limits), {at});
    };
    limit(kernels_.at_least, clip.least);
    limit(kernels_.at_most, clip.most);
    places_[node.output] = at;
    return true;
  }

  /// Two values of the same shape, or a value and a constant.
  bool add_pair(const Node& node, PairKernel of_values, PairKernel of_constant, double sign_of_constant,
                bool commutes) {
    ValueId a = node.inputs[0], b = node.inputs[1];
    if (commutes && !places_[a]) std::swap(a, b);
    const std::size_t size = size_of(node.output);
    if (!places_[a] || size_of(a) != size) return false;
    if (places_[b]) return size_of(b) == size && append(node, std::make_unique<PairStep>(of_values, size), {a, b});
    std::vector<double> values = constants(b, network_.shape(node.output));
    if (values.empty()) return false;
    for (double& value : values) value *= sign_of_constant;
    return append(node, std::make_unique<ConstantStep>(of_constant, values), {a});
  }
  bool add(const Node& node, const op::Add&) { return add_pair(node, kernels_.add, kernels_.shift, 1.0, true); }
  bool add(const Node& node, const op::Mul&) { return add_pair(node, kernels_.multiply, kernels_.scale, 1.0, true); }
  bool add(const Node& node, const op::Max&) { return add_pair(node, kernels_.maximum, kernels_.at_least, 1.0, true); }
  bool add(const Node& node, const op::Min&) { return add_pair(node, kernels_.minimum, kernels_.at_most, 1.0, true); }
  bool add(const Node& node, const op::Div&) { return add_pair(node, kernels_.divide, kernels_.divide_by, 1.0, false); }
  /// c - x is c + (-x).
  bool add(const Node& node, const op::Sub&) {
    const ValueId a = node.inputs[0], x = node.inputs[1];
    if (places_[a]) return add_pair(node, kernels_.subtract, kernels_.shift, -1.0, false);
    const std::vector<double> values = constants(a, network_.shape(node.output));
    if (values.empty() || !places_[x] || size_of(x) != values.size()) return false;
    const std::vector<double> signs(values.size(), -1.0);
    const PackedStep::Place opposite = write(std::make_unique<ConstantStep>(kernels_.scale, signs), {*places_[x]});
    places_[node.output] = write(std::make_unique<ConstantStep>(kernels_.shift, values), {opposite});
    return true;
  }

  /// Features of one operand that stay side by side need no step.
  template <class Op>
  requires Selection<Op>
  bool add(const Node& node, const Op& op) {
    std::vector<Shape> shapes;
    for (const ValueId id : node.inputs) {
      if (!places_[id]) return false;
      shapes.push_back(network_.shape(id));
    }
    const std::vector<ElementSource> sources = plan_selection(op, shapes, network_.shape(node.output));
    if (sources.empty()) return false;
    bool is_side_by_side = true;
    for (std::size_t i = 0; i < sources.size(); ++i) {
      if (sources[i].is_fill()) return false;
      is_side_by_side =
          is_side_by_side && sources[i].input == sources[0].input && sources[i].index == sources[0].index + i;
    }
    const auto place = [&](const ElementSource& source) {
      PackedStep::Place at = *places_[node.inputs[source.input]];
      at.offset += source.index;
      return at;
    };
    if (is_side_by_side) {
      places_[node.output] = place(sources[0]);
      return true;
    }
    auto step = std::make_unique<MoveStep>(sources.size());
    for (const ElementSource& source : sources) step->reads.push_back(place(source));
    return append(node, std::move(step), {});
  }

  template <class Op>
  bool add(const Node&, const Op&) {
    return false;
  }

  /// Gives every buffer a place; those that nothing reads any more are used again.
  void lay_out(PackedNetwork& packed, PackedStep::Place output) {
    std::vector<std::size_t> last_read(buffers_.size(), 0);
    for (std::size_t i = 0; i < steps_.size(); ++i)
      for (const PackedStep::Place& read : steps_[i]->reads) last_read[read.buffer] = i;
    last_read[output.buffer] = steps_.size();
    const std::size_t largest = *std::max_element(buffers_.begin(), buffers_.end());
    std::vector<std::size_t> slot_of(buffers_.size(), 0), spare;
    std::size_t slots = 1;  // the input lies in slot 0
    const auto place = [&](PackedStep::Place& at) { at.at = slot_of[at.buffer] * largest + at.offset; };
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      PackedStep& step = *steps_[i];
      const bool overwrites = step.may_overwrite && last_read[step.reads[0].buffer] == i && step.reads[0].offset == 0 &&
                              step.features <= buffers_[step.reads[0].buffer];
      std::vector<std::size_t> dead;
      for (PackedStep::Place& read : step.reads) {
        place(read);
        const std::size_t slot = slot_of[read.buffer];
        if (last_read[read.buffer] == i && std::find(dead.begin(), dead.end(), slot) == dead.end())
          dead.push_back(slot);
      }
      std::size_t& slot = slot_of[step.writes.buffer];
      if (overwrites) {
        slot = slot_of[step.reads[0].buffer];
        dead.erase(std::find(dead.begin(), dead.end(), slot));
      } else if (!spare.empty()) {
        slot = spare.back();
        spare.pop_back();
      } else {
        slot = slots++;
      }
      place(step.writes);
      spare.insert(spare.end(), dead.begin(), dead.end());
    }
    place(output);
    packed.output_ = output.at;
    packed.size_ = slots * largest;
    for (std::unique_ptr<PackedStep>& step : steps_) packed.steps_.push_back(std::move(step));
  }

  bounds::Network network_;
  const Graph& graph_;
  const BlockKernels& kernels_;
  std::vector<std::optional<PackedStep::Place>> places_;  ///< by value; empty: constants
  std::map<ValueId, Tensor<double>> folded_;              ///< what no input reaches and is computed
  std::vector<int> uses_;                                 ///< by value
  std::vector<std::size_t> buffers_;                      ///< their features
  std::vector<std::unique_ptr<PackedStep>> steps_;
  struct {
    DenseStep* step = nullptr;
    ValueId output = 0;
  } dense_of_;  ///< the last dense layer
};

PackedNetwork::~PackedNetwork() = default;

std::unique_ptr<const PackedNetwork> PackedNetwork::of(const Graph& graph, const BlockKernels& kernels) {
  const BatchLayout layout = batch_layout(graph);
  if (!layout.batched) return nullptr;
  return Packer(graph, layout.sample_shapes.front(), kernels).pack();
}

ArithmeticModel PackedNetwork::arithmetic() {
  // T-80 bounds errors by multiples of w |computed|: a little more of w |f|.
  constexpr double slack = 1.0 + 0x1p-40;
  ArithmeticModel arithmetic = cpu_arithmetic("fp64", {SummationOrder::Kind::unknown, 0, false});
  arithmetic.name = "float64 in blocks";
  arithmetic.functions.clear();
  const auto add = [&](const char* function, double units, double absolute_units) {
    arithmetic.functions.push_back(
        {function, units * slack, Evidence::documented, "docs/theory.md T-80", absolute_units});
  };
  add("exp", 2.0, 0.0);
  add("expm1", 8.0, 0.0);
  add("tanh", 6.0, 0.0);
  add("sigmoid", 4.0, 0.0);
  add("softplus", 9.0, 0.0);
  add("sin", 0.0, 2.5);
  add("cos", 0.0, 2.5);
  add("erf", 1.0, 0.0);
  add("sqrt", 1.0, 0.0);
  add("atan", 2.0, 0.0);
  return arithmetic;
}

std::unique_ptr<PackedNetwork::Workspace> PackedNetwork::workspace() const {
  {
    const std::lock_guard lock(mutex_);
    if (!spare_.empty()) {
      std::unique_ptr<Workspace> taken = std::move(spare_.back());
      spare_.pop_back();
      return taken;
    }
  }
  return std::make_unique<Workspace>(size_ * block_rows);
}

void PackedNetwork::give_back(std::unique_ptr<Workspace> workspace) const {
  const std::lock_guard lock(mutex_);
  spare_.push_back(std::move(workspace));
}

bool PackedNetwork::run(double* workspace, std::size_t rows, double* check) const {
  bool is_known = true;
  for (const std::unique_ptr<const PackedStep>& step : steps_) is_known = step->run(workspace, rows, check) && is_known;
  return is_known;
}

void PackedNetwork::evaluate(std::span<const double> points, Workspace& workspace, std::span<double> values) const {
  if (values.size() <= few_rows) {
    for (std::size_t row = 0; row < values.size(); ++row)
      values[row] = evaluate(points.subspan(row * dimension_, dimension_), workspace.data());
    return;
  }
  double* const x = workspace.data();
  for (std::size_t c = 0; c < dimension_; ++c)
    for (std::size_t row = 0; row < block_rows; ++row)
      x[c * block_rows + row] = points[(row < values.size() ? row * dimension_ : 0) + c];
  double check[block_rows] = {};
  const bool is_known = run(workspace.data(), block_rows, check);
  const double* const y = workspace.data() + output_ * block_rows;
  for (std::size_t row = 0; row < values.size(); ++row) values[row] = is_known ? y[row] + check[row] : unknown;
}

double PackedNetwork::evaluate(std::span<const double> point, double* workspace) const {
  std::copy(point.begin(), point.end(), workspace);
  double check = 0.0;
  const bool is_known = run(workspace, 1, &check);
  return is_known ? workspace[output_] + check : unknown;
}

double PackedNetwork::evaluate(std::span<const double> point) const {
  thread_local std::vector<double> workspace;
  if (workspace.size() < size_) workspace.resize(size_);
  return evaluate(point, workspace.data());
}

}  // namespace driftbound::implicit
