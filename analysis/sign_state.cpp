#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "analysis/sign_file.hpp"
#include "driftbound/num/errors.hpp"

namespace driftbound::analysis {
namespace {

using Json = nlohmann::ordered_json;

SignProgress progress_of(const Json& json) {
  SignProgress progress;
  progress.seconds = json.at("seconds").get<double>();
  SignStatistics& counts = progress.counts;
  json.at("done").get_to(counts.points);
  json.at("negative").get_to(counts.negative);
  json.at("zero").get_to(counts.zero);
  json.at("positive").get_to(counts.positive);
  json.at("undecided").get_to(counts.undecided);
  for (std::size_t stage = 0; stage < sign_stages; ++stage) {
    const Json& stages = json.at("stages");
    const auto found = stages.find(std::string(name_of(static_cast<SignStage>(stage))));
    if (found == stages.end()) continue;  // written before there was this stage
    const Json& entry = *found;
    entry.at("decided").get_to(counts.stages[stage].decided);
    entry.at("seconds").get_to(counts.stages[stage].seconds);
  }
  return progress;
}

bool is_consistent(const SignStatistics& counts) {
  return std::min({counts.negative, counts.zero, counts.positive, counts.undecided}) >= 0 &&
         counts.negative + counts.zero + counts.positive + counts.undecided == counts.points;
}

}  // namespace

std::string to_json(const SignState& state) {
  const SignStatistics& counts = state.progress.counts;
  Json stages;
  for (std::size_t stage = 0; stage < sign_stages; ++stage)
    stages[std::string(name_of(static_cast<SignStage>(stage)))] = {{"decided", counts.stages[stage].decided},
                                                                   {"seconds", counts.stages[stage].seconds}};
  const Json json = {{"schema", "driftbound/certify-state/1"},
                     {"points", state.points},
                     {"of", state.identity},
                     {"done", counts.points},
                     {"negative", counts.negative},
                     {"zero", counts.zero},
                     {"positive", counts.positive},
                     {"undecided", counts.undecided},
                     {"stages", stages},
                     {"seconds", state.progress.seconds}};
  return json.dump(2) + "\n";
}

SignState parse_sign_state(const std::string& text, const std::string& where) {
  try {
    const Json json = Json::parse(text);
    SignState state;
    json.at("points").get_to(state.points);
    json.at("of").get_to(state.identity);
    state.progress = progress_of(json);
    if (is_consistent(state.progress.counts)) return state;
  } catch (const Json::exception&) {
  }
  throw ParseError(fmt::format("{}: is not the state of an interrupted run; remove it", where));
}

}  // namespace driftbound::analysis
