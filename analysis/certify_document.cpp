#include <fmt/format.h>

#include <algorithm>

#include "analysis/certification.hpp"
#include "analysis/scalar.hpp"
#include "analysis/text.hpp"

namespace driftbound::analysis {
namespace {

std::string share_text(std::int64_t part, std::int64_t whole) {
  return fmt::format("{:.4g} %", whole == 0 ? 0.0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

/// "all 64 points", "the first 10 of 64 points"
std::string scope_of(const Certification& certification) {
  const std::int64_t points = certification.done.counts.points;
  return certification.interrupted() ? fmt::format("the first {} of {} points", points, certification.requested)
                                     : fmt::format("all {} points", points);
}

std::string headline(const CertifyReport& report) {
  const SignStatistics& counts = report.certification.done.counts;
  const std::string function = function_text(report.scalar, report.iso);
  // what signs that follow from given values stand on
  const bool has_premise =
      !report.values_file.empty() && counts.stages[static_cast<std::size_t>(SignStage::given)].decided > 0;
  const std::string premise =
      has_premise ? fmt::format("if the values are of a run of {}", report.values_arithmetic) : "";
  const std::int64_t open = open_points(counts);
  const std::string verdict =
      open == 0 ? fmt::format("CERTIFIED{}: the sign of {} at", has_premise ? " " + premise : "", function)
                : fmt::format("UNDECIDED: the sign of {} at {} of", function, open);
  return fmt::format("{}{} {}{}: {} negative, {} zero, {} positive, {} undecided.",
                     report.certification.interrupted() ? "INTERRUPTED, " : "", verdict, scope_of(report.certification),
                     open > 0 && has_premise ? "; others, " + premise : "", counts.negative, counts.zero,
                     counts.positive, counts.undecided);
}

Table stage_table(const SignStatistics& counts) {
  Table table{{{"decided by", 16, true}, {"points", 12}, {"share", 9}, {"seconds", 9}}};
  for (std::size_t stage = 0; stage < sign_stages; ++stage) {
    const SignStatistics::Stage& of = counts.stages[stage];
    if (of.decided == 0 && of.seconds == 0.0) continue;
    table.rows.push_back({{std::string(name_of(static_cast<SignStage>(stage))), of.decided,
                           share_text(of.decided, counts.points), fmt::format("{:.3g}", of.seconds)}});
  }
  if (counts.undecided > 0)
    table.rows.push_back({{"undecided", counts.undecided, share_text(counts.undecided, counts.points), ""}});
  return table;
}

/// What the work cost, and what it stands on.
Section remarks(const CertifyReport& report) {
  const SignProgress& done = report.certification.done;
  const double rate = done.seconds > 0.0 ? static_cast<double>(done.counts.points) / done.seconds : 0.0;
  std::string cost = fmt::format("{:.3g} s, {} points/s, {} thread{}", done.seconds, brief(rate), report.threads,
                                 report.threads == 1 ? "" : "s (their seconds are added up above)");
  if (!report.signs_file.empty() && !report.certification.interrupted())
    cost += fmt::format(" · signs in {}", report.signs_file);
  Section section = {Paragraph{std::move(cost), Style::line}};
  if (!report.values_file.empty())
    section.push_back(Paragraph{fmt::format("Values of {}, in {}: {}{}.", report.values_file, report.values_arithmetic,
                                            report.values_guarantee,
                                            report.values_condition.empty() ? "" : ", if " + report.values_condition)});
  if (!report.octree_file.empty())
    section.push_back(
        Paragraph{fmt::format("Given are signs of points in certain cells of {}, and those that one float32 evaluation "
                              "and the bound of their cell decide.",
                              report.octree_file)});
  if (open_points(done.counts) > 0)
    section.push_back(Paragraph{fmt::format(
        "Not decided with {} bits: |f| is below what they resolve, or is exactly 0 and cannot be proven to be; "
        "--max-precision goes further.{}",
        report.max_bits, done.counts.undecided == 0 ? " They are taken for " + report.policy + " as asked." : "")});
  return section;
}

std::string unresolved_text(const SegmentZeros& zeros) {
  std::string text;
  for (const Interval& stretch : zeros.stretches)
    text += fmt::format(" f is exactly 0 for t from {} to {}.", stretch.lower(), stretch.upper());
  if (!zeros.unresolved.empty())
    text += fmt::format(" Not resolved: {} piece{}, the first with t from {} to {}.", zeros.unresolved.size(),
                        zeros.unresolved.size() == 1 ? "" : "s", zeros.unresolved.front().t.lower(),
                        zeros.unresolved.front().t.upper());
  return text;
}

/// "(-0.187, 0.3, -0.187)": six coordinates at most.
std::string point_at(const SegmentReport& report, double t) {
  constexpr std::size_t most = 6;
  std::string text;
  for (std::size_t c = 0; c < std::min(most, report.a.size()); ++c)
    text += fmt::format("{}{:.9g}", c == 0 ? "(" : ", ", report.a[c] + t * (report.b[c] - report.a[c]));
  return text + (report.a.size() > most ? ", …)" : ")");
}

/// The zeros there are and those that the run shows, and where the first ten are, rounded.
Section segment_section(const SegmentReport& report) {
  constexpr std::size_t most = 10;
  const std::vector<SegmentZero>& zeros = report.zeros.zeros;
  const SampledZeros& sampled = report.sampled;
  const std::string undecidable = sampled.undecidable > 0 ? fmt::format(", {} undecidable", sampled.undecidable) : "";
  Section section = {Paragraph{fmt::format(
      "Zeros on the segment: {} certified{}.{} Samples in {} show {}: {} true, {} false{}; {} missed.", zeros.size(),
      report.zeros.is_complete() ? ", and there are no others" : "", unresolved_text(report.zeros), report.arithmetic,
      sampled.computed, sampled.matched, sampled.spurious, undecidable, sampled.missed)}};
  Table table{{{"t", 22, true}, {"crossing", 8, true}, {"point", 0, true}}, {}, 2, false};
  for (std::size_t i = 0; i < std::min(most, zeros.size()); ++i) {
    const double t = zeros[i].t.lower() + (zeros[i].t.upper() - zeros[i].t.lower()) / 2.0;
    table.rows.push_back(
        {{fmt::format("t = {:.12g}", t), std::string(name_of(zeros[i].crossing)), "at " + point_at(report, t)}});
  }
  section.push_back(std::move(table));
  if (zeros.size() > most)
    section.push_back(Paragraph{fmt::format("  and {} more in --json", zeros.size() - most), Style::line});
  return section;
}

Json stages_of(const SignStatistics& counts) {
  Json stages = Json::array();
  for (std::size_t stage = 0; stage < sign_stages; ++stage) {
    if (static_cast<SignStage>(stage) == SignStage::none) continue;
    stages.push_back(object("name"_key = name_of(static_cast<SignStage>(stage)),
                            "decided"_key = counts.stages[stage].decided,
                            "seconds"_key = counts.stages[stage].seconds));
  }
  return stages;
}

Json ends_of(const Interval& t) {
  return Json::array({t.lower(), t.upper()});
}

Json json_of(const SegmentZero& zero) {
  return object("t"_key = ends_of(zero.t), "crossing"_key = name_of(zero.crossing));
}

Json json_of(const UnresolvedPiece& piece) {
  return object("t"_key = ends_of(piece.t), "exists"_key = piece.exists, "at_most_one"_key = piece.at_most_one);
}

template <class Entries>
Json list_of(const Entries& entries, Json (*json)(const typename Entries::value_type&)) {
  Json list = Json::array();
  for (const auto& entry : entries) list.push_back(json(entry));
  return list;
}

void add_segment(Json& json, const SegmentReport& segment) {
  json["segment"] = object("from"_key = segment.a, "to"_key = segment.b, "arithmetic"_key = segment.arithmetic,
                           "within"_key = segment.within);
  json["zeros"] = list_of(segment.zeros.zeros, json_of);
  json["zero_stretches"] = list_of(segment.zeros.stretches, ends_of);
  json["unresolved"] = list_of(segment.zeros.unresolved, json_of);
  json["computed_sign_changes"] = segment.sampled.computed;
  json["true_zeros"] = segment.sampled.matched;
  json["false_zeros"] = segment.sampled.spurious;
  json["undecidable_zeros"] = segment.sampled.undecidable;
  json["missed_zeros"] = segment.sampled.missed;
}

Json fields_of(const CertifyReport& report) {
  const SignProgress& done = report.certification.done;
  const SignStatistics& counts = done.counts;
  Json json =
      object("schema"_key = "driftbound/certify/1", "version"_key = report.version, "date"_key = report.date,
             "command"_key = report.command,
             "model"_key = object("file"_key = report.model_file, "sha256"_key = report.model_sha256),
             "source"_key = report.points, "scalar"_key = report.scalar, "iso"_key = report.iso,
             "max_precision"_key = report.max_bits, "policy"_key = report.policy, "threads"_key = report.threads,
             "signs"_key = text_or_null(report.signs_file), "requested"_key = report.certification.requested,
             "interrupted"_key = report.certification.interrupted(), "points"_key = counts.points,
             "positive"_key = counts.positive, "negative"_key = counts.negative, "zero"_key = counts.zero,
             "undecided"_key = counts.undecided, "seconds"_key = done.seconds, "stages"_key = stages_of(counts));
  if (!report.octree_file.empty()) json["octree"] = report.octree_file;
  if (!report.values_file.empty())
    json["values"] = object("file"_key = report.values_file, "arithmetic"_key = report.values_arithmetic,
                            "guarantee"_key = report.values_guarantee, "condition"_key = report.values_condition);
  if (report.segment) add_segment(json, *report.segment);
  return json;
}

}  // namespace

Document document_of(const CertifyReport& report) {
  const SignProgress& done = report.certification.done;
  const bool has_open_pieces = report.segment && !report.segment->zeros.unresolved.empty();
  const bool is_open = open_points(done.counts) > 0 || has_open_pieces;
  Document document;
  document.verb = "certify";
  document.title = report.model_file;
  document.date = report.date;
  document.seconds = done.seconds;
  document.verdict = is_open ? Status::undecided : Status::holds;
  document.headline = wrap(headline(report), 100);  // --quiet prints it as it is
  document.sections = {{},
                       {Paragraph{fmt::format("{} · {}", report.model_file, report.points), Style::line}},
                       {stage_table(done.counts)},
                       remarks(report)};
  if (report.segment) document.sections.push_back(segment_section(*report.segment));
  document.fields = fields_of(report);
  document.exit_status = is_open ? 1 : 0;
  return document;
}

}  // namespace driftbound::analysis
