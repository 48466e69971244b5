#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "analysis/inspect.hpp"
#include "analysis/op_text.hpp"
#include "driftbound/bounds/bound.hpp"
#include "driftbound/bounds/theorems.hpp"
#include "driftbound/model/composite.hpp"
#include "driftbound/model/composite_examples.hpp"
#include "driftbound/model/onnx_catalogue.hpp"
#include "driftbound/model/op_kinds.hpp"
#include "evaluate/every_op.hpp"
#include "faults/theorems.hpp"
#include "support/temporary_folder.hpp"
#include "support/text.hpp"

namespace {

using namespace driftbound;
using namespace driftbound::tests;

std::string source(const std::string& file) {
  return driftbound::test::read_file(std::string(DRIFTBOUND_SOURCE_DIR) + "/" + file);
}

std::vector<std::string> matches(const std::string& text, const std::string& pattern) {
  const std::regex regex(pattern);
  std::vector<std::string> found;
  for (std::sregex_iterator it(text.begin(), text.end(), regex), end; it != end; ++it) found.push_back((*it)[1]);
  return found;
}

/// Bounds where the model's inputs are float32: what that rounds off the operands is propagated.
Bounds bounds_of(const OpCase& one, const ArithmeticModel& arithmetic) {
  Graph graph = graph_of(one.op, one.operands);
  for (const ValueId id : graph.inputs) graph.values[id].type = ElementType::f32;
  BoundOptions options;
  const Trace trace = cpu_evaluator(arithmetic).run(graph, inputs_of(one.operands));
  return bound(graph, slice(graph, batch_layout(graph), trace, 0, 1), options);
}

TEST_CASE("docs/ops.md is what inspect --ops prints") {
  INFO("regenerate it: driftbound inspect --ops > docs/ops.md");
  CHECK((source("docs/ops.md") == analysis::describe_ops()));
}

TEST_CASE("every op has a row, complete, and is named on the page") {
  const std::string text = analysis::describe_ops();
  for (const Op& op : every_kind()) {
    const analysis::OpRow row = analysis::row_of(op);
    CAPTURE(row.name);
    CHECK(row.name == name_of(op));
    CHECK(text.find("| " + row.name + " ") != std::string::npos);
    CHECK(!row.onnx.empty());
    CHECK((!row.evaluation.empty() || is_composite(op)));
    CHECK(!row.local.empty());
    CHECK(row.local.find("T-22") == std::string::npos);
    CHECK(!row.propagation.empty());
  }
}

TEST_CASE("no line of the page is wider than a terminal of 144 columns") {
  std::istringstream lines(analysis::describe_ops());
  for (std::string line; std::getline(lines, line);) {
    CAPTURE(line);
    CHECK(columns(line) <= 144);
  }
}

TEST_CASE("every op of ONNX that the loader takes is in the table, with its opset") {
  const std::string text = analysis::describe_ops();
  std::set<std::string> seen;
  for (const OnnxOp& onnx : onnx_ops()) {
    CAPTURE(std::string(onnx.name));
    CHECK(seen.insert(std::string(onnx.name)).second);
    CHECK((!onnx.kinds.empty() || !onnx.limits.empty()));
    const std::string opset = std::to_string(onnx.since);
    for (const std::size_t kind : onnx.kinds) {
      const Op op = every_kind().at(kind);
      const std::string entry = onnx.name == name_of(op) ? opset : std::string(onnx.name) + " " + opset;
      const std::vector<std::string> entries = matches(analysis::row_of(op).onnx, "([^,]+?)(?:, |$)");
      CHECK(std::find(entries.begin(), entries.end(), entry) != entries.end());
    }
    if (!onnx.limits.empty()) CHECK(text.find(onnx.limits) != std::string::npos);
  }
  for (const std::string_view name : onnx_integer_ops()) CHECK(text.find(name) != std::string::npos);
  CHECK(seen.count("Conv") + seen.count("Split") + seen.count("Dropout") == 3);
}

TEST_CASE("every theorem of the table is one of docs/theory.md") {
  const std::vector<std::string> listed = matches(source("docs/theory.md"), "\n\\| (T-\\d+) \\| \\[");
  const std::vector<std::string> printed = matches(analysis::describe_ops(), "(T-\\d+)");
  CHECK(printed.size() > std::variant_size_v<OpAlternatives>);
  for (const std::string& id : printed) {
    CAPTURE(id);
    CHECK(std::find(listed.begin(), listed.end(), id) != listed.end());
  }
}

TEST_CASE("local bounds name theorems of the table, and have the guarantee that it says") {
  std::mt19937_64 random(61);
  for (const OpCase& one : every_op(random)) {
    CAPTURE(std::string(name_of(one.op)));
    const std::vector<std::string_view> ids = theorems_of(one.op).local;
    const auto check = [&](const char* arithmetic, const char* order, const auto& check_guarantee) {
      const Bounds bounds = bounds_of(one, cpu_arithmetic(arithmetic, parse_summation_order(order)));
      for (const BoundResult& result : bounds.layers.at(0).local) {
        if (result.guarantee > Guarantee::conditional) continue;  // about chance, or nothing
        CAPTURE(result.theorem);
        CHECK(std::find(ids.begin(), ids.end(), result.theorem) != ids.end());
        check_guarantee(result);
      }
    };
    check("fp32", "blocked:2",
          [guarantee = analysis::row_of(every_kind().at(one.op.index())).guarantee](const BoundResult& result) {
            CHECK(guarantee == name_of(result.guarantee));
          });
    check("fp64", "pairwise", [](const BoundResult& result) { CHECK(result.guarantee == Guarantee::proven); });
  }
}

/// A theorem of propagation, and how to make it give up.
struct Propagation {
  std::string name;
  void (*break_it)(checks::Theorems&);
};

template <bounds::UnaryPropagation checks::Theorems::*theorem>
void unary(checks::Theorems& theorems) {
  theorems.*theorem = [](const bounds::Point&) { return Magnitude::infinite(); };
}
template <bounds::BinaryPropagation checks::Theorems::*theorem>
void binary(checks::Theorems& theorems) {
  theorems.*theorem = [](double, Magnitude, double, Magnitude) { return Magnitude::infinite(); };
}
template <bounds::GroupPropagation checks::Theorems::*theorem>
void group(checks::Theorems& theorems) {
  theorems.*theorem = [](std::span<const double>, std::span<const double>) { return Magnitude::infinite(); };
}

std::vector<Propagation> propagations() {
  using T = checks::Theorems;
  return {{"product_weight", [](T& t) { t.product_weight = [](double) { return 1e300; }; }},
          {"propagate_relu",
           [](T& t) {
             unary<&T::propagate_relu>(t);
             t.rows.relu = [](const double*, const double*, double*, double*, double* moved, std::size_t n) {
               if (moved != nullptr) std::fill(moved, moved + n, 1e300);
               return bounds::ReluFlags{};
             };
           }},
          {"propagate_sum",
           [](T& t) {
             binary<&T::propagate_sum>(t);
             t.rows.add = [](double* sums, const double*, std::size_t n) { std::fill(sums, sums + n, 1e300); };
           }},
          {"propagate_softmax",
           [](T& t) {
             t.propagate_softmax = [](auto, auto, auto, auto moved) { std::fill(moved.begin(), moved.end(), 1e300); };
           }},
          {"propagate_choice",
           [](T& t) {
             t.propagate_choice = [](bool, double, Magnitude, double, Magnitude) { return Magnitude::infinite(); };
           }},
          {"propagate_identity", unary<&T::propagate_identity>},
          {"propagate_leaky_relu", unary<&T::propagate_leaky_relu>},
          {"propagate_elu", unary<&T::propagate_elu>},
          {"propagate_tanh", unary<&T::propagate_tanh>},
          {"propagate_sigmoid", unary<&T::propagate_sigmoid>},
          {"propagate_softplus", unary<&T::propagate_softplus>},
          {"propagate_sin_or_cos", unary<&T::propagate_sin_or_cos>},
          {"propagate_erf", unary<&T::propagate_erf>},
          {"propagate_exp", unary<&T::propagate_exp>},
          {"propagate_sqrt", unary<&T::propagate_sqrt>},
          {"propagate_log", unary<&T::propagate_log>},
          {"propagate_tan", unary<&T::propagate_tan>},
          {"propagate_atan", unary<&T::propagate_atan>},
          {"propagate_sinh", unary<&T::propagate_sinh>},
          {"propagate_cosh", unary<&T::propagate_cosh>},
          {"propagate_power", unary<&T::propagate_power>},
          {"propagate_reciprocal", unary<&T::propagate_reciprocal>},
          {"propagate_abs", unary<&T::propagate_abs>},
          {"propagate_floor", unary<&T::propagate_floor>},
          {"propagate_ceil", unary<&T::propagate_ceil>},
          {"propagate_round", unary<&T::propagate_round>},
          {"propagate_sign", unary<&T::propagate_sign>},
          {"propagate_thresholded_relu", unary<&T::propagate_thresholded_relu>},
          {"propagate_product", binary<&T::propagate_product>},
          {"propagate_quotient", binary<&T::propagate_quotient>},
          {"propagate_max", binary<&T::propagate_max>},
          {"propagate_min", binary<&T::propagate_min>},
          {"propagate_greater", binary<&T::propagate_greater>},
          {"propagate_greater_or_equal", binary<&T::propagate_greater_or_equal>},
          {"propagate_equal", binary<&T::propagate_equal>},
          {"propagate_prelu", binary<&T::propagate_prelu>},
          {"propagate_reduce_sum", group<&T::propagate_reduce_sum>},
          {"propagate_reduce_max", group<&T::propagate_reduce_max>},
          {"propagate_reduce_min", group<&T::propagate_reduce_min>}};
}

/// The theorem that src/bounds/theorems/propagation.hpp names beside a function.
std::string theorem_beside(const std::string& function) {
  static const std::string text = source("src/bounds/theorems/propagation.hpp");
  const auto found = matches(text, " " + function + R"(\([^;]*\); +// (T-\d+))");
  REQUIRE(found.size() == 1);
  return found.front();
}

TEST_CASE("the function that propagates through an op is of the theorem in the table") {
  std::mt19937_64 random(62);
  const ArithmeticModel fp32 = cpu_arithmetic("fp32", parse_summation_order("sequential"));
  for (const OpCase& one : every_primitive(random)) {
    CAPTURE(std::string(name_of(one.op)));
    const Bounds plain = bounds_of(one, fp32);
    const auto forward = [](const Bounds& bounds) { return bounds.layers.at(0).accumulated.at(0).values.values; };
    std::set<std::string> found;
    for (const Propagation& propagation : propagations()) {
      const checks::ScopedTheorems in_force(checks::with_fault(propagation.break_it));
      if (forward(bounds_of(one, fp32)) != forward(plain)) found.insert(theorem_beside(propagation.name));
    }
    const std::vector<std::string_view> said = theorems_of(one.op).propagation;
    CHECK(found == std::set<std::string>(said.begin(), said.end()));
  }
}

TEST_CASE("formulas keep the order of operations and name what is used twice") {
  Graph graph;
  const ValueId a = graph.add_input("a", ElementType::f64, {}), b = graph.add_input("b", ElementType::f64, {});
  const ValueId two = graph.add_constant("two", StoredTensor::from(Tensor<double>({}, {2.0})));
  const ValueId sum = graph.add_node("sum", op::Add{}, {a, b});
  const ValueId rest = graph.add_node("rest", op::Sub{}, {a, sum});
  const ValueId scaled = graph.add_node("scaled", op::Mul{}, {two, rest});
  const ValueId ratio = graph.add_node("ratio", op::Div{}, {scaled, sum});
  graph.outputs = {graph.add_node("y", op::Clip{-1.0, 0.5}, {ratio})};
  CHECK(analysis::formulas_of(graph, {"p", "q"}) ==
        std::vector<std::string>{"t1 = p + q", "Clip(2 · (p - t1) / t1; -1, 0.5)"});
}

std::vector<std::string> formulas_of(const Op& op, const std::vector<Shape>& operands) {
  Graph graph;
  std::vector<ValueId> ids;
  for (const Shape& shape : operands) {
    std::vector<DeclaredDimension> dimensions;
    for (const std::int64_t extent : shape) dimensions.push_back({extent, {}});
    ids.push_back(graph.add_input("", ElementType::f64, dimensions));
  }
  graph.outputs = {graph.add_node("y", op, ids)};
  return analysis::formulas_of(graph, {"x", "z"});
}

TEST_CASE("formulas tell ops of other attributes apart") {
  using Lines = std::vector<std::string>;
  const std::int64_t end = std::numeric_limits<std::int64_t>::max();
  CHECK(formulas_of(op::Slice{{0, 1}, {2, end}, {1, 3}, {1, 2}}, {{}}) == Lines{"Slice(x; axis 1: 0:2, axis 3: 1::2)"});
  CHECK(formulas_of(op::Where{{2, 2}, {true, false, true, true}}, {{}, {}}) ==
        Lines{"Where(x, z; condition [[1, 0], [1, 1]])"});
  CHECK(analysis::attributes_of(op::Attention{}) == "");
  CHECK(analysis::attributes_of(
            op::Attention{true, 0, 0, 0, 0, 2, {1, 2}, {true, false}, op::Attention::Result::weights}) ==
        "causal, first query 2, visible [[1, 0]], weights alone");
  CHECK(analysis::attributes_of(op::Attention{.result = op::Attention::Result::products}) == "products alone");
  CHECK(formulas_of(op::ReduceSum{{1, 2}, true}, {{}}) == Lines{"ReduceSum(x; axes [1, 2])"});
  CHECK(formulas_of(op::Pow{3.0}, {{}}) == Lines{"Pow(x; 3)"});
  CHECK(formulas_of(op::Abs{}, {{}}) == Lines{"Abs(x)"});
}

TEST_CASE("a part of a formula that is long gets a line of its own") {
  Graph graph;
  ValueId sum = graph.add_input("x", ElementType::f64, {});
  for (int i = 0; i < 40; ++i) sum = graph.add_node("sum", op::Neg{}, {sum});
  graph.outputs = {sum};
  const std::vector<std::string> lines = analysis::formulas_of(graph, {"x"});
  CHECK(lines.size() > 2);
  for (const std::string& line : lines) CHECK(columns(line) <= 80);
}

TEST_CASE("every composite has examples, and no other op has") {
  for (const Op& op : every_kind()) {
    CAPTURE(std::string(name_of(op)));
    CHECK(composite_examples(op).empty() != is_composite(op));
    for (const CompositeExample& example : composite_examples(op)) CHECK(example.op.index() == op.index());
  }
}

}  // namespace
