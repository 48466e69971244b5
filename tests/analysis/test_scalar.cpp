#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "analysis/scalar.hpp"
#include "driftbound/num/errors.hpp"

using namespace driftbound;
using analysis::parse_scalar;
using analysis::Scalar;

namespace {

Graph with_outputs(const std::vector<std::string>& names) {
  Graph graph;
  const ValueId x = graph.add_input("x", ElementType::f32, {{-1, "N"}, {3, ""}});
  for (const std::string& name : names) graph.outputs.push_back(graph.add_node(name, op::Relu{}, {x}));
  return graph;
}

void check_scalar(const Graph& graph, const std::string& text, std::pair<std::size_t, std::int64_t> expected,
                  const std::string& canonical) {
  CAPTURE(text);
  const Scalar scalar = parse_scalar(graph, text);
  CHECK(scalar.positive.output == expected.first);
  CHECK(scalar.positive.element == expected.second);
  CHECK(scalar.text == canonical);
}

}  // namespace

TEST_CASE("blanks around the parts of a scalar say nothing, those within a number are refused") {
  const Graph graph = with_outputs({"logits", "more"});
  check_scalar(graph, " logits [ 1 ] ", {0, 1}, "logits[1]");
  check_scalar(graph, "more", {1, 0}, "more");
  const Scalar difference = parse_scalar(graph, " logits[ 1 ] - more [2]");
  CHECK(difference.text == "logits[1]-more[2]");
  REQUIRE(difference.negative);
  CHECK(difference.negative->output == 1);
  CHECK(difference.negative->element == 2);
  CHECK(parse_scalar(graph, "more - logits").negative);
  for (const char* text : {"logits[1 0]", "log its[1]", "logits[1", "logits[]", "logits[0]-", "-logits[0]", "lo gits",
                           "logits[0] more[0]", "logits[0]-logits[0]", "logits[0]-more[0]-more[1]", ""})
    CHECK_THROWS_AS(parse_scalar(graph, text), InvalidArgument);
}

TEST_CASE("outputs may have blanks, brackets and minus signs in their names") {
  const Graph graph = with_outputs({"a b", "c[0]", "d-e", "d"});
  check_scalar(graph, "a b[1]", {0, 1}, "a b[1]");
  check_scalar(graph, "c[0]", {1, 0}, "c[0]");
  check_scalar(graph, "c[0][2]", {1, 2}, "c[0][2]");
  check_scalar(graph, "d-e", {2, 0}, "d-e");
  CHECK(parse_scalar(graph, "d[0]-a b[1]").text == "d[0]-a b[1]");
}
