#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "analysis/judge.hpp"
#include "analysis/report_parts.hpp"
#include "driftbound/evaluate/evaluator.hpp"
#include "support/json_schema.hpp"
#include "support/report_schema.hpp"
#include "tests/analysis/hand_made.hpp"

using namespace driftbound;
using namespace driftbound::analysis;

namespace {

/// The scalar layer[0] computed as 1, 3, 5 while 0.75, 3, 5.5 are exact: errors 0.25, 0, -0.5, split up by hand.
struct Split : HandMade {
  Split() {
    accumulated.layers[0].values[0] = exact_ball(0.75);
    accumulated.layers[0].values[4] = exact_ball(5.5);
    TargetBounds target;
    BoundResult any_order = make_bound(BoundKind::adjoint_any_order, Guarantee::proven);
    any_order.question = Question::any_run;
    any_order.values = Tensor<double>({3}, {1.0, 1.0, 2.0});
    any_order.remainder = {0.0, 0.1, 0.5};
    target.bounds = {any_order};
    target.layer_shares = {{0.25, 0.5, 1.5}};
    target.attribution = Attribution{{{0.2, 0.0, -0.625}}, {0.05, 0.0, 0.125}};
    bounds.targets = {target};
  }

  OutputSummary scalar() const { return compare(0.5, {"layer[0]"}).outputs.at(1); }
  Report broken_up() const {
    Report result = report();
    result.comparison = compare(0.5, {"layer[0]"});
    return result;
  }
};

double sum_of(const Breakdown& breakdown) {
  double sum = breakdown.inputs;
  for (const LayerPart& part : breakdown.layers) sum += part.part;
  return sum;
}

/// relu(x W) V, `numbers` of them a sample.
Graph network_of(std::int64_t numbers) {
  Graph graph;
  const ValueId x = graph.add_input("x", ElementType::f32, {{-1, "batch"}, {4, ""}});
  std::vector<float> first, second;
  for (int i = 0; i < 24; ++i) first.push_back(0.1f * static_cast<float>(i % 7) - 0.25f);
  for (int i = 0; i < 6 * numbers; ++i) second.push_back(0.3f - 0.1f * static_cast<float>(i));
  const ValueId w = graph.add_constant("w", StoredTensor::from(Tensor<float>({4, 6}, first)));
  const ValueId v = graph.add_constant("v", StoredTensor::from(Tensor<float>({6, numbers}, second)));
  const ValueId h = graph.add_node("hidden", op::MatMul{}, {x, w});
  const ValueId r = graph.add_node("relu", op::Relu{}, {h});
  graph.outputs = {graph.add_node("sdf", op::MatMul{}, {r, v})};
  return graph;
}

Comparison judged(const Graph& graph, const char* arithmetic, JudgeOptions options) {
  Inputs inputs;
  Tensor<float> x({5, 4});
  for (std::size_t i = 0; i < x.size(); ++i) x.values[i] = std::sin(1.0f + static_cast<float>(i));
  inputs.tensors = {{"x", StoredTensor::from(x)}};
  const Evaluator evaluator = cpu_evaluator(cpu_arithmetic(arithmetic, parse_summation_order("sequential")));
  return judge(graph, evaluator.run(graph, inputs), options).comparison;
}

}  // namespace

TEST_CASE("the breakdown is that of the sample with the largest error") {
  const OutputSummary scalar = Split().scalar();
  REQUIRE(scalar.breakdown);
  CHECK(scalar.breakdown->sample == 2);
  CHECK(scalar.breakdown->error == -0.5);
  CHECK(scalar.breakdown->inputs == 0.125);
  REQUIRE(scalar.breakdown->layers.size() == 1);
  CHECK(scalar.breakdown->layers[0].layer == "layer");
  CHECK(scalar.breakdown->layers[0].part == -0.625);
  CHECK(scalar.breakdown->layers[0].bound_share == 0.75);
  CHECK(scalar.breakdown->share_of_error(-0.625) == 1.25);
}

TEST_CASE("no breakdown where nothing is attributed, nothing is wrong, or the parts miss the error") {
  Split nothing_attributed, no_error, missed, infinite;
  nothing_attributed.bounds.targets[0].attribution.reset();
  CHECK_FALSE(nothing_attributed.scalar().breakdown);
  no_error.accumulated = no_error.local;
  CHECK_FALSE(no_error.scalar().breakdown);
  missed.bounds.targets[0].attribution->layers[0][2] = -0.61;
  CHECK_FALSE(missed.scalar().breakdown);
  infinite.bounds.targets[0].attribution->layers[0][2] = std::numeric_limits<double>::infinity();
  CHECK_FALSE(infinite.scalar().breakdown);
}

TEST_CASE("an infinite bound has no shares") {
  Split split;
  split.bounds.targets[0].bounds[0].values.values[2] = std::numeric_limits<double>::infinity();
  const OutputSummary scalar = split.scalar();
  REQUIRE(scalar.breakdown);
  CHECK_FALSE(scalar.breakdown->layers[0].bound_share);
}

TEST_CASE("a breakdown is in JSON, as the schema says, and makes the layer's signed share") {
  const nlohmann::json json = nlohmann::json::parse(to_json(document_of(Split().broken_up())));
  CHECK(schema_errors(schema_file, json) == "");
  const nlohmann::json breakdown = json["end_to_end"]["outputs"][1]["breakdown"];
  CHECK(breakdown["sample"] == 2);
  CHECK(breakdown["error"] == -0.5);
  CHECK(breakdown["layers"][0] ==
        nlohmann::json{
            {"layer", "layer"}, {"part", -0.625}, {"bound_share", 0.75}, {"condition", nullptr}, {"local", nullptr}});
  CHECK(json["end_to_end"]["outputs"][0]["breakdown"].is_null());
  CHECK(json["layers"][0]["attribution"]["share"] == 1.25);
  nlohmann::json unknown = json;
  unknown["end_to_end"]["outputs"][1]["breakdown"]["surprise"] = 1;
  CHECK(schema_errors(schema_file, unknown) != "");
}

TEST_CASE("the text names the largest parts, and each question once") {
  const std::string text = to_text(document_of(Split().broken_up()));
  CHECK(text.find("largest parts of the error (sample 2): layer +125%, the inputs -25%\n") != std::string::npos);
  CHECK(text.find("largest parts of adjoint/any-order there: layer 75%\n") != std::string::npos);
  CHECK(text.find("any run  adjoint/any-order     proven        T-10       2.0e0   0.25") != std::string::npos);
  CHECK(explain_columns().find("largest parts") != std::string::npos);
}

TEST_CASE("the HTML has the bounds of an output by question, and the breakdown with bars") {
  const std::string html = to_html(document_of(Split().broken_up()));
  CHECK(html.find("<td class=\"name\">any run</td><td class=\"name\">adjoint/any-order</td>") != std::string::npos);
  CHECK(html.find("<th>of the error</th><th>of adjoint/any-order</th>") != std::string::npos);
  CHECK(html.find("+125.0%") != std::string::npos);
  CHECK(html.find("75.0%") != std::string::npos);
}

TEST_CASE("an output of one number a sample is broken up without being asked for, a scalar that names it likewise") {
  const Graph graph = network_of(1);
  JudgeOptions options;
  options.scalars = {parse_scalar(graph, "sdf"), parse_scalar(graph, "sdf[0]")};
  const Comparison comparison = judged(graph, "fp32", options);
  REQUIRE(comparison.outputs.size() == 3);
  for (const OutputSummary& output : comparison.outputs) {
    REQUIRE(output.breakdown);
    CHECK(std::abs(output.breakdown->error) == output.scope.max_error);
    CHECK(std::abs(sum_of(*output.breakdown) - output.breakdown->error) <= 1e-6 * std::abs(output.breakdown->error));
    CHECK(output.breakdown->layers.size() == 3);
    CHECK(output.breakdown->layers[1].part == 0.0);
    CHECK(output.breakdown->layers[0].bound_share.value_or(0.0) > 0.05);
    CHECK(output.breakdown->layers[0].part == comparison.outputs[0].breakdown->layers[0].part);
    CHECK(find_bound(output.scope, BoundKind::adjoint_any_order)->max_bound ==
          find_bound(comparison.outputs[0].scope, BoundKind::adjoint_any_order)->max_bound);
  }
}

TEST_CASE("without attribution among the bounds that are wanted nothing is broken up; without the bound, no shares") {
  const Graph graph = network_of(1);
  JudgeOptions options;
  options.bounds = {BoundKind::forward, BoundKind::shadow, BoundKind::adjoint_any_order};
  CHECK_FALSE(judged(graph, "fp32", options).outputs[0].breakdown);
  options.bounds = {BoundKind::forward, Diagnostic::attribution};
  const Comparison comparison = judged(graph, "fp32", options);
  REQUIRE(comparison.outputs[0].breakdown);
  CHECK_FALSE(comparison.outputs[0].breakdown->layers[0].bound_share);
  CHECK_FALSE(find_bound(comparison.outputs[0].scope, BoundKind::adjoint_any_order));
}

TEST_CASE("an output's bounds are the same whether or not scalars are elements of it") {
  const Graph graph = network_of(2);
  JudgeOptions options;
  const ScopeSummary alone = judged(graph, "fp32", options).outputs[0].scope;
  options.scalars = {parse_scalar(graph, "sdf[1]-sdf[0]"), parse_scalar(graph, "sdf[1]")};
  const ScopeSummary beside = judged(graph, "fp32", options).outputs[0].scope;
  for (const BoundKind kind : {BoundKind::shadow, BoundKind::adjoint_any_order, BoundKind::adjoint_order_aware}) {
    CAPTURE(name_of(kind));
    CHECK(find_bound(alone, kind)->max_bound == find_bound(beside, kind)->max_bound);
    CHECK(find_bound(alone, kind)->max_utilisation == find_bound(beside, kind)->max_utilisation);
    CHECK(*find_bound(alone, kind)->median_bound_over_error == *find_bound(beside, kind)->median_bound_over_error);
  }
}

TEST_CASE("a measurement alone decides nothing, and is never the closest approach") {
  JudgeOptions options;
  options.bounds = {BoundKind::shadow};
  const Comparison measured = judged(network_of(1), "fp32", options);
  CHECK(measured.verdict == Status::undecided);
  CHECK_FALSE(measured.closest);
  options.bounds = {BoundKind::shadow, BoundKind::forward};
  const Comparison decided = judged(network_of(1), "fp32", options);
  CHECK(decided.verdict < Status::undecided);
  CHECK(decided.closest->bound == BoundKind::forward);
}

TEST_CASE("an infinite bound for every run is not certifiable, which leaves the verdict alone") {
  Split split;
  split.bounds.targets[0].bounds[0].values.values = std::vector<double>(3, std::numeric_limits<double>::infinity());
  const OutputSummary scalar = split.scalar();
  const BoundSummary* any_order = find_bound(scalar.scope, BoundKind::adjoint_any_order);
  CHECK(any_order->not_certifiable == 3);
  CHECK(any_order->undecided == 0);
  CHECK_FALSE(any_order->decides());
  CHECK(scalar.status < Status::undecided);
  Report report = HandMade().report();
  report.comparison.outputs = {scalar};
  const std::string words = "adjoint/any-order: not certifiable in this arithmetic: 3 of 3 values";
  CHECK(to_text(document_of(report)).find(words) != std::string::npos);
  CHECK(to_html(document_of(report)).find(words) != std::string::npos);
  report.comparison.outputs = {Split().scalar()};
  CHECK(to_text(document_of(report)).find("not certifiable") == std::string::npos);
}

TEST_CASE("a report counts the samples whose sign every run gives right, wrong, or perhaps either way") {
  Split split;
  split.bounds.targets[0].enclosures =
      RunEnclosures{{{1.0, 2.0}, {-2.0, -1.0}, {-1.0, 1.0}}, {{0.5, 0.6}, {0.5, 0.6}, {0.5, 0.6}}};
  Report report = HandMade().report();
  report.comparison.outputs = {split.scalar()};
  REQUIRE(report.comparison.outputs[0].signs);
  CHECK(report.comparison.outputs[0].signs->right == 1);
  CHECK(report.comparison.outputs[0].signs->wrong == 1);
  CHECK(report.comparison.outputs[0].signs->open == 1);
  const std::string words = "the sign of every run (rounded-shadow): right in 1, wrong in 1, open in 1 samples";
  CHECK(to_text(document_of(report)).find(words) != std::string::npos);
  CHECK(to_text(document_of(report)).find(words) < to_text(document_of(report)).find("this layer alone"));
  CHECK(to_html(document_of(report)).find(words) < to_html(document_of(report)).find("<h2>"));
  const auto json = nlohmann::json::parse(to_json(document_of(report)));
  CHECK(json["end_to_end"]["outputs"][0]["signs"] == nlohmann::json({{"right", 1}, {"wrong", 1}, {"open", 1}}));
  CHECK(schema_errors(schema_file, json).empty());
}

TEST_CASE("the signs of all samples are counted, in float32 with the least distance from 0") {
  const Graph graph = network_of(1);
  const Comparison narrow = judged(graph, "bf16", {});
  REQUIRE(narrow.outputs[0].signs);
  const SignCounts& signs = *narrow.outputs[0].signs;
  CHECK(signs.right + signs.wrong + signs.open == narrow.samples);
  CHECK(signs.right > 0);
  CHECK_FALSE(narrow.outputs[0].least_distance);  // by the rounded shadow
  const Comparison single = judged(graph, "fp32", {});
  REQUIRE(single.outputs[0].signs);
  CHECK(single.outputs[0].signs->right + single.outputs[0].signs->open == single.samples);
  CHECK(single.outputs[0].signs->wrong == 0);
  REQUIRE(single.outputs[0].least_distance);
  CHECK(*single.outputs[0].least_distance >= 0.0);
}

TEST_CASE("a report in a narrow format says which bound of every run is the smaller one, and what is ambiguous") {
  const Graph graph = network_of(1);
  Report report;
  report.comparison = judged(graph, "bf16", {});
  const ScopeSummary& scope = report.comparison.outputs[0].scope;
  const BoundSummary *any_order = find_bound(scope, BoundKind::adjoint_any_order),
                     *rounded = find_bound(scope, BoundKind::rounded_shadow);
  REQUIRE(any_order != nullptr);
  REQUIRE(rounded != nullptr);
  CHECK(rounded->violations == 0);
  CHECK(rounded->question == Question::any_run);
  CHECK(rounded->is_smallest == (rounded->max_bound <= any_order->max_bound));
  CHECK(any_order->is_smallest == !*rounded->is_smallest);
  CHECK(find_bound(scope, BoundKind::shadow)->is_smallest == std::nullopt);
  const std::string smaller = *rounded->is_smallest ? "rounded-shadow" : "adjoint/any-order";
  CHECK(to_text(document_of(report)).find("smallest in any order: " + smaller) != std::string::npos);
  CHECK(to_html(document_of(report)).find("smallest in any order: " + smaller) != std::string::npos);
  for (const LayerSummary& layer : report.comparison.layers) CHECK(layer.ambiguous.has_value());
  const auto json = nlohmann::json::parse(to_json(document_of(report)));
  CHECK(json["layers"][0]["ambiguous"].is_number_integer());

  report.comparison = judged(graph, "fp32", {});
  CHECK(find_bound(report.comparison.outputs[0].scope, BoundKind::rounded_shadow) == nullptr);
  CHECK(find_bound(report.comparison.outputs[0].scope, BoundKind::adjoint_any_order)->is_smallest == std::nullopt);
  CHECK_FALSE(report.comparison.layers[0].ambiguous.has_value());
}

TEST_CASE("samples with many numbers are judged a few at a time") {
  Graph graph;
  const ValueId x = graph.add_input("x", ElementType::f32, {{-1, "batch"}, {1, ""}, {64, ""}, {64, ""}});
  const ValueId w =
      graph.add_constant("w", StoredTensor::from(Tensor<float>({1, 1, 5, 5}, std::vector<float>(25, 0.1f))));
  graph.outputs = {graph.add_node("conv", op::Conv{}, {x, w})};
  InputGenerator generator;
  generator.samples = 20;
  const Trace trace = cpu_evaluator(cpu_arithmetic("fp32", parse_summation_order("sequential")))
                          .run(graph, generate_inputs(graph, generator));
  std::vector<std::int64_t> done;
  JudgeOptions options;
  options.bounds = {BoundKind::componentwise, BoundKind::forward};
  options.progress = [&](std::int64_t samples, std::int64_t) {
    done.push_back(samples);
    return true;
  };
  const Judgement judgement = judge(graph, trace, options);
  CHECK(done.front() > 1);
  CHECK(done.front() < 12);
  CHECK(done.back() == 20);
  CHECK(judgement.comparison.samples == 20);
  CHECK(judgement.comparison.verdict != Status::violated);
}

TEST_CASE("layers without a local error beside their condition are counted, those that do not matter are not") {
  Report report = Split().broken_up();
  Breakdown& breakdown = report.comparison.outputs.at(1).breakdown.value();
  LayerPart known = breakdown.layers.at(0), unknown = known, apart = known;
  known.condition = 2.0;
  known.local = 1e-6;
  unknown.condition = 3.0;
  unknown.local.reset();
  apart.condition = 0.0;
  apart.local.reset();
  breakdown.layers = {known, unknown, apart};
  std::string text = to_text(document_of(report));
  for (std::size_t at = 0; (at = text.find("\n      ")) != std::string::npos;) text.replace(at, 7, " ");
  CHECK(text.find("1.0e-6 x 2.00; layers without such a number: 1") != std::string::npos);
  breakdown.layers = {known, apart};
  CHECK(to_text(document_of(report)).find("layers without such a number") == std::string::npos);
}
