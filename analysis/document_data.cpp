#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>

#include "analysis/document.hpp"
#include "analysis/markup.hpp"

namespace driftbound::analysis {
namespace {

struct CsvCell {
  std::string operator()(std::monostate) const { return ""; }
  std::string operator()(const std::string& text) const { return text; }
  std::string operator()(const Name& name) const {
    std::string quoted = "\"";
    for (const char c : name.text) quoted += c == '"' ? "\"\"" : std::string(1, c);
    return quoted + "\"";
  }
  std::string operator()(std::int64_t count) const { return std::to_string(count); }
  std::string operator()(const Number& number) const { return fmt::format("{}", number.value); }
  std::string operator()(const Bar& bar) const { return fmt::format("{}", bar.share); }
  std::string operator()(const Violations& violations) const { return std::to_string(violations.count); }
  std::string operator()(Status status) const { return std::string(name_of(status)); }
};

/// What was checked and does not hold; the rest could not be checked.
bool is_failure(Status status) {
  return status == Status::violated || status == Status::improbable;
}

std::string to_xml(const Case& test) {
  const std::string head =
      fmt::format("  <testcase classname=\"{}\" name=\"{}\"", test.group, escape_markup(test.name));
  if (test.status == Status::holds || test.status == Status::approaches) return head + "/>\n";
  if (test.status == Status::not_checked)
    return head + ">\n    <skipped message=\"no bound that decides was held against it\"/>\n  </testcase>\n";
  const char* tag = is_failure(test.status) ? "failure" : "error";
  return fmt::format("{}>\n    <{} message=\"{}\">{}</{}>\n  </testcase>\n", head, tag, name_of(test.status),
                     escape_markup(test.detail), tag);
}

/// Puts "inf", "-inf" and "nan" in the place of numbers that JSON has not.
void write_out_infinities(Json& value) {
  if (value.is_structured())
    for (Json& part : value) write_out_infinities(part);
  if (!value.is_number_float() || std::isfinite(value.get<double>())) return;
  value = std::isnan(value.get<double>()) ? "nan" : value.get<double>() > 0.0 ? "inf" : "-inf";
}

}  // namespace

std::string to_json(const Document& document) {
  Json fields = document.fields;
  write_out_infinities(fields);
  return fields.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string to_csv(const Document& document) {
  std::string text;
  const auto end_cell = [&](std::size_t i) { text += i + 1 < document.records.columns.size() ? ',' : '\n'; };
  for (std::size_t i = 0; i < document.records.columns.size(); ++i) {
    text += document.records.columns[i].head;
    end_cell(i);
  }
  for (const Row& row : document.records.rows)
    for (std::size_t i = 0; i < row.cells.size(); ++i) {
      text += std::visit(CsvCell(), row.cells[i]);
      end_cell(i);
    }
  return text;
}

std::string to_junit(const Document& document) {
  const auto count = [&](auto&& is_counted) {
    return std::count_if(document.cases.begin(), document.cases.end(),
                         [&](const Case& test) { return is_counted(test.status); });
  };
  const auto is_error = [](Status status) { return status == Status::undecided || status == Status::invalid; };
  const auto is_skipped = [](Status status) { return status == Status::not_checked; };
  std::string text = fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"driftbound {} {}\" tests=\"{}\" "
      "failures=\"{}\" errors=\"{}\" skipped=\"{}\" time=\"{:.3f}\">\n",
      document.verb, escape_markup(document.title), document.cases.size(), count(is_failure), count(is_error),
      count(is_skipped), document.seconds);
  for (const Case& test : document.cases) text += to_xml(test);
  return text + "</testsuite>\n";
}

Json text_or_null(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(text);
}

std::string now_utc() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

}  // namespace driftbound::analysis
