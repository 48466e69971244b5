#include <doctest/doctest.h>

#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "analysis/markup.hpp"
#include "analysis/report_parts.hpp"
#include "analysis/text.hpp"
#include "support/json_schema.hpp"
#include "support/report_schema.hpp"
#include "support/text.hpp"
#include "tests/analysis/hand_made.hpp"

using namespace driftbound;
using namespace driftbound::analysis;

TEST_CASE("the JSON report satisfies its published schema") {
  const nlohmann::json report = nlohmann::json::parse(to_json(document_of(HandMade().report())));
  CHECK(schema_errors(schema_file, report) == "");
}

TEST_CASE("the schema is strict: a missing or an unknown field is refused") {
  nlohmann::json report = nlohmann::json::parse(to_json(document_of(HandMade().report())));
  nlohmann::json missing = report, unknown = report;
  missing["layers"][0].erase("gamma_n");
  unknown["layers"][0]["surprise"] = 1;
  CHECK(schema_errors(schema_file, missing) != "");
  CHECK(schema_errors(schema_file, unknown) != "");
}

TEST_CASE("numbers that are not finite are strings in JSON") {
  HandMade made;
  made.bounds.layers[0].local[0].values.values[0] = std::numeric_limits<double>::infinity();
  Report report = made.report();
  const nlohmann::json json = nlohmann::json::parse(to_json(document_of(report)));
  CHECK(json["layers"][0]["local"]["bounds"][0]["max_bound"] == "inf");
  CHECK(schema_errors(schema_file, json) == "");
}

TEST_CASE("reports show what holds at every point of a box, or that nothing does") {
  HandMade made;
  Report report = made.report();
  CHECK(nlohmann::json::parse(to_json(document_of(report)))["end_to_end"]["outputs"][0]["box"].is_null());
  BoxSummary& box = report.comparison.outputs[0].box.emplace();
  box.ranges = {{-1.0, 1.0}, {0.0, 0.5}};
  CHECK(to_text(document_of(report)).find("-1:1,0:0.5: not certifiable") != std::string::npos);
  box.bound.error = Magnitude(1.25e-6);
  box.bound.range = Interval(-0.5, 0.75);
  const nlohmann::json json = nlohmann::json::parse(to_json(document_of(report)));
  CHECK(json["end_to_end"]["outputs"][0]["box"]["error"] == 1.25e-6);
  CHECK(json["end_to_end"]["outputs"][0]["box"]["ranges"][1][1] == 0.5);
  CHECK(schema_errors(schema_file, json) == "");
  CHECK(to_text(document_of(report)).find("any run at every point of -1:1,0:0.5: error at most ") != std::string::npos);
  CHECK(to_html(document_of(report)).find("value between -0.5 and 0.75") != std::string::npos);
  CHECK(to_html(document_of(report)).find("error at most 1.3e-6 with sums in any order (proven, T-77)") !=
        std::string::npos);
  CHECK(to_html(document_of(report)).find("the size of the box") == std::string::npos);
  box.bound.error = Magnitude(1.21e-6);
  box.bound.range = Interval(0.11044, 0.11046);
  CHECK(to_html(document_of(report)).find("error at most 1.3e-6") != std::string::npos);
  CHECK(to_html(document_of(report)).find("value between 0.11 and 0.111") != std::string::npos);
  box.order = parse_summation_order("blocked:8+fma");
  box.bound.remainder_share = 0.67;
  CHECK(to_html(document_of(report)).find("error at most 1.3e-6 in order blocked:8+fma (proven, T-77)") !=
        std::string::npos);
  CHECK(to_html(document_of(report)).find("67 % of that bound is the size of the box: smaller boxes are tighter") !=
        std::string::npos);
}

TEST_CASE("every form of a report counts what each precision of the references settled") {
  Report report = HandMade().report();
  report.comparison.rungs = {{106, 10}, {256, 2}};
  report.comparison.reference_undecided = 3;
  for (const std::string& text : {to_text(document_of(report)), to_html(document_of(report))}) {
    CHECK(text.find("10 at 106 bits, 2 at 256 bits") != std::string::npos);
    CHECK(text.find("3 not resolved at the limit") != std::string::npos);
  }
  const nlohmann::json json = nlohmann::json::parse(to_json(document_of(report)));
  CHECK(json["run"]["reference"]["rungs"] == nlohmann::json({{"106", 10}, {"256", 2}}));
}

TEST_CASE("reports say with what probability a bound fails") {
  HandMade made;
  BoundResult shadow = HandMade::make_bound(BoundKind::shadow, Guarantee::probabilistic);
  shadow.failure_probability = 1e-9;
  made.bounds.layers[0].accumulated.push_back(shadow);
  const Report report = made.report();
  const nlohmann::json bounds =
      nlohmann::json::parse(to_json(document_of(report)))["layers"][0]["accumulated"]["bounds"];
  CHECK(bounds.at(0)["failure_probability"].is_null());
  CHECK(bounds.at(2)["failure_probability"] == 1e-9);
  CHECK(to_text(document_of(report)).find("shadow fails with probability 1.0e-9 at most, over random bits") !=
        std::string::npos);
  CHECK(to_html(document_of(report)).find("at most, over random bits of this program") != std::string::npos);
}

TEST_CASE("the worst element is given in decimal and as a hex float that reads back exactly") {
  HandMade made;
  made.local.layers[0].values[0] = exact_ball(1.1);
  const nlohmann::json worst =
      nlohmann::json::parse(to_json(document_of(made.report())))["layers"][0]["local"]["worst"];
  CHECK(std::strtod(worst["reference_hex"].get<std::string>().c_str(), nullptr) == 1.1);
}

TEST_CASE("the text fits 100 columns, names the verdict first and carries no escapes unless asked") {
  Report report = HandMade().report();
  report.comparison.layers[0].name = std::string(200, 'n');
  report.context.model_file = std::string(300, 'm');
  const std::string text = to_text(document_of(report), {false, true});
  CHECK(text.rfind("HOLDS", 0) == 0);
  CHECK(text.find('\033') == std::string::npos);
  CHECK(to_text(document_of(report), {true, false}).find('\033') != std::string::npos);
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    CAPTURE(line);
    CHECK(columns(line) <= 100);
  }
}

TEST_CASE("every column of the table is explained") {
  const std::string explained = explain_columns();
  for (const char* column :
       {"n ", "kappa", "error", "ulps", "any", "order", "folk!", "fwd", "ok", "near", "open", "void", "FAIL"})
    CHECK(explained.find(std::string("  ") + column) != std::string::npos);
}

TEST_CASE("a violation names layer, bound, sample and element in the first sentence") {
  HandMade made;
  made.local.layers[0].values[3] = exact_ball(9.0);
  const std::string sentence = headline(made.report());
  CHECK(
      sentence.find(
          "VIOLATED: layer 'layer' (MatMul) exceeds its local componentwise bound in 1 of 6 values, worst at sample 1 "
          "element 1") == 0);
}

TEST_CASE("the violated bound's own number stands beside its name, however small another one is") {
  HandMade made;
  made.local.layers[0].values[3] = exact_ball(9.0);
  made.bounds.layers[0].local.push_back(HandMade::make_bound(BoundKind::running, Guarantee::proven));
  made.bounds.layers[0].local.back().values.values.assign(6, 0.125);
  const Report report = made.report();
  for (const std::string& text : {headline(report), to_html(document_of(report))})
    CHECK(text.find("local componentwise bound in 1 of 6 values, worst at sample 1 element 1: error 5.0e0 against "
                    "1.0e0.") != std::string::npos);
  CHECK(headline(report).find("another order") == std::string::npos);
}

TEST_CASE("where bounds of the declared order alone are exceeded, another order is among what may have run") {
  HandMade made;
  made.local.layers[0].values[3] = exact_ball(4.5);
  made.bounds.layers[0].local.push_back(HandMade::make_bound(BoundKind::running, Guarantee::proven));
  made.bounds.layers[0].local.back().values.values.assign(6, 0.125);
  made.bounds.layers[0].differing = 1;
  const std::string sentence = headline(made.report());
  CHECK(sentence.find("running bound in 1 of 6") != std::string::npos);
  CHECK(sentence.find("error 5.0e-1 against 1.3e-1") != std::string::npos);
  CHECK(sentence.find("arithmetic and order cannot do that: another order of summation, another arithmetic") !=
        std::string::npos);
  CHECK(replay_text(made.report()).find("another order could explain it") != std::string::npos);
  made.bounds.layers[0].fan_in = 0;
  CHECK(headline(made.report()).find("another order") == std::string::npos);
  CHECK(replay_text(made.report()).find("It sums nothing, so that no order explains it: another function library") !=
        std::string::npos);
}

TEST_CASE("an output that alone exceeds its bound is named with it") {
  HandMade made;
  made.bounds.layers[0].accumulated[0].values.values.assign(6, 10.0);
  Report report = made.report();
  report.comparison.verdict = report.comparison.outputs[0].status = Status::violated;
  BoundSummary& bound = report.comparison.outputs[0].scope.bounds[0];
  bound.kind = BoundKind::replay;
  bound.violations = 2;
  CHECK(headline(report).find("VIOLATED: output 'layer' exceeds its end-to-end replay bound in 2 of 6 values") == 0);
}

TEST_CASE("a value that is not finite, of finite operands, is told with what it should have been") {
  HandMade made({1, 2, std::numeric_limits<float>::quiet_NaN(), 4, 5, 6});
  made.local.layers[0].values[2] = exact_ball(0.375);
  made.accumulated.layers[0].values[2] = exact_ball(0.375);
  made.bounds.layers[0].differing = 1;
  Report report = made.report();
  CHECK(report.comparison.verdict == Status::invalid);
  CHECK(
      headline(report).find("has an output that is not finite: sample 1 element 0 is nan, the exact value is 0.375: an "
                            "overflow on the way there, or a bug") != std::string::npos);
  CHECK(replay_text(report).find("could explain it") == std::string::npos);
  report.comparison.layers[0].copies = true;
  CHECK(headline(report).find("the exact value is 0.375: no rounding makes that of it, a bug does") !=
        std::string::npos);
  made.local.layers[0].values[2] = exact_ball(1e39);
  CHECK(headline(made.report()).find("the exact value is 1e+39, above the largest number of the format, 3.40282e+38") !=
        std::string::npos);
}

TEST_CASE("a layer without a finite output has no errors to show") {
  const float none = std::numeric_limits<float>::quiet_NaN();
  HandMade made({none, none, none, none, none, none});
  const std::string text = to_text(document_of(made.report()));
  const std::size_t row = text.find("\n  0 ");
  REQUIRE(row != std::string::npos);
  const std::string line = text.substr(row + 1, text.find('\n', row + 1) - row - 1);
  CAPTURE(line);
  CHECK(line.find("|       -     -     -     -") != std::string::npos);
  CHECK(line.find("|       -      - void") != std::string::npos);
  const std::string page = to_html(document_of(made.report()));
  CHECK(page.find("<td class=\"group\">–</td><td>–</td><td>–</td><td>–</td>") != std::string::npos);
  CHECK(page.find("<title>layer: ") == std::string::npos);  // no point in the chart
  for (const std::string& report : {text, page}) {
    CHECK(report.find("no finite value") != std::string::npos);
    CHECK(report.find("error max 0") == std::string::npos);
  }
}

TEST_CASE("upper bounds are shown rounded up") {
  HandMade made;
  made.bounds.layers[0].accumulated[0].values.values.assign(6, 1.2301e-3);
  CHECK(to_html(document_of(made.report())).find("<td>0.00124</td>") != std::string::npos);
  CHECK(bound_text(1.2e-7) == "1.2e-7");
  CHECK(bound_text(1.2000001e-7) == "1.3e-7");
  CHECK(bound_text(9.91e4) == "1.0e5");
  CHECK(bound_text(0.0) == "0");
  CHECK(bound_text(std::numeric_limits<double>::infinity()) == "inf");
  CHECK(bound_text(std::numeric_limits<double>::max()) == "inf");
  CHECK(decimal_above(-0.11044, 3) == -0.11);
}

TEST_CASE("markup holds characters alone, whatever a name is made of") {
  CHECK(escape_markup("a<\xc3\xa9\xf0\x9f\x99\x82>") == "a&lt;\xc3\xa9\xf0\x9f\x99\x82&gt;");
  for (const char* none : {"\xff", "\x80", "\xc3", "\xc0", "\xf5"}) {
    CAPTURE(none);
    CHECK(escape_markup(none) == "\xef\xbf\xbd");
  }
  for (const std::string none : {"\xc0\xaf", "\xe0\x80", "\xc3("})
    CHECK(escape_markup(none).rfind("\xef\xbf\xbd", 0) == 0);
  CHECK(escape_markup("\xed\xa0\x80") == "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");  // half of a pair of UTF-16
}

TEST_CASE("what has no exact value is not said to be a matter of precision") {
  Report report = HandMade().report();
  report.comparison.reference_undecided = 3;
  report.comparison.reference_undefined = 3;
  CHECK(reference_text(report.comparison).find("--max-precision") == std::string::npos);
  CHECK(reference_text(report.comparison).find("3 without an exact value: operands are not finite") !=
        std::string::npos);
}

TEST_CASE("what no precision settles is not said to be a matter of precision") {
  Report report = HandMade().report();
  report.comparison.reference_undecided = 11;
  report.comparison.reference_valueless = 5;
  report.comparison.reference_too_fine = 4;
  report.comparison.reference_undefined = 2;
  const std::string text = reference_text(report.comparison);
  CHECK(text.find("; 2 not resolved at the limit (--max-precision raises it); 4 known to all digits that two doubles "
                  "hold; 3 without a value (division by 0") != std::string::npos);
  CHECK(text.find("; 2 without an exact value: operands are not finite") != std::string::npos);
}

TEST_CASE("a run far below its bounds is said to be that, and not explained by short sums") {
  HandMade made;
  made.local.layers[0].values[3] = exact_ball(4.0 + 1e-5);
  const std::string sentence = headline(made.report());
  CHECK(sentence.find("less than 1 % of its local componentwise bound; the run is far more accurate than what is "
                      "declared.") != std::string::npos);
  made.local.layers[0].values[3] = exact_ball(4.0 + 0.05);
  CHECK(headline(made.report()).find("5 % of its local componentwise bound.") != std::string::npos);
}

TEST_CASE("where nothing is lost a report does not say that the run is more accurate than declared") {
  CHECK(headline(HandMade().report()).find("0 % of its local componentwise bound.") != std::string::npos);
}

TEST_CASE("an error above its bound is shown with the digits that tell them apart") {
  CHECK(excess_text(2.8239e-6, 2.8152e-6) == "2.824e-6 against 2.816e-6");
  CHECK(excess_text(0.5, 1e-3) == "5.0e-1 against 1.0e-3");
  CHECK(excess_text(1.0 + 0x1p-50, 1.0 + 0x1p-51).find("against") != std::string::npos);
  CHECK(excess_text(HUGE_VAL, 1.0) == "inf against 1.0e0");
  CHECK(excess_text(1.0, 0.0) == "1.0e0 against 0");
  HandMade made;
  made.local.layers[0].values[3] = exact_ball(4.0 + 1.01);
  made.bounds.layers[0].local[0].values.values[3] = 1.0099;
  CHECK(headline(made.report()).find("error 1.0100e0 against 1.0099e0") != std::string::npos);
}

TEST_CASE("one sample of one number is not several") {
  HandMade made;
  made.trace.samples = 1;
  made.trace.layers[0].output = StoredTensor::from(Tensor<float>({1, 2}, {1, 2}));
  for (Reference* reference : {&made.accumulated, &made.local})
    reference->layers[0] = Tensor<Ball>({1, 2}, {exact_ball(1.0), exact_ball(2.0)});
  for (std::vector<BoundResult>* bounds : {&made.bounds.layers[0].local, &made.bounds.layers[0].accumulated})
    for (BoundResult& bound : *bounds) bound.values = Tensor<double>({1, 2}, {1.0, 1.0});
  CHECK(headline(made.report()).find("2 outputs of 1 layer (1 sample)") != std::string::npos);
}

TEST_CASE("JUnit says once that values are not finite") {
  HandMade made({1, 2, 3, 4, 5, std::numeric_limits<float>::infinity()});
  const std::string junit = to_junit(document_of(made.report()));
  CHECK(junit.find(">not finite: 1<") != std::string::npos);
}

TEST_CASE("reports say that inputs are rounded, and where a box has no number to bound") {
  Report report = HandMade().report();
  const std::string inputs = "The inputs are float64, the model takes float32: rounding them is part of every error";
  for (const std::string& text : {to_text(document_of(report)), to_html(document_of(report))}) {
    CHECK(text.find("rounding them is part") == std::string::npos);
    CHECK(text.find("No bound over the box") == std::string::npos);
  }
  report.context.rounded_inputs = "float64, the model takes float32";
  report.comparison.box_without_number = true;
  for (const std::string& text : {to_text(document_of(report)), to_html(document_of(report))}) {
    CHECK(text.find(inputs) != std::string::npos);
    CHECK(text.find("No bound over the box: no output is one number") != std::string::npos);
  }
}

TEST_CASE("a page explains the words that it uses") {
  const std::string page = explain_columns(Medium::page);
  for (const char* word :
       {"holds", "approaches", "undecided", "improbable", "void", "violated", "median bound/error", "ms a sample"})
    CHECK(page.find(std::string("\n  ") + word + " ") != std::string::npos);
  for (const char* word : {"ok", "near", "open", "FAIL", "x error"})
    CHECK(page.find(std::string("\n  ") + word + " ") == std::string::npos);
}

TEST_CASE("JUnit has a case for the verdict and one for an interruption, and neither is green without reason") {
  Report report = HandMade().report();
  CHECK(to_junit(document_of(report)).find("<testcase classname=\"report\" name=\"verdict\"/>") != std::string::npos);
  CHECK(to_junit(document_of(report)).find("errors=\"0\" skipped=\"0\"") != std::string::npos);
  report.context.interrupted = true;
  report.context.requested_samples = 100;
  CHECK(to_junit(document_of(report)).find("errors=\"1\"") != std::string::npos);
  CHECK(to_junit(document_of(report)).find("interrupted after 3 of 100 samples") != std::string::npos);
  CHECK(to_html(document_of(report)).find("Interrupted after 3 of 100 samples") != std::string::npos);
  CHECK(headline(report).rfind("INTERRUPTED, HOLDS", 0) == 0);
  HandMade made;
  made.bounds.layers[0].local.clear();
  made.bounds.layers[0].accumulated.clear();
  const std::string unchecked = to_junit(document_of(made.report()));
  CHECK(unchecked.find("errors=\"1\"") != std::string::npos);
  CHECK(unchecked.find("<error message=\"undecided\">UNDECIDED: nothing was held against") != std::string::npos);
  CHECK(unchecked.find("<skipped message=") != std::string::npos);
}

TEST_CASE("a headline names an arithmetic that is assumed, and none that is documented or measured") {
  Report report = HandMade().report();
  CHECK(headline(report).ends_with(" Assuming fp32 in order unknown (test)."));
  report.context.arithmetic.source.clear();
  CHECK(headline(report).ends_with(" Assuming fp32 in order unknown."));
  report.context.arithmetic.evidence = Evidence::measured;
  CHECK(headline(report).find("Assuming") == std::string::npos);
}
