#include "analysis/drift_tolerances.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "analysis/drift_verdict.hpp"
#include "analysis/text.hpp"
#include "driftbound/num/errors.hpp"

namespace driftbound::analysis {
namespace {

struct NamedFile {
  ToleranceFile file;
  std::string_view name;
};
constexpr std::array named_files = {NamedFile{ToleranceFile::torch, "torch"}, NamedFile{ToleranceFile::numpy, "numpy"},
                                    NamedFile{ToleranceFile::polygraphy, "polygraphy"},
                                    NamedFile{ToleranceFile::json, "json"}};

std::optional<double> larger(std::optional<double> a, std::optional<double> b) {
  return a && b ? std::optional(std::max(*a, *b)) : std::nullopt;
}

double chosen(const OutputTolerance& one) {
  if (!one.proven)
    throw Unsupported("drift: --tolerances: not every number of output '" + one.name +
                      "' has a bound that holds for any run: it has more than 4096 a sample, or a bound is infinite "
                      "(`driftbound report` says where)");
  return one.by_chance ? std::min(*one.proven, *one.by_chance) : *one.proven;
}

nlohmann::ordered_json arguments_of(const std::vector<OutputTolerance>& tolerances) {
  nlohmann::ordered_json all = nlohmann::ordered_json::object();
  for (const OutputTolerance& one : tolerances) all[one.name] = {{"rtol", 0.0}, {"atol", chosen(one)}};
  return all;
}

nlohmann::ordered_json number_or_null(std::optional<double> number) {
  return number ? nlohmann::ordered_json(*number) : nlohmann::ordered_json();
}

nlohmann::ordered_json numbers_of(const std::vector<OutputTolerance>& tolerances) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const OutputTolerance& one : tolerances)
    list.push_back({{"name", one.name},
                    {"largest", one.largest},
                    {"proven", number_or_null(one.proven)},
                    {"guarantee", name_of(one.guarantee)},
                    {"by_chance", number_or_null(one.by_chance)},
                    {"estimate", number_or_null(one.estimate)}});
  return {{"schema", "driftbound/tolerances/1"}, {"outputs", list}};
}

/// "--atol y:1e-4 z:2e-4 --rtol y:0.0 z:0.0"
std::string options_of(const std::vector<OutputTolerance>& tolerances) {
  std::string absolute = "--atol", relative = "--rtol";
  for (const OutputTolerance& one : tolerances) {
    if (one.name.find_first_of(" :\t\n") != std::string::npos)
      throw Unsupported("drift: --tolerances polygraphy: the name '" + one.name +
                        "' has a blank or a colon, which its command does not take; write json");
    absolute += fmt::format(" {}:{}", one.name, chosen(one));
    relative += fmt::format(" {}:0.0", one.name);
  }
  return absolute + " " + relative;
}

}  // namespace

std::vector<OutputTolerance> tolerances_of(const Comparison& run) {
  std::vector<OutputTolerance> all;
  for (const OutputSummary& output : run.outputs) {
    if (output.scope.bounds.empty()) continue;  // integers, and what no node computes
    OutputTolerance one;
    one.name = output.name;
    one.largest = output.scope.scale;
    const auto apart = [&](BoundKind kind) { return any_runs_apart(run, output.name, run, output.name, kind); };
    one.proven = apart(BoundKind::adjoint_any_order);
    one.by_chance = apart(BoundKind::adjoint_probabilistic);
    one.estimate = apart(BoundKind::adjoint_statistical);
    const BoundSummary* bound = find_bound(output.scope, BoundKind::adjoint_any_order);
    if (bound != nullptr) one.guarantee = bound->guarantee;
    all.push_back(std::move(one));
  }
  return all;
}

void widen(std::vector<OutputTolerance>& all, const std::vector<OutputTolerance>& more) {
  if (all.empty()) {
    all = more;
    return;
  }
  for (OutputTolerance& one : all) {
    const auto other =
        std::find_if(more.begin(), more.end(), [&](const OutputTolerance& of) { return of.name == one.name; });
    if (other == more.end()) {  // of a run that has the output under another name
      one.proven = one.by_chance = one.estimate = std::nullopt;
      continue;
    }
    one.largest = std::max(one.largest, other->largest);
    one.proven = larger(one.proven, other->proven);
    one.by_chance = larger(one.by_chance, other->by_chance);
    one.estimate = larger(one.estimate, other->estimate);
    if (other->guarantee != Guarantee::proven) one.guarantee = other->guarantee;
  }
}

ToleranceFile tolerance_file_of(std::string_view name) {
  std::string known;
  for (const NamedFile& one : named_files) {
    if (one.name == name) return one.file;
    known += (known.empty() ? "" : ", ") + std::string(one.name);
  }
  throw InvalidArgument("drift: --tolerances " + std::string(name) + ": choose among " + known);
}

std::string text_of(const std::vector<OutputTolerance>& tolerances, ToleranceFile file) {
  if (tolerances.empty())
    throw Unsupported("drift: --tolerances: the runs are not judged from the input on, so that no output has a bound");
  switch (file) {
    case ToleranceFile::torch:
    case ToleranceFile::numpy:
      return arguments_of(tolerances).dump(2) + "\n";
    case ToleranceFile::polygraphy:
      return options_of(tolerances) + "\n";
    case ToleranceFile::json:
      return numbers_of(tolerances).dump(2) + "\n";
  }
  return "";
}

}  // namespace driftbound::analysis
