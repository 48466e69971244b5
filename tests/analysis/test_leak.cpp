#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "analysis/leak.hpp"
#include "driftbound/evaluate/evaluator.hpp"
#include "driftbound/num/errors.hpp"
#include "support/json_schema.hpp"
#include "support/text.hpp"

using namespace driftbound;
using namespace driftbound::analysis;

namespace {

/// relu(2 x) + 1 of rows of three numbers.
struct RowNetwork {
  Graph graph;
  Inputs inputs;
  Evaluator evaluator = cpu_evaluator(cpu_arithmetic("fp32", {SummationOrder::Kind::sequential, 0, false}));

  RowNetwork() {
    const ValueId x = graph.add_input("x", ElementType::f32, {{-1, "samples"}, {3, ""}});
    graph.values[x].has_declared_shape = true;
    const ValueId two = graph.add_constant("two", StoredTensor::from(Tensor<float>({}, {2.0F})));
    const ValueId scaled = graph.add_node("scaled", op::Mul{}, {x, two});
    const ValueId act = graph.add_node("act", op::Relu{}, {scaled});
    graph.outputs = {graph.add_node("sum", op::Add{}, {act, two})};
    Tensor<float> rows({7, 3});
    for (std::size_t i = 0; i < rows.size(); ++i) rows.values[i] = static_cast<float>(std::sin(static_cast<double>(i)));
    inputs.tensors.emplace_back("x", StoredTensor::from(rows));
  }
  Trace run(const Inputs& given) const { return evaluator.run(graph, given); }
};

/// A run in which a layer adds a number of all rows to the numbers of one row.
template <class OfRows>
Trace with_leak(const RowNetwork& network, const Inputs& given, std::size_t layer, std::size_t row,
                const OfRows& of_rows) {
  Trace trace = network.run(given);
  const Tensor<double> x = given.at("x").to_double();
  for (std::size_t node = layer; node < trace.layers.size(); ++node) {
    Tensor<double> values = trace.layers[node].output.to_double();
    Tensor<float> changed(values.shape);
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (i / 3 == row) values.values[i] += of_rows(x.values);
      changed.values[i] = static_cast<float>(values.values[i]);
    }
    trace.layers[node].output = StoredTensor::from(changed);
  }
  return trace;
}

}  // namespace

TEST_CASE("Rows of the CPU's evaluator do not answer to each other") {
  const RowNetwork network;
  const LeakReport report = test_leaks(network.graph, network.inputs, [&](const Inputs& x) { return network.run(x); });
  CHECK_FALSE(report.has_leak());
  CHECK(report.findings.size() == 7);
  CHECK(report.rows == std::vector<std::int64_t>{0, 2, 4, 6});
  CHECK(document_of(report).exit_status == 0);
}

TEST_CASE("A row that answers to the others is found, with the layer where it starts") {
  const RowNetwork network;
  const auto sum = [](const std::vector<double>& x) {
    double total = 0.0;
    for (const double one : x) total += one;
    return total;
  };
  const LeakReport report =
      test_leaks(network.graph, network.inputs, [&](const Inputs& x) { return with_leak(network, x, 1, 4, sum); });
  CHECK(report.has_leak());
  for (const LeakFinding& one : report.findings) {
    CAPTURE(one.others);
    const bool keeps_sum = one.others == "the rows after them";
    CHECK(one.answered == (keeps_sum ? 0 : 1));
    if (keeps_sum) continue;
    CHECK(one.row == 4);
    CHECK(one.layer == "act");
  }
  CHECK(std::isnan(report.findings[4].largest));
  const Document document = document_of(report);
  CHECK(document.exit_status == 2);
  CHECK(contains(document.headline, "BUG: row 4 answers"));
  CHECK(schema_errors(std::string(DRIFTBOUND_SOURCE_DIR) + "/docs/schema/leak-1.json",
                      nlohmann::json::parse(to_json(document))) == "");
}

TEST_CASE("A row that answers to the largest of the others alone is found by huge rows") {
  const RowNetwork network;
  const LeakReport report = test_leaks(network.graph, network.inputs, [&](const Inputs& x) {
    return with_leak(network, x, 2, 0, [](const std::vector<double>& all) {
      for (const double one : all)
        if (one > 1e30 && std::isfinite(one)) return 1.0;
      return 0.0;
    });
  });
  for (const LeakFinding& one : report.findings) CHECK(one.answered == (one.others == "huge" ? 1 : 0));
  CHECK(report.findings[3].layer == "sum");
}

TEST_CASE("Other rows of integers are drawn from the values of the batch, and have no zeros, huge numbers or NaN") {
  Graph graph;
  const ValueId tokens = graph.add_input("t", ElementType::i64, {{-1, "samples"}, {2, ""}});
  graph.values[tokens].has_declared_shape = true;
  const ValueId two = graph.add_constant("two", StoredTensor::from(Tensor<float>({}, {2.0F})));
  graph.outputs = {graph.add_node("twice", op::Mul{}, {tokens, two})};
  Inputs inputs;
  inputs.tensors.emplace_back("t", StoredTensor::from(Tensor<std::int64_t>({4, 2}, {1, 2, 3, 5, 8, 1, 2, 3})));
  const Evaluator evaluator = cpu_evaluator(cpu_arithmetic("fp32", {SummationOrder::Kind::sequential, 0, false}));
  std::vector<std::vector<std::int64_t>> given;
  std::vector<Shape> shapes;
  const LeakReport report = test_leaks(graph, inputs, [&](const Inputs& x) {
    given.push_back(x.at("t").to_int64().values);
    shapes.push_back(x.at("t").shape());
    return evaluator.run(graph, x);
  });
  CHECK_FALSE(report.has_leak());
  std::vector<std::string> others;
  for (const LeakFinding& one : report.findings) others.push_back(one.others);
  CHECK(others == std::vector<std::string>{"the rows after them", "copies of the row", "values of the batch",
                                           "padded by more rows"});
  const std::set<std::int64_t> valid = {1, 2, 3, 5, 8};
  for (const auto& values : given)
    for (const std::int64_t token : values) CHECK(valid.count(token) == 1);
  CHECK(given[1 + 2 * report.rows.size()] != given[0]);
  CHECK(shapes.back() == Shape{6, 2});
}

TEST_CASE("A batch of one sample and a model without an axis of samples cannot leak") {
  RowNetwork network;
  const auto run = [&](const Inputs& x) { return network.run(x); };
  Inputs one;
  one.tensors.emplace_back("x", StoredTensor::from(Tensor<float>({1, 3}, {1.0F, 2.0F, 3.0F})));
  CHECK_THROWS_WITH_AS(test_leaks(network.graph, one, run), doctest::Contains("two samples"), InvalidArgument);
  network.graph.values[network.graph.inputs[0]].declared = {{7, ""}, {3, ""}};
  CHECK_THROWS_WITH_AS(test_leaks(network.graph, network.inputs, run), doctest::Contains("no axis of samples"),
                       Unsupported);
}
