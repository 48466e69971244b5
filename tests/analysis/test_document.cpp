#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "analysis/document.hpp"

using namespace driftbound::analysis;

namespace {

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// A table with a cell of every kind, and one of every block.
Document with_everything() {
  Document document;
  document.verb = "compare";
  document.title = "a<b>.onnx";
  document.verdict = Status::violated;
  document.headline = "VIOLATED: two runs differ.";
  Table table{{{"#", 3}, {"layer", 6, true}, {"error", 7}, {"share", 6}, {"folk!", 6}, {"", 0, true, "verdict"}}};
  table.groups = {{"", 2}, {"these two", 3}, {"", 1}};
  table.rows.push_back({{std::int64_t{1}, Name{"a\"long<name>"}, Number{1.23e-7, Form::error}, Number{0.5},
                         Violations{1, 8}, Status::holds}});
  table.rows.push_back({{std::int64_t{2}, Name{"b"}, std::monostate(), Number{0.41, Form::percent}, Violations{0, 8},
                         Status::violated}});
  table.rows.push_back({{std::int64_t{3}, Name{"c"}, Number{1.2301e-3, Form::bound, "proven, T-10"},
                         Bar{-0.25, 0.5, true}, Violations{}, Status::not_checked},
                        true,
                        Medium::page});
  document.records = table;
  document.sections = {
      {Paragraph{"Beside the verdict.", Style::warning}},
      {Paragraph{"Layers", Style::heading, Medium::page}, table},
      {Entry{"output", "error max 1.0e-7", Status::holds}, Paragraph{"about it", Style::note}, Figure{"<svg/>"}},
      {Paragraph{"Reading this\n", Style::explanation}}};
  document.fields = {
      {"schema", "test/1"}, {"number", std::numeric_limits<double>::infinity()}, {"list", {0.1, -HUGE_VAL}}};
  document.cases = {{"report", "verdict", Status::violated, "a < b"}, {"layer", "b", Status::not_checked, ""}};
  return document;
}

}  // namespace

TEST_CASE("text shows a document in columns, with groups of them, marks and indented notes") {
  CHECK(to_text(with_everything()) == R"_(VIOLATED: two runs differ.
Beside the verdict.

           | ----- these two -----
  # layer  |   error  share  folk! 
  1 a"..e> |  1.2e-7   0.50    12% ok
  2 b      |       -    41%      0 FAIL

  output                   error max 1.0e-7                                                  ok
    about it
)_");
}

TEST_CASE("text has colours and explanations where they are asked for") {
  const std::string text = to_text(with_everything(), {true, true});
  CHECK(text.rfind("\033[1;31mVIOLATED\033[0m: two runs", 0) == 0);
  CHECK(has(text, "\033[32mok\033[0m"));
  CHECK(has(text, "\n\nReading this\n"));
}

TEST_CASE("a page shows every cell, and nothing that a name could smuggle in") {
  const std::string page = to_html(with_everything());
  CHECK(has(page, "<title>driftbound: a&lt;b&gt;.onnx</title>"));
  CHECK(has(page, "<h1 class=\"violated\">VIOLATED"));
  CHECK(has(page, "<p class=\"undecided\">Beside the verdict.</p>"));
  CHECK(has(page, "<th class=\"group\" colspan=\"3\">these two</th>"));
  CHECK(has(page, "<td class=\"name\">a&quot;long&lt;name&gt;</td><td class=\"group\">1.23e-07</td><td>0.5</td>"));
  CHECK(has(page, "<span class=\"violated\">1 of 8</span>"));
  CHECK(has(page, "<tr class=\"folklore\"><td>3</td>"));
  CHECK(has(page, "<span title=\"proven, T-10\">0.00124</span>"));
  CHECK(has(page, "<span class=\"bar minus\" style=\"--length:50.0%\">-25.0%</span>"));
  CHECK(has(page, "<h3>output <span class=\"holds\">holds</span></h3>"));
  CHECK(has(page, "<svg/>"));
  CHECK_FALSE(has(page, "<name>"));
}

TEST_CASE("JSON writes numbers as text that it has no form for") {
  CHECK(to_json(with_everything()) ==
        "{\n  \"schema\": \"test/1\",\n  \"number\": \"inf\",\n  \"list\": [\n    0.1,\n    \"-inf\"\n  ]\n}\n");
}

TEST_CASE("CSV has every digit and quotes names") {
  CHECK(to_csv(with_everything()) ==
        "#,layer,error,share,folk!,\n1,\"a\"\"long<name>\",1.23e-07,0.5,1,holds\n2,\"b\",,0.41,0,violated\n"
        "3,\"c\",0.0012301,-0.25,0,not checked\n");
}

TEST_CASE("JUnit counts failures and skipped cases") {
  const std::string xml = to_junit(with_everything());
  CHECK(has(
      xml,
      "<testsuite name=\"driftbound compare a&lt;b&gt;.onnx\" tests=\"2\" failures=\"1\" errors=\"0\" skipped=\"1\""));
  CHECK(has(xml, "<failure message=\"violated\">a &lt; b</failure>"));
  CHECK(has(xml, "name=\"b\">\n    <skipped"));
}
