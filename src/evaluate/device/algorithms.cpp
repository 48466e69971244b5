#include "evaluate/device/algorithms.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

namespace driftbound::device {
namespace {

std::string_view words_of(driftbound_split_reduction reduction) {
  switch (reduction) {
    case DRIFTBOUND_SPLIT_NONE:
      break;
    case DRIFTBOUND_SPLIT_IN_PLACE:
      return " added in the result, one after the other";
    case DRIFTBOUND_SPLIT_IN_SUM_TYPE:
      return " added in the type of the sums";
    case DRIFTBOUND_SPLIT_IN_RESULT_TYPE:
      return " rounded to the type of the results and added";
    case DRIFTBOUND_SPLIT_OTHER:
      return " added in a way that has no name here";
  }
  return "";
}

}  // namespace

std::string words_for(const driftbound_algorithm& algorithm) {
  std::string words = "id " + std::to_string(algorithm.id);
  const auto add = [&](const std::string& name, const std::string& value) {
    if (!value.empty()) words += ", " + name + " " + value;
  };
  add("tile", algorithm.tile);
  add("stages", algorithm.stages);
  add("cluster", algorithm.cluster);
  if (algorithm.split_k > 1)
    words += ", K in " + std::to_string(algorithm.split_k) + " parts" + std::string(words_of(algorithm.reduction));
  if (algorithm.swizzle != 0) add("swizzle", std::to_string(algorithm.swizzle));
  if (algorithm.custom != 0) add("custom option", std::to_string(algorithm.custom));
  return words;
}

void AlgorithmsUsed::add(const std::string& layer, const driftbound_algorithm& algorithm) {
  std::vector<std::string>& used = used_[layer];
  std::string words = words_for(algorithm);
  if (std::find(used.begin(), used.end(), words) == used.end()) used.push_back(std::move(words));
}

std::map<std::string, std::string> AlgorithmsUsed::by_layer() const {
  std::map<std::string, std::string> texts;
  for (const auto& [layer, used] : used_)
    for (const std::string& words : used) {
      std::string& text = texts[layer];
      text += (text.empty() ? "" : "; ") + words;
    }
  return texts;
}

}  // namespace driftbound::device
