#include "bounds/local/op_variants.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "bounds/arithmetic/numbers.hpp"
#include "bounds/local/other_orders.hpp"
#include "bounds/nodes/body_error.hpp"
#include "bounds/theorems/chance.hpp"
#include "driftbound/evaluate/evaluator.hpp"
#include "model/shapes.hpp"

namespace driftbound::bounds {
namespace {

constexpr std::size_t most_rows = 64, most_single_elements = 256;
/// An op whose rows cannot be taken apart is tested where its result is no larger.
constexpr std::size_t largest_whole = std::size_t{1} << 18;
/// Of the square of a difference: what errors other than those of sums may make of it, at most.
constexpr double share_of_the_rest = 0.25;
/// Rows whose difference has squares below this share of the mean do not count.
constexpr double clear_share_of_rows = 0.0625;
/// An honest run that goes this share of the way to another op refutes the model.
constexpr double refuting_share_of_runs = 0.25;

/// An op with operands of its own. Its result consists of rows of `length` elements, each made by itself.
struct Call {
  Op op;
  std::vector<Tensor<double>> operands;
  std::vector<double> results;  ///< recorded
  std::vector<double> errors;   ///< results less the exact ones; NaN where one of them is not finite
  std::size_t length = 1;
};

/// An op in the place of the recorded one. `write` adds it to a graph, from the same operands.
struct Variant {
  std::string name;
  std::function<ValueId(Graph&, const std::vector<ValueId>&, const std::vector<Shape>&)> write;
};

Variant plain(std::string name, Op op) {
  return {std::move(name),
          [op = std::move(op)](Graph& graph, const std::vector<ValueId>& inputs, const std::vector<Shape>&) {
            return graph.add_node("variant", op, inputs);
          }};
}

ValueId add_number(Graph& graph, double number) {
  return graph.add_constant("number", StoredTensor::from(Tensor<double>({}, {number})));
}

/// An operand times a number.
ValueId scaled(Graph& graph, ValueId x, double factor) {
  return graph.add_node("scaled", op::Mul{}, {x, add_number(graph, factor)});
}

template <class Norm>
void add_epsilons(const Norm& norm, std::vector<Variant>& variants) {
  for (const double epsilon : {0.0, 1e-12, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3}) {
    if (std::abs(epsilon - norm.epsilon) <= 0.01 * norm.epsilon) continue;
    Norm other = norm;
    other.epsilon = epsilon;
    variants.push_back(plain(epsilon == 0.0 ? "no epsilon" : fmt::format("epsilon {:g}", epsilon), other));
  }
}

std::vector<Variant> variants_of(const op::LayerNormalization& norm, const std::vector<Shape>& shapes) {
  std::vector<Variant> variants;
  add_epsilons(norm, variants);
  const Shape of_row(shapes[0].begin() + static_cast<std::ptrdiff_t>(normalized_axis(norm.axis, shapes[0].size())),
                     shapes[0].end());
  const auto n = static_cast<double>(element_count(of_row));
  if (n > 1.0)
    variants.push_back({"variance divided by N - 1",
                        [norm, n](Graph& graph, const std::vector<ValueId>& inputs, const std::vector<Shape>&) {
                          op::LayerNormalization other = norm;
                          other.epsilon *= (n - 1.0) / n;
                          std::vector<ValueId> operands = inputs;
                          operands[1] = scaled(graph, inputs[1], std::sqrt((n - 1.0) / n));
                          return graph.add_node("variant", other, operands);
                        }});
  const auto add_mean_kept = [norm](Graph& graph, const std::vector<ValueId>& inputs, const std::vector<Shape>&) {
    const ValueId y = graph.add_node("kept", op::RMSNormalization{norm.axis, norm.epsilon}, {inputs[0], inputs[1]});
    return inputs.size() < 3 ? y : graph.add_node("variant", op::Add{}, {y, inputs[2]});
  };
  variants.push_back({"mean not subtracted", add_mean_kept});
  if (shapes.size() > 2)
    variants.push_back(
        {"shift left out", [norm](Graph& graph, const std::vector<ValueId>& inputs, const std::vector<Shape>&) {
           return graph.add_node("variant", norm, {inputs[0], inputs[1]});
         }});
  return variants;
}

std::vector<Variant> variants_of(const op::RMSNormalization& norm, const std::vector<Shape>&) {
  std::vector<Variant> variants;
  add_epsilons(norm, variants);
  variants.push_back(
      {"mean subtracted", [norm](Graph& graph, const std::vector<ValueId>& inputs, const std::vector<Shape>&) {
         return graph.add_node("variant", op::LayerNormalization{norm.axis, norm.epsilon}, inputs);
       }});
  variants.push_back({"1 + scale in place of scale",
                      [norm](Graph& graph, const std::vector<ValueId>& inputs, const std::vector<Shape>&) {
                        const ValueId more = graph.add_node("more", op::Add{}, {inputs[1], add_number(graph, 1.0)});
                        return graph.add_node("variant", norm, {inputs[0], more});
                      }});
  return variants;
}

template <class Norm>
std::vector<Variant> variants_by_epsilon(const Norm& norm) {
  std::vector<Variant> variants;
  add_epsilons(norm, variants);
  return variants;
}

std::vector<Variant> variants_of(const op::Gelu& gelu, const std::vector<Shape>&) {
  std::vector<Variant> variants;
  variants.push_back(plain(gelu.tanh_form ? "Gelu by erf" : "Gelu by tanh", op::Gelu{!gelu.tanh_form}));
  variants.push_back(
      {"x sigmoid(1.702 x)", [](Graph& graph, const std::vector<ValueId>& inputs, const std::vector<Shape>&) {
         const ValueId steep = scaled(graph, inputs[0], 1.702);
         const ValueId share = graph.add_node("share", op::Sigmoid{}, {steep});
         return graph.add_node("variant", op::Mul{}, {inputs[0], share});
       }});
  return variants;
}

std::vector<Variant> variants_of(const op::Attention& attention, const std::vector<Shape>& shapes) {
  std::vector<Variant> variants;
  const auto d = static_cast<double>(shapes[0].back());
  const auto add_scale = [&](const std::string& name, double scale) {
    const double declared = attention.scale == 0.0 ? 1.0 / std::sqrt(d) : attention.scale;
    if (!std::isfinite(scale) || std::abs(scale - declared) <= 1e-6 * declared) return;
    op::Attention other = attention;
    other.scale = scale;
    variants.push_back(plain(name, other));
  };
  add_scale("scale 1/sqrt(d)", 1.0 / std::sqrt(d));
  add_scale("scale 1/sqrt(d + 1)", 1.0 / std::sqrt(d + 1.0));
  if (d > 1.0) add_scale("scale 1/sqrt(d - 1)", 1.0 / std::sqrt(d - 1.0));
  add_scale("scale 1/d", 1.0 / d);
  add_scale("scale 1", 1.0);
  const std::int64_t keys = shapes[1][shapes[1].size() - 2];
  if (keys < 2 || attention.is_causal || !attention.visible.empty()) return variants;
  variants.push_back({"last key left out", [attention, keys](Graph& graph, const std::vector<ValueId>& inputs,
                                                             const std::vector<Shape>& given) {
                        std::vector<ValueId> operands = inputs;
                        const auto drop = [&](std::size_t slot, std::int64_t axis) {
                          if (slot >= inputs.size() || given[slot].empty() || given[slot].end()[axis] != keys) return;
                          operands[slot] = graph.add_node(fmt::format("kept/{}", slot),
                                                          op::Slice{{0}, {keys - 1}, {axis}, {1}}, {inputs[slot]});
                        };
                        drop(1, -2);
                        drop(2, -2);
                        drop(3, -1);
                        return graph.add_node("variant", attention, operands);
                      }});
  return variants;
}

std::vector<Variant> variants_of(const Op& op, const std::vector<Shape>& shapes) {
  return std::visit(
      Overloaded{
          [&](const OneOf<op::LayerNormalization, op::RMSNormalization, op::Gelu, op::Attention> auto& it) {
            return variants_of(it, shapes);
          },
          [](const OneOf<op::GroupNormalization, op::InstanceNormalization, op::BatchNormalization> auto& norm) {
            return variants_by_epsilon(norm);
          },
          [](const auto&) { return std::vector<Variant>(); },
      },
      op);
}

/// Numbers below `count`, evenly spread, at most so many.
std::vector<std::size_t> spread(std::size_t count, std::size_t most) {
  std::vector<std::size_t> numbers;
  const std::size_t taken = std::min(count, most);
  for (std::size_t i = 0; i < taken; ++i) numbers.push_back(i * count / taken);
  return numbers;
}

Tensor<double> rows_of(const Tensor<double>& tensor, const std::vector<std::size_t>& rows, Shape of_row) {
  const auto length = static_cast<std::size_t>(element_count(of_row));
  Tensor<double> result;
  for (const std::size_t row : rows)
    result.values.insert(result.values.end(), tensor.values.begin() + static_cast<std::ptrdiff_t>(row * length),
                         tensor.values.begin() + static_cast<std::ptrdiff_t>((row + 1) * length));
  of_row.insert(of_row.begin(), static_cast<std::int64_t>(rows.size()));
  result.shape = std::move(of_row);
  return result;
}

double error_at(const NodeView& view, const Tensor<Ball>& exact, std::size_t i) {
  const Ball& ball = exact.values[i];
  if (!std::isfinite(view.y(i)) || !ball.is_finite()) return std::numeric_limits<double>::quiet_NaN();
  return (view.y(i) - ball.hi) - ball.lo;
}

/// Some rows of an op on rows [row, of_row...], whose other operands serve every row.
Call call_of_rows(const NodeView& view, const Tensor<Ball>& exact, Op op, const Shape& of_row, std::size_t most) {
  Call call;
  call.op = std::move(op);
  call.length = static_cast<std::size_t>(element_count(of_row));
  const std::vector<std::size_t> rows = spread(view.output->size() / std::max<std::size_t>(call.length, 1), most);
  call.operands.push_back(rows_of(view.input(0), rows, of_row));
  for (std::size_t slot = 1; slot < view.inputs.size(); ++slot) call.operands.push_back(view.input(slot));
  for (const std::size_t row : rows)
    for (std::size_t i = row * call.length; i < (row + 1) * call.length; ++i) {
      call.results.push_back(view.y(i));
      call.errors.push_back(error_at(view, exact, i));
    }
  return call;
}

template <class Norm>
std::optional<Call> call_of_norm(const NodeView& view, const Tensor<Ball>& exact, Norm norm) {
  const Shape& shape = view.input(0).shape;
  const std::size_t axis = normalized_axis(norm.axis, shape.size());
  const Shape of_row(shape.begin() + static_cast<std::ptrdiff_t>(axis), shape.end());
  for (std::size_t slot = 1; slot < view.inputs.size(); ++slot)
    if (view.input(slot).shape.size() > of_row.size()) return std::nullopt;  // it may differ from row to row
  norm.axis = 1;
  return call_of_rows(view, exact, norm, of_row, most_rows);
}

std::optional<Call> call_of_whole(const NodeView& view, const Tensor<Ball>& exact, std::int64_t length) {
  if (length < 1 || view.output->size() > largest_whole) return std::nullopt;
  Call call;
  call.op = view.node->op;
  call.length = static_cast<std::size_t>(length);
  for (const Tensor<double>* operand : view.inputs) call.operands.push_back(*operand);
  for (std::size_t i = 0; i < view.output->size(); ++i) {
    call.results.push_back(view.y(i));
    call.errors.push_back(error_at(view, exact, i));
  }
  return call;
}

/// Elements of a sample's channels, or of its groups of channels.
std::int64_t elements_of_group(const Shape& shape, std::int64_t groups) {
  if (shape.size() < 2 || groups < 1 || shape[0] == 0) return 0;
  return element_count(shape) / shape[0] / groups;
}

std::optional<Call> call_to_test(const NodeView& view, const Tensor<Ball>& exact) {
  if (view.output->size() == 0) return std::nullopt;
  const Shape& shape = view.input(0).shape;
  return std::visit(Overloaded{
                        [&](const OneOf<op::LayerNormalization, op::RMSNormalization> auto& norm) {
                          return call_of_norm(view, exact, norm);
                        },
                        [&](const op::Gelu& gelu) {
                          return std::optional(call_of_rows(view, exact, gelu, {1}, most_single_elements));
                        },
                        [&](const op::GroupNormalization& norm) {
                          return call_of_whole(view, exact, elements_of_group(shape, norm.groups));
                        },
                        [&](const op::InstanceNormalization&) {
                          return call_of_whole(view, exact, elements_of_group(shape, shape.size() < 2 ? 0 : shape[1]));
                        },
                        [&](const op::BatchNormalization&) { return call_of_whole(view, exact, 1); },
                        [&](const op::Attention& attention) {
                          const bool is_plain =
                              shape.size() == 4 && attention.result == op::Attention::Result::attended;
                          return is_plain ? call_of_whole(view, exact, view.output->shape.back()) : std::nullopt;
                        },
                        [](const auto&) { return std::optional<Call>(); },
                    },
                    view.node->op);
}

class Variants {
public:
  Variants(const Call& call, const Setting& setting) : call_(call), setting_(setting) {
    for (const Tensor<double>& operand : call.operands) shapes_.push_back(operand.shape);
  }

  std::optional<ReadingTest> test() {
    const std::vector<Variant> variants = variants_of(call_.op, shapes_);
    find_rows();
    if (rows_.empty() || variants.empty()) return std::nullopt;
    const Variant itself = plain("", call_.op);
    const std::vector<double> exact = results(itself, cpu_arithmetic("fp64", tried_orders().front()));
    find_rest();
    ReadingTest test;
    test.elements = static_cast<std::int64_t>(rows_.size() * call_.length);
    test.computations = static_cast<std::int64_t>(rows_.size());
    test.pairs.push_back(evidence_of(itself, std::vector<double>(exact.size(), 0.0)));
    test.pairs.front().is_declared = true;
    std::vector<std::vector<double>> differences(1);
    for (const Variant& variant : variants) {
      differences.push_back(results(variant, cpu_arithmetic("fp64", tried_orders().front())));
      for (std::size_t i = 0; i < exact.size(); ++i) differences.back()[i] -= exact[i];
      test.pairs.push_back(evidence_of(variant, differences.back()));
    }
    const auto nearest = std::min_element(test.pairs.begin(), test.pairs.end(),
                                          [](const auto& a, const auto& b) { return a.squares < b.squares; });
    const auto at = static_cast<std::size_t>(nearest - test.pairs.begin());
    test.is_modelled =
        theorems::refused_by(setting_.machine).empty() && (at == 0 || runs_stay_away(itself, exact, differences[at]));
    return test;
  }

private:
  /// Rows with errors that are known, each computation once.
  void find_rows() {
    std::set<std::uint64_t> seen;
    for (std::size_t row = 0; row < call_.errors.size() / call_.length; ++row) {
      std::uint64_t computation = 0;
      bool is_known = true;
      for (std::size_t i = row * call_.length; i < (row + 1) * call_.length; ++i) {
        is_known = is_known && std::isfinite(call_.errors[i]);
        computation =
            (computation ^ std::bit_cast<std::uint64_t>(call_.results[i])) * 0x9e3779b97f4a7c15u + (computation >> 29);
      }
      if (is_known && (seen.insert(computation).second || call_.length == 1)) rows_.push_back(row);
    }
  }

  /// The result of a variant at the operands, in an arithmetic.
  std::vector<double> results(const Variant& variant, const ArithmeticModel& arithmetic) const {
    Graph graph;
    Inputs inputs;
    std::vector<ValueId> operands;
    for (std::size_t slot = 0; slot < call_.operands.size(); ++slot) {
      std::vector<DeclaredDimension> declared;
      for (const std::int64_t extent : shapes_[slot]) declared.push_back({extent, ""});
      const std::string name = fmt::format("operand/{}", slot);
      operands.push_back(graph.add_input(name, ElementType::f64, std::move(declared)));
      graph.values[operands.back()].has_declared_shape = true;
      inputs.tensors.emplace_back(name, StoredTensor::from(call_.operands[slot]));
    }
    graph.outputs = {variant.write(graph, operands, shapes_)};
    return cpu_evaluator(arithmetic).run(graph, inputs).layers.back().output.to_double().values;
  }

  /// What all errors but those of sums may come to.
  void find_rest() {
    Node node{"call", call_.op, {}, 0};
    const Tensor<double> output({static_cast<std::int64_t>(call_.results.size())}, call_.results);
    NodeView view{&node, {}, &output};
    for (const Tensor<double>& operand : call_.operands) view.inputs.push_back(&operand);
    BodyRequest request;
    request.sums_are_exact = true;
    std::set<std::string> conditions;
    rest_ = body_error(view, request, setting_, conditions);
  }

  ReadingEvidence evidence_of(const Variant& variant, const std::vector<double>& difference) const {
    ReadingEvidence evidence;
    evidence.variant = variant.name;
    struct Row {
      double squares = 0.0, product = 0.0, rest = 0.0;
    };
    std::vector<Row> rows;
    double all = 0.0;
    for (const std::size_t row : rows_) {
      Row sums;
      for (std::size_t i = row * call_.length; i < (row + 1) * call_.length; ++i) {
        const double distance = call_.errors[i] - difference[i];
        evidence.squares += distance * distance;
        sums.squares += difference[i] * difference[i];
        sums.product += call_.errors[i] * difference[i];
        if (difference[i] != 0.0) sums.rest += rest_[i] * std::abs(difference[i]);
      }
      all += sums.squares;
      rows.push_back(sums);
    }
    if (!std::isfinite(evidence.squares)) evidence.squares = infinity;
    const double clear = clear_share_of_rows * all / static_cast<double>(rows_.size());
    for (const Row& row : rows) {
      if (row.squares == 0.0 || !(row.squares >= clear) || !(row.rest <= share_of_the_rest * row.squares)) continue;
      ++evidence.signs;
      if (row.product > row.rest) ++evidence.agreeing;
    }
    return evidence;
  }

  /// Whether honest runs in all orders tried stay away from another op.
  bool runs_stay_away(const Variant& itself, const std::vector<double>& exact,
                      const std::vector<double>& difference) const {
    const char* const arithmetic = setting_.machine.accumulator->id == FormatId::fp64 ? "fp64" : "fp32";
    const std::span<const SummationOrder> orders = tried_orders();
    return std::all_of(orders.begin(), orders.end(), [&](const SummationOrder& order) {
      const std::vector<double> run = results(itself, cpu_arithmetic(arithmetic, order));
      double product = 0.0, squares = 0.0;
      for (const std::size_t row : rows_)
        for (std::size_t i = row * call_.length; i < (row + 1) * call_.length; ++i) {
          product += (run[i] - exact[i]) * difference[i];
          squares += difference[i] * difference[i];
        }
      return product <= refuting_share_of_runs * squares;
    });
  }

  const Call& call_;
  const Setting& setting_;
  std::vector<Shape> shapes_;
  std::vector<std::size_t> rows_;
  std::vector<double> rest_;
};

}  // namespace

std::optional<ReadingTest> test_op_variants(const NodeView& view, const Setting& setting, const Tensor<Ball>& exact) {
  const std::optional<Call> call = call_to_test(view, exact);
  return call ? Variants(*call, setting).test() : std::nullopt;
}

}  // namespace driftbound::bounds
