#include "bounds/nodes/own_run.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <variant>

#include "bounds/theorems/matrix_unit_sums.hpp"
#include "driftbound/model/composite.hpp"
#include "driftbound/num/format.hpp"

namespace driftbound::bounds {

namespace {

std::string parts_condition(const ReducedReduction& reduced) {
  return "at most " + std::to_string(reduced.parts) + " parts of a sum are rounded to " +
         std::string(format(reduced.format).name) + (reduced.rounds_sums ? ", and so are their sums" : "") + " (A-06)";
}

}  // namespace

bool is_own_run(const Trace& trace) {
  if (!trace.provenance.program.starts_with("driftbound ") || trace.provenance.backend != "cpu") return false;
  return is_own_arithmetic(trace.arithmetic);
}

bool is_own_arithmetic(const ArithmeticModel& arithmetic) {
  constexpr std::array<std::string_view, 7> own_names = {"fp64", "fp32",     "tf32",    "bf16",
                                                         "fp16", "fp8_e4m3", "fp8_e5m2"};
  if (!arithmetic.order.gives_partial_sums()) return false;
  if (std::find(own_names.begin(), own_names.end(), arithmetic.name) == own_names.end()) return false;
  ArithmeticModel own = cpu_arithmetic(arithmetic.name, arithmetic.order);
  if (holds_all_of(format(own.output), format(arithmetic.output))) own.output = arithmetic.output;
  own.stores_declared_types = arithmetic.stores_declared_types;
  return to_json(arithmetic) == to_json(own);
}

std::string arithmetic_condition(const ArithmeticModel& arithmetic) {
  using Kind = SummationOrder::Kind;
  const bool names_places = arithmetic.order.kind != Kind::unknown && arithmetic.order.kind != Kind::height;
  return "the arithmetic of the run is " + arithmetic.name + " in order " + to_string(arithmetic.order) + ", as " +
         std::string(name_of(arithmetic.evidence)) + " by " +
         (arithmetic.source.empty() ? "the trace" : arithmetic.source) +
         (names_places ? "; a sum over several axes takes its terms in the order of docs/ops.md" : "") +
         (arithmetic.products_may_flush ? "; its matrix products keep subnormal numbers or take them for 0" : "") +
         (arithmetic.reduced_reduction ? "; " + parts_condition(*arithmetic.reduced_reduction) : "");
}

namespace {

std::string reading_of(const TensorCore& unit) {
  return unit.cuts_operands ? "cut operands toward zero" : "round operands to nearest";
}

std::string sum_of(const TensorCore& unit) {
  const int bits = kept_bits(unit);
  if (bits == TensorCore().sum_bits) return "to float32";
  return "no earlier than " + std::to_string(bits) + " bits behind its leading one";
}

std::string length_of_parts(const TensorCore& unit) {
  return unit.promotion == 0 ? "" : ", none longer than " + std::to_string(unit.promotion) + ",";
}

}  // namespace

std::string matrix_unit_condition(const TensorCore& unit) {
  const std::string block = std::to_string(unit.block);
  return "matrix products " + reading_of(unit) + " and are added up by a matrix unit that adds at least " + block +
         " exact products to a float32 at once, each cut off no earlier than " + std::to_string(unit.fraction_bits) +
         " bits behind the leading bit of the largest, cuts that sum " + sum_of(unit) +
         ", and adds parts that end at multiples of " + block + " products (padding not counted)" +
         length_of_parts(unit) +
         " to nearest, or by float32 operations, to nearest in any order, of operands read so or as they are; a bias "
         "comes last (A-03)";
}

std::string joined(const std::set<std::string>& conditions) {
  std::string text;
  for (const std::string& condition : conditions) text += (text.empty() ? "" : "; ") + condition;
  return text;
}

std::set<std::string> steps_conditions(const Op& op, const std::string& steps) {
  if (const auto* segment = std::get_if<op::Segment>(&op); segment != nullptr && segment->graph != nullptr) {
    std::set<std::string> conditions = {"the nodes inside a segment are computed one by one (A-10)"};
    for (const Node& node : segment->graph->nodes) conditions.merge(steps_conditions(node.op, steps));
    return conditions;
  }
  if (!is_composite(op)) return {};
  return {std::string(name_of(op)) + " is computed by " + steps + " of docs/ops.md (A-04)"};
}

std::set<std::string> any_run_conditions(const Graph& graph) {
  std::set<std::string> conditions;
  for (const Node& node : graph.nodes) {
    conditions.merge(steps_conditions(node.op, "the first steps"));
    const auto* segment = std::get_if<op::Segment>(&node.op);
    if (segment != nullptr && segment->graph != nullptr) conditions.merge(any_run_conditions(*segment->graph));
    const auto* gemm = std::get_if<op::Gemm>(&node.op);
    if (gemm != nullptr && gemm->alpha != 1.0 && gemm->alpha != -1.0)
      conditions.insert("Gemm scales the complete sum of its products, and its addend comes after that (A-05)");
  }
  return conditions;
}

}  // namespace driftbound::bounds
