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

}  // namespace

std::string to_json(const CertifyReport& report) {
  const SignProgress& done = report.certification.done;
  const SignStatistics& counts = done.counts;
  const Json json = {{"schema", "driftbound/certify/1"},
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
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace driftbound::analysis
