#include <nlohmann/json.hpp>

#include "analysis/certification.hpp"

namespace driftbound::analysis {
namespace {

using Json = nlohmann::ordered_json;

Json stages_of(const SignStatistics& counts) {
  Json stages = Json::array();
  for (std::size_t stage = 0; stage < sign_stages; ++stage) {
    if (static_cast<SignStage>(stage) == SignStage::none) continue;
    stages.push_back({{"name", name_of(static_cast<SignStage>(stage))},
                      {"decided", counts.stages[stage].decided},
                      {"seconds", counts.stages[stage].seconds}});
  }
  return stages;
}

Json ends_of(const Interval& t) {
  return Json::array({t.lower(), t.upper()});
}

Json json_of(const SegmentZero& zero) {
  return {{"t", ends_of(zero.t)}, {"crossing", name_of(zero.crossing)}};
}

Json json_of(const UnresolvedPiece& piece) {
  return {{"t", ends_of(piece.t)}, {"exists", piece.exists}, {"at_most_one", piece.at_most_one}};
}

template <class Entries>
Json list_of(const Entries& entries) {
  Json list = Json::array();
  for (const auto& entry : entries) list.push_back(json_of(entry));
  return list;
}

void add_segment(Json& json, const SegmentReport& segment) {
  json["segment"] = {
      {"from", segment.a}, {"to", segment.b}, {"arithmetic", segment.arithmetic}, {"within", segment.within}};
  json["zeros"] = list_of(segment.zeros.zeros);
  json["zero_stretches"] = Json::array();
  for (const Interval& stretch : segment.zeros.stretches) json["zero_stretches"].push_back(ends_of(stretch));
  json["unresolved"] = list_of(segment.zeros.unresolved);
  json["computed_sign_changes"] = segment.sampled.computed;
  json["true_zeros"] = segment.sampled.matched;
  json["false_zeros"] = segment.sampled.spurious;
  json["undecidable_zeros"] = segment.sampled.undecidable;
  json["missed_zeros"] = segment.sampled.missed;
}

}  // namespace

std::string to_json(const CertifyReport& report) {
  const SignProgress& done = report.certification.done;
  const SignStatistics& counts = done.counts;
  Json json = {{"schema", "driftbound/certify/1"},
               {"version", report.version},
               {"date", report.date},
               {"command", report.command},
               {"model", {{"file", report.model_file}, {"sha256", report.model_sha256}}},
               {"source", report.points},
               {"scalar", report.scalar},
               {"iso", report.iso},
               {"max_precision", report.max_bits},
               {"policy", report.policy},
               {"threads", report.threads},
               {"signs", report.signs_file.empty() ? Json(nullptr) : Json(report.signs_file)},
               {"requested", report.certification.requested},
               {"interrupted", report.certification.interrupted()},
               {"points", counts.points},
               {"positive", counts.positive},
               {"negative", counts.negative},
               {"zero", counts.zero},
               {"undecided", counts.undecided},
               {"seconds", done.seconds},
               {"stages", stages_of(counts)}};
  if (!report.values_file.empty())
    json["values"] = {{"file", report.values_file},
                      {"arithmetic", report.values_arithmetic},
                      {"guarantee", report.values_guarantee},
                      {"condition", report.values_condition}};
  if (report.segment) add_segment(json, *report.segment);
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace driftbound::analysis
