#include "trace/run_steps.hpp"

#include <algorithm>
#include <set>
#include <utility>

namespace driftbound {

std::vector<Lookup> lookups_of(const RecordedRun& of) {
  std::vector<Lookup> lookups;
  std::set<std::string> tables;
  for (std::size_t at = 0; at < of.records().size(); ++at) {
    const Record& record = of.records()[at];
    if (record.results.empty() || !record.results.front() || !of.has(*record.results.front())) continue;
    const std::string& result = *record.results.front();
    if (!is_float(of.type_of(result))) continue;
    for (const std::optional<std::string>& id : record.operands) {
      if (!id || !of.has(*id) || is_float(of.type_of(*id))) continue;
      const Shape &shape = of.shape_of(*id), &of_result = of.shape_of(result);
      const bool are_looked_up = !shape.empty() && shape.size() <= 2 && of_result.size() == shape.size() + 1 &&
                                 std::equal(shape.begin(), shape.end(), of_result.begin());
      if (!are_looked_up || element_count(shape) == 0) continue;
      const auto table = std::find_if(record.operands.begin(), record.operands.end(),
                                      [&](const auto& other) { return other && *other != *id; });
      const std::string name = table == record.operands.end() ? "" : **table;
      lookups.push_back({*id, name, result, at, name.empty() || tables.insert(name).second});
    }
  }
  return lookups;
}

namespace {

/// Tokens of one step as texts x positions; empty where they are not of that many texts.
std::optional<Tensor<std::int64_t>> by_text(const Tensor<std::int64_t>& tokens, std::int64_t texts,
                                            bool are_positions_first) {
  const auto count = static_cast<std::int64_t>(tokens.size());
  if (count % texts != 0) return std::nullopt;
  Tensor<std::int64_t> all{{texts, count / texts}, tokens.values};
  if (tokens.shape.size() < 2) return all;  // of one text, or one token of each
  const std::int64_t positions = tokens.shape[are_positions_first ? 0 : 1];
  if (positions != count / texts) return std::nullopt;
  for (std::int64_t text = 0; are_positions_first && text < texts; ++text)
    for (std::int64_t position = 0; position < positions; ++position)
      all.values[static_cast<std::size_t>(text * positions + position)] =
          tokens.values[static_cast<std::size_t>(position * texts + text)];
  return all;
}

/// Whether texts begin with others, text by text.
bool begin_with(const Tensor<std::int64_t>& longer, const Tensor<std::int64_t>& beginning) {
  const std::int64_t width = longer.shape[1], least = beginning.shape[1];
  for (std::int64_t text = 0; text < beginning.shape[0]; ++text)
    if (!std::equal(beginning.values.begin() + text * least, beginning.values.begin() + (text + 1) * least,
                    longer.values.begin() + text * width))
      return false;
  return true;
}

Tensor<std::int64_t> joined(const Tensor<std::int64_t>& texts, const Tensor<std::int64_t>& more) {
  Tensor<std::int64_t> all{{texts.shape[0], texts.shape[1] + more.shape[1]}, {}};
  for (std::int64_t text = 0; text < texts.shape[0]; ++text)
    for (const Tensor<std::int64_t>* part : {&texts, &more})
      all.values.insert(all.values.end(), part->values.begin() + text * part->shape[1],
                        part->values.begin() + (text + 1) * part->shape[1]);
  return all;
}

/// Values that follow from tokens that are looked up.
class FollowingValues {
public:
  bool has(const std::optional<std::string>& id) const { return id && ids_.count(*id) != 0; }
  /// Adds the results of a record that looks up tokens, or reads a value that follows from them.
  /// Returns:   whether it does
  bool add(const Record& record, bool looks_up) {
    const bool follows = looks_up || std::any_of(record.operands.begin(), record.operands.end(),
                                                 [&](const auto& id) { return has(id); });
    for (const std::optional<std::string>& id : record.results)
      if (follows && id) ids_.insert(*id);
    return follows;
  }

private:
  std::set<std::string> ids_;
};

/// Whether a record of [begin, end) reads numbers, not choices alone, that follow from the tokens that the record `lookup`
/// before it looks up: the keys of a cache.
bool follows_from(const RecordedRun& run, std::size_t lookup, std::size_t begin, std::size_t end) {
  FollowingValues following;
  for (std::size_t at = lookup; at < begin; ++at) following.add(run.records()[at], at == lookup);
  for (std::size_t at = begin; at < end; ++at)
    for (const std::optional<std::string>& id : run.records()[at].operands)
      if (following.has(id) && run.has(*id) && is_float(run.type_of(*id))) return true;
  return false;
}

/// Moves each step's first record from the one that looks up its tokens to where the step begins.
void find_beginnings(const RecordedRun& run, std::vector<TextStep>& steps) {
  FollowingValues following;
  std::size_t begin = 0;
  auto step = steps.begin();
  for (std::size_t at = 0; at < run.records().size() && step != steps.end(); ++at) {
    const bool looks_up = at == step->record;
    if (looks_up) (step++)->record = begin;
    if (following.add(run.records()[at], looks_up)) begin = at + 1;
  }
}

}  // namespace

std::optional<ReadTexts> texts_of(const RecordedRun& run, const std::vector<Lookup>& lookups, const std::string& first,
                                  bool are_positions_first, const KnownIntegers& integers) {
  const auto opening = std::find_if(lookups.begin(), lookups.end(),
                                    [&](const Lookup& lookup) { return lookup.is_first && lookup.ids == first; });
  if (opening == lookups.end() || opening->table.empty()) return std::nullopt;
  ReadTexts texts;
  std::int64_t count = 0;  // of texts
  const auto next_lookup = [&](std::vector<Lookup>::const_iterator at) {
    const auto next =
        std::find_if(at + 1, lookups.end(), [&](const Lookup& one) { return one.table == opening->table; });
    return next == lookups.end() ? run.records().size() : next->record;
  };
  for (auto lookup = opening; lookup != lookups.end(); ++lookup) {
    if (lookup->table != opening->table) continue;
    const std::optional<Tensor<std::int64_t>> known = integers(lookup->ids);
    if (!known) return std::nullopt;
    if (texts.steps.empty()) count = known->shape.size() < 2 ? 1 : known->shape[are_positions_first ? 1 : 0];
    const std::optional<Tensor<std::int64_t>> tokens = by_text(*known, count, are_positions_first);
    if (!tokens) return std::nullopt;
    const std::int64_t before = texts.steps.empty() ? 0 : texts.steps.back().end, more = tokens->shape[1];
    if (texts.steps.empty()) {
      texts.tokens = *tokens;
      texts.steps.push_back({0, 0, more, lookup->record});
    } else if (more > before && begin_with(*tokens, texts.tokens)) {
      texts.tokens = *tokens;
      texts.steps.push_back({0, before, more, lookup->record});
    } else if (!follows_from(run, texts.steps.back().record, lookup->record, next_lookup(lookup))) {
      texts.goes_on_with_others = true;
      break;
    } else {
      texts.tokens = joined(texts.tokens, *tokens);
      texts.steps.push_back({before, before, before + more, lookup->record});
    }
  }
  find_beginnings(run, texts.steps);
  return texts;
}

namespace {

/// What positions both steps have of texts that are the same in `rows`; empty where none of them is new in both.
std::optional<AlignedRows> rows_of_steps(const TextStep& a, const TextStep& b, const AlignedRows& rows) {
  AlignedRows both{rows.a, rows.b, rows.of_b,
                   AlignedPositions{a.end - a.begin, b.end - b.begin, {}, "", "", std::nullopt}};
  AlignedPositions& positions = *both.positions;
  positions.lie_first = rows.positions->lie_first;
  AlignedKeys keys{a.end, b.end, {}, 0, 0};
  bool is_any = false, are_all = true;
  for (std::size_t row = 0; row < rows.of_b.size(); ++row) {
    const AlignedStretch& text = rows.positions->of_b[row];
    const std::int64_t shift = text.first_b - text.first_a;
    const std::int64_t end = std::min({text.first_a + text.count, a.end, b.end - shift});
    const std::int64_t first = std::max({text.first_a, a.begin, b.begin - shift});
    const bool is_new = rows.of_b[row] >= 0 && end > std::max({first, a.first, b.first - shift});
    if (!is_new) both.of_b[row] = -1;
    positions.of_b.push_back(is_new ? AlignedStretch{first - a.begin, first + shift - b.begin, end - first}
                                    : AlignedStretch());
    keys.of_b.push_back(is_new ? AlignedStretch{text.first_a, text.first_b, end - text.first_a} : AlignedStretch());
    is_any = is_any || is_new;
    const AlignedStretch whole{0, 0, positions.a};
    are_all = are_all && is_new && positions.of_b.back() == whole;
  }
  if (!is_any) return std::nullopt;
  positions.keys = std::move(keys);
  if (are_all && positions.a == positions.b && a.end == b.end) both.positions.reset();
  return both;
}

bool are_all_as_they_are(const AlignedRows& rows) {
  bool are = rows.a == rows.b && !rows.positions;
  for (std::size_t row = 0; row < rows.of_b.size(); ++row)
    are = are && rows.of_b[row] == static_cast<std::int64_t>(row);
  return are;
}

/// Whether a step has positions that it reads again, and that the other run's step has not.
bool leaves_some_out(const TextStep& a, const TextStep& b, const AlignedRows& rows) {
  for (std::size_t row = 0; row < rows.of_b.size(); ++row) {
    const AlignedStretch& text = rows.positions->of_b[row];
    const std::int64_t in_b = std::max(a.begin, text.first_a) + text.first_b - text.first_a;
    const std::int64_t in_a = std::max(b.begin, text.first_b) + text.first_a - text.first_b;
    if (rows.of_b[row] >= 0 && ((a.begin < a.first && b.begin > in_b) || (b.begin < b.first && a.begin > in_a)))
      return true;
  }
  return false;
}

}  // namespace

std::vector<StepPair> pairs_of_steps(const ReadTexts& a, const ReadTexts& b, const AlignedRows& rows) {
  std::vector<StepPair> pairs;
  bool are_the_same = true;
  for (std::size_t i = 0; i < a.steps.size(); ++i)
    for (std::size_t j = 0; j < b.steps.size(); ++j) {
      std::optional<AlignedRows> both = rows_of_steps(a.steps[i], b.steps[j], rows);
      if (!both) continue;
      const bool a_reads_again = a.steps[i].begin < a.steps[i].first,
                 b_reads_again = b.steps[j].begin < b.steps[j].first;
      are_the_same = are_the_same && i == j && a_reads_again == b_reads_again;
      if (are_all_as_they_are(*both)) both.reset();
      pairs.push_back({i, j, {std::move(both), a.steps[i].begin, leaves_some_out(a.steps[i], b.steps[j], rows)}});
    }
  return are_the_same ? std::vector<StepPair>() : pairs;
}

}  // namespace driftbound
