#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "analysis/status.hpp"

namespace driftbound::analysis {

using Json = nlohmann::ordered_json;

/// What shows a part of a document: text on a terminal, an HTML page, or both.
enum class Medium { both, text, page };

/// How tables show a number; CSV has all its digits.
///   ratio    few characters in text, three digits on a page
///   error    two digits and an exponent in text, three digits on a page
///   bound    as error, rounded up
///   percent  100 times the number with a percent sign
enum class Form { ratio, error, bound, percent };

/// Text from outside the program: text shortens it to its column, CSV quotes it.
struct Name {
  std::string text;
};
struct Number {
  double value = 0.0;
  Form form = Form::ratio;
  std::string hint = {};  ///< a page shows it under the pointer
};
/// Violations among values: a percentage in text, "3 of 64" on a page.
struct Violations {
  std::int64_t count = 0, of = 0;
};
/// A share in percent, with a bar of its size next to `longest` on a page.
struct Bar {
  double share = 0.0, longest = 1.0;
  bool is_signed = false;
};
/// A cell that holds nothing is a dash, and empty in CSV. A string is a word of the program.
using Cell = std::variant<std::monostate, std::string, Name, std::int64_t, Number, Violations, Bar, Status>;

struct Column {
  std::string head;
  std::size_t width = 0;  ///< in text, at least
  bool is_left = false;
  std::string page_head = {};  ///< empty: head
  Medium medium = Medium::both;
};
struct Row {
  std::vector<Cell> cells;  ///< one a column
  bool is_soft = false;     ///< a page has it in a softer colour
  Medium medium = Medium::both;
};
/// Columns side by side under one title.
struct Group {
  std::string title;  ///< may be empty
  std::size_t columns = 0;
};
/// Text shows heads also where there are no rows: as those of the tables that follow, which have `has_heads` unset.
struct Table {
  std::vector<Column> columns;
  std::vector<Row> rows = {};
  std::size_t indent = 0;
  bool has_heads = true;           ///< in text; a page has heads above all rows
  std::vector<Group> groups = {};  ///< empty, or all columns
};

/// What a paragraph is.
///   heading      of what follows
///   plain        wrapped in text
///   line         not wrapped in text
///   note         about the entry above it, indented
///   warning, wrong  plain, in the colour of that
///   explanation  text that is laid out already; in text only where it is asked for
enum class Style { heading, plain, line, note, warning, wrong, explanation };
struct Paragraph {
  std::string text;
  Style style = Style::plain;
  Medium medium = Medium::both;
};
/// Begins what is said of one thing: its name, the facts, and its verdict.
struct Entry {
  std::string name, facts;
  Status status = Status::holds;
};
/// An SVG picture, on a page alone.
struct Figure {
  std::string svg;
};
using Block = std::variant<Paragraph, Table, Entry, Figure>;
/// Blocks in order; text has an empty line between sections.
using Section = std::vector<Block>;

/// A test case of JUnit: violated and improbable are failures, undecided and void errors, not checked is skipped.
struct Case {
  std::string group, name;
  Status status = Status::holds;
  std::string detail;
};

/// What a verb has to say. A verb builds it once; text, HTML, JSON, CSV and JUnit follow from it.
struct Document {
  std::string verb;   ///< "report"
  std::string title;  ///< what it is about: the model's file
  std::string date;
  double seconds = 0.0;
  Status verdict = Status::holds;
  std::string headline;  ///< one sentence or two, verdict first: "HOLDS: …"
  std::vector<Section> sections;
  Json fields;    ///< the JSON report, under the names of its schema; what is not finite is written as text
  Table records;  ///< the lines of CSV
  std::vector<Case> cases;
  int exit_status = 0;
};

/// Now, as documents have their date: "2026-11-30T22:15:27Z".
std::string now_utc();

struct TextOptions {
  bool colour = false, explain = false;
};
/// The headline and the sections as text of at most 100 columns, but for names and for lines.
std::string to_text(const Document& document, const TextOptions& options = {});
/// One self-contained HTML page: no scripts, nothing loaded.
std::string to_html(const Document& document);
std::string to_json(const Document& document);
std::string to_csv(const Document& document);
/// JUnit XML for CI.
std::string to_junit(const Document& document);

/// What JSON holds in the place of a value: null for an optional one that is not there.
template <class T>
Json json_of(const T& value) {
  return value;
}
template <class T>
Json json_of(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}
/// null where the text is empty.
Json text_or_null(const std::string& text);
/// An object of JSON: object("sample"_key = 3, "error"_key = 0.5).
struct Member {
  const char* name;
  Json value;
};
struct Key {
  const char* name;
  template <class T>
  Member operator=(const T& value) const {
    return {name, json_of(value)};
  }
};
inline Key operator""_key(const char* name, std::size_t) {
  return {name};
}
template <class... Members>
Json object(Members... members) {
  Json json;
  ((json[members.name] = std::move(members.value)), ...);
  return json;
}

}  // namespace driftbound::analysis
