#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "analysis/drift.hpp"

namespace driftbound::analysis {

/// Layers of a judged run by the result that they are.
class LayersOf {
public:
  explicit LayersOf(const JudgedRun& run) : run_(*run.run) {
    for (const LayerSummary& layer : run.judgement.comparison.layers)
      if (layer.record) layers_[{layer.record->name, layer.record->result}] = &layer;
  }
  /// Null where the result was not judged.
  const LayerSummary* at(RecordedResult result) const {
    const auto found = layers_.find({run_.records()[result.record].name, static_cast<std::int64_t>(result.result)});
    return found == layers_.end() ? nullptr : found->second;
  }

private:
  const RecordedRun& run_;
  std::map<std::pair<std::string, std::int64_t>, const LayerSummary*> layers_;
};

/// The id of the value that a result is.
std::string id_of(const RecordedRun& run, RecordedResult at);
/// "attention", or "attention[1]" of a record with several results.
std::string name_of_result(const Record& record, RecordedResult at);
/// Whether numbers of this type choose something, as tokens and positions do.
bool is_choice(ElementType type);
/// Whether a record chooses nothing, but computes integers from integers, or makes constants.
bool reads_integers_alone(const RecordedRun& run, const Record& record);
/// The values that a computed one follows from, directly or by moves.
std::set<std::string> read_in(const RecordedRun& run, const std::set<std::string>& computed);
/// The values of a run from which one of these follows, and these.
std::set<std::string> leading_to(const RecordedRun& run, std::set<std::string> ids);
/// The unit roundoff of the narrower of two types; empty: one is of integers.
std::optional<double> unit_of(ElementType a, ElementType b);
/// By id: which of these values of floating-point numbers a value of the run follows from. `through_floats_alone`: by
/// values of floating-point numbers, and no choices.
std::map<std::string, std::string> following_from(const RecordedRun& run, const std::vector<std::string>& ids,
                                                  bool through_floats_alone = false);
/// Of the values `behind` what another run ends with, those that are made of more than that, as a later step is: of a part of
/// a value from outside, of a value from outside that nothing of both runs reads, or of results of this run alone that do
/// not follow from that end. `of_both`: results that both runs have.
std::set<std::string> made_of_more(const RecordedRun& run, const std::map<std::string, std::string>& behind,
                                   const std::set<std::string>& of_both);

/// The numbers of a value that both runs recorded, or the same part of them.
std::optional<AlignedNumbers> numbers_of_both(const RecordedRun& a, const std::string& id_a, const RecordedRun& b,
                                              const std::string& id_b, const std::optional<AlignedRows>& rows);
/// Certified values, rounded to double, in a shape of as many elements.
StoredTensor nearest_numbers(const Tensor<Ball>& exact, const Shape& shape);
/// When certified values of two networks are those of one function.
struct SameFunction {
  bool are_scores = false;     ///< as difference_of() has it
  double relative = 0.0;       ///< what constants that each network rounds may change
  std::vector<double> errors;  ///< by element: how far both runs are from their values; empty: not known
};
/// What constants may change in values of these types, relative: they are rounded to float32, unless both are float64.
double rounded_constants_of(ElementType a, ElementType b);
/// Whether certified values differ by no more than that: of themselves, and of the mean size of their row (along the last
/// axis, numbers of 10^4 and more apart), or the root mean square error of the runs there, if that is less.
/// Source:    docs/theory.md T-137
bool are_same_function(const StoredTensor& of_a, const StoredTensor& of_b, const SameFunction& same);
/// Whether run a has all rows and positions of run b.
bool has_all_of(const AlignedRows& rows);
/// The same rows, seen from the other run.
AlignedRows exchanged(const AlignedRows& rows);

}  // namespace driftbound::analysis
