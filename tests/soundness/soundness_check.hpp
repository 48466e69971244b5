#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "driftbound/bounds/bound.hpp"
#include "driftbound/num/ball.hpp"
#include "driftbound/reference/reference.hpp"
#include "driftbound/trace/trace.hpp"

namespace driftbound::soundness {

/// One bound of one scope over everything it was checked on.
struct BoundTally {
  bool gives_verdict = false;  ///< proven or conditional
  std::int64_t checked = 0;
  std::int64_t violations = 0;  ///< certainly above the bound, or a bound that is no bound (NaN)
  std::int64_t undecided = 0;   ///< the reference's radius leaves it open
  std::int64_t without_bound = 0;
  double max_utilisation = 0.0;          ///< |computed - mid| / bound, 0/0 = 0
  double max_utilisation_of_sums = 0.0;  ///< of the nodes that sum at least 8 products

  void merge(const BoundTally& other);
};

/// Counts one number; whether it violates the bound.
bool judge(double computed, const Ball& exact, double bound, bool is_sum, BoundTally& tally);

/// What a campaign counts.
struct Tally {
  std::int64_t cases = 0;
  std::int64_t outputs = 0;                  ///< finite layer outputs
  std::int64_t not_finite = 0;               ///< layer outputs about which nothing can be said
  std::map<std::string, BoundTally> bounds;  ///< by "local componentwise", "accumulated forward" …
  std::vector<std::string> failures;         ///< violations and exceptions, with all that replays them

  void merge(const Tally& other);
  /// Of the bounds that give a verdict.
  std::int64_t violations() const;
  std::int64_t undecided() const;
  std::int64_t without_bound() const;
  std::int64_t checked() const;
  /// Layer outputs held against a finite local bound that gives a verdict.
  std::int64_t judged_outputs() const;
};

struct CheckOptions {
  PrecisionPolicy precision;
  std::vector<BoundRequest> requests = {};  ///< as BoundOptions has them
};

/// Judges every layer output of a trace, block by block, against the certified references and every
/// bound. `describe` is asked only when something fails.
void check_trace(const Graph& graph, const Trace& trace, const std::function<std::string()>& describe,
                 const CheckOptions& options, Tally& tally);

/// check_trace on what `run` returns; an exception is a failure.
void check_run(const Graph& graph, const std::function<Trace()>& run, const std::function<std::string()>& describe,
               const CheckOptions& options, Tally& tally);

/// Markdown: one row of a table a tally, and the heading of that table; the last columns are the largest utilisations.
std::string table_heading();
std::string table_row(const std::string& name, const Tally& tally,
                      double BoundTally::*utilisation = &BoundTally::max_utilisation_of_sums);
/// Markdown: one row a bound.
std::string bound_table(const Tally& tally);

}  // namespace driftbound::soundness
