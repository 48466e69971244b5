#include "bounds/accuracy.hpp"

#include "driftbound/bounds/theorems.hpp"

namespace driftbound::bounds {

double units_of(std::string_view function, const Setting& setting, std::set<std::string>& conditions) {
  const FunctionAccuracy& accuracy = setting.arithmetic->accuracy(function);
  if (!is_correctly_rounded(accuracy)) {
    std::string text = std::to_string(accuracy.units);
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.') text.pop_back();
    conditions.insert(std::string(function) + " within " + text + " (u |f| + eta), " +
                      std::string(name_of(accuracy.evidence)) + ": " + accuracy.source);
  }
  return accuracy.units;
}

}  // namespace driftbound::bounds
