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
#include "bounds/rules.hpp"
#include "driftbound/bounds/bound.hpp"
#include "driftbound/bounds/theorems.hpp"
#include "driftbound/model/composite.hpp"
#include "driftbound/model/composite_examples.hpp"
#include "driftbound/model/onnx_catalogue.hpp"
#include "driftbound/model/op_kinds.hpp"
#include "evaluate/every_op.hpp"
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
Bounds bounds_of(const OpCase& one, const ArithmeticModel& arithmetic, const bounds::Rules* rules = nullptr) {
  Graph graph = graph_of(one.op, one.operands);
  for (const ValueId id : graph.inputs) graph.values[id].type = ElementType::f32;
  BoundOptions options;
  options.rules = rules;
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
  const std::vector<std::string> headings = matches(source("docs/theory.md"), "\n### (T-\\d+) ");
  const std::vector<std::string> printed = matches(analysis::describe_ops(), "(T-\\d+)");
  CHECK(printed.size() > std::variant_size_v<OpAlternatives>);
  for (const std::string& id : printed) {
    CAPTURE(id);
    CHECK(std::find(headings.begin(), headings.end(), id) != headings.end());
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

/// A rule of propagation, and how to make it give up.
struct Rule {
  std::string name;
  void (*break_it)(bounds::Rules&);
};

template <bounds::Rules::Unary bounds::Rules::*rule>
void unary(bounds::Rules& rules) {
  rules.*rule = [](const bounds::Point&) { return Magnitude::infinite(); };
}
template <bounds::Rules::Binary bounds::Rules::*rule>
void binary(bounds::Rules& rules) {
  rules.*rule = [](double, Magnitude, double, Magnitude) { return Magnitude::infinite(); };
}
template <bounds::Rules::Group bounds::Rules::*rule>
void group(bounds::Rules& rules) {
  rules.*rule = [](std::span<const double>, std::span<const double>) { return Magnitude::infinite(); };
}

std::vector<Rule> propagation_rules() {
  using R = bounds::Rules;
  return {{"product_weight", [](R& rules) { rules.product_weight = [](double) { return 1e300; }; }},
          {"identity", unary<&R::identity>},
          {"relu", unary<&R::relu>},
          {"leaky_relu", unary<&R::leaky_relu>},
          {"elu", unary<&R::elu>},
          {"tanh", unary<&R::tanh>},
          {"sigmoid", unary<&R::sigmoid>},
          {"softplus", unary<&R::softplus>},
          {"sin_or_cos", unary<&R::sin_or_cos>},
          {"erf", unary<&R::erf>},
          {"exp", unary<&R::exp>},
          {"sqrt", unary<&R::sqrt>},
          {"sum", binary<&R::sum>},
          {"product", binary<&R::product>},
          {"quotient", binary<&R::quotient>},
          {"softmax",
           [](R& rules) {
             rules.softmax = [](auto, auto, auto, auto moved) { std::fill(moved.begin(), moved.end(), 1e300); };
           }},
          {"log", unary<&R::log>},
          {"tan", unary<&R::tan>},
          {"atan", unary<&R::atan>},
          {"sinh", unary<&R::sinh>},
          {"cosh", unary<&R::cosh>},
          {"power", unary<&R::power>},
          {"reciprocal", unary<&R::reciprocal>},
          {"absolute", unary<&R::absolute>},
          {"floor", unary<&R::floor>},
          {"ceil", unary<&R::ceil>},
          {"sign", unary<&R::sign>},
          {"maximum", binary<&R::maximum>},
          {"minimum", binary<&R::minimum>},
          {"greater", binary<&R::greater>},
          {"greater_or_equal", binary<&R::greater_or_equal>},
          {"equal", binary<&R::equal>},
          {"choice",
           [](R& rules) {
             rules.choice = [](bool, double, Magnitude, double, Magnitude) { return Magnitude::infinite(); };
           }},
          {"thresholded_relu", unary<&R::thresholded_relu>},
          {"prelu", binary<&R::prelu>},
          {"reduce_sum", group<&R::reduce_sum>},
          {"reduce_max", group<&R::reduce_max>},
          {"reduce_min", group<&R::reduce_min>}};
}

/// The theorem that src/bounds/rules.hpp names beside a rule.
std::string theorem_beside(const std::string& rule) {
  static const std::string text = source("src/bounds/rules.hpp");
  const auto found = matches(text, "[ *]" + rule + R"(\)?(?:\(double\))? = [\w:]+; +// (T-\d+))");
  REQUIRE(found.size() == 1);
  return found.front();
}

TEST_CASE("the rule that propagates through an op is of the theorem in the table") {
  std::mt19937_64 random(62);
  const ArithmeticModel fp32 = cpu_arithmetic("fp32", parse_summation_order("sequential"));
  for (const OpCase& one : every_primitive(random)) {
    CAPTURE(std::string(name_of(one.op)));
    const Bounds plain = bounds_of(one, fp32);
    const auto forward = [](const Bounds& bounds) { return bounds.layers.at(0).accumulated.at(0).values.values; };
    std::set<std::string> found;
    for (const Rule& rule : propagation_rules()) {
      bounds::Rules broken = bounds::default_rules();
      rule.break_it(broken);
      if (forward(bounds_of(one, fp32, &broken)) != forward(plain)) found.insert(theorem_beside(rule.name));
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
