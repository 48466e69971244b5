#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <initializer_list>
#include <string>
#include <vector>

#include "analysis/markup.hpp"
#include "analysis/report.hpp"

namespace driftbound::analysis {
namespace {

void add_failures(const ScopeSummary& scope, std::vector<std::string>& parts) {
  for (const BoundSummary& bound : scope.bounds)
    if (bound.gives_verdict() && bound.violations + bound.undecided > 0)
      parts.push_back(fmt::format("{}: {} violated, {} undecided of {}", bound.name, bound.violations, bound.undecided,
                                  bound.checked));
}

/// "running: 1 violated, 0 undecided of 64; not finite: 2", of what one output is held against.
std::string failure_text(std::initializer_list<const ScopeSummary*> scopes) {
  std::vector<std::string> parts;
  std::int64_t non_finite = 0;
  for (const ScopeSummary* scope : scopes) {
    add_failures(*scope, parts);
    non_finite = std::max(non_finite, scope->non_finite);
  }
  if (non_finite > 0) parts.push_back(fmt::format("not finite: {}", non_finite));
  return fmt::format("{}", fmt::join(parts, "; "));
}

struct Case {
  std::string name, group;
  Status status;
  std::string detail;
};

/// Violated is a failure; undecided and void are errors: no statement was possible.
std::string to_xml(const Case& test) {
  const std::string head =
      fmt::format("  <testcase classname=\"{}\" name=\"{}\"", test.group, escape_markup(test.name));
  if (test.status == Status::holds || test.status == Status::approaches) return head + "/>\n";
  if (test.status == Status::not_checked)
    return head + ">\n    <skipped message=\"no bound that decides was held against it\"/>\n  </testcase>\n";
  const char* tag = test.status == Status::violated ? "failure" : "error";
  return fmt::format("{}>\n    <{} message=\"{}\">{}</{}>\n  </testcase>\n", head, tag, name_of(test.status),
                     escape_markup(test.detail), tag);
}

/// The report itself: its verdict, and whether that is on all samples.
std::vector<Case> whole_cases(const Report& report) {
  std::vector<Case> cases = {{"verdict", "report", report.comparison.verdict, headline(report)}};
  if (report.context.interrupted)
    cases.push_back({"all samples", "report", Status::undecided,
                     fmt::format("interrupted after {} of {} samples", report.comparison.samples,
                                 report.context.requested_samples)});
  return cases;
}

}  // namespace

std::string to_junit(const Report& report) {
  std::vector<Case> cases = whole_cases(report);
  for (const LayerSummary& layer : report.comparison.layers)
    cases.push_back({layer.name, "layer", layer.status, failure_text({&layer.local, &layer.accumulated})});
  for (const OutputSummary& output : report.comparison.outputs)
    cases.push_back({output.name, "output", output.status, failure_text({&output.scope})});
  const auto count = [&](auto&& matches) { return std::count_if(cases.begin(), cases.end(), matches); };
  std::string text = fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"driftbound report {}\" tests=\"{}\" "
      "failures=\"{}\" errors=\"{}\" skipped=\"{}\" "
      "time=\"{:.3f}\">\n",
      escape_markup(report.context.model_file), cases.size(),
      count([](const Case& c) { return c.status == Status::violated; }),
      count([](const Case& c) { return c.status == Status::undecided || c.status == Status::invalid; }),
      count([](const Case& c) { return c.status == Status::not_checked; }), report.context.seconds);
  for (const Case& test : cases) text += to_xml(test);
  return text + "</testsuite>\n";
}

}  // namespace driftbound::analysis
