#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "analysis/drift_report.hpp"
#include "analysis/text.hpp"

namespace driftbound::analysis {
namespace {

std::int64_t rows_that(const Decisions& one, MayFlip may) {
  const auto found = one.by_flip.find(may);
  return found == one.by_flip.end() ? 0 : found->second;
}

/// "; no run of these arithmetics chooses otherwise in 500 rows (T-141), and some may in 12"
std::string flips_text(const Decisions& one) {
  if (one.rows == 0) return "";
  const std::int64_t cannot = rows_that(one, MayFlip::cannot), unlikely = rows_that(one, MayFlip::not_by_chance);
  const std::int64_t may = rows_that(one, MayFlip::may), unknown = rows_that(one, MayFlip::unknown);
  std::vector<std::string> parts;
  if (one.without_bounds == one.rows && cannot == 0)
    parts.push_back(fmt::format("in no row it is proven that no run chooses otherwise: {}", one.why_no_bounds));
  else
    parts.push_back(fmt::format("no run of these arithmetics chooses otherwise in {} rows (T-141)", cannot));
  if (one.without_bounds > 0 && (one.without_bounds < one.rows || cannot > 0))
    parts.push_back(fmt::format("in {} this is not known: {}", one.without_bounds, one.why_no_bounds));
  if (unlikely > 0)
    parts.push_back(fmt::format("none will by chance in {}{} (six standard deviations, an estimate)", unlikely,
                                cannot > 0 ? " more" : ""));
  if (may > 0) parts.push_back(fmt::format("some may in {}", may));
  if (unknown > 0) parts.push_back(fmt::format("of {} there is no estimate, as the runs do not differ", unknown));
  return fmt::format("; {}", fmt::join(parts, ", "));
}

/// "class 5 (1.25), 7 (1.24)"
std::string numbers_text(const std::vector<NumberOfClass>& numbers) {
  std::string text;
  for (const NumberOfClass& one : numbers)
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", one.index, brief(one.number));
  return text;
}

Json json_of_numbers(const std::vector<NumberOfClass>& numbers) {
  Json list = Json::array();
  for (const NumberOfClass& one : numbers) list.push_back(object("class"_key = one.index, "number"_key = one.number));
  return list;
}

Json json_of(const RowDecision& row, bool has_largest) {
  Json json = object(
      "row"_key = row.row, "winner_first"_key = row.winner_a, "winner_second"_key = row.winner_b,
      "runner_up"_key = row.runner_up, "gap_first"_key = row.gap_a, "gap_second"_key = row.gap_b,
      "error_first"_key = row.errors[0], "error_second"_key = row.errors[1], "any_run_first"_key = row.any_run[0],
      "any_run_second"_key = row.any_run[1], "six_sigmas_first"_key = row.six_sigmas[0],
      "six_sigmas_second"_key = row.six_sigmas[1], "may_flip"_key = name_of(row.may_flip), "chosen"_key = row.chosen,
      "log_probability_first"_key = row.log_probability[0], "log_probability_second"_key = row.log_probability[1],
      "log_error_first"_key = row.log_errors[0], "log_error_second"_key = row.log_errors[1],
      "ratio"_key = std::exp(row.log_probability[1] - row.log_probability[0]),
      "log_ratio_at_most"_key = row.log_ratio_at_most);
  if (!has_largest) return json;
  json["largest_first"] = json_of_numbers(row.largest_a);
  json["largest_second"] = json_of_numbers(row.largest_b);
  return json;
}

Json json_of_rows(const std::vector<RowDecision>& rows, bool have_largest = true) {
  Json list = Json::array();
  for (const RowDecision& row : rows) list.push_back(json_of(row, have_largest));
  return list;
}

}  // namespace

/// "Choices by 'head': 3 of 512 rows differ (2.1 expected of independent noise); …"
std::string text_of(const Decisions& one) {
  std::string text = fmt::format("Choices by '{}', the largest of {} in each row: {} of {} rows differ", one.name,
                                 one.classes, one.flips, one.rows);
  text += fmt::format(" (independent noise of this size would make {})", brief(one.estimate_of_flips));
  if (one.ties > 0) text += fmt::format("; {} rows have ties, of which the first counts", one.ties);
  if (one.top > 0) text += fmt::format("; the {} largest are of other classes in {} rows", one.top, one.other_sets);
  if (one.certain) text += fmt::format("; in {} both are those of the exact network, proven", *one.certain);
  text += flips_text(one);
  text += fmt::format(
      ". Softmax of both: Jensen-Shannon divergence {} at most, log-probability of {} {} apart at most, which is the "
      "log of the policy ratio.",
      error_text(one.largest_divergence), one.has_chosen ? "the class chosen" : "the first run's choice",
      error_text(one.largest_log_ratio));
  if (one.log_ratio_at_most)
    text += fmt::format(" Any two such runs have it within {}.", bound_text(*one.log_ratio_at_most));
  const std::vector<RowDecision>& rows = one.flipped.empty() ? one.nearest : one.flipped;
  if (rows.empty()) return text;
  text += one.flipped.empty() ? " Smallest gaps:" : " Differing rows:";
  constexpr std::size_t most = 3;
  for (std::size_t i = 0; i < std::min(most, rows.size()); ++i)
    text += fmt::format("{} row {}, {}{} with gaps {} and {}", i == 0 ? "" : ";", rows[i].row, rows[i].winner_a,
                        rows[i].winner_a == rows[i].winner_b ? "" : fmt::format(" and {}", rows[i].winner_b),
                        brief(rows[i].gap_a), brief(rows[i].gap_b));
  text += ".";
  const auto add_largest = [&](const RowDecision& row, std::string_view which) {
    text += fmt::format(" The largest numbers of row {}, {}: {} in the first run, {} in the second.", row.row, which,
                        numbers_text(row.largest_a), numbers_text(row.largest_b));
  };
  if (!one.flipped.empty()) add_largest(rows.front(), "the first that differs");
  if (one.at && (one.flipped.empty() || one.at->row != rows.front().row))
    add_largest(*one.at, "behind which the sequences part");
  return text;
}

std::vector<std::string> texts_of(const std::vector<Decisions>& decisions) {
  constexpr std::size_t few = 4;
  std::vector<std::string> texts;
  for (const Decisions& one : decisions)
    if (decisions.size() <= few || ((one.flips > 0 || one.at) && texts.size() < few)) texts.push_back(text_of(one));
  if (decisions.size() <= few) return texts;
  std::int64_t rows = 0, flips = 0, cannot = 0, certain = 0;
  double expected = 0.0, ratio = 0.0;
  for (const Decisions& one : decisions) {
    rows += one.rows;
    flips += one.flips;
    cannot += rows_that(one, MayFlip::cannot);
    certain += one.certain.value_or(0);
    expected += one.estimate_of_flips;
    ratio = std::max(ratio, one.largest_log_ratio);
  }
  texts.push_back(fmt::format(
      "Choices by '{}' and {} other values, as of other steps: {} of {} rows differ (independent noise of these sizes "
      "would make {}); in {} both are proven to be those of the exact network; no run of these arithmetics chooses "
      "otherwise in {} rows (T-141); log-probabilities are {} apart at most.",
      decisions.front().name, decisions.size() - 1, flips, rows, brief(expected), certain, cannot, error_text(ratio)));
  return texts;
}

Json json_of_decisions(const std::vector<Decisions>& decisions) {
  Json list = Json::array();
  for (const Decisions& one : decisions)
    list.push_back(
        object("name"_key = one.name, "rows"_key = one.rows, "classes"_key = one.classes, "flips"_key = one.flips,
               "ties"_key = one.ties, "certain"_key = one.certain, "top"_key = one.top,
               "other_sets"_key = one.other_sets, "cannot_flip"_key = rows_that(one, MayFlip::cannot),
               "will_not_flip_by_chance"_key = rows_that(one, MayFlip::not_by_chance),
               "may_flip"_key = rows_that(one, MayFlip::may), "without_bounds"_key = one.without_bounds,
               "log_ratio_at_most"_key = one.log_ratio_at_most, "estimate_of_flips"_key = one.estimate_of_flips,
               "mean_divergence"_key = one.mean_divergence, "largest_divergence"_key = one.largest_divergence,
               "largest_log_ratio"_key = one.largest_log_ratio, "flipped"_key = json_of_rows(one.flipped),
               "nearest"_key = json_of_rows(one.nearest), "by_row"_key = json_of_rows(one.by_row, false),
               "why_no_bounds"_key = text_or_null(one.why_no_bounds), "chosen_given"_key = one.has_chosen,
               "at"_key = one.at ? json_of(*one.at, true) : Json(nullptr)));
  return list;
}

}  // namespace driftbound::analysis
