#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <iterator>
#include <utility>

#include "analysis/run_comparer.hpp"
#include "driftbound/num/errors.hpp"
#include "driftbound/num/format.hpp"

namespace driftbound::analysis {
namespace {

bool is_all_zero(const StoredTensor& tensor) {
  const std::vector<double> numbers = tensor.to_double().values;
  return std::all_of(numbers.begin(), numbers.end(), [](double x) { return x == 0.0; });
}

/// The narrower type to which the numbers x are rounded as y; empty: none.
std::optional<FormatId> rounded_to(const std::vector<double>& x, const std::vector<double>& y) {
  for (const FormatId id : {FormatId::fp32, FormatId::tf32, FormatId::fp16, FormatId::bf16}) {
    const Format& to = format(id);
    bool fits = true;
    for (std::size_t i = 0; i < x.size() && fits; ++i) fits = round_to(x[i], to, Rounding::nearest_even) == y[i];
    if (fits) return id;
  }
  return std::nullopt;
}

/// Notes where one run's numbers are those of the other one, rounded to a narrower type.
void note_rounding(const AlignedNumbers& numbers, DriftSource& source) {
  if (!is_float(numbers.a.type()) || !is_float(numbers.b.type())) return;
  const std::vector<double> x = numbers.a.to_double().values, y = numbers.b.to_double().values;
  std::optional<FormatId> to = rounded_to(x, y);
  source.is_first_rounded = !to;
  if (!to) to = rounded_to(y, x);
  if (!to) return;
  source.rounded_to = format(*to).name;
  source.is_declared = float_format(source.is_first_rounded ? numbers.a.type() : numbers.b.type()) == to;
}

/// In how many axes two shapes differ; of another number of axes: in all. A weight that is padded, or one rank's part of it,
/// differs in one.
std::size_t axes_that_differ(const Shape& a, const Shape& b) {
  if (a.size() != b.size()) return std::max(a.size(), b.size());
  std::size_t count = 0;
  for (std::size_t axis = 0; axis < a.size(); ++axis)
    if (a[axis] != b[axis]) ++count;
  return count;
}

bool is_known_weight(const RecordedRun& run, const std::string& id) {
  return run.is_stored(id) && !run.part_of(id) && is_float(run.type_of(id)) && !run.shape_of(id).empty();
}

/// In how many stretches a value lies that is cut along an axis.
std::size_t stretches_along(std::size_t axis, const StoredTensor& all) {
  const Shape& shape = all.shape();
  return static_cast<std::size_t>(
      element_count(Shape(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(axis))));
}

/// How many elements of `part` are those that `all` has along an axis from the element `done` of each stretch on, bit for
/// bit; empty: it does not fit there, or more than `most_others` are not.
std::optional<std::int64_t> elements_in_common(const StoredTensor& part, const StoredTensor& all, std::size_t axis,
                                               std::size_t done, std::int64_t most_others) {
  Shape other = all.shape();
  if (part.type() != all.type() || part.shape().size() != other.size() || part.size() == 0) return std::nullopt;
  other[axis] = part.shape()[axis];
  if (part.shape() != other) return std::nullopt;
  const std::size_t stretches = stretches_along(axis, all);
  const std::size_t of_all = all.size() / stretches, of_part = part.size() / stretches;
  if (of_part > of_all - done) return std::nullopt;
  const std::size_t width = bytes_per_element(all.type());
  std::int64_t others = 0;
  for (std::size_t i = 0; i < stretches; ++i)
    for (std::size_t e = 0; e < of_part; ++e) {
      others += std::memcmp(part.bytes().data() + (i * of_part + e) * width,
                            all.bytes().data() + (i * of_all + done + e) * width, width) != 0;
      if (others > most_others) return std::nullopt;
    }
  return static_cast<std::int64_t>(part.size()) - others;
}

using NumbersOfPart = std::function<StoredTensor(StoredTensor)>;

/// Numbers rounded to a format that float32 holds, as float32.
StoredTensor rounded_to_format(const StoredTensor& tensor, FormatId id) {
  const Tensor<double> numbers = tensor.to_double();
  Tensor<float> rounded(numbers.shape);
  std::transform(numbers.values.begin(), numbers.values.end(), rounded.values.begin(),
                 [&](double x) { return static_cast<float>(round_to(x, format(id), Rounding::nearest_even)); });
  return StoredTensor::from(rounded);
}

/// Values of a run that are one of the other run, one after the other along an axis: one value is a copy.
struct Parts {
  std::vector<std::string> ids;
  std::string differing;  ///< the first one that has other elements; empty: none has
};

/// The parts of a value among these values, each of which has this share of its elements in common with it; of several
/// those that have most.
/// Returns:   empty where there are none
std::optional<Parts> parts_along(std::size_t axis, const StoredTensor& all, double least_share,
                                 const RecordedRun& other, const std::vector<std::string>& candidates,
                                 const NumbersOfPart& numbers) {
  const std::size_t stretches = stretches_along(axis, all);
  Parts parts;
  for (std::size_t elements = 0; elements < all.size();) {
    const std::string* best = nullptr;
    double most = 0.0;
    for (const std::string& id : candidates) {
      if (!is_known_weight(other, id)) continue;
      const StoredTensor part = numbers(other.stored(id));
      const auto size = static_cast<double>(part.size());
      const auto common = elements_in_common(part, all, axis, elements / stretches,
                                             static_cast<std::int64_t>(size * (1.0 - std::max(least_share, most))));
      if (!common || static_cast<double>(*common) <= most * size) continue;
      best = &id;
      most = static_cast<double>(*common) / size;
      if (most == 1.0) break;
    }
    if (best == nullptr) return std::nullopt;
    if (most < 1.0 && parts.differing.empty()) parts.differing = *best;
    parts.ids.push_back(*best);
    elements += static_cast<std::size_t>(element_count(other.shape_of(*best)));
  }
  return parts;
}

/// Values joined along an axis.
StoredTensor joined_along(std::size_t axis, const std::vector<std::string>& ids, const StoredTensor& like,
                          const std::function<StoredTensor(const std::string&)>& stored) {
  const std::size_t stretches = stretches_along(axis, like);
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i < stretches; ++i)
    for (const std::string& id : ids) {
      const StoredTensor part = stored(id);
      const std::size_t count = part.bytes().size() / stretches;
      const auto of_part = part.bytes().subspan(i * count, count);
      bytes.insert(bytes.end(), of_part.begin(), of_part.end());
    }
  return StoredTensor(like.type(), like.shape(), std::move(bytes));
}

struct JoinedSources {
  std::set<std::string> a, b;                  ///< ids
  std::set<std::string> rounded_a, rounded_b;  ///< of these: one run has them rounded to its narrower type
  std::vector<DriftSource> differing;
};

/// Finds weights that one run has as one, and the other run as several, along any axis: joined ones, and shards of ranks;
/// and copies of those that both runs have, as each rank has its own.
class SourceJoiner {
public:
  SourceJoiner(const RecordedRun& a, const RecordedRun& b, const RunAlignment& alignment)
      : a_(a), b_(b), alignment_(alignment) {}

  JoinedSources join() && {
    std::vector<std::string> all_a = alignment_.sources_only_a, all_b = alignment_.sources_only_b;
    for (const AlignedSource& source : alignment_.sources) {
      if (!source.is_identical) continue;
      all_a.push_back(source.a);
      all_b.push_back(source.b);
    }
    add(1.0, true, alignment_.sources_only_a, all_b);
    add(1.0, false, alignment_.sources_only_b, all_a);
    add_rounded(true, alignment_.sources_only_a, alignment_.sources_only_b);
    add_rounded(false, alignment_.sources_only_b, alignment_.sources_only_a);
    constexpr double most = 0.9;  // of the elements are the same where few numbers of a weight differ
    add(most, true, alignment_.sources_only_a, alignment_.sources_only_b);
    add(most, false, alignment_.sources_only_b, alignment_.sources_only_a);
    return std::move(joined_);
  }

private:
  void add(double least_share, bool is_a_whole, const std::vector<std::string>& wholes,
           const std::vector<std::string>& parts) {
    const RecordedRun &run = is_a_whole ? a_ : b_, &other = is_a_whole ? b_ : a_;
    std::set<std::string>&of_whole = is_a_whole ? joined_.a : joined_.b, &of_parts = is_a_whole ? joined_.b : joined_.a;
    for (const std::string& id : wholes) {
      if (of_whole.count(id) != 0 || !is_known_weight(run, id)) continue;
      const StoredTensor all = run.stored(id);
      for (std::size_t axis = 0; axis < all.shape().size(); ++axis) {
        const auto found = parts_along(axis, all, least_share, other, parts, [](StoredTensor part) { return part; });
        if (!found) continue;
        of_whole.insert(id);
        of_parts.insert(found->ids.begin(), found->ids.end());
        if (!found->differing.empty()) note_difference(is_a_whole, id, all, axis, *found);
        break;
      }
    }
  }

  /// Parts of a weight that one run has in a narrower type than the other one, rounded to that.
  void add_rounded(bool is_a_whole, const std::vector<std::string>& wholes, const std::vector<std::string>& parts) {
    const RecordedRun &run = is_a_whole ? a_ : b_, &other = is_a_whole ? b_ : a_;
    std::set<std::string>&of_whole = is_a_whole ? joined_.a : joined_.b, &of_parts = is_a_whole ? joined_.b : joined_.a;
    for (const std::string& id : wholes) {
      if (of_whole.count(id) != 0 || !is_known_weight(run, id)) continue;
      const ElementType type = run.type_of(id);
      std::vector<std::string> of_other_type;
      for (const std::string& part : parts)
        if (is_known_weight(other, part) && other.type_of(part) != type && of_parts.count(part) == 0)
          of_other_type.push_back(part);
      if (of_other_type.empty()) continue;
      const FormatId of_run = *float_format(type), of_other = *float_format(other.type_of(of_other_type.front()));
      const bool is_whole_rounded = format(of_run).precision < format(of_other).precision;
      const FormatId narrow = is_whole_rounded ? of_run : of_other;
      const auto numbers = [&](const StoredTensor& tensor) { return rounded_to_format(tensor, narrow); };
      const StoredTensor all = numbers(run.stored(id));
      for (std::size_t axis = 0; axis < all.shape().size(); ++axis) {
        const auto found = parts_along(axis, all, 1.0, other, of_other_type, numbers);
        if (!found) continue;
        of_whole.insert(id);
        of_parts.insert(found->ids.begin(), found->ids.end());
        (is_a_whole ? joined_.rounded_a : joined_.rounded_b).insert(id);
        (is_a_whole ? joined_.rounded_b : joined_.rounded_a).insert(found->ids.begin(), found->ids.end());
        note_rounded_parts(is_a_whole, id, axis, *found, narrow, is_whole_rounded == is_a_whole);
        break;
      }
    }
  }

  void note_rounded_parts(bool is_a_whole, const std::string& id, std::size_t axis, const Parts& parts, FormatId narrow,
                          bool is_first_rounded) {
    const RecordedRun &run = is_a_whole ? a_ : b_, &other = is_a_whole ? b_ : a_;
    const Tensor<double> whole = run.stored(id).to_double();
    const StoredTensor all = StoredTensor::from(whole);
    const StoredTensor joined = joined_along(axis, parts.ids, all, [&](const std::string& part) {
      return StoredTensor::from(other.stored(part).to_double());
    });
    DriftSource source;
    source.a = is_a_whole ? id : parts.ids.front();
    source.b = is_a_whole ? parts.ids.front() : id;
    source.called_a = a_.called(source.a);
    source.called_b = b_.called(source.b);
    source.reader = reader_in(a_, source.a);
    source.difference = is_a_whole ? difference_of({all, joined}) : difference_of({joined, all});
    source.rounded_to = format(narrow).name;
    source.is_first_rounded = is_first_rounded;
    source.is_declared = true;
    joined_.differing.push_back(std::move(source));
  }

  void note_difference(bool is_a_whole, const std::string& id, const StoredTensor& all, std::size_t axis,
                       const Parts& parts) {
    const RecordedRun& other = is_a_whole ? b_ : a_;
    const StoredTensor joined =
        joined_along(axis, parts.ids, all, [&](const std::string& part) { return other.stored(part); });
    DriftSource source;
    source.a = is_a_whole ? id : parts.differing;
    source.b = is_a_whole ? parts.differing : id;
    source.called_a = a_.called(source.a);
    source.called_b = b_.called(source.b);
    source.reader = reader_in(a_, source.a);
    source.difference = is_a_whole ? difference_of({all, joined}) : difference_of({joined, all});
    joined_.differing.push_back(std::move(source));
  }

  static std::string reader_in(const RecordedRun& run, const std::string& id) {
    for (const Record& record : run.records())
      if (std::find(record.operands.begin(), record.operands.end(), id) != record.operands.end()) return record.name;
    return "nothing";
  }

  const RecordedRun &a_, &b_;
  const RunAlignment& alignment_;
  JoinedSources joined_;
};

std::vector<std::string> without(std::vector<std::string> ids, const std::set<std::string>& some) {
  std::erase_if(ids, [&](const std::string& id) { return some.count(id) != 0; });
  return ids;
}

}  // namespace

void RunComparer::note_unmatched() {
  JoinedSources joined = SourceJoiner(run_a_, run_b_, alignment_).join();
  const auto take = [](const RecordedRun& run, const std::vector<std::string>& ids, std::vector<std::string>& names) {
    std::transform(ids.begin(), ids.end(), std::back_inserter(names), [&](const auto& id) { return run.called(id); });
    return following_from(run, ids);
  };
  from_unmatched_a_ = take(run_a_, without(alignment_.sources_only_a, joined.a), drift_.sources_only_a);
  from_unmatched_b_ = take(run_b_, without(alignment_.sources_only_b, joined.b), drift_.sources_only_b);
  drift_.sources = std::move(joined.differing);
  from_rounded_a_ = following_up_to_both(run_a_, joined.rounded_a, true);
  from_rounded_b_ = following_up_to_both(run_b_, joined.rounded_b, false);
  require_same_weights(without(alignment_.sources_only_a, joined.a), without(alignment_.sources_only_b, joined.b));
}

std::set<std::string> RunComparer::following_up_to_both(const RecordedRun& run, std::set<std::string> ids,
                                                        bool is_a) const {
  std::set<std::string> of_both;
  for (const AlignedResult& one : alignment_.results) of_both.insert(id_of(run, is_a ? one.a : one.b));
  for (const Record& record : run.records()) {
    const bool follows = std::any_of(record.operands.begin(), record.operands.end(), [&](const auto& id) {
      return id && ids.count(*id) != 0 && of_both.count(*id) == 0;
    });
    if (!follows) continue;
    for (const std::optional<std::string>& id : record.results)
      if (id) ids.insert(*id);
  }
  return ids;
}

void RunComparer::require_same_weights(const std::vector<std::string>& only_a,
                                       const std::vector<std::string>& only_b) const {
  const auto is_parameter = [](const RecordedRun& run, const std::string& id) {
    return is_float(run.type_of(id)) && run.called(id) != id;
  };
  const bool has_one_in_common =
      std::any_of(alignment_.sources.begin(), alignment_.sources.end(), [&](const AlignedSource& source) {
        const Shape &a = run_a_.shape_of(source.a), &b = run_b_.shape_of(source.b);
        return is_parameter(run_a_, source.a) && element_count(a) == element_count(b);
      });
  if (has_one_in_common || only_a.empty() || only_b.empty()) return;
  std::map<std::string, const std::string*> by_name;
  for (const std::string& id : only_b)
    if (is_parameter(run_b_, id)) by_name[run_b_.called(id)] = &id;
  const std::string *first_a = nullptr, *first_b = nullptr;
  for (const std::string& id : only_a) {
    const auto found = is_parameter(run_a_, id) ? by_name.find(run_a_.called(id)) : by_name.end();
    if (found == by_name.end()) continue;
    const Shape &a = run_a_.shape_of(id), &b = run_b_.shape_of(*found->second);
    if (element_count(a) == element_count(b)) return;  // it may lie otherwise, or be rounded
    if (first_a == nullptr && axes_that_differ(a, b) > 1) first_a = &id, first_b = found->second;
  }
  if (first_a != nullptr)
    throw InvalidArgument(fmt::format(
        "the runs are of different models: no weight is in both, and '{}' is {} in the first run and {} in the "
        "second; record both runs with the same network",
        run_a_.called(*first_a), driftbound::to_string(run_a_.shape_of(*first_a)),
        driftbound::to_string(run_b_.shape_of(*first_b))));
}

void RunComparer::compare_sources() {
  for (std::size_t i = 0; i < alignment_.sources.size(); ++i) {
    const AlignedSource& source = alignment_.sources[i];
    if (source.is_identical) continue;
    // Tokens are the same where steps are aligned, and other integers show in what reads them (T-137).
    if (!alignment_.steps.empty() && !is_float(run_a_.type_of(source.a))) continue;
    DriftSource differing;
    differing.a = source.a;
    differing.b = source.b;
    differing.called_a = run_a_.called(source.a);
    differing.called_b = run_b_.called(source.b);
    differing.reader = reader_of(i);
    std::optional<AlignedNumbers> numbers =
        numbers_of_both(run_a_, source.a, run_b_, source.b, alignment_.rows_of(source));
    if (!numbers) numbers = numbers_of_both(run_a_, source.a, run_b_, source.b, std::nullopt);  // it has no such rows
    if (!numbers) {
      unknown_sources_.insert(i);
      continue;
    }
    differing.difference = difference_of(*numbers, score_sources_.count(i) != 0);
    if (differing.difference->is_zero()) continue;  // another type with the same numbers
    if (is_later_token(i)) note_parting(source.a, *numbers, false);
    if (is_later_token(i) || may_follow_tokens(i)) {
      parted_sources_.insert(i);
      continue;
    }
    differing.is_zero_in_one = is_all_zero(numbers->a) != is_all_zero(numbers->b);
    const bool are_masks = numbers->a.type() == ElementType::boolean && numbers->b.type() == ElementType::boolean;
    const bool may_be_other_input =
        !differing.is_zero_in_one && !are_masks && differing.difference->is_finite_in_both();
    if (may_be_other_input) require_same_input(source, *differing.difference, *numbers);
    note_rounding(*numbers, differing);
    constexpr double few = 64.0, few_of_narrow = 2.0;
    const std::optional<FormatId> type = float_format(numbers->b.type());
    const double unit = type ? std::ldexp(1.0, -format(*type).precision) : 0.0;
    const bool is_narrow = type && !holds_all_of(format(*type), format(FormatId::fp32));
    differing.is_drifted = differing.rounded_to.empty() && differing.difference->is_finite_in_both() &&
                           differing.difference->relative() <= (is_narrow ? few_of_narrow : few) * unit;
    other_sources_[i] = drift_.sources.size();
    drift_.sources.push_back(std::move(differing));
  }
}

void RunComparer::require_same_input(const AlignedSource& source, const RunDifference& difference,
                                     const AlignedNumbers& numbers) const {
  constexpr double most = 0.9, far = 0.1;
  const double share = static_cast<double>(difference.differing) / static_cast<double>(difference.elements);
  const bool is_other = share > most && difference.relative() > far && difference.elements > 1;
  if (is_other || !is_float(numbers.a.type()))
    throw InvalidArgument(fmt::format(
        "the runs are of different inputs or models: '{}' and '{}', which '{}' reads, differ in {} of {} elements; "
        "record both runs with the same inputs and weights",
        run_a_.called(source.a), run_b_.called(source.b), reader_of(place_of(source)), difference.differing,
        difference.elements));
}

std::size_t RunComparer::place_of(const AlignedSource& source) const {
  return static_cast<std::size_t>(&source - alignment_.sources.data());
}

std::string RunComparer::reader_of(std::size_t source) const {
  for (const AlignedResult& one : alignment_.results)
    if (std::find(one.reads_sources.begin(), one.reads_sources.end(), source) != one.reads_sources.end())
      return run_a_.records()[one.a.record].name;
  return "nothing";
}

void RunComparer::require_common_positions() const {
  if (!drift_.rows || !drift_.rows->positions) return;
  const AlignedRows& rows = *drift_.rows;
  const auto known = std::count_if(rows.of_b.begin(), rows.of_b.end(), [](auto row) { return row >= 0; });
  if (2 * known < std::min(rows.a, rows.b))
    throw InvalidArgument(fmt::format(
        "the runs are of different inputs: {} of {} rows of tokens in '{}' begin like a row of '{}' in "
        "the first run; record both runs with the same inputs",
        known, rows.b, run_b_.called(rows.positions->tokens_in_b), run_a_.called(rows.positions->tokens_in_a)));
}

void RunComparer::find_parting() {
  if (!drift_.rows || !drift_.rows->positions) return;
  if (const auto& parting = drift_.rows->positions->parting)
    drift_.parting = DriftParting{
        drift_.rows->positions->tokens_in_a, parting->row, parting->position, parting->a, parting->b, false};
}

bool RunComparer::is_later_token(std::size_t source) const {
  const AlignedSource& one = alignment_.sources[source];
  if (!is_choice(run_a_.type_of(one.a)) || one.table.empty()) return false;
  for (std::size_t i = 0; i < source; ++i) {
    const AlignedSource& earlier = alignment_.sources[i];
    if (earlier.table == one.table && (earlier.is_identical || parted_sources_.count(i) != 0)) return true;
  }
  return false;
}

bool RunComparer::may_follow_tokens(std::size_t source) const {
  return alignment_.sources[source].step > 0 && is_choice(run_a_.type_of(alignment_.sources[source].a));
}

void RunComparer::require_parting() const {
  for (const std::size_t i : parted_sources_) {
    const AlignedSource& source = alignment_.sources[i];
    if (drift_.parting || is_later_token(i)) continue;
    const auto numbers = numbers_of_both(run_a_, source.a, run_b_, source.b, std::nullopt);
    if (numbers) require_same_input(source, difference_of(*numbers), *numbers);
  }
}

void RunComparer::note_parting(const std::string& name, const AlignedNumbers& numbers, bool is_drawn) {
  if (drift_.parting) return;
  const std::vector<double> x = numbers.a.to_double().values, y = numbers.b.to_double().values;
  const auto at = std::mismatch(x.begin(), x.end(), y.begin());
  if (at.first == x.end()) return;
  const Shape& shape = numbers.a.shape();
  const std::int64_t width = shape.empty() ? 1 : shape.back(), place = at.first - x.begin();
  drift_.parting = DriftParting{name,
                                place / width,
                                place % width,
                                static_cast<std::int64_t>(*at.first),
                                static_cast<std::int64_t>(*at.second),
                                is_drawn};
}

bool RunComparer::follows_choice(const AlignedResult& one) const {
  return std::any_of(one.reads.begin(), one.reads.end(), [&](std::size_t i) { return follow_choice_.count(i) != 0; }) ||
         reads_parted(one);
}

bool RunComparer::reads_parted(const AlignedResult& one) const {
  return std::any_of(one.reads_sources.begin(), one.reads_sources.end(),
                     [&](std::size_t i) { return parted_sources_.count(i) != 0; });
}

bool RunComparer::reads_drawn(const AlignedResult& one) const {
  return std::any_of(one.reads.begin(), one.reads.end(), [&](std::size_t i) {
    return drawn_.count(i) != 0 && is_float(run_a_.type_of(id_of(run_a_, alignment_.results[i].a)));
  });
}

void RunComparer::find_numbers_for_choices() {
  std::vector<bool> is_read(alignment_.results.size(), false), is_for_others(alignment_.results.size(), false);
  for (std::size_t i = alignment_.results.size(); i-- > 0;) {
    const AlignedResult& one = alignment_.results[i];
    const bool chooses = is_choice(run_a_.type_of(id_of(run_a_, one.a)));
    const bool is_only_for_choices = is_read[i] && !is_for_others[i];
    if (drawn_.count(i) != 0 && is_only_for_choices) for_choices_.insert(i);
    for (const std::size_t read : one.reads) {
      is_read[read] = true;
      if (!chooses && !is_only_for_choices) is_for_others[read] = true;
    }
  }
}

}  // namespace driftbound::analysis
