#include "bounds/local/determined.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <variant>

#include "bounds/nodes/own_run.hpp"
#include "driftbound/bounds/theorems.hpp"
#include "driftbound/evaluate/evaluator.hpp"
#include "driftbound/model/op_groups.hpp"
#include "driftbound/num/errors.hpp"
#include "model/text.hpp"
#include "model/variant.hpp"

namespace driftbound::bounds {
namespace {

/// Returns the reason why the CPU evaluator cannot execute the arithmetic; empty if it can. What is declared of a matrix unit
/// are lower bounds of what it keeps, which do not say what it computes.
std::string refused_by_evaluator(const ArithmeticModel& arithmetic, const KernelsByNode& kernels) {
  if (arithmetic.tensor_core)
    return "arithmetic '" + arithmetic.name +
           "' has a matrix unit, which may keep more than is declared, and no kernels were found in the bits of a "
           "recorded run";
  try {
    cpu_evaluator(arithmetic, kernels);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

/// Whether the arithmetic is that of an evaluator of this library, on a CPU or on a device, products by a vendor's library
/// apart. docs/arithmetic.md and docs/ops.md then define every step of a run.
bool has_our_steps(ArithmeticModel arithmetic) {
  constexpr std::string_view ours = "driftbound ", others_are_ours = "every other op by driftbound CUDA kernels";
  const ArithmeticModel own = cpu_arithmetic("fp32", arithmetic.order);
  if (arithmetic.source.ends_with(others_are_ours))
    arithmetic.evidence = own.evidence;
  else if (!arithmetic.source.starts_with(ours))
    return false;
  arithmetic.source = own.source;
  return is_own_arithmetic(arithmetic);
}

bool same(const FunctionAccuracy& a, const FunctionAccuracy& b) {
  return a.function == b.function && a.units == b.units && a.absolute_units == b.absolute_units &&
         a.evidence == b.evidence && a.source == b.source;
}

/// Whether the entry determines the function's results: it is correctly rounded (sqrt; in fp64 any function), or it is
/// the entry of the evaluator's own function.
bool is_determined(const FunctionAccuracy& entry, const ArithmeticModel& arithmetic) {
  const bool is_double = arithmetic.accumulator == FormatId::fp64;
  const bool rounds_correctly = is_double || entry.function == "sqrt";
  const ArithmeticModel own = cpu_arithmetic(is_double ? "fp64" : "fp32", arithmetic.order);
  return (rounds_correctly && is_correctly_rounded(entry)) || same(entry, own.accuracy(entry.function));
}

/// Returns a text if a stored input or constant has more significand bits than the accumulator, and the input format is
/// another one: it may be rounded to the input format directly, or to the accumulator first. Empty if none has.
std::string rounded_once_or_twice(const Graph& graph, const ArithmeticModel& arithmetic) {
  if (arithmetic.input == arithmetic.accumulator) return "";
  const int most = format(arithmetic.accumulator).precision;
  for (ValueId id = 0; id < graph.values.size(); ++id) {
    const Value& value = graph.value(id);
    if (value.kind == ValueKind::computed) continue;
    const auto stored = float_format(value.type);
    if (!stored || format(*stored).precision <= most) continue;
    return in_quotes(value.name) + " is stored in " + std::string(name_of(value.type)) +
           ": it may be rounded once or twice";
  }
  return "";
}

std::string named(const Node& node) {
  return std::string(name_of(node.op)) + " " + in_quotes(node.name);
}

bool scales(double factor) {
  return std::abs(factor) != 1.0 && factor != 0.0;
}

constexpr const char* other_steps = " may be computed by other steps";

/// Whether a composite selects elements of its operands, so that its result does not depend on the steps.
template <class T>
constexpr bool picks_an_operand =
    OneOf<T, op::MinOf, op::MaxOf, op::MaxPool, op::GlobalMaxPool, op::ArgMax, op::TopK, op::Truncate>;

/// Returns a text if a result is stored in a narrower format than it is computed in: a program that fuses ops leaves
/// this rounding out. Empty if none is.
std::string stored_or_fused(const Graph& graph, const ArithmeticModel& arithmetic) {
  for (const Node& node : graph.nodes) {
    const Format& stored = format(stored_format(arithmetic, graph.value(node.output).type));
    if (!holds_all_of(stored, format(arithmetic.accumulator)))
      return in_quotes(node.name) + " is stored in " + std::string(stored.name) +
             ", unless it is fused with the next op";
  }
  return "";
}

std::string open_steps(const Node& node) {
  const std::string who = named(node);
  return std::visit(Overloaded{
                        [&](const OneOf<op::Elu, op::Softmax> auto&) { return who + other_steps; },
                        [&]<Composite T>(const T&) { return picks_an_operand<T> ? std::string() : who + other_steps; },
                        [&](const op::Gemm& gemm) {
                          if (scales(gemm.alpha)) return who + " scales its sums, before or after the addend";
                          const bool scales_addend = node.inputs.size() > 2 && scales(gemm.beta);
                          return scales_addend ? who + " scales its addend, with a rounding or fused" : std::string();
                        },
                        [&](const op::Cast&) { return who + " may be left out where ops are fused"; },
                        [&](const OneOf<op::Mul, op::PRelu, op::LeakyRelu> auto&) {
                          return who + " may be fused with an addition that follows";
                        },
                        [&](const op::ReduceSum& sum) {
                          return sum.axes.size() == 1 ? std::string()
                                                      : who + " adds up several axes, in an order that is not said";
                        },
                        [](const auto&) { return std::string(); },
                    },
                    node.op);
}

/// A node whose products have no kernel, or one that the evaluator does not execute; empty: there is none.
std::string open_products(const Graph& graph, const KernelsByNode& kernels) {
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    const bool multiplies =
        multiplies_matrices(node.op) || has_products(node.op) || std::holds_alternative<op::Segment>(node.op);
    if (multiplies && !kernels[i]) return "no one kernel was found that gives all recorded numbers of " + named(node);
    if (kernels[i] && kernels[i]->channels_together > 1)
      return named(node) + " adds its terms in an order that is not executed";
  }
  return "";
}

/// A node that may add up numbers in an order that is not known; empty: there is none, or the order is.
std::string open_order(const Graph& graph, const ArithmeticModel& arithmetic, const KernelsByNode& kernels) {
  if (arithmetic.order.gives_partial_sums()) return "";
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (kernels[i]) continue;
    const bool may_add = std::visit(
        []<class T>(const T&) {
          return OneOf<T, op::Softmax, op::ReduceSum> || (Composite<T> && !picks_an_operand<T>);
        },
        graph.nodes[i].op);
    if (may_add) return named(graph.nodes[i]) + " may add up numbers in an order that is not known";
  }
  return "";
}

std::string open_function(const Node& node, const ArithmeticModel& arithmetic) {
  for (const std::string_view function : theorems_of(node.op).functions) {
    const auto entry = std::find_if(arithmetic.functions.begin(), arithmetic.functions.end(),
                                    [&](const FunctionAccuracy& of) { return of.function == function; });
    if (entry != arithmetic.functions.end() && is_determined(*entry, arithmetic)) continue;
    return std::string(function) + " of " + in_quotes(node.name) +
           " is known to some units, neither rounded correctly nor driftbound's own";
  }
  return "";
}

}  // namespace

bool has_products(const Op& op) {
  return std::visit([]<class T>(const T&) { return OneOf<T, op::Conv, op::ConvTranspose, op::Einsum, op::Attention>; },
                    op);
}

ArithmeticModel executed_by_kernels(ArithmeticModel arithmetic, const KernelsByNode& kernels) {
  if (kernels.empty()) return arithmetic;
  if (!arithmetic.order.gives_partial_sums()) arithmetic.order = {SummationOrder::Kind::sequential, 0, false};
  arithmetic.tensor_core.reset();
  arithmetic.reduced_reduction.reset();
  arithmetic.products_may_flush = false;
  return arithmetic;
}

std::string undetermined_by(const Graph& graph, const ArithmeticModel& arithmetic, const KernelsByNode& kernels) {
  if (!kernels.empty()) {
    if (std::string open = open_products(graph, kernels); !open.empty()) return open;
    if (std::string open = open_order(graph, arithmetic, kernels); !open.empty()) return open;
  }
  const ArithmeticModel executed = executed_by_kernels(arithmetic, kernels);
  if (std::string refused = refused_by_evaluator(executed, kernels); !refused.empty()) return refused;
  if (has_our_steps(executed)) return "";
  if (std::string stored = rounded_once_or_twice(graph, executed); !stored.empty()) return stored;
  if (std::string stored = stored_or_fused(graph, executed); !stored.empty()) return stored;
  for (std::size_t node = 0; node < graph.nodes.size(); ++node) {
    if (!kernels.empty() && kernels[node]) continue;
    if (std::string steps = open_steps(graph.nodes[node]); !steps.empty()) return steps;
    if (std::string function = open_function(graph.nodes[node], executed); !function.empty()) return function;
  }
  return "";
}

}  // namespace driftbound::bounds
