#include "implicit/packer.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <type_traits>
#include <utility>
#include <variant>

#include "driftbound/model/layout.hpp"
#include "driftbound/model/op_groups.hpp"
#include "driftbound/num/interval.hpp"
#include "program/program.hpp"

namespace driftbound::implicit {
namespace {

/// Writes a graph out as steps.
template <class Real>
class Packer {
public:
  Packer(const Graph& graph, const Shape& sample, const StepMaker<Real>& maker)
      : program_(graph, {with_one_row(sample)}, 1),
        graph_(program_.flat().graph),
        maker_(maker),
        places_(program_.size()),
        uses_(program_.size(), 0) {
    for (const Node& node : graph_.nodes)
      for (const ValueId id : node.inputs) ++uses_[id];
    ++uses_[graph_.outputs.front()];
  }

  std::optional<PackedSteps<Real>> pack(std::string* refused) {
    if (!program_.keeps_rows_apart()) return std::nullopt;
    PackedSteps<Real> packed;
    packed.dimension = size_of(graph_.inputs.front());
    places_[graph_.inputs.front()] = new_buffer(packed.dimension);
    for (const Node& node : maker_.has_gelu() ? program_.fused().nodes : graph_.nodes) {
      if (fold(node) || std::visit([&](const auto& op) { return add(node, op); }, node.op)) continue;
      if (refused != nullptr) *refused = "'" + node.name + "' (" + std::string(name_of(node.op)) + ")";
      return std::nullopt;
    }
    const std::optional<PackedPlace>& output = places_[graph_.outputs.front()];
    if (!output) return std::nullopt;
    lay_out(packed, *output);
    return packed;
  }

private:
  using Step = PackedStep<Real>;
  using Place = PackedPlace;

  static bool is_number_of_format(double x) {
    return std::fabs(x) <= static_cast<double>(std::numeric_limits<Real>::max()) &&
           static_cast<double>(static_cast<Real>(x)) == x;
  }
  static bool are_numbers_of_format(const std::vector<double>& values) {
    return std::all_of(values.begin(), values.end(), is_number_of_format);
  }

  static Shape with_one_row(Shape shape) {
    shape.at(0) = 1;
    return shape;
  }

  std::size_t size_of(ValueId id) const { return static_cast<std::size_t>(element_count(program_.shape(id))); }

  Place new_buffer(std::size_t features) {
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
      const auto is_finite = [](double x) { return std::isfinite(x); };
      if (!operand || !std::all_of(operand->values.begin(), operand->values.end(), is_finite)) return false;
      operands.push_back(std::move(*operand));
    }
    if (operands.empty()) return false;
    Tensor<double> result(program_.shape(node.output));
    const auto fold_into = [&]<class Op>(const Op& op) {
      constexpr bool is_exact = Selection<Op> || std::is_same_v<Op, op::Neg>;
      return (is_exact || maker_.rounds_constants()) && fold(op, operands, result);
    };
    if (!std::visit(fold_into, node.op)) return false;
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

  Place write(std::unique_ptr<Step> step, std::vector<Place> reads) {
    const Place result = new_buffer(step->features);
    step->reads = std::move(reads);
    step->writes = result;
    steps_.push_back(std::move(step));
    return result;
  }

  bool append(const Node& node, std::unique_ptr<Step> step, const std::vector<ValueId>& operands) {
    if (step == nullptr) return false;
    std::vector<Place> reads = std::move(step->reads);
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
    if (!weights || !are_numbers_of_format(weights->values) || !are_numbers_of_format(bias)) return false;
    const ProductPlan plan = plan_product(product, program_.shape(x), program_.shape(w));
    const bool is_row = plan.batches == 1 && plan.m == 1 && plan.k > 0 && (plan.k == 1 || plan.a_col == 1);
    if (!is_row) return false;
    const auto inputs = static_cast<std::size_t>(plan.k), outputs = static_cast<std::size_t>(plan.n);
    std::unique_ptr<DenseLayer<Real>> step = maker_.dense(inputs, outputs);
    if (step == nullptr) return false;
    for (std::size_t k = 0; k < inputs; ++k)
      for (std::size_t j = 0; j < outputs; ++j)
        step->set_weight(k, j,
                         weights->values[plan.b_index(0, static_cast<std::int64_t>(k), static_cast<std::int64_t>(j))]);
    for (std::size_t j = 0; j < bias.size(); ++j) step->set_bias(j, bias[j]);
    dense_of_ = {step.get(), node.output};
    return append(node, std::move(step), {x});
  }

  /// alpha (A B) + beta C: the complete sum is scaled, beta C is one product, and added last.
  bool add(const Node& node, const op::Gemm& gemm) {
    std::vector<double> addend;
    if (node.inputs.size() > 2 && gemm.beta != 0.0) {
      addend = constants(node.inputs[2], program_.shape(node.output));
      if (addend.empty()) return false;
      if (gemm.beta != 1.0 && !maker_.rounds_constants()) return false;
      for (double& value : addend) value *= gemm.beta;
    }
    if (gemm.alpha == 1.0) return add_product(node, gemm, addend);
    if (!add_product(node, gemm, {})) return false;
    dense_of_.step = nullptr;
    const std::vector<double> factors(size_of(node.output), gemm.alpha);
    std::optional<Place> at = with_constants(PackedOperation::multiply, factors, places_[node.output]);
    if (!addend.empty()) at = with_constants(PackedOperation::add, addend, at);
    places_[node.output] = at;
    return at.has_value();
  }
  bool add(const Node& node, const op::MatMul& matmul) { return add_product(node, matmul, {}); }

  bool add(const Node& node, const op::Relu&) {
    const ValueId x = node.inputs[0];
    if (dense_of_.step != nullptr && dense_of_.output == x && uses_[x] == 1) {
      dense_of_.step->rectify();
      places_[node.output] = places_[x];
      return true;
    }
    return append(node, maker_.rectified(size_of(node.output)), {x});
  }

  /// The last step multiplies by one number, and makes this and nothing else.
  bool is_multiple(ValueId x) const {
    return multiple_.step != nullptr && multiple_.step == steps_.back().get() && multiple_.output == x && uses_[x] == 1;
  }
  bool add_function(const Node& node, PackedFunction f) {
    if (is_multiple(node.inputs[0])) {
      auto step = maker_.function_of_multiple(f, multiple_.factor, size_of(node.output));
      if (step != nullptr) {
        const Place x = steps_.back()->reads.front();
        steps_.pop_back();
        places_[node.output] = write(std::move(step), {x});
        return true;
      }
    }
    return append(node, maker_.function(f, size_of(node.output)), {node.inputs[0]});
  }
  bool add(const Node& node, const op::Tanh&) { return add_function(node, PackedFunction::tanh); }
  bool add(const Node& node, const op::Sigmoid&) { return add_function(node, PackedFunction::sigmoid); }
  bool add(const Node& node, const op::Softplus&) { return add_function(node, PackedFunction::softplus); }
  bool add(const Node& node, const op::Sin&) { return add_function(node, PackedFunction::sin); }
  bool add(const Node& node, const op::Cos&) { return add_function(node, PackedFunction::cos); }
  bool add(const Node& node, const op::Exp&) { return add_function(node, PackedFunction::exp); }
  bool add(const Node& node, const op::Erf&) { return add_function(node, PackedFunction::erf); }
  /// Only as one node of the fused ones.
  bool add(const Node& node, const op::Gelu& gelu) {
    return append(node, maker_.gelu(gelu.tanh_form, size_of(node.output)), {node.inputs[0]});
  }

  bool add_bent(const Node& node, bool exponential, double alpha) {
    if (!is_number_of_format(alpha)) return false;
    return append(node, maker_.bent(exponential, alpha, size_of(node.output)), {node.inputs[0]});
  }
  bool add(const Node& node, const op::Elu& elu) { return add_bent(node, true, elu.alpha); }
  bool add(const Node& node, const op::LeakyRelu& leaky) { return add_bent(node, false, leaky.alpha); }
  bool add(const Node& node, const op::Abs&) { return add_bent(node, false, -1.0); }

  /// Empty where there is no such step, or nothing to apply it to.
  std::optional<Place> with_constants(PackedOperation operation, const std::vector<double>& values,
                                      std::optional<Place> x) {
    if (!are_numbers_of_format(values)) return std::nullopt;
    std::unique_ptr<Step> step = maker_.with_constants(operation, values);
    if (step == nullptr || !x) return std::nullopt;
    return write(std::move(step), {*x});
  }
  bool add(const Node& node, const op::Neg&) {
    const std::vector<double> signs(size_of(node.output), -1.0);
    places_[node.output] = with_constants(PackedOperation::multiply, signs, places_[node.inputs[0]]);
    return places_[node.output].has_value();
  }
  bool add(const Node& node, const op::Clip& clip) {
    std::optional<Place> at = places_[node.inputs[0]];
    const auto limit = [&](PackedOperation operation, double by) {
      const std::vector<double> limits(size_of(node.output), by);
      if (std::isfinite(by)) at = with_constants(operation, limits, at);
    };
    limit(PackedOperation::maximum, clip.least);
    limit(PackedOperation::minimum, clip.most);
    places_[node.output] = at;
    return at.has_value();
  }

  /// Two values of the same shape, or a value and a constant.
  bool add_pair(const Node& node, PackedOperation operation, bool commutes) {
    ValueId a = node.inputs[0], b = node.inputs[1];
    if (commutes && !places_[a]) std::swap(a, b);
    const std::size_t size = size_of(node.output);
    if (!places_[a] || size_of(a) != size) return false;
    if (places_[b]) return size_of(b) == size && append(node, maker_.of_values(operation, size), {a, b});
    std::vector<double> values = constants(b, program_.shape(node.output));
    if (values.empty() || !are_numbers_of_format(values)) return false;
    const bool is_difference = operation == PackedOperation::subtract;
    if (is_difference)
      for (double& value : values) value = -value;
    return append(node, maker_.with_constants(is_difference ? PackedOperation::add : operation, values), {a});
  }
  bool add(const Node& node, const op::Add&) { return add_pair(node, PackedOperation::add, true); }
  bool add(const Node& node, const op::Mul&) {
    if (!add_pair(node, PackedOperation::multiply, true)) return false;
    for (const ValueId id : node.inputs) {
      const std::vector<double> factors = constants(id, program_.shape(node.output));
      const bool is_one_number = !factors.empty() && std::all_of(factors.begin(), factors.end(), [&](double factor) {
        return factor == factors.front();
      });
      if (is_one_number) multiple_ = {steps_.back().get(), node.output, factors.front()};
    }
    return true;
  }
  bool add(const Node& node, const op::Max&) { return add_pair(node, PackedOperation::maximum, true); }
  bool add(const Node& node, const op::Min&) { return add_pair(node, PackedOperation::minimum, true); }
  bool add(const Node& node, const op::Div&) { return add_pair(node, PackedOperation::divide, false); }
  /// c - x is c + (-x).
  bool add(const Node& node, const op::Sub&) {
    const ValueId a = node.inputs[0], x = node.inputs[1];
    if (places_[a]) return add_pair(node, PackedOperation::subtract, false);
    const std::vector<double> values = constants(a, program_.shape(node.output));
    if (values.empty() || !places_[x] || size_of(x) != values.size()) return false;
    const std::vector<double> signs(values.size(), -1.0);
    places_[node.output] =
        with_constants(PackedOperation::add, values, with_constants(PackedOperation::multiply, signs, places_[x]));
    return places_[node.output].has_value();
  }

  /// Features of one operand that stay side by side need no step.
  template <class Op>
  requires Selection<Op>
  bool add(const Node& node, const Op& op) {
    std::vector<Shape> shapes;
    for (const ValueId id : node.inputs) {
      if (!places_[id]) return false;
      shapes.push_back(program_.shape(id));
    }
    const std::vector<ElementSource> sources = plan_selection(op, shapes, program_.shape(node.output));
    if (sources.empty()) return false;
    bool is_side_by_side = true;
    for (std::size_t i = 0; i < sources.size(); ++i) {
      if (sources[i].is_fill()) return false;
      is_side_by_side =
          is_side_by_side && sources[i].input == sources[0].input && sources[i].index == sources[0].index + i;
    }
    const auto place = [&](const ElementSource& source) {
      Place at = *places_[node.inputs[source.input]];
      at.offset += source.index;
      return at;
    };
    if (is_side_by_side) {
      places_[node.output] = place(sources[0]);
      return true;
    }
    std::unique_ptr<Step> step = maker_.moved(sources.size());
    if (step == nullptr) return false;
    for (const ElementSource& source : sources) step->reads.push_back(place(source));
    return append(node, std::move(step), {});
  }

  template <class Op>
  bool add(const Node&, const Op&) {
    return false;
  }

  /// Gives every buffer a place; those that nothing reads any more are used again.
  void lay_out(PackedSteps<Real>& packed, Place output) {
    std::vector<std::size_t> last_read(buffers_.size(), 0);
    for (std::size_t i = 0; i < steps_.size(); ++i)
      for (const Place& read : steps_[i]->reads) last_read[read.buffer] = i;
    last_read[output.buffer] = steps_.size();
    const std::size_t largest = *std::max_element(buffers_.begin(), buffers_.end());
    std::vector<std::size_t> slot_of(buffers_.size(), 0), spare;
    std::size_t slots = 1;  // the input lies in slot 0
    const auto place = [&](Place& at) { at.at = slot_of[at.buffer] * largest + at.offset; };
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      Step& step = *steps_[i];
      const bool overwrites = step.may_overwrite && last_read[step.reads[0].buffer] == i && step.reads[0].offset == 0 &&
                              step.features <= buffers_[step.reads[0].buffer];
      std::vector<std::size_t> dead;
      for (Place& read : step.reads) {
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
    packed.output = output.at;
    packed.result = output;
    packed.size = slots * largest;
    for (std::unique_ptr<Step>& step : steps_) packed.steps.push_back(std::move(step));
  }

  Program program_;
  const Graph& graph_;
  const StepMaker<Real>& maker_;
  std::vector<std::optional<Place>> places_;  ///< by value; empty: constants
  std::map<ValueId, Tensor<double>> folded_;  ///< what no input reaches and is computed
  std::vector<int> uses_;                     ///< by value
  std::vector<std::size_t> buffers_;          ///< their features
  std::vector<std::unique_ptr<Step>> steps_;
  struct {
    DenseLayer<Real>* step = nullptr;
    ValueId output = 0;
  } dense_of_;  ///< the last dense layer
  struct {
    const Step* step = nullptr;
    ValueId output = 0;
    double factor = 0.0;
  } multiple_;  ///< the last product with one number
};

}  // namespace

template <class Real>
std::optional<PackedSteps<Real>> packed_steps(const Graph& graph, const StepMaker<Real>& maker, std::string* refused) {
  const BatchLayout layout = batch_layout(graph);
  if (!layout.batched) return std::nullopt;
  return Packer<Real>(graph, layout.sample_shapes.front(), maker).pack(refused);
}

template std::optional<PackedSteps<double>> packed_steps(const Graph& graph, const StepMaker<double>& maker,
                                                         std::string* refused);
template std::optional<PackedSteps<float>> packed_steps(const Graph& graph, const StepMaker<float>& maker,
                                                        std::string* refused);

}  // namespace driftbound::implicit
