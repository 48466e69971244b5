#include <fmt/format.h>

#include "analysis/octree_report.hpp"
#include "analysis/scalar.hpp"

namespace driftbound::analysis {
namespace {

std::string domain_text(const Box& box) {
  std::string text;
  for (std::size_t j = 0; j < box.lower.size(); ++j)
    text += fmt::format("{}[{:g}, {:g}]", j == 0 ? "" : " x ", box.lower[j], box.upper[j]);
  return text;
}

}  // namespace

Document document_of(const OctreeReport& report) {
  const OctreeCounts& counts = report.counts;
  Document document;
  document.verb = "octree";
  document.title = report.model_file;
  document.date = report.date;
  document.seconds = report.seconds;
  document.headline = fmt::format(
      "{}: the sign of {} is certain in {:.4f} % of the volume of {}.", report.is_complete ? "COMPLETE" : "INCOMPLETE",
      function_text(report.scalar, report.iso), 100.0 * counts.certain_share, domain_text(report.domain));
  Table table{{{"cells", 24, true}, {"", 14}}};
  const auto add = [&](const char* name, std::int64_t count) { table.rows.push_back({{std::string(name), count}}); };
  add("enclosed", counts.cells);
  add("all negative", counts.negative);
  add("all positive", counts.positive);
  add("unknown", counts.unknown);
  document.sections = {
      {},
      {table},
      {Paragraph{fmt::format("{} cells at depth {} or less in {:.1f} s with {} thread{}; written to {}.",
                             counts.cells - report.cells_before, counts.depth, report.seconds, report.threads,
                             report.threads == 1 ? "" : "s", report.file),
                 Style::plain}}};
  if (!report.is_complete && report.depth_is_reached)
    document.sections.push_back({Paragraph{
        fmt::format(
            "{:g} % were asked for, and depth {} is reached: the same command with --depth {} --resume goes on.",
            100.0 * report.asked_share, report.depth, report.depth + 1),
        Style::plain}});
  document.fields =
      object("schema"_key = "driftbound/octree/1", "version"_key = report.version, "date"_key = report.date,
             "command"_key = report.command,
             "model"_key = object("file"_key = report.model_file, "sha256"_key = report.model_sha256),
             "scalar"_key = report.scalar, "iso"_key = report.iso,
             "domain"_key = object("lower"_key = report.domain.lower, "upper"_key = report.domain.upper),
             "file"_key = report.file, "depth"_key = report.depth, "asked_share"_key = report.asked_share,
             "complete"_key = report.is_complete, "cells"_key = counts.cells, "cells_before"_key = report.cells_before,
             "negative"_key = counts.negative, "positive"_key = counts.positive, "unknown"_key = counts.unknown,
             "certain_share"_key = counts.certain_share, "smallest_depth"_key = counts.depth,
             "threads"_key = report.threads, "seconds"_key = report.seconds);
  return document;
}

}  // namespace driftbound::analysis
