#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "driftbound/num/errors.hpp"
#include "driftbound/trace/arithmetic.hpp"
#include "driftbound/trace/function_libraries.hpp"
#include "model/json_text.hpp"
#include "model/text.hpp"
#include "trace/trace_parse.hpp"

namespace driftbound {
namespace {

using nlohmann::json;

constexpr std::array<std::pair<Rounding, std::string_view>, 5> rounding_names = {
    {{Rounding::nearest_even, "nearest_even"},
     {Rounding::nearest_away, "nearest_away"},
     {Rounding::toward_zero, "toward_zero"},
     {Rounding::up, "up"},
     {Rounding::down, "down"}}};

std::string_view name_of(Rounding rounding) {
  for (const auto& [value, name] : rounding_names) {
    if (value == rounding) return name;
  }
  return "nearest_even";
}

json function_to_json(const FunctionAccuracy& entry) {
  json object = {{"function", entry.function},
                 {"units", entry.units},
                 {"evidence", driftbound::name_of(entry.evidence)},
                 {"source", entry.source}};
  if (entry.absolute_units != 0.0) object["absolute_units"] = entry.absolute_units;
  return object;
}

/// An object whose every field is asked for: what the reader of a model does not know may change its meaning.
class Fields {
public:
  Fields(const json& object, std::string where) : object_(object), where_(std::move(where)) {
    if (!object.is_object()) throw ParseError(where_ + ": expected a JSON object");
  }

  void allow_only(std::initializer_list<std::string_view> known) const {
    for (const auto& item : object_.items()) {
      bool found = false;
      for (const std::string_view name : known) found = found || item.key() == name;
      if (!found) throw ParseError(where_ + ": unknown field " + in_quotes(item.key()));
    }
  }

  std::string text(const char* name) const { return get(name, &json::is_string, "a string").get<std::string>(); }
  std::string text_or(const char* name, std::string fallback) const {
    return object_.contains(name) ? text(name) : std::move(fallback);
  }
  bool flag_or(const char* name, bool fallback) const {
    return object_.contains(name) ? get(name, &json::is_boolean, "true or false").get<bool>() : fallback;
  }
  /// Throws:    ParseError below 1 or above the largest int
  int count(const char* name) const {
    const json& value = get(name, &json::is_number_integer, "an integer");
    if (value < 1 || value > std::numeric_limits<int>::max()) fail(name, "expected an integer of at least 1");
    return value.get<int>();
  }
  double number(const char* name) const { return get(name, &json::is_number, "a number").get<double>(); }
  /// Throws:    ParseError unless it is finite and at least 0
  double size(const char* name) const {
    const double value = number(name);
    if (!(std::isfinite(value) && value >= 0.0)) fail(name, "expected a finite number of at least 0");
    return value;
  }
  double size_or(const char* name, double fallback) const { return object_.contains(name) ? size(name) : fallback; }

  [[noreturn]] void fail(const char* name, const std::string& what) const {
    throw ParseError(where_ + ": field '" + name + "': " + what);
  }

private:
  const json& get(const char* name, bool (json::*has_type)() const noexcept, const char* expected) const {
    const auto found = object_.find(name);
    if (found == object_.end()) fail(name, "missing");
    if (!((*found).*has_type)()) fail(name, std::string("expected ") + expected);
    return *found;
  }

  const json& object_;
  std::string where_;
};

FormatId parse_format(const Fields& fields, const char* name) {
  const std::string text = fields.text(name);
  const std::optional<FormatId> id = find_format(text);
  if (!id) fields.fail(name, "no format " + in_quotes(text) + "; there are: " + format_names());
  return *id;
}

Evidence parse_evidence(const Fields& fields) {
  const std::string text = fields.text_or("evidence", "assumed");
  for (const Evidence evidence : {Evidence::documented, Evidence::measured, Evidence::assumed}) {
    if (text == driftbound::name_of(evidence)) return evidence;
  }
  fields.fail("evidence", "expected documented, measured or assumed, found " + in_quotes(text));
}

Rounding parse_rounding(const Fields& fields) {
  const std::string text = fields.text_or("rounding", "nearest_even");
  for (const auto& [value, name] : rounding_names) {
    if (text == name) return value;
  }
  fields.fail("rounding", "no rounding " + in_quotes(text));
}

SummationOrder parse_order(const Fields& fields) {
  try {
    return parse_summation_order(fields.text_or("order", "unknown"));
  } catch (const InvalidArgument& error) {
    fields.fail("order", error.what());
  }
}

FunctionAccuracy parse_function(const json& object, std::size_t index) {
  const Fields fields(object, "arithmetic: functions[" + std::to_string(index) + "]");
  fields.allow_only({"function", "units", "absolute_units", "evidence", "source"});
  return {fields.text("function"), fields.size("units"), parse_evidence(fields), fields.text_or("source", ""),
          fields.size_or("absolute_units", 0.0)};
}

/// A list of entries, or the name of a library.
std::vector<FunctionAccuracy> parse_functions(const Fields& fields, const json& functions) {
  if (functions.is_string()) {
    try {
      return function_library(functions.get<std::string>()).functions;
    } catch (const InvalidArgument& error) {
      fields.fail("functions", error.what());
    }
  }
  if (!functions.is_array()) fields.fail("functions", "expected an array, or the name of a library");
  std::vector<FunctionAccuracy> table;
  for (std::size_t i = 0; i < functions.size(); ++i) {
    FunctionAccuracy entry = parse_function(functions[i], i);
    const auto is_it = [&](const FunctionAccuracy& known) { return known.function == entry.function; };
    if (std::any_of(table.begin(), table.end(), is_it))
      fields.fail("functions", "the function " + in_quotes(entry.function) + " is listed twice; leave one entry");
    if (!names_function(entry.function))
      fields.fail("functions", "no op calls a function " + in_quotes(entry.function) +
                                   "; docs/functions.md lists the names that there are");
    table.push_back(std::move(entry));
  }
  return table;
}

TensorCore parse_tensor_core(const json& object) {
  const Fields fields(object, "arithmetic: tensor_core");
  fields.allow_only({"fraction_bits", "block", "sum_bits", "promotion", "cuts_operands"});
  TensorCore unit;
  unit.fraction_bits = fields.count("fraction_bits");
  unit.block = fields.count("block");
  if (object.contains("sum_bits")) unit.sum_bits = fields.count("sum_bits");
  if (object.contains("promotion")) unit.promotion = fields.count("promotion");
  unit.cuts_operands = fields.flag_or("cuts_operands", false);
  if (unit.sum_bits > TensorCore().sum_bits) fields.fail("sum_bits", "expected at most 23, those of a float32");
  if (unit.promotion != 0 && unit.promotion < unit.block) fields.fail("promotion", "expected 'block' or more");
  return unit;
}

json tensor_core_to_json(const TensorCore& unit) {
  const TensorCore usual;
  json object = {{"fraction_bits", unit.fraction_bits}, {"block", unit.block}};
  if (unit.sum_bits != usual.sum_bits) object["sum_bits"] = unit.sum_bits;
  if (unit.promotion != usual.promotion) object["promotion"] = unit.promotion;
  if (unit.cuts_operands) object["cuts_operands"] = true;
  return object;
}

ReducedReduction parse_reduced_reduction(const json& object) {
  const Fields fields(object, "arithmetic: reduced_reduction");
  fields.allow_only({"format", "parts", "rounds_sums"});
  return {parse_format(fields, "format"), fields.count("parts"), fields.flag_or("rounds_sums", true)};
}

json reduced_reduction_to_json(const ReducedReduction& reduction) {
  json object = {{"format", format(reduction.format).name}, {"parts", reduction.parts}};
  if (!reduction.rounds_sums) object["rounds_sums"] = false;
  return object;
}

}  // namespace

std::string to_json(const ArithmeticModel& arithmetic) {
  json functions = json::array();
  for (const FunctionAccuracy& entry : arithmetic.functions) functions.push_back(function_to_json(entry));
  json object = {{"name", arithmetic.name},
                 {"input", format(arithmetic.input).name},
                 {"accumulator", format(arithmetic.accumulator).name},
                 {"output", format(arithmetic.output).name},
                 {"rounding", name_of(arithmetic.rounding)},
                 {"order", to_string(arithmetic.order)},
                 {"flushes_subnormals", arithmetic.flushes_subnormals},
                 {"functions", functions},
                 {"evidence", driftbound::name_of(arithmetic.evidence)},
                 {"source", arithmetic.source}};
  if (arithmetic.stores_declared_types) object["stores_declared_types"] = true;
  if (arithmetic.products_may_flush) object["products_may_flush"] = true;
  if (arithmetic.tensor_core) object["tensor_core"] = tensor_core_to_json(*arithmetic.tensor_core);
  if (arithmetic.reduced_reduction)
    object["reduced_reduction"] = reduced_reduction_to_json(*arithmetic.reduced_reduction);
  return dump_json(object);
}

ArithmeticModel arithmetic_from_json(std::string_view text) {
  const json object = parse_json(text, "arithmetic");
  const Fields fields(object, "arithmetic");
  fields.allow_only({"name", "input", "accumulator", "output", "stores_declared_types", "rounding", "order",
                     "flushes_subnormals", "products_may_flush", "tensor_core", "reduced_reduction", "functions",
                     "evidence", "source"});
  ArithmeticModel arithmetic;
  arithmetic.name = fields.text("name");
  arithmetic.input = parse_format(fields, "input");
  arithmetic.accumulator = parse_format(fields, "accumulator");
  arithmetic.output = parse_format(fields, "output");
  arithmetic.stores_declared_types = fields.flag_or("stores_declared_types", false);
  if (arithmetic.stores_declared_types && arithmetic.output != arithmetic.accumulator)
    fields.fail("stores_declared_types",
                "needs 'output' to be 'accumulator': the declared types are the narrower ones");
  arithmetic.rounding = parse_rounding(fields);
  arithmetic.order = parse_order(fields);
  arithmetic.flushes_subnormals = fields.flag_or("flushes_subnormals", false);
  arithmetic.products_may_flush = fields.flag_or("products_may_flush", false);
  if (const auto unit = object.find("tensor_core"); unit != object.end())
    arithmetic.tensor_core = parse_tensor_core(*unit);
  if (arithmetic.tensor_core && arithmetic.accumulator != FormatId::fp32)
    fields.fail("tensor_core", "needs the accumulator fp32; other matrix units are not covered");
  if (const auto reduction = object.find("reduced_reduction"); reduction != object.end())
    arithmetic.reduced_reduction = parse_reduced_reduction(*reduction);
  arithmetic.evidence = parse_evidence(fields);
  arithmetic.source = fields.text_or("source", "");
  if (const auto functions = object.find("functions"); functions != object.end())
    arithmetic.functions = parse_functions(fields, *functions);
  return arithmetic;
}

}  // namespace driftbound
