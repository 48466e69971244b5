#include <fmt/format.h>

#include <cmath>

#include "analysis/document.hpp"
#include "analysis/markup.hpp"
#include "analysis/text.hpp"

namespace driftbound::analysis {
namespace {

constexpr const char* style = R"(
:root { color-scheme: light dark; --ink:#1b1f24; --soft:#667; --paper:#fff; --rule:#d8dde3; --ok:#1a7f37; --warn:#9a6700; --bad:#cf222e;
  --measured:#0550ae; --order:#8250df; --any:#b08800; --accumulated:#0a7d73; --forward:#bc4c00; }
@media (prefers-color-scheme: dark) { :root { --ink:#e6edf3; --soft:#9aa4af; --paper:#0d1117; --rule:#30363d; --ok:#3fb950; --warn:#d29922;
  --bad:#ff7b72; --measured:#79c0ff; --order:#d2a8ff; --any:#e3b341; --accumulated:#56d4c4; --forward:#ffa657; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 2rem auto; max-width: 76rem; padding: 0 1rem; }
h1 { font-size: 1.15rem; font-weight: 600; } h2 { font-size: 1rem; margin-top: 2rem; } h3 { font-size: .95rem; margin: 1.5rem 0 .3rem; }
.holds, .approaches { color: var(--ok); } .undecided { color: var(--warn); } .violated, .improbable, .void { color: var(--bad); font-weight: 600; }
p { overflow-wrap: anywhere; } .about, .note { color: var(--soft); } .note { margin: .3rem 0; } .scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 13px; } th, td { padding: 3px 9px; text-align: right; white-space: nowrap; }
th { border-bottom: 1px solid var(--rule); text-align: right; } tr:hover td { background: color-mix(in srgb, var(--rule) 40%, transparent); }
td.name, th.name { text-align: left; } td.group, th.group { border-left: 1px solid var(--rule); }
svg { max-width: 100%; height: auto; } svg text { font: 11px system-ui, sans-serif; fill: var(--soft); } .tick { text-anchor: end; } .layer { text-anchor: end; } tr.folklore td { color: var(--soft); }
.bar { display: block; min-width: 6rem; padding-bottom: 4px; background: linear-gradient(var(--measured), var(--measured)) no-repeat 0 100% / var(--length) 3px; } .minus { --measured: var(--bad); }
.legend { font-size: 12px; } .grid { stroke: var(--rule); stroke-width: .6; } .axis { stroke: var(--soft); }
polyline { fill: none; stroke-width: 1.6; } .measured circle { fill: var(--measured); } .accumulated circle { fill: var(--accumulated); }
.order * { stroke: var(--order); fill: var(--order); } .any * { stroke: var(--any); fill: var(--any); } .forward * { stroke: var(--forward); fill: var(--forward); }
.order polyline, .any polyline, .forward polyline { fill: none; } .any polyline { stroke-dasharray: 6 3; } .forward polyline { stroke-dasharray: 2 3; }
pre { font-size: 12.5px; color: var(--soft); white-space: pre-wrap; }
)";

/// What a verdict looks like on the page.
std::string_view class_of(Status status) {
  return name_of(status == Status::not_checked ? Status::undecided : status);
}

std::string number(double x) {
  return fmt::format("{:.3g}", x);
}

struct PageCell {
  std::string operator()(std::monostate) const { return "–"; }
  std::string operator()(const std::string& text) const { return escape_markup(text); }
  std::string operator()(const Name& name) const { return escape_markup(name.text); }
  std::string operator()(std::int64_t count) const { return std::to_string(count); }
  std::string operator()(Status status) const {
    return fmt::format("<span class=\"{}\">{}</span>", class_of(status), name_of(status));
  }
  std::string operator()(const Violations& violations) const {
    const std::string text = fmt::format("{} of {}", violations.count, violations.of);
    return violations.count == 0 ? text : "<span class=\"violated\">" + text + "</span>";
  }
  std::string operator()(const Bar& bar) const {
    const double percent = std::abs(bar.share) < 0.0005 ? 0.0 : 100.0 * bar.share;
    const double length = bar.longest > 0.0 ? 100.0 * std::abs(bar.share) / bar.longest : 0.0;
    return fmt::format("<span class=\"bar{}\" style=\"--length:{:.1f}%\">{}{:.1f}%</span>",
                       percent < 0.0 ? " minus" : "", length, bar.is_signed && percent >= 0.0 ? "+" : "", percent);
  }
  std::string operator()(const Number& shown) const {
    const std::string text = shown.form == Form::percent ? escape_markup(percent(shown.value))
                             : shown.form == Form::bound ? number(decimal_above(shown.value, 3))
                                                         : number(shown.value);
    return shown.hint.empty() ? text : fmt::format("<span title=\"{}\">{}</span>", escape_markup(shown.hint), text);
  }
};

bool begins_group(const Table& table, std::size_t column) {
  std::size_t first = 0;
  for (const Group& group : table.groups) {
    if (first == column && first > 0) return true;
    first += group.columns;
  }
  return false;
}

/// <td class="name group">, of a column that the page shows.
std::string cell(const char* tag, const Table& table, std::size_t column, const std::string& content) {
  if (table.columns[column].medium == Medium::text) return "";
  const std::string classes =
      std::string(table.columns[column].is_left ? " name" : "") + (begins_group(table, column) ? " group" : "");
  const std::string opening = classes.empty() ? tag : fmt::format("{} class=\"{}\"", tag, classes.substr(1));
  return fmt::format("<{}>{}</{}>", opening, content, tag);
}

std::string heads(const Table& table) {
  std::string titles, text;
  for (const Group& group : table.groups)
    titles += fmt::format("<th{} colspan=\"{}\">{}</th>", titles.empty() ? "" : " class=\"group\"", group.columns,
                          escape_markup(group.title));
  if (!titles.empty()) titles = "<tr>" + titles + "</tr>\n";
  for (std::size_t i = 0; i < table.columns.size(); ++i)
    text +=
        cell("th", table, i, table.columns[i].page_head.empty() ? table.columns[i].head : table.columns[i].page_head);
  return titles + "<tr>" + text + "</tr>\n";
}

std::string table_row(const Table& table, const Row& row) {
  std::string text = row.is_soft ? "<tr class=\"folklore\">" : "<tr>";
  for (std::size_t i = 0; i < row.cells.size(); ++i) text += cell("td", table, i, std::visit(PageCell(), row.cells[i]));
  return text + "</tr>\n";
}

struct PageBlock {
  std::string operator()(const Paragraph& paragraph) const {
    if (paragraph.medium == Medium::text) return "";
    const std::string text = escape_markup(paragraph.text);
    switch (paragraph.style) {
      case Style::heading:
        return "<h2>" + text + "</h2>\n";
      case Style::plain:
      case Style::line:
        return "<p class=\"about\">" + text + "</p>\n";
      case Style::note:
        return "<p class=\"note\">" + text + "</p>\n";
      case Style::warning:
        return "<p class=\"undecided\">" + text + "</p>\n";
      case Style::wrong:
        return "<p class=\"violated\">" + text + "</p>\n";
      case Style::explanation:
        return "<pre>" + text + "</pre>\n";
    }
    return "";
  }
  std::string operator()(const Entry& entry) const {
    return fmt::format("<h3>{} {}</h3>\n<p class=\"about\">{}</p>\n", escape_markup(entry.name),
                       PageCell()(entry.status), escape_markup(entry.facts));
  }
  std::string operator()(const Table& table) const {
    if (table.rows.empty()) return "";
    std::string text = "<div class=\"scroll\"><table>" + heads(table);
    for (const Row& row : table.rows)
      if (row.medium != Medium::text) text += table_row(table, row);
    return text + "</table></div>\n";
  }
  std::string operator()(const Figure& figure) const { return "<div class=\"scroll\">" + figure.svg + "</div>\n"; }
};

}  // namespace

std::string to_html(const Document& document) {
  std::string html = fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta http-equiv=\"Content-Security-Policy\" "
      "content=\"default-src 'none'; style-src 'unsafe-inline'\"><meta name=\"viewport\" "
      "content=\"width=device-width\"><title>driftbound: {}</title><style>{}</style></head><body>\n"
      "<h1 class=\"{}\">{}</h1>\n",
      escape_markup(document.title), style, class_of(document.verdict), escape_markup(document.headline));
  for (const Section& section : document.sections)
    for (const Block& block : section) html += std::visit(PageBlock(), block);
  return html +
         fmt::format("<p class=\"about\">driftbound {} · {}</p>\n</body></html>\n", DRIFTBOUND_VERSION, document.date);
}

}  // namespace driftbound::analysis
