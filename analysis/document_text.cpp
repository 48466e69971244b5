#include <fmt/format.h>

#include "analysis/document.hpp"
#include "analysis/text.hpp"

namespace driftbound::analysis {
namespace {

constexpr std::size_t widest = 100;

/// Colours text for a terminal, or leaves it as it is.
struct Painter {
  bool colour;
  std::string operator()(const std::string& text, Status status) const {
    return colour ? fmt::format("{}{}\033[0m", colour_of(status), text) : text;
  }
  static const char* colour_of(Status status) {
    if (status == Status::holds) return "\033[32m";
    return status >= Status::improbable ? "\033[1;31m" : "\033[33m";
  }
};

struct TextCell {
  std::size_t width;

  std::string operator()(std::monostate) const { return "-"; }
  std::string operator()(const std::string& text) const { return text; }
  std::string operator()(const Name& name) const { return shorten(name.text, width); }
  std::string operator()(std::int64_t count) const { return std::to_string(count); }
  std::string operator()(Status status) const { return std::string(mark_of(status)); }
  std::string operator()(const Violations& violations) const {
    if (violations.of == 0) return "-";
    if (violations.count == 0) return "0";
    return brief(100.0 * static_cast<double>(violations.count) / static_cast<double>(violations.of)) + "%";
  }
  std::string operator()(const Bar& bar) const {
    return fmt::format(fmt::runtime(bar.is_signed ? "{:+.0f}%" : "{:.0f}%"), 100.0 * bar.share);
  }
  std::string operator()(const Number& number) const {
    switch (number.form) {
      case Form::ratio:
        return brief(number.value);
      case Form::error:
        return error_text(number.value);
      case Form::bound:
        return bound_text(number.value);
      case Form::percent:
        return percent(number.value);
    }
    return "";
  }
};

class TextBlock {
public:
  explicit TextBlock(const TextOptions& options) : paint_{options.colour}, explain_(options.explain) {}

  std::string operator()(const Paragraph& paragraph) const {
    if (paragraph.medium == Medium::page) return "";
    switch (paragraph.style) {
      case Style::heading:
        return paragraph.text + ":\n";
      case Style::line:
        return paragraph.text + "\n";
      case Style::note:
        return "    " + wrap(paragraph.text, widest - 4, 6) + "\n";
      case Style::explanation:
        return explain_ ? paragraph.text : "";
      case Style::plain:
      case Style::warning:
      case Style::wrong:
        break;
    }
    return (columns_of(paragraph.text) > widest ? wrap(paragraph.text, widest) : paragraph.text) + "\n";
  }

  std::string operator()(const Entry& entry) const {
    return fmt::format("{:<92} {}\n", fmt::format("  {:<24} {}", shorten(entry.name, 24), entry.facts),
                       paint_(std::string(mark_of(entry.status)), entry.status));
  }

  std::string operator()(const Table& table) const {
    std::string text = table.has_heads ? titles(table) + line(table, heads(table)) : "";
    for (const Row& row : table.rows)
      if (row.medium != Medium::page) text += line(table, row.cells);
    return text;
  }

  std::string operator()(const Figure&) const { return ""; }

private:
  static std::vector<Cell> heads(const Table& table) {
    std::vector<Cell> heads;
    for (const Column& column : table.columns) heads.emplace_back(column.head);
    return heads;
  }

  std::string line(const Table& table, const std::vector<Cell>& cells) const {
    std::string text(table.indent, ' ');
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const Column& column = table.columns[i];
      if (column.medium == Medium::page) continue;
      if (i > 0) text += begins_titled_group(table, i) ? " | " : " ";
      const std::string cell = std::visit(TextCell{column.width}, cells[i]);
      const Status* status = std::get_if<Status>(&cells[i]);
      text += fmt::format(fmt::runtime(column.is_left ? "{:<{}}" : "{:>{}}"), status ? paint_(cell, *status) : cell,
                          column.width);
    }
    return text + "\n";
  }

  static bool begins_titled_group(const Table& table, std::size_t column) {
    std::size_t first = 0;
    for (const Group& group : table.groups) {
      if (first == column) return !group.title.empty();
      first += group.columns;
    }
    return false;
  }

  /// Titles above the columns of each group, but for columns behind the last title.
  static std::string titles(const Table& table) {
    std::string text;
    std::size_t column = 0;
    for (const Group& group : table.groups) {
      if (column > 0 && group.title.empty()) break;
      std::size_t width = group.columns - 1;
      for (std::size_t i = 0; i < group.columns; ++i) width += table.columns[column++].width;
      text += group.title.empty() ? std::string(width, ' ') : fmt::format(" | {:-^{}}", " " + group.title + " ", width);
    }
    return text.empty() ? "" : text + "\n";
  }

  Painter paint_;
  bool explain_;
};

}  // namespace

std::string to_text(const Document& document, const TextOptions& options) {
  const std::string headline = wrap(document.headline, widest);
  const std::size_t colon = headline.find(':');
  std::string text =
      Painter{options.colour}(headline.substr(0, colon), document.verdict) + headline.substr(colon) + "\n";
  const TextBlock block_text(options);
  for (const Section& section : document.sections) {
    std::string blocks;
    for (const Block& block : section) blocks += std::visit(block_text, block);
    if (!blocks.empty()) text += (&section == &document.sections.front() ? "" : "\n") + blocks;
  }
  return text;
}

}  // namespace driftbound::analysis
