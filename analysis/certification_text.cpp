#include <fmt/format.h>

#include "analysis/certification.hpp"
#include "analysis/text.hpp"

namespace driftbound::analysis {
namespace {

double share(std::int64_t part, std::int64_t whole) {
  return whole == 0 ? 0.0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

std::string function_text(const CertifyReport& report) {
  return report.iso == 0.0 ? report.scalar : fmt::format("{} - {}", report.scalar, report.iso);
}

/// What signs that follow from given values stand on; nothing where there are none.
std::string premise_of(const CertifyReport& report) {
  const auto given = static_cast<std::size_t>(SignStage::given);
  if (report.certification.done.counts.stages[given].decided == 0) return "";
  return fmt::format("if the values are of a run of {}", report.values_arithmetic);
}

std::string verdict(const CertifyReport& report) {
  const SignStatistics& counts = report.certification.done.counts;
  const std::string scope = report.certification.interrupted() ? fmt::format("the first {} of {} points", counts.points,
                                                                             report.certification.requested)
                                                               : fmt::format("all {} points", counts.points);
  const std::int64_t open = open_points(counts);
  const std::string state = report.certification.interrupted() ? "INTERRUPTED, " : "";
  const std::string premise = premise_of(report);
  if (open == 0)
    return fmt::format("{}CERTIFIED{}: the sign of {} at {}", state, premise.empty() ? "" : " " + premise,
                       function_text(report), scope);
  return fmt::format("{}UNDECIDED: the sign of {} at {} of {}{}", state, function_text(report), open, scope,
                     premise.empty() ? "" : "; others, " + premise);
}

std::string stage_rows(const SignStatistics& counts) {
  constexpr const char* format = "{:<16} {:>12} {:>9} {:>9}\n";
  std::string text = fmt::format(format, "decided by", "points", "share", "seconds");
  for (std::size_t stage = 0; stage < sign_stages; ++stage) {
    const SignStatistics::Stage& of = counts.stages[stage];
    if (of.decided == 0 && of.seconds == 0.0) continue;
    text += fmt::format(format, name_of(static_cast<SignStage>(stage)), of.decided,
                        fmt::format("{:.4g} %", share(of.decided, counts.points)), fmt::format("{:.3g}", of.seconds));
  }
  if (counts.undecided > 0)
    text += fmt::format(format, "undecided", counts.undecided,
                        fmt::format("{:.4g} %", share(counts.undecided, counts.points)), "");
  return text;
}

std::string values_text(const CertifyReport& report) {
  if (report.values_file.empty()) return "";
  const std::string condition = report.values_condition.empty() ? "" : ", if " + report.values_condition;
  return wrap(fmt::format("Values of {}, in {}: {}{}.", report.values_file, report.values_arithmetic,
                          report.values_guarantee, condition),
              100) +
         "\n";
}

std::string remedy(const CertifyReport& report) {
  const SignStatistics& counts = report.certification.done.counts;
  if (open_points(counts) == 0) return "";
  return wrap(fmt::format(
                  "Not decided with {} bits: |f| is below what they resolve, or is exactly 0 and cannot be proven "
                  "to be; --max-precision goes further.{}",
                  report.max_bits, counts.undecided == 0 ? " They are taken for " + report.policy + " as asked." : ""),
              100) +
         "\n";
}

}  // namespace

std::string headline(const CertifyReport& report) {
  const SignStatistics& counts = report.certification.done.counts;
  return wrap(fmt::format("{}: {} negative, {} zero, {} positive, {} undecided.", verdict(report), counts.negative,
                          counts.zero, counts.positive, counts.undecided),
              100);
}

std::string to_text(const CertifyReport& report) {
  const SignProgress& done = report.certification.done;
  const double rate = done.seconds > 0.0 ? static_cast<double>(done.counts.points) / done.seconds : 0.0;
  std::string text =
      fmt::format("{}\n\n{} · {}\n\n{}", headline(report), report.model_file, report.points, stage_rows(done.counts));
  text += fmt::format("\n{:.3g} s, {} points/s, {} thread{}", done.seconds, brief(rate), report.threads,
                      report.threads == 1 ? "" : "s (their seconds are added up above)");
  if (!report.signs_file.empty() && !report.certification.interrupted())
    text += fmt::format(" · signs in {}", report.signs_file);
  text += "\n" + values_text(report) + remedy(report);
  return report.segment ? text + "\n" + to_text(*report.segment) : text;
}

}  // namespace driftbound::analysis
