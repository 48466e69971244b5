#include "bounds/nodes/accuracy.hpp"

#include <algorithm>

#include "driftbound/bounds/theorems.hpp"

namespace driftbound::bounds {

namespace {

std::string text_of(double number) {
  std::string text = std::to_string(number);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

}  // namespace

FunctionError error_of(std::string_view function, const Setting& setting, std::set<std::string>& conditions) {
  const FunctionAccuracy& accuracy = setting.arithmetic->accuracy(function);
  if (!is_correctly_rounded(accuracy)) {
    const std::string absolute = accuracy.absolute_units == 0.0 ? "" : " + " + text_of(accuracy.absolute_units) + " u";
    conditions.insert(std::string(function) + " within " + text_of(accuracy.units) + " (u |f| + eta)" + absolute +
                      ", " + std::string(name_of(accuracy.evidence)) + ": " + accuracy.source);
  }
  return {accuracy.units, accuracy.absolute_units};
}

FunctionError error_of_exp_in_elu(const Setting& setting, std::set<std::string>& conditions) {
  const std::vector<FunctionAccuracy>& functions = setting.arithmetic->functions;
  const bool has_exp = std::any_of(functions.begin(), functions.end(),
                                   [](const FunctionAccuracy& entry) { return entry.function == "exp"; });
  return error_of(has_exp ? "exp" : "expm1", setting, conditions);
}

}  // namespace driftbound::bounds
