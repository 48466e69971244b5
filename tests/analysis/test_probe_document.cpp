#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "analysis/probe_report.hpp"
#include "driftbound/num/errors.hpp"
#include "driftbound/trace/matrix_units.hpp"
#include "driftbound/trace/product_kernel.hpp"
#include "support/json_schema.hpp"
#include "support/text.hpp"

using namespace driftbound;
using namespace driftbound::analysis;

namespace {

/// What a matrix unit with blocks of 4 would show, and an edge that could not be looked at.
ProbeReport report_of_a_unit() {
  ProbeFindings findings;
  findings.shape = {8, 8, 2};
  findings.left = {11, Rounding::nearest_even, 127, -136};
  findings.right = {11, std::nullopt, 127, -126};
  findings.result = {FormatId::fp16, Rounding::toward_zero};
  findings.additions = SumRounding{24, std::nullopt, true};
  findings.steps = StepArithmetic{4, 25, {24, Rounding::toward_zero}};
  ElementClass inner, edge;
  inner.elements = 15;
  inner.tree = canonical_tree(8, {{0, 1, 2, 3}, {8, 4, 5, 6, 7}});
  inner.equal_bits = inner.verified = 15;
  edge.elements = 1;
  edge.first_row = 7;
  edge.reason = "not looked for";
  findings.classes = {inner, edge};
  ProbeReport report;
  report.kernel = "a unit";
  report.shapes.push_back({findings.shape, findings, {}, 0.5});
  return report;
}

}  // namespace

TEST_CASE("what a probe found is said in words and in JSON") {
  const Document document = document_of(report_of_a_unit());
  const std::string text = to_text(document);
  CHECK(contains(text, "NOT CONFIRMED"));
  CHECK(contains(text, "15 elements, the first at [0, 0]: 8 terms added in steps of 4, from left to right"));
  CHECK(contains(text, "cut 25 bits behind the largest addend"));
  CHECK(contains(text, "fp16, rounded toward zero"));
  CHECK(contains(text, "not seen: results are rounded, or operands show too few bits"));
  CHECK(contains(text, "no tree. not looked for"));
  CHECK(document.exit_status == 1);
  const auto json = nlohmann::json::parse(to_json(document));
  CHECK(schema_errors(std::string(DRIFTBOUND_SOURCE_DIR) + "/docs/schema/probe-1.json", json) == "");
  CHECK(json["shapes"][0]["findings"]["steps"]["fraction_bits"] == 25);
}

TEST_CASE("of several algorithms one that no tree explains is said, and the others are found") {
  ProbeRequest request;
  request.kernel.name = "a library";
  request.shape = {4, 12, 2};
  const auto product = [](bool depends_on_values) {
    return [depends_on_values](const ProductShape& shape, std::span<const float> a, std::span<const float> b) {
      std::vector<float> c(static_cast<std::size_t>(shape.m * shape.n), 0.0F);
      for (std::int64_t i = 0; i < shape.m * shape.n; ++i)
        for (std::int64_t t = 0; t < shape.k; ++t) {
          const float x = a[static_cast<std::size_t>(i / shape.n * shape.k + t)];
          const bool is_left_out = depends_on_values && x == 1.0F && t % 3 == 0;
          if (!is_left_out)
            c[static_cast<std::size_t>(i)] += x * b[static_cast<std::size_t>(t * shape.n + i % shape.n)];
        }
      return c;
    };
  };
  request.variants = [&](const ProductShape&) {
    return std::vector<KernelVariant>{{"algorithm 0 of 2: id 7", [&] { return product(false); }},
                                      {"algorithm 1 of 2: id 8", [&] { return product(true); }}};
  };
  const ProbeReport report = answer(request);
  REQUIRE(report.shapes.size() == 2);
  CHECK(report.shapes[0].unexplained == "");
  CHECK(report.shapes[0].findings.has_value());
  CHECK(report.shapes[1].unexplained != "");
  CHECK(report.verdict() == ProbeVerdict::not_verified);
  const Document document = document_of(report);
  CHECK(document.exit_status == 1);
  CHECK(contains(document.headline, "NOT CONFIRMED, [4, 12] x [12, 2], algorithm 1 of 2: id 8"));
  CHECK(contains(to_text(document), "No tree explains it. probe: "));
  const auto json = nlohmann::json::parse(to_json(document));
  CHECK(schema_errors(std::string(DRIFTBOUND_SOURCE_DIR) + "/docs/schema/probe-1.json", json) == "");
  CHECK(json["shapes"][1]["algorithm"] == "algorithm 1 of 2: id 8");
  CHECK(json["shapes"][1]["findings"].is_null());
  CHECK(contains(to_csv(document), "algorithm 1 of 2"));
  request.variants = [&](const ProductShape&) {
    return std::vector<KernelVariant>{{"algorithm 1 of 2: id 8", [&] { return product(true); }}};
  };
  CHECK_THROWS_AS(answer(request), Unsupported);
}

TEST_CASE("an order or an operand that is not as declared is a difference, and so is a call that differs") {
  ProbeReport report = report_of_a_unit();
  ProbeFindings& findings = *report.shapes.front().findings;
  findings.classes.pop_back();
  findings.result = {};
  CHECK(document_of(report).exit_status == 0);
  report.declared = cpu_arithmetic("tf32", {});
  CHECK(document_of(report).exit_status == 0);
  report.declared->output = FormatId::bf16;
  CHECK(contains(report.differences(report.shapes.front()).front(),
                 "results are declared to be stored in bf16 and found to be no narrower than float32"));
  findings.result = {FormatId::bf16, Rounding::nearest_even};
  CHECK(report.differences(report.shapes.front()).empty());
  findings.result = {};
  report.declared = cpu_arithmetic("bf16", {});
  CHECK(report.differences(report.shapes.front()).size() == 2);  // both operands
  report.declared = cpu_arithmetic("tf32", {});
  report.declared->tensor_core = TensorCore{25, 4};
  CHECK(report.differences(report.shapes.front()).empty());
  report.declared->tensor_core = TensorCore{26, 4};
  CHECK(contains(report.differences(report.shapes.front()).front(),
                 "keep 26 bits behind the largest addend are declared"));
  report.declared.reset();
  report.expected = parse_summation_order("sequential");
  CHECK(report.differences(report.shapes.front()).empty());
  report.expected = parse_summation_order("split-k:2");
  CHECK(contains(report.differences(report.shapes.front()).front(),
                 "declared as split-k:2 and found to be sequential: 8 terms added in steps of 4"));
  CHECK(document_of(report).exit_status == 1);
  report = {};
  report.kernel = "a kernel";
  RepeatedCalls calls;
  calls.calls = 5;
  report.shapes.push_back({{2, 2, 2}, {}, calls, 0.0});
  CHECK(document_of(report).exit_status == 0);
  report.shapes.front().repeated = RepeatedCalls{5, 1, 3, 2, 1, 0.5F, 0.25F};
  CHECK(document_of(report).exit_status == 1);
  CHECK(contains(to_text(document_of(report)), "1 of 5 calls differ from the first, in 1 elements. First: call 4"));
}

TEST_CASE("the kernel that a simulated matrix unit declares is what is found, and any other one is contradicted" *
          doctest::test_suite("campaign")) {
  struct Case {
    const char *device, *arithmetic;
  };
  for (const Case& unit : {Case{"a100", "tf32"}, Case{"h100", "tf32"}, Case{"a100", "fp16"}, Case{"h100", "fp8_e4m3"}})
    for (const char* order : {"sequential", "split-k:4", "blocked:64"}) {
      CAPTURE(unit.device);
      CAPTURE(unit.arithmetic);
      CAPTURE(order);
      const ArithmeticModel arithmetic =
          simulated_arithmetic(unit.device, unit.arithmetic, parse_summation_order(order));
      for (const std::int64_t n : {2, 7, 300}) {
        ProbeReport report;
        report.kernel = "unit";
        report.declared = arithmetic;
        report.expected = arithmetic.order;
        ProbeOptions options;
        options.expected = arithmetic.order;
        const ProbeFindings findings = probe_product(product_call(cpu_evaluator(arithmetic)), {64, n, 2}, options);
        report.shapes.push_back({findings.shape, findings, {}, 0.0});
        const ProbedShape& probed = report.shapes.front();
        const std::string headline = document_of(report).headline;
        CHECK(report.differences(probed).empty());
        if (n > 2) CHECK_MESSAGE(contains(headline, "AS DECLARED"), headline);  // sums of two do not tell steps
        CHECK(to_string(findings.order) == order);
        if (n > 2) CHECK(to_string(arithmetic_of(findings, "unit").order) == order);
        if (n < 300) continue;
        for (const char* other : {"sequential", "split-k:4", "split-k:3", "blocked:64", "blocked:128", "pairwise"}) {
          report.expected = parse_summation_order(other);
          CHECK_MESSAGE(report.differences(probed).empty() == (std::string(other) == order), other);
        }
        report.expected = arithmetic.order;
        for (const int change : {-1, 1}) {
          report.declared = arithmetic;
          report.declared->tensor_core->fraction_bits += change;
          CHECK(contains(report.differences(probed).at(0), "behind the largest addend are declared"));
          report.declared = arithmetic;
          report.declared->tensor_core->block += change * arithmetic.tensor_core->block / 2;
          CHECK(contains(report.differences(probed).at(0), "products that keep"));
        }
        // Of a unit without an order the least is declared.
        report.declared = arithmetic;
        report.declared->order = {};
        report.declared->tensor_core->fraction_bits -= 1;
        report.declared->tensor_core->block /= 2;
        CHECK(report.differences(probed).empty());
      }
    }
}

TEST_CASE("a tree is drawn with a circle for each node, a large one with groups of terms as one leaf") {
  const std::string svg = draw_tree(tree_of(parse_summation_order("pairwise"), 16));
  std::size_t circles = 0;
  for (std::size_t at = svg.find("<circle"); at != std::string::npos; at = svg.find("<circle", at + 1)) ++circles;
  CHECK(circles == 15);
  CHECK(contains(svg, ">15</text>"));
  const auto count = [](const std::string& text, const std::string& part) {
    std::size_t found = 0;
    for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
    return found;
  };
  const std::string pairs = draw_tree(tree_of(parse_summation_order("pairwise"), 1024));
  CHECK(count(pairs, "<circle") == 255);
  CHECK(contains(pairs, ">0–3</text>"));
  ProductKernel unit;
  unit.matrix_unit.emplace().block = 8;
  unit.parts.dealing.run = 128;
  const std::string steps = draw_tree(tree_of(unit, 512));
  CHECK(count(steps, "<circle") == 63);  // 15 with a running sum and 4 - 1 parts, each first step is a leaf
  CHECK(contains(steps, ">504–511</text>"));
  CHECK(count(draw_tree(tree_of(parse_summation_order("sequential"), 1000)), "<circle") == 255);
  CHECK(contains(draw_tree(tree_of(parse_summation_order("lanes:128x1"), 1024)), ">0…768</text>"));
  CHECK(draw_tree(tree_of(parse_summation_order("pairwise"), 1)) == "");
}
