#include "driftbound/trace/run_alignment.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>

#include "driftbound/num/errors.hpp"
#include "model/convert.hpp"
#include "trace/run_outline.hpp"
#include "trace/run_steps.hpp"
#include "trace/value_view.hpp"

namespace driftbound {
namespace {

using Pair = std::pair<std::size_t, std::size_t>;
using Positions = std::map<RecordedResult, std::vector<std::size_t>>;

/// A longest common subsequence of two ranges of keys, as pairs of positions; of several, one that ends as late as it
/// can.
/// Source:    J. W. Hunt, T. G. Szymanski, A fast algorithm for computing longest common subsequences, Comm. ACM 20 (1977)
template <class Key>
std::vector<Pair> common_subsequence(const std::vector<Key>& a, const std::vector<Key>& b) {
  struct Link {
    Pair at;
    std::ptrdiff_t next = -1;
  };
  std::map<Key, std::vector<std::size_t>> places;  // in b, ascending
  for (std::size_t j = 0; j < b.size(); ++j) places[b[j]].push_back(j);
  std::vector<Link> links;
  std::vector<std::size_t> latest;      // by length - 1: the latest start in b of a subsequence of that length; falling
  std::vector<std::ptrdiff_t> link_of;  // of that subsequence
  for (std::size_t i = a.size(); i-- > 0;) {
    const auto found = places.find(a[i]);
    if (found == places.end()) continue;
    for (const std::size_t j : found->second) {
      const auto at = std::lower_bound(latest.begin(), latest.end(), j, std::greater<>());
      const auto length = static_cast<std::size_t>(at - latest.begin());
      if (at != latest.end() && *at == j) continue;
      links.push_back({{i, j}, length == 0 ? -1 : link_of[length - 1]});
      const auto link = static_cast<std::ptrdiff_t>(links.size()) - 1;
      if (length == latest.size()) {
        latest.push_back(j);
        link_of.push_back(link);
      } else {
        latest[length] = j;
        link_of[length] = link;
      }
    }
  }
  std::vector<Pair> pairs;
  for (std::ptrdiff_t link = link_of.empty() ? -1 : link_of.back(); link >= 0;) {
    const Link& one = links[static_cast<std::size_t>(link)];
    pairs.push_back(one.at);
    link = one.next;
  }
  return pairs;
}

std::span<const std::byte> bytes_of_row(const StoredTensor& tensor, std::int64_t rows, std::int64_t row) {
  const std::size_t width = tensor.bytes().size() / static_cast<std::size_t>(rows);
  return tensor.bytes().subspan(static_cast<std::size_t>(row) * width, width);
}

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// How many rows from these on have the same bytes; not more than `enough`.
std::int64_t equal_rows(const StoredTensor& a, std::int64_t row_a, const StoredTensor& b, std::int64_t row_b) {
  constexpr std::int64_t enough = 16;
  const std::int64_t rows_a = a.shape().front(), rows_b = b.shape().front();
  const std::int64_t most = std::min({enough, rows_a - row_a, rows_b - row_b});
  std::int64_t count = 0;
  while (count < most &&
         text_of(bytes_of_row(a, rows_a, row_a + count)) == text_of(bytes_of_row(b, rows_b, row_b + count)))
    ++count;
  return count;
}

/// By row of b: a row of a with the same bytes, -1 where there is none. Of several, the one from which most rows are
/// the same, else the row behind that of the row before, else the row at the same place, else the first that is not taken:
/// so tokens of several texts in a row stay in their texts.
std::vector<std::int64_t> rows_with_same_bytes(const StoredTensor& a, const StoredTensor& b) {
  constexpr std::size_t some = 16;  // candidates
  const std::int64_t rows_a = a.shape().front(), rows_b = b.shape().front();
  std::map<std::string_view, std::vector<std::int64_t>> places;
  for (std::int64_t row = rows_a; row-- > 0;) places[text_of(bytes_of_row(a, rows_a, row))].push_back(row);
  std::vector<std::int64_t> of_b(static_cast<std::size_t>(rows_b), -1);
  for (std::int64_t row = 0; row < rows_b; ++row) {
    const auto found = places.find(text_of(bytes_of_row(b, rows_b, row)));
    if (found == places.end()) continue;
    std::vector<std::int64_t>& free = found->second;
    const std::int64_t next =
        row > 0 && of_b[static_cast<std::size_t>(row) - 1] >= 0 ? of_b[static_cast<std::size_t>(row) - 1] + 1 : row;
    std::vector<std::int64_t> candidates(free.size() > some ? free.end() - some : free.begin(), free.end());
    for (const std::int64_t likely : {row, next})
      if (std::find(free.begin(), free.end(), likely) != free.end()) candidates.push_back(likely);
    std::int64_t best = candidates.back(), most = equal_rows(a, best, b, row);
    for (std::size_t i = candidates.size() - 1; i-- > 0;) {
      const std::int64_t count = equal_rows(a, candidates[i], b, row);
      if (count <= most) continue;
      best = candidates[i];
      most = count;
    }
    of_b[static_cast<std::size_t>(row)] = best;
    if (free.size() > 1) free.erase(std::find(free.begin(), free.end(), best));
  }
  return of_b;
}

bool has_rows(const Shape& shape) {
  return !shape.empty() && shape.front() > 0 && element_count(shape) > 0;
}

bool have_same_rows(const Shape& a, const Shape& b) {
  return has_rows(a) && has_rows(b) && std::equal(a.begin() + 1, a.end(), b.begin() + 1, b.end());
}

/// Sequences of a value from outside: its rows, and the positions along its second axis, or along the first one; one row
/// where it has one axis.
struct Sequences {
  Sequences(const StoredTensor& of, bool are_positions_first) : tensor(of), is_turned(are_positions_first) {
    const bool has_rows = of.shape().size() > 1;
    rows = has_rows ? of.shape()[is_turned ? 1 : 0] : 1;
    positions = of.shape()[has_rows && !is_turned ? 1 : 0];
    width = of.bytes().size() / static_cast<std::size_t>(rows * positions);
  }
  std::int64_t place(std::int64_t row, std::int64_t position) const {
    return is_turned ? position * rows + row : row * positions + position;
  }
  std::span<const std::byte> at(std::int64_t row, std::int64_t position) const {
    return tensor.bytes().subspan(static_cast<std::size_t>(place(row, position)) * width, width);
  }

  const StoredTensor& tensor;
  bool is_turned = false;
  std::int64_t rows = 0, positions = 0;
  std::size_t width = 0;  ///< bytes of a position
};

/// How many positions from one on have its token: more than one may be padding.
std::int64_t equal_tokens(const Sequences& of, std::int64_t row, std::int64_t first) {
  std::int64_t count = 1;
  while (first + count < of.positions && text_of(of.at(row, first + count)) == text_of(of.at(row, first))) ++count;
  return count;
}

/// Whether a stretch has more than two different tokens. Types of segments have two.
bool is_text(const Sequences& of, std::int64_t row, const AlignedStretch& stretch) {
  constexpr std::size_t enough = 3;
  std::set<std::string_view> kinds;
  for (std::int64_t at = 0; at < stretch.count && kinds.size() < enough; ++at)
    kinds.insert(text_of(of.at(row, stretch.first_a + at)));
  return kinds.size() >= enough;
}

/// What two sequences have in common: their first positions, also behind padding, or the whole of the shorter one at the
/// end of the longer, or within it, where it is one of several texts in a row.
AlignedStretch stretch_of(const Sequences& a, std::int64_t row_a, const Sequences& b, std::int64_t row_b) {
  const std::int64_t least = std::min(a.positions, b.positions);
  const auto common_from = [&](std::int64_t first_a, std::int64_t first_b) {
    AlignedStretch common{first_a, first_b, 0};
    while (first_a + common.count < a.positions && first_b + common.count < b.positions &&
           text_of(a.at(row_a, first_a + common.count)) == text_of(b.at(row_b, first_b + common.count)))
      ++common.count;
    return common;
  };
  AlignedStretch longest = common_from(0, 0);
  if (longest.count == least) return longest;
  const AlignedStretch at_the_end = common_from(a.positions - least, b.positions - least);
  if (at_the_end.count == least) return at_the_end;
  if (is_text(a, row_a, {0, 0, a.positions}) && is_text(b, row_b, {0, 0, b.positions}))
    for (std::int64_t first = 1; first < std::max(a.positions, b.positions) - least; ++first) {
      const AlignedStretch within = a.positions > b.positions ? common_from(first, 0) : common_from(0, first);
      if (within.count == least && is_text(a, row_a, within)) return within;
    }
  // The first token of a text may be the one that pads it, or another one.
  const std::int64_t more = equal_tokens(a, row_a, 0) - equal_tokens(b, row_b, 0);
  for (const std::int64_t pad : {more - 1, more, more + 1}) {
    const AlignedStretch common = common_from(std::max<std::int64_t>(pad, 0), std::max<std::int64_t>(-pad, 0));
    const bool is_most = 2 * common.count >= least - std::abs(pad) && is_text(a, row_a, common);
    if (common.count > longest.count && is_most) longest = common;
  }
  return longest;
}

/// By row of b: the row of a that it has most in common with. Of several, the row at the same place, else the first that
/// is not taken. `keep_places`: row r is row r.
AlignedRows rows_in_part(const Sequences& a, const Sequences& b, bool keep_places) {
  AlignedRows rows{a.rows, b.rows, {}, AlignedPositions{a.positions, b.positions, {}, "", "", std::nullopt}};
  rows.positions->lie_first = a.is_turned;
  std::vector<bool> is_taken(static_cast<std::size_t>(a.rows), false);
  for (std::int64_t row_b = 0; row_b < b.rows; ++row_b) {
    std::int64_t best = -1;
    AlignedStretch common;
    for (std::int64_t i = 0; i < (keep_places ? 1 : a.rows); ++i) {
      const std::int64_t row_a = (row_b + i) % a.rows;  // the same place first
      const AlignedStretch stretch = stretch_of(a, row_a, b, row_b);
      const bool is_free =
          best >= 0 && is_taken[static_cast<std::size_t>(best)] && !is_taken[static_cast<std::size_t>(row_a)];
      if (stretch.count == 0 || stretch.count < common.count || (stretch.count == common.count && !is_free)) continue;
      best = row_a;
      common = stretch;
    }
    if (best >= 0) is_taken[static_cast<std::size_t>(best)] = true;
    rows.of_b.push_back(best);
    rows.positions->of_b.push_back(common);
  }
  return rows;
}

/// Several texts in a row that stand in another order in the other run, or beside others: every token of one run is one of
/// the other's, in stretches that are texts. Each token is then a row.
/// Returns:   empty where there are no such texts
std::optional<AlignedRows> texts_in_a_row(const Sequences& a, const Sequences& b) {
  const auto one_axis = [](const Sequences& of) {
    return reshaped(of.tensor, {of.positions, static_cast<std::int64_t>(of.tensor.size()) / of.positions});
  };
  const StoredTensor in_a = one_axis(a), in_b = one_axis(b);
  AlignedRows rows{a.positions, b.positions, rows_with_same_bytes(in_a, in_b)};
  std::set<std::int64_t> of_a;
  for (std::size_t first = 0, next = 0; first < rows.of_b.size(); first = next) {
    const std::int64_t at = rows.of_b[first];
    for (next = first + 1; next < rows.of_b.size() && at >= 0 && rows.of_b[next] == rows.of_b[next - 1] + 1;) ++next;
    const bool is_stretch = at >= 0 && is_text(a, 0, {at, 0, static_cast<std::int64_t>(next - first)});
    for (std::size_t row = first; row < next; ++row) {
      if (is_stretch) of_a.insert(rows.of_b[row]);
      if (!is_stretch) rows.of_b[row] = -1;  // tokens of other texts
    }
  }
  const bool has_all_of_b = std::count(rows.of_b.begin(), rows.of_b.end(), -1) == 0;
  const bool has_all_of_a = static_cast<std::int64_t>(of_a.size()) == a.positions;
  return has_all_of_a || has_all_of_b ? std::optional(std::move(rows)) : std::nullopt;
}

/// Padding that both texts begin with has no keys of its own, and a softmax without keys depends on how many there are. One
/// such token is kept: the text may begin with it.
void leave_out_padding(const Sequences& a, AlignedRows& rows) {
  for (std::size_t row = 0; row < rows.of_b.size(); ++row) {
    if (rows.of_b[row] < 0) continue;
    AlignedStretch& text = rows.positions->of_b[row];
    const std::int64_t padding = std::clamp<std::int64_t>(equal_tokens(a, rows.of_b[row], text.first_a), 1,
                                                          std::max<std::int64_t>(text.count, 1)) -
                                 1;
    text = {text.first_a + padding, text.first_b + padding, text.count - padding};
  }
}

std::optional<PartingTokens> parting_of(const Sequences& a, const Sequences& b, const AlignedRows& rows) {
  if (is_float(a.tensor.type())) return std::nullopt;
  for (std::size_t row = 0; row < rows.of_b.size(); ++row) {
    const AlignedStretch& stretch = rows.positions->of_b[row];
    const std::int64_t at_a = stretch.first_a + stretch.count, at_b = stretch.first_b + stretch.count;
    if (rows.of_b[row] < 0 || at_a >= a.positions || at_b >= b.positions) continue;
    const auto token = [](const Sequences& of, std::int64_t of_row, std::int64_t at) {
      return static_cast<std::int64_t>(of.tensor.to_double().values[static_cast<std::size_t>(of.place(of_row, at))]);
    };
    return PartingTokens{rows.of_b[row], at_a, token(a, rows.of_b[row], at_a),
                         token(b, static_cast<std::int64_t>(row), at_b)};
  }
  return std::nullopt;
}

/// The tensor of a matrix, its axes exchanged.
StoredTensor transposed(const StoredTensor& matrix) {
  return ValueView(matrix, matrix.shape()).transposed({1, 0}).tensor();
}

class Aligner {
public:
  Aligner(const RecordedRun& a, const RecordedRun& b)
      : runs_{&a, &b}, outlines_{outline_of(a), outline_of(b)}, lookups_{lookups_of(a), lookups_of(b)} {
    for (const std::size_t run : {std::size_t{0}, std::size_t{1}}) note_later_tokens(run);
  }

  RunAlignment align() && {
    find_positions();
    if (!alignment_.rows) find_rows();
    find_steps();
    note_what_follows();
    for (const std::size_t run : {std::size_t{0}, std::size_t{1}}) {
      partner_[run].assign(outlines_[run].computed.size(), nobody);
      has_partner_[run].assign(outlines_[run].computed.size(), false);
    }
    by_.resize(partner_[0].size());
    note_tables();
    for (std::size_t step = 0; step < std::max<std::size_t>(pairs_.size(), 1); ++step) {
      begin_step(step);
      align_results();
      align_sources();
    }
    list_what_is_alone();
    compare_operands();
    return std::move(alignment_);
  }

private:
  static constexpr std::size_t nobody = static_cast<std::size_t>(-1);

  // ---- rows

  /// Where the numbers of a value are known wholly.
  std::optional<StoredTensor> numbers(std::size_t run, const std::string& id) const {
    if (!runs_[run]->is_stored(id) || runs_[run]->part_of(id)) return std::nullopt;
    return in_one_type(runs_[run]->stored(id));
  }

  /// Tokens of int32 as int64: programs give the same ones either type.
  static StoredTensor in_one_type(StoredTensor tensor) {
    const bool is_narrow = tensor.type() == ElementType::i32 || tensor.type() == ElementType::u32;
    return is_narrow ? converted(tensor, ElementType::i64, "") : tensor;
  }

  /// A value that comes from outside, moved or not.
  struct Outside {
    std::string id;
    bool is_alone = false;  ///< the other run has no such numbers
  };

  /// The same samples in batches of another size, or in another order.
  void find_rows() {
    const std::vector<Outside> of_a = from_outside(0), of_b = from_outside(1);
    const std::array<std::set<std::string>, 2> have_no_rows = {without_rows(0), without_rows(1)};
    std::vector<Pair> pairs;
    for (std::size_t i = 0; i < of_a.size(); ++i)
      for (std::size_t j = 0; j < of_b.size(); ++j) {
        const Shape &a = runs_[0]->shape_of(of_a[i].id), &b = runs_[1]->shape_of(of_b[j].id);
        if (have_no_rows[0].count(of_a[i].id) != 0 || have_no_rows[1].count(of_b[j].id) != 0) continue;
        const bool may_be = have_same_rows(a, b) && (of_a[i].is_alone || of_b[j].is_alone);
        // Weights keep their rows: as many rows in another order are looked for in what is no weight.
        const bool is_no_weight = is_first_factor(0, of_a[i].id) && is_first_factor(1, of_b[j].id);
        if (may_be && (a != b || is_no_weight)) pairs.emplace_back(i, j);
      }
    const auto rank = [&](const Pair& pair) { return runs_[0]->shape_of(of_a[pair.first].id).size(); };
    std::stable_sort(pairs.begin(), pairs.end(), [&](const Pair& x, const Pair& y) { return rank(x) > rank(y); });
    for (const auto& [i, j] : pairs) {
      alignment_.rows = rows_of(of_a[i].id, of_b[j].id);
      if (alignment_.rows) return;
    }
  }

  /// Values from outside whose first axis counts no samples: weights and tables.
  std::set<std::string> without_rows(std::size_t run) const {
    std::set<std::string> ids;
    for (const OutsideOperand& operand : outlines_[run].outside) {
      const bool is_product = operand.kind == "product" || operand.kind == "product+Add" || operand.kind == "Conv";
      const std::size_t first = operand.kind == "product+Add" ? 1 : 0;
      if (is_product && operand.slot != first && !is_first_factor(run, operand.id)) ids.insert(operand.id);
    }
    for (const Lookup& lookup : lookups_[run]) {
      ids.insert(lookup.table);
    }
    return ids;
  }

  /// Those that are read first, and before a table is looked up again.
  std::vector<Outside> from_outside(std::size_t run) {
    constexpr std::size_t most = 48;
    const auto ids_of = [&](std::size_t which) {
      std::vector<std::string> ids;
      for (const SourceUse& use : outlines_[which].sources)
        if (ids.size() < most && step_of(which, use.record) == 0) ids.push_back(use.id);
      const std::size_t sources = ids.size();
      for (const std::string& id : outlines_[which].moved)
        if (ids.size() < sources + most && step_of(which, runs_[which]->producer_of(id).value()) == 0)
          ids.push_back(id);
      return ids;
    };
    std::set<std::size_t> others;
    for (const std::string& id : ids_of(1 - run))
      if (const auto hash = hash_of(1 - run, id)) others.insert(*hash);
    std::vector<Outside> all;
    for (const std::string& id : ids_of(run))
      if (const auto hash = hash_of(run, id)) all.push_back({id, others.count(*hash) == 0});
    return all;
  }

  /// Of the bytes of a value from outside; empty where not all of it is recorded. Every value is read once.
  std::optional<std::size_t> hash_of(std::size_t run, const std::string& id) {
    const auto [place, is_new] = hashes_[run].try_emplace(id);
    if (is_new)
      if (const auto known = whole(run, id)) place->second = std::hash<std::string_view>()(text_of(known->bytes()));
    return place->second;
  }

  /// A value that is stored, or follows from others by moves.
  std::optional<StoredTensor> whole(std::size_t run, const std::string& id) const {
    if (runs_[run]->is_stored(id)) return numbers(run, id);
    try {
      return in_one_type(RecordedValues(*runs_[run]).view(id).tensor());
    } catch (const Error&) {
      return std::nullopt;  // not all of it is recorded
    }
  }

  /// Whether an op reads it as the operand of a product that is no weight, as programs call it, or as the first one.
  bool is_first_factor(std::size_t run, const std::string& id) const {
    const std::vector<OutsideOperand>& all = outlines_[run].outside;
    return std::any_of(all.begin(), all.end(), [&](const OutsideOperand& operand) {
      return operand.id == id && (operand.kind == "product+Add" ? operand.slot == 1 : operand.slot == 0);
    });
  }

  std::optional<AlignedRows> rows_of(const std::string& in_a, const std::string& in_b) const {
    const StoredTensor a = whole(0, in_a).value(), b = whole(1, in_b).value();
    if (a.type() != b.type()) return std::nullopt;
    AlignedRows rows{a.shape().front(), b.shape().front(), rows_with_same_bytes(a, b)};
    const auto lacking = std::count(rows.of_b.begin(), rows.of_b.end(), -1);
    const bool is_permuted = a.shape() == b.shape();
    if (lacking == static_cast<std::ptrdiff_t>(rows.of_b.size()) || (is_permuted && lacking > 0)) return std::nullopt;
    return rows;
  }

  /// Sequences that are the same in part, and not all of them as a whole. Of several values that say so, the one that has
  /// least in common. Where some tokens are the same in both runs, others may part, row by row, but not what else is read.
  void find_positions() {
    constexpr std::size_t some = 3, any = 2;  // different tokens
    tokens_ = {find_tokens(0, some), find_tokens(1, some)};
    const bool have_same = have_same_tokens();
    if (have_same && sequences_of(0, 1, !have_same).empty()) tokens_ = {find_tokens(0, any), find_tokens(1, any)};
    const std::array<std::vector<std::string>, 2> of = {sequences_of(0, 1, !have_same), sequences_of(1, 0, !have_same)};
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    for (std::size_t i = 0; i < std::min(of[0].size(), of[1].size()); ++i) {
      const std::optional<StoredTensor> a = whole(0, of[0][i]), b = whole(1, of[1][i]);
      if (!a || !b || a->type() != b->type() || a->shape().size() != b->shape().size()) continue;
      if (a->shape().size() > 2 && a->shape()[2] != b->shape()[2]) continue;
      const bool are_first = votes_for_positions_first(0, a->shape()) + votes_for_positions_first(1, b->shape()) > 0;
      const Sequences in_a(*a, are_first), in_b(*b, are_first);
      if (have_same && in_a.rows != in_b.rows) continue;
      AlignedRows rows = rows_in_part(in_a, in_b, have_same);
      if (in_a.rows == 1 && in_b.rows == 1 &&
          rows.positions->of_b.front().count < std::min(in_a.positions, in_b.positions))
        if (std::optional<AlignedRows> texts = texts_in_a_row(in_a, in_b)) {
          alignment_.rows = std::move(texts);
          return;
        }
      std::int64_t common = 0;
      for (const AlignedStretch& stretch : rows.positions->of_b) common += stretch.count;
      const std::vector<AlignedStretch>& of_b = rows.positions->of_b;
      const auto lacking = std::count_if(of_b.begin(), of_b.end(), [](const auto& one) { return one.count == 0; });
      const bool are_whole = in_a.positions == in_b.positions && (lacking == 0 || in_a.rows != in_b.rows) &&
                             common == (in_b.rows - lacking) * in_b.positions;
      if (common == 0 || common >= least || (are_whole && !are_first)) continue;
      least = common;
      rows.positions->tokens_in_a = of[0][i];
      rows.positions->tokens_in_b = of[1][i];
      rows.positions->parting = parting_of(in_a, in_b, rows);
      alignment_.rows = std::move(rows);
      if (are_whole) alignment_.rows->positions.reset();
    }
  }

  bool have_same_tokens() {
    std::set<std::size_t> of_a;
    for (const std::string& id : tokens_[0])
      if (const auto hash = hash_of(0, id)) of_a.insert(*hash);
    return std::any_of(tokens_[1].begin(), tokens_[1].end(), [&](const std::string& id) {
      const auto hash = hash_of(1, id);
      return hash && of_a.count(*hash) != 0;
    });
  }

  /// What says that the first of the two axes of sequences counts positions, and the second one rows, less what says that
  /// the second one does: attention is as wide as that, and a run takes values apart along it. Rows come first where
  /// nothing says so, or both are as long.
  std::int64_t votes_for_positions_first(std::size_t run, const Shape& shape) const {
    if (shape.size() < 2 || shape[0] == shape[1]) return 0;
    std::int64_t votes = 0;
    const auto vote = [&](std::int64_t extent) { votes += extent == shape[0] ? 1 : extent == shape[1] ? -1 : 0; };
    const std::vector<Record>& records = runs_[run]->records();
    for (const ComputedResult& one : outlines_[run].computed) {
      if (step_of(run, one.at.record) > 0) break;  // tokens of later steps are others
      const std::size_t rank = one.shape.size();
      const bool is_square = one.kind == "Softmax" && rank > 1 && one.shape[rank - 1] == one.shape[rank - 2];
      const bool is_fused = one.kind == "Attention" && rank == 4 && records[one.at.record].op.starts_with("aten::");
      if (is_square || is_fused) vote(one.shape[rank - 2]);
    }
    for (std::size_t at = 0; at < records.size() && step_of(run, at) == 0; ++at) {
      const Record& record = records[at];
      const bool takes_apart = record.op == "aten::select" || record.op == "aten::unbind";
      if (!takes_apart || record.operands.empty() || !record.operands.front()) continue;
      const Shape& of = runs_[run]->shape_of(*record.operands.front());
      const auto dim = record.attributes.find("dim");
      const auto* given = dim == record.attributes.end() ? nullptr : std::get_if<std::int64_t>(&dim->second.value);
      std::int64_t axis = given == nullptr ? 0 : *given;
      if (axis < 0) axis += static_cast<std::int64_t>(of.size());
      const bool has_both =
          of.size() > 2 && ((of[0] == shape[0] && of[1] == shape[1]) || (of[0] == shape[1] && of[1] == shape[0]));
      if (has_both && (axis == 0 || axis == 1)) vote(of[static_cast<std::size_t>(axis)]);
    }
    return votes;
  }

  /// Values from outside that are sequences and that the other run has not: what looks up rows of a table, and first
  /// factors of products with three axes.
  std::vector<std::string> sequences_of(std::size_t run, std::size_t other, bool has_vectors) {
    constexpr std::size_t most = 16;
    const auto ids_of = [&](std::size_t which) {
      return std::array{tokens_[which], has_vectors ? vectors_of(which) : std::vector<std::string>()};
    };
    std::vector<std::string> sequences;
    std::set<std::size_t> others;
    for (const std::vector<std::string>& ids : ids_of(other))
      for (const std::string& id : ids)
        if (const auto hash = hash_of(other, id)) others.insert(*hash);
    for (const std::vector<std::string>& ids : ids_of(run))
      for (const std::string& id : ids) {
        const auto hash = sequences.size() < most ? hash_of(run, id) : std::nullopt;
        if (hash && others.count(*hash) == 0) sequences.push_back(id);
      }
    return sequences;
  }

  /// How often a table has been looked up again when a record runs: the step of a run that goes on with its own tokens.
  std::size_t step_of(std::size_t run, std::size_t record) const {
    const std::vector<std::size_t>& later = later_lookups_[run];
    return static_cast<std::size_t>(std::upper_bound(later.begin(), later.end(), record) - later.begin());
  }

  /// The values from outside that integers follow from by moves.
  std::set<std::string> integers_behind(std::size_t run, const std::string& id) const {
    std::set<std::string> found, seen;
    std::vector<std::string> open = {id};
    while (!open.empty()) {
      const std::string one = open.back();
      open.pop_back();
      if (!seen.insert(one).second) continue;
      const std::optional<std::size_t> producer = runs_[run]->producer_of(one);
      if (!producer) {
        found.insert(one);
        continue;
      }
      for (const std::optional<std::string>& operand : runs_[run]->records()[*producer].operands)
        if (operand && runs_[run]->has(*operand) && !is_float(runs_[run]->type_of(*operand))) open.push_back(*operand);
    }
    return found;
  }

  /// Integers from outside that are looked up in a table again, and were not looked up at first.
  void note_later_tokens(std::size_t run) {
    std::set<std::string>& later = later_tokens_[run];
    std::set<std::string> first;
    for (const Lookup& lookup : lookups_[run]) {
      (lookup.is_first ? first : later).merge(integers_behind(run, lookup.ids));
      if (!lookup.is_first) later_lookups_[run].push_back(lookup.record);
    }
    std::erase_if(later, [&](const std::string& id) { return first.count(id) != 0; });
  }

  /// Whether integers tell one text from another: positions count up, also behind padding and where a text of several in a
  /// row begins, and types of segments are few.
  static bool are_tokens(const StoredTensor& tensor, std::size_t least_kinds) {
    const std::vector<double> numbers = tensor.to_double().values;
    const std::size_t width =
        tensor.shape().back() > 1 ? static_cast<std::size_t>(tensor.shape().back()) : numbers.size();
    bool count_up = true, is_padding = true;
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      if (i % width == 0) {
        is_padding = true;
        continue;
      }
      is_padding = is_padding && numbers[i] == numbers[i - 1];
      count_up = count_up && (is_padding || numbers[i] == 0.0 || numbers[i] == numbers[i - 1] + 1.0);
    }
    return !count_up && std::set<double>(numbers.begin(), numbers.end()).size() >= least_kinds;
  }

  /// Of every table, the tokens that are looked up first.
  std::vector<std::string> find_tokens(std::size_t run, std::size_t least_kinds) const {
    std::set<std::string> outside(outlines_[run].moved.begin(), outlines_[run].moved.end());
    for (const SourceUse& use : outlines_[run].sources) outside.insert(use.id);
    std::vector<std::string> tokens;
    for (const Lookup& lookup : lookups_[run]) {
      if (!lookup.is_first || outside.count(lookup.ids) == 0) continue;
      const std::optional<StoredTensor> known = whole(run, lookup.ids);
      const bool is_new = std::find(tokens.begin(), tokens.end(), lookup.ids) == tokens.end();
      if (known && is_new && are_tokens(*known, least_kinds)) tokens.push_back(lookup.ids);
    }
    return tokens;
  }

  /// The first value from outside that may be vectors of positions.
  std::vector<std::string> vectors_of(std::size_t run) const {
    for (const SourceUse& use : outlines_[run].sources) {
      const Shape& shape = runs_[run]->shape_of(use.id);
      const bool is_float_source = is_float(runs_[run]->type_of(use.id));
      if (shape.size() == 3 && element_count(shape) > 0 && is_float_source && is_first_factor(run, use.id))
        return {use.id};
    }
    return {};
  }

  std::int64_t rows_of_run(std::size_t run) const { return !rows() ? 1 : run == 0 ? rows()->a : rows()->b; }

  /// Elements a row; negative: of a value that has no such rows. Where positions differ, the number of axes is all that
  /// values of both runs have in common.
  std::int64_t width_of(std::size_t run, const Shape& shape) const {
    if (rows() && rows()->positions) return -1 - static_cast<std::int64_t>(shape.size());
    const std::int64_t of_run = rows_of_run(run), count = element_count(shape);
    return count % of_run == 0 ? count / of_run : -1 - count;
  }

  // ---- what follows from sequences that part, and from what of them

  bool has_positions() const { return alignment_.rows && alignment_.rows->positions; }

  /// Where sequences part, results that follow from values alone that the other run has bit for bit, and those that follow
  /// from their first positions alone.
  void note_what_follows() {
    for (const std::size_t run : {std::size_t{0}, std::size_t{1}}) {
      has_same_inputs_[run].assign(outlines_[run].computed.size(), false);
      last_positions_[run].assign(outlines_[run].computed.size(), std::nullopt);
      if (!has_positions()) continue;
      std::set<std::size_t> others;
      for (const SourceUse& use : outlines_[1 - run].sources)
        if (const auto hash = hash_of(1 - run, use.id)) others.insert(*hash);
      for (const Record& record : runs_[1 - run]->records())
        for (const auto& id : record.results)
          if (record.operands.empty() && id && runs_[1 - run]->has(*id))
            if (const auto hash = hash_of(1 - run, *id)) others.insert(*hash);
      const auto is_same = [&](const std::string& id) {
        const auto hash = hash_of(run, id);
        return hash && others.count(*hash) != 0;
      };
      note_same_inputs(run, is_same);
      if (!pairs_.empty()) continue;
      const AlignedPositions& positions = *alignment_.rows->positions;
      SequenceSource sequence{run == 0 ? positions.tokens_in_a : positions.tokens_in_b,
                              run == 0 ? positions.a : positions.b, 1};
      const Shape& shape = runs_[run]->shape_of(sequence.id);
      for (std::size_t axis = positions.lie_first ? 1 : 2; axis < shape.size(); ++axis) sequence.inner *= shape[axis];
      last_positions_[run] = last_positions(*runs_[run], outlines_[run], sequence, is_same);
    }
  }

  void note_same_inputs(std::size_t run, const std::function<bool(const std::string&)>& is_same_source) {
    std::set<RecordedResult> same;
    const auto is_same = [&](const Root& root) {
      return root.result ? same.count(*root.result) != 0 : is_same_source(root.id);
    };
    for (std::size_t i = 0; i < outlines_[run].computed.size(); ++i) {
      const ComputedResult& one = outlines_[run].computed[i];
      const bool are_same = std::all_of(one.operands.begin(), one.operands.end(), [&](const std::vector<Root>& roots) {
        return std::all_of(roots.begin(), roots.end(), is_same);
      });
      if (!are_same || (one.operands.empty() && !is_same_source(one.id))) continue;  // as long as the sequence
      has_same_inputs_[run][i] = true;
      same.insert(one.at);
    }
  }

  bool have_same_inputs(std::size_t i, std::size_t j) const {
    return has_same_inputs_[0][i] && has_same_inputs_[1][j] &&
           element_count(result(0, i).shape) == element_count(result(1, j).shape);
  }

  /// As AlignedResult has it.
  std::optional<std::int64_t> last_position(std::size_t i, std::size_t j) const {
    const std::optional<std::int64_t>&in_a = last_positions_[0][i], &in_b = last_positions_[1][j];
    if (!in_a || !in_b) return std::nullopt;
    return *in_a == *in_b ? *in_a : std::numeric_limits<std::int64_t>::max();
  }

  std::optional<AlignedRows> rows_of_results(std::size_t i, std::size_t j) const {
    if (have_same_inputs(i, j)) return std::nullopt;
    const std::optional<std::int64_t> last = last_position(i, j);
    return last ? std::optional(rows_up_to(*rows(), *last)) : rows();
  }

  // ---- steps

  /// Where the runs read the same positions of their texts in different steps: which ones have positions in common.
  void find_steps() {
    if (later_lookups_[0].empty() && later_lookups_[1].empty()) return;
    constexpr std::size_t some = 3;  // different tokens
    bool has_other_texts = false;
    for (const std::string& of_a : first_tokens(0))
      for (const std::string& of_b : first_tokens(1)) {
        const bool are_first = votes_for_positions_first(0, runs_[0]->shape_of(of_a)) +
                                   votes_for_positions_first(1, runs_[1]->shape_of(of_b)) >
                               0;
        const std::optional<ReadTexts> a = texts_of_run(0, of_a, are_first), b = texts_of_run(1, of_b, are_first);
        if (!a || !b) continue;
        const StoredTensor in_a = StoredTensor::from(a->tokens), in_b = StoredTensor::from(b->tokens);
        if (!are_tokens(in_a, some) || !are_tokens(in_b, some)) continue;
        const bool are_others = a->goes_on_with_others || b->goes_on_with_others;
        has_other_texts = has_other_texts || are_others;
        if (are_others) continue;
        const Sequences all_a(in_a, false), all_b(in_b, false);
        AlignedRows rows = rows_in_part(all_a, all_b, false);
        leave_out_padding(all_a, rows);
        rows.positions->lie_first = are_first;
        rows.positions->tokens_in_a = of_a;
        rows.positions->tokens_in_b = of_b;
        std::vector<StepPair> pairs = pairs_of_steps(*a, *b, rows);
        if (pairs.empty()) continue;
        rows.positions->parting = parting_of(all_a, all_b, rows);
        note_step_tokens(0, of_a);
        note_step_tokens(1, of_b);
        alignment_.rows = std::move(rows);
        pairs_ = std::move(pairs);
        const std::int64_t room_a = room_of_cache(0), room_b = room_of_cache(1);
        for (StepPair& pair : pairs_) {
          AlignedStep& step = alignment_.steps.emplace_back(std::move(pair.step));
          if (!step.rows || !step.rows->positions) continue;
          step.rows->positions->keys->room_a = room_a;
          step.rows->positions->keys->room_b = room_b;
        }
        alignment_.texts = a->tokens;
        texts_ = {*a, *b};
        return;
      }
    alignment_.has_other_texts = has_other_texts;
  }

  /// What every table is looked up by first.
  std::vector<std::string> first_tokens(std::size_t run) const {
    std::vector<std::string> tokens;
    for (const Lookup& lookup : lookups_[run])
      if (lookup.is_first && std::find(tokens.begin(), tokens.end(), lookup.ids) == tokens.end())
        tokens.push_back(lookup.ids);
    return tokens;
  }

  /// All that is looked up in the table of these tokens, and what it follows from.
  void note_step_tokens(std::size_t run, const std::string& first) {
    std::string table;
    for (const Lookup& lookup : lookups_[run]) {
      if (lookup.is_first && lookup.ids == first) table = lookup.table;
      if (table.empty() || lookup.table != table) continue;
      step_tokens_[run].insert(lookup.ids);
      step_tokens_[run].merge(integers_behind(run, lookup.ids));
    }
  }

  std::optional<ReadTexts> texts_of_run(std::size_t run, const std::string& tokens, bool are_positions_first) const {
    const KnownIntegers integers = [&](const std::string& id) -> std::optional<Tensor<std::int64_t>> {
      const std::optional<StoredTensor> known = whole(run, id);
      return known ? std::optional(known->to_int64()) : std::nullopt;
    };
    return texts_of(*runs_[run], lookups_[run], tokens, are_positions_first, integers);
  }

  /// Positions of a cache of a fixed size, into which a run puts slices; 0: it has none.
  std::int64_t room_of_cache(std::size_t run) const {
    for (const Record& record : runs_[run]->records()) {
      const bool copies = record.op.starts_with("aten::index_copy"), puts = record.op.starts_with("aten::index_put");
      if ((!copies && !puts) || record.operands.empty() || !record.operands[0] || !runs_[run]->has(*record.operands[0]))
        continue;
      const Shape& shape = runs_[run]->shape_of(*record.operands[0]);
      std::int64_t axis = -1;
      const auto dim = record.attributes.find("dim");
      const auto* given = dim == record.attributes.end() ? nullptr : std::get_if<std::int64_t>(&dim->second.value);
      if (copies && given != nullptr) axis = *given < 0 ? *given + static_cast<std::int64_t>(shape.size()) : *given;
      for (std::size_t slot = 1; puts && axis < 0 && slot + 1 < record.operands.size(); ++slot)
        if (record.operands[slot]) axis = static_cast<std::int64_t>(slot) - 1;
      if (axis >= 0 && axis < static_cast<std::int64_t>(shape.size())) return shape[static_cast<std::size_t>(axis)];
    }
    return 0;
  }

  /// Goes on with the results of a step of each run; of all, where there are no steps.
  void begin_step(std::size_t step) {
    step_ = step;
    for (const std::size_t run : {std::size_t{0}, std::size_t{1}}) {
      const std::vector<ComputedResult>& computed = outlines_[run].computed;
      first_[run] = 0;
      end_[run] = computed.size();
      if (pairs_.empty()) continue;
      const std::vector<TextStep>& steps = texts_[run].steps;
      const std::size_t of_run = run == 0 ? pairs_[step].a : pairs_[step].b;
      const auto first_from = [&](std::size_t record) {
        const auto at = std::partition_point(computed.begin(), computed.end(),
                                             [&](const ComputedResult& one) { return one.at.record < record; });
        return static_cast<std::size_t>(at - computed.begin());
      };
      if (of_run > 0) first_[run] = first_from(steps[of_run].record);
      if (of_run + 1 < steps.size()) end_[run] = first_from(steps[of_run + 1].record);
      std::fill(partner_[run].begin() + static_cast<std::ptrdiff_t>(first_[run]),
                partner_[run].begin() + static_cast<std::ptrdiff_t>(end_[run]), nobody);
    }
    taken_here_.clear();
  }

  /// How rows of values of these steps lie.
  const std::optional<AlignedRows>& rows() const {
    return pairs_.empty() ? alignment_.rows : alignment_.steps[step_].rows;
  }

  // ---- results

  const ComputedResult& result(std::size_t run, std::size_t i) const { return outlines_[run].computed[i]; }

  void align_results() {
    using Key = std::tuple<std::string, std::string, std::int64_t>;
    align_gaps(AlignedBy::op, [&](std::size_t run, const ComputedResult& one) {
      const auto place = static_cast<std::size_t>(&one - outlines_[run].computed.data());
      return std::tuple(one.module, one.kind, width_of(run, one.shape),
                        pairs_.empty() ? step_of(run, one.at.record) : 0, last_positions_[run][place]);
    });
    align_gaps(AlignedBy::op, [&](std::size_t run, const ComputedResult& one) {
      return Key(one.module, one.kind, width_of(run, one.shape));
    });
    align_gaps(AlignedBy::op, [&](std::size_t, const ComputedResult& one) {
      return Key(one.module, one.kind, element_count(one.shape));  // that does not depend on the rows
    });
    align_gaps(AlignedBy::module, [&](std::size_t run, const ComputedResult& one) {
      return Key(one.module, "", width_of(run, one.shape));
    });
    align_gaps(AlignedBy::order,
               [&](std::size_t run, const ComputedResult& one) { return Key("", one.kind, width_of(run, one.shape)); });
    realign_by_numbers();
    align_by_numbers();
    list_results();
  }

  /// The stretches of both runs between aligned results: [first of a, end of a, first of b, end of b].
  std::vector<std::array<std::size_t, 4>> gaps() const {
    std::vector<std::array<std::size_t, 4>> all;
    std::size_t a = first_[0], b = first_[1];
    for (std::size_t i = a; i <= end_[0]; ++i) {
      const bool is_end = i == end_[0];
      if (!is_end && partner_[0][i] == nobody) continue;
      const std::size_t j = is_end ? end_[1] : partner_[0][i];
      if (i > a && j > b) all.push_back({a, i, b, j});
      a = i + 1;
      b = j + 1;
    }
    return all;
  }

  void join(std::size_t i, std::size_t j, AlignedBy by) {
    partner_[0][i] = j;
    partner_[1][j] = i;
    by_[i] = by;
  }

  template <class KeyOf>
  void align_gaps(AlignedBy by, const KeyOf& key_of) {
    using Key = decltype(key_of(0, result(0, 0)));
    for (const auto& [first_a, end_a, first_b, end_b] : gaps()) {
      std::vector<Key> a, b;
      for (std::size_t i = first_a; i < end_a; ++i) a.push_back(key_of(0, result(0, i)));
      for (std::size_t j = first_b; j < end_b; ++j) b.push_back(key_of(1, result(1, j)));
      // One run may make of several results what the other makes at once, then only numbers tell which one it is, unless
      // it is the last of its kind.
      // A run that goes on longer than the other one does first what that one does.
      const std::size_t least = std::min(a.size(), b.size());
      const bool are_whole = by == AlignedBy::op && least == std::min(end_[0] - first_[0], end_[1] - first_[1]);
      const bool goes_on =
          are_whole && std::equal(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(least), b.begin());
      std::vector<Pair> same;
      for (std::size_t k = 0; goes_on && k < least; ++k) same.emplace_back(k, k);
      for (const auto& [i, j] : goes_on ? same : common_subsequence(a, b)) {
        if (!may_be_the_same(result(0, first_a + i), result(1, first_b + j))) continue;
        const auto in_a = std::count(a.begin(), a.end(), a[i]), in_b = std::count(b.begin(), b.end(), b[j]);
        if (by == AlignedBy::op || in_a == in_b || (in_a == 1 || in_b == 1)) join(first_a + i, first_b + j, by);
      }
    }
  }

  /// Whether two results may be the same value: attention gives no softmax, and values of sequences have their positions.
  bool may_be_the_same(const ComputedResult& a, const ComputedResult& b) const {
    const auto is_softmax = [](const ComputedResult& one) { return one.kind.find("Softmax") != std::string::npos; };
    if ((a.kind == "Attention" && is_softmax(b)) || (b.kind == "Attention" && is_softmax(a))) return false;
    const bool is_of_steps = !pairs_.empty() && rows() && rows()->positions && is_float(runs_[0]->type_of(a.id));
    return !is_of_steps || a.kind == b.kind || may_have_rows_in_common(a.shape, b.shape, *rows());
  }

  /// Where one run computes by one op what the other does by several, as convolutions with a norm folded into them, the
  /// op has the name of the first and the numbers of the last: results behind it, without a counterpart, whose numbers
  /// are the same take the place of one whose numbers are not.
  void realign_by_numbers() {
    constexpr double other = 0.1, same = 1e-3;  // relative
    for (std::size_t i = first_[0]; i < end_[0]; ++i) {
      const std::size_t j = partner_[0][i];
      if (j == nobody) continue;
      const bool a_goes_on = i + 1 < end_[0] && partner_[0][i + 1] == nobody;
      const bool b_goes_on = j + 1 < end_[1] && partner_[1][j + 1] == nobody;
      if (a_goes_on == b_goes_on || !(distance_of(i, j) > other)) continue;
      for (std::size_t k = 1;; ++k) {
        const std::size_t in_a = a_goes_on ? i + k : i, in_b = a_goes_on ? j : j + k;
        const bool is_open =
            a_goes_on ? in_a < end_[0] && partner_[0][in_a] == nobody : in_b < end_[1] && partner_[1][in_b] == nobody;
        const bool is_same_step =
            !pairs_.empty() || step_of(0, result(0, in_a).at.record) == step_of(1, result(1, in_b).at.record);
        if (!is_open || !is_same_step) break;
        if (!(distance_of(in_a, in_b) < same)) continue;
        partner_[0][i] = partner_[1][j] = nobody;
        join(in_a, in_b, AlignedBy::numbers);
        break;
      }
    }
  }

  /// What is left, where numbers say which results are the same: nearer than those of any other candidate.
  void align_by_numbers() {
    constexpr std::size_t most = 64;             // candidates of a gap
    constexpr double near = 0.01, nearer = 0.1;  // relative to the root mean square of the value
    for (const auto& [first_a, end_a, first_b, end_b] : gaps()) {
      if (end_a - first_a > most || end_b - first_b > most) continue;
      std::size_t from = first_b;
      for (std::size_t i = first_a; i < end_a; ++i) {
        double nearest = infinite, next = infinite;
        std::size_t best = nobody;
        for (std::size_t j = from; j < end_b; ++j) {
          const double distance = distance_of(i, j);
          if (distance < nearest) {
            next = nearest;
            nearest = distance;
            best = j;
          } else {
            next = std::min(next, distance);
          }
        }
        if (!(nearest <= near) || !(nearest <= nearer * next)) continue;
        join(i, best, AlignedBy::numbers);
        from = best + 1;
      }
    }
  }

  /// The root mean square difference relative to the root mean square of a's value; infinite where they differ in size.
  double distance_of(std::size_t i, std::size_t j) const {
    const ComputedResult &a = result(0, i), &b = result(1, j);
    if (width_of(0, a.shape) != width_of(1, b.shape)) return infinite;
    const std::optional<StoredTensor> in_a = numbers(0, a.id), in_b = numbers(1, b.id);
    if (!in_a || !in_b || !is_float(in_a->type()) || !is_float(in_b->type())) return infinite;
    const std::optional<AlignedNumbers> both = aligned_numbers(*in_a, *in_b, rows_of_results(i, j));
    if (!both) return infinite;
    const Tensor<double> x = both->a.to_double(), y = both->b.to_double();
    double difference = 0.0, size = 0.0;
    for (std::size_t e = 0; e < x.size(); ++e) {
      difference += (x.values[e] - y.values[e]) * (x.values[e] - y.values[e]);
      size += x.values[e] * x.values[e];
    }
    return difference == 0.0 ? 0.0 : std::sqrt(difference / size);
  }

  void list_results() {
    for (std::size_t i = first_[0]; i < end_[0]; ++i) {
      const std::size_t j = partner_[0][i];
      if (j == nobody) continue;
      has_partner_[0][i] = has_partner_[1][j] = true;
      listed_.emplace_back(i, j);
      AlignedResult& one = alignment_.results.emplace_back();
      one.a = result(0, i).at;
      one.b = result(1, j).at;
      one.by = by_[i];
      one.kind = result(0, i).kind;
      one.has_same_inputs = have_same_inputs(i, j);
      one.last_position = last_position(i, j);
      one.in_step = step_;
    }
  }

  void list_what_is_alone() {
    for (const std::size_t run : {std::size_t{0}, std::size_t{1}})
      for (std::size_t i = 0; i < has_partner_[run].size(); ++i)
        if (!has_partner_[run][i]) (run == 0 ? alignment_.only_a : alignment_.only_b).push_back(result(run, i).at);
    for (const SourceUse& use : outlines_[0].sources) {
      const auto joined = source_of_a_.find(use.id);
      if (joined == source_of_a_.end()) {
        if (!is_read_by_the_other(0, use.id)) alignment_.sources_only_a.push_back(use.id);
        continue;
      }
      alignment_.sources.push_back(joined->second);
      alignment_.sources.back().step = step_of(0, use.record);
    }
    for (const SourceUse& use : outlines_[1].sources)
      if (taken_.count(use.id) == 0 && !is_read_by_the_other(1, use.id)) alignment_.sources_only_b.push_back(use.id);
  }

  /// Whether both runs read these numbers, and one of them again in every step, as a constant that it makes.
  bool is_read_by_the_other(std::size_t run, const std::string& id) {
    const auto hash = pairs_.empty() ? std::nullopt : hash_of(run, id);
    return hash && std::any_of(outlines_[1 - run].sources.begin(), outlines_[1 - run].sources.end(),
                               [&](const SourceUse& use) { return hash_of(1 - run, use.id) == hash; });
  }

  // ---- values from outside

  void note_tables() {
    for (const Lookup& lookup : lookups_[0])
      for (const std::string& id : integers_behind(0, lookup.ids)) tables_.emplace(id, lookup.table);
  }

  void align_sources() {
    join_sources_of_aligned_records(true);
    if (step_ == 0) join_identical_sources();
    join_sources_of_aligned_records(false);
    if (step_ == 0) join_transposed_sources();
  }

  void join_sources(const std::string& a, const std::string& b, bool is_transposed, bool is_identical) {
    const auto table = tables_.find(a);
    source_of_a_[a] = {a, b, is_transposed, is_identical, table == tables_.end() ? "" : table->second, 0, step_};
    taken_.insert(b);
    taken_here_.insert(b);
  }

  /// Values with the same bits, in the order in which they are read. A token is often that of another step: which one it
  /// is the place tells.
  void join_identical_sources() {
    std::map<std::size_t, std::vector<std::string>> of_b;  // by hash
    for (const SourceUse& use : outlines_[1].sources)
      if (const auto hash = hash_of(1, use.id); hash && later_tokens_[1].count(use.id) == 0)
        of_b[*hash].push_back(use.id);
    for (const auto& [hash, ids] : of_b)
      for (std::size_t i = 1; i < ids.size(); ++i) note_twin(ids, i);
    for (const SourceUse& use : outlines_[0].sources) {
      const bool is_open = source_of_a_.count(use.id) == 0 && later_tokens_[0].count(use.id) == 0;
      const auto hash = is_open ? hash_of(0, use.id) : std::nullopt;
      const auto found = hash ? of_b.find(*hash) : of_b.end();
      if (found == of_b.end()) continue;
      const auto same = std::find_if(found->second.begin(), found->second.end(), [&](const std::string& id) {
        return taken_.count(id) == 0 && numbers(1, id)->identical(*numbers(0, use.id));
      });
      if (same != found->second.end()) join_sources(use.id, *same, false, true);
    }
  }

  /// Notes the first of some values of b that has the same bits as one of them.
  void note_twin(const std::vector<std::string>& ids, std::size_t one) {
    const StoredTensor known = numbers(1, ids[one]).value();
    const auto first = std::find_if(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(one),
                                    [&](const std::string& id) { return numbers(1, id)->identical(known); });
    if (*first != ids[one]) twin_in_b_[ids[one]] = *first;
  }

  /// The same for values with the same bits: which one of them an op reads makes no difference.
  const std::string& source_in_b(const std::string& id) const {
    const auto twin = twin_in_b_.find(id);
    return twin == twin_in_b_.end() ? id : twin->second;
  }

  /// `identical_alone`: those that differ are left for later.
  void join_sources_of_aligned_records(bool identical_alone) {
    for (std::size_t i = first_[0]; i < end_[0]; ++i) {
      if (partner_[0][i] == nobody) continue;
      const ComputedResult &a = result(0, i), &b = result(1, partner_[0][i]);
      if (by_[i] == AlignedBy::numbers && a.kind != b.kind) continue;  // their operands are other ones
      for (std::size_t slot = 0; slot < std::min(a.operands.size(), b.operands.size()); ++slot)
        join_sources_of(a.operands[slot], b.operands[slot], identical_alone);
    }
  }

  /// Values from outside at the same places among those that an operand of both runs comes from.
  void join_sources_of(const std::vector<Root>& a, const std::vector<Root>& b, bool identical_alone) {
    if (a.size() != b.size()) return;
    for (std::size_t i = 0; i < a.size(); ++i) {
      // What one run reads in a step the other may read again and again.
      if (a[i].result || b[i].result || source_of_a_.count(a[i].id) != 0 || taken_here_.count(b[i].id) != 0) continue;
      const Shape &shape_a = runs_[0]->shape_of(a[i].id), &shape_b = runs_[1]->shape_of(b[i].id);
      const bool may_fit = shape_a == shape_b || have_same_rows(shape_a, shape_b) ||
                           (rows() && rows()->positions && shape_a.size() == shape_b.size());
      if (!may_fit) continue;
      const bool is_identical = are_identical(a[i].id, b[i].id);
      if (is_identical || !identical_alone) join_sources(a[i].id, b[i].id, false, is_identical);
    }
  }

  bool are_identical(const std::string& a, const std::string& b) const {
    const std::optional<StoredTensor> in_a = numbers(0, a), in_b = numbers(1, b);
    if (!in_a || !in_b) return false;
    const std::optional<AlignedNumbers> both = aligned_numbers(*in_a, *in_b, rows());
    return both && both->a.identical(both->b);
  }

  void join_transposed_sources() {
    for (const SourceUse& of_a : outlines_[0].sources) {
      if (source_of_a_.count(of_a.id) != 0) continue;
      const Shape& a = runs_[0]->shape_of(of_a.id);
      for (const SourceUse& of_b : outlines_[1].sources) {
        const Shape& b = runs_[1]->shape_of(of_b.id);
        if (taken_.count(of_b.id) != 0 || a.size() != 2 || b.size() != 2 || a[0] != b[1] || a[1] != b[0]) continue;
        const std::optional<StoredTensor> in_a = numbers(0, of_a.id), in_b = numbers(1, of_b.id);
        if (!in_a || !in_b || !transposed(*in_a).identical(*in_b)) continue;
        join_sources(of_a.id, of_b.id, true, true);
        break;
      }
    }
  }

  // ---- operands of aligned results

  void compare_operands() {
    Positions at;  // by result of a
    for (std::size_t i = 0; i < alignment_.results.size(); ++i) {
      const AlignedResult& one = alignment_.results[i];
      at[one.a].push_back(i);
      in_b_[one.a].insert(one.b);
      aligned_in_b_.insert(one.b);
    }
    std::map<std::string, std::size_t> sources;
    for (std::size_t i = 0; i < alignment_.sources.size(); ++i) sources[alignment_.sources[i].a] = i;
    for (std::size_t i = 0; i < listed_.size(); ++i) {
      AlignedResult& one = alignment_.results[i];
      const ComputedResult &a = result(0, listed_[i].first), &b = result(1, listed_[i].second);
      compare_operands_of(a, b, one);
      for (const std::vector<Root>& roots : a.operands)
        for (const Root& root : roots) note_read(root, at, sources, one);
    }
  }

  /// Operands of the same op are compared one by one; those of another op, or of one whose operands may be exchanged, all
  /// together.
  void compare_operands_of(const ComputedResult& a, const ComputedResult& b, AlignedResult& one) const {
    if (a.kind != b.kind) return;
    const auto all_of = [](const ComputedResult& result) {
      std::vector<Root> all;
      for (const std::vector<Root>& roots : result.operands)
        for (const Root& root : roots)
          if (std::find(all.begin(), all.end(), root) == all.end()) all.push_back(root);
      return all;
    };
    const bool is_same_op = runs_[0]->records()[a.at.record].op == runs_[1]->records()[b.at.record].op;
    const bool may_exchange = a.kind == "Add" || a.kind == "Mul" || a.kind == "Max" || a.kind == "Min";
    if (!is_same_op || may_exchange) {
      one.operands = compare(all_of(a), all_of(b), one);
      if (one.operands == OperandsAre::same || !is_same_op) {
        if (one.operands == OperandsAre::other) one.operands = OperandsAre::open;
        return;
      }
    }
    one.operands = a.operands.size() == b.operands.size() ? OperandsAre::same : OperandsAre::open;
    for (std::size_t slot = 0; slot < std::min(a.operands.size(), b.operands.size()); ++slot) {
      const OperandsAre are = compare(a.operands[slot], b.operands[slot], one);
      if (are == OperandsAre::other && one.operands != OperandsAre::other) one.other_slot = slot;
      if (are != OperandsAre::same && one.operands != OperandsAre::other) one.operands = are;
    }
  }

  static void note_read(const Root& root, const Positions& results, const std::map<std::string, std::size_t>& sources,
                        AlignedResult& reader) {
    const auto note = [](std::vector<std::size_t>& list, std::size_t position) {
      if (std::find(list.begin(), list.end(), position) == list.end()) list.push_back(position);
    };
    if (root.result) {
      const auto found = results.find(*root.result);
      if (found == results.end()) return;
      for (const std::size_t position : found->second) note(reader.reads, position);
    } else if (const auto found = sources.find(root.id); found != sources.end()) {
      note(reader.reads_sources, found->second);
    }
  }

  /// Without tokens, which one run may choose and the other read: they are the same ones where steps are aligned.
  std::vector<Root> without_tokens(std::size_t run, std::vector<Root> roots) const {
    if (pairs_.empty()) return roots;
    std::erase_if(roots, [&](const Root& root) {
      const bool is_token = root.result || step_tokens_[run].count(root.id) != 0;
      return is_token && !is_float(runs_[run]->type_of(root.id));
    });
    return roots;
  }

  /// Also notes whether one of the runs alone casts the operand.
  OperandsAre compare(const std::vector<Root>& all_a, const std::vector<Root>& all_b, AlignedResult& one) const {
    const std::vector<Root> a = without_tokens(0, all_a), b = without_tokens(1, all_b);
    const auto is_cast = [](const Root& root) { return root.is_cast; };
    if (std::any_of(a.begin(), a.end(), is_cast) != std::any_of(b.begin(), b.end(), is_cast))
      one.casts_otherwise = true;
    const auto is_the_same = [&](const Root& of_a, const Root& of_b) {
      if (of_a.result.has_value() != of_b.result.has_value()) return false;
      if (of_a.result) return in_b_.at(*of_a.result).count(*of_b.result) != 0;
      return source_in_b(source_of_a_.at(of_a.id).b) == source_in_b(of_b.id);
    };
    for (const Root& root : a)
      if (root.result ? in_b_.count(*root.result) == 0 : source_of_a_.count(root.id) == 0) return OperandsAre::open;
    const auto has_counterpart = [&](const Root& of_b) {
      return std::any_of(a.begin(), a.end(), [&](const Root& of_a) { return is_the_same(of_a, of_b); });
    };
    const auto is_counterpart = [&](const Root& of_a) {
      return std::any_of(b.begin(), b.end(), [&](const Root& of_b) { return is_the_same(of_a, of_b); });
    };
    // Several steps of one run may be one of the other.
    const bool are_as_many = a.size() == b.size() || !pairs_.empty();
    if (are_as_many && std::all_of(b.begin(), b.end(), has_counterpart) &&
        std::all_of(a.begin(), a.end(), is_counterpart))
      return OperandsAre::same;
    const auto is_known = [&](const Root& root) {
      return root.result ? aligned_in_b_.count(*root.result) != 0 : taken_.count(root.id) != 0;
    };
    return std::all_of(b.begin(), b.end(), is_known) ? OperandsAre::other : OperandsAre::open;
  }

  static constexpr double infinite = std::numeric_limits<double>::infinity();

  std::array<const RecordedRun*, 2> runs_;
  std::array<RunOutline, 2> outlines_;
  std::array<std::vector<Lookup>, 2> lookups_;
  std::array<std::vector<std::size_t>, 2> later_lookups_;                   ///< records that look up a table again
  std::array<std::vector<bool>, 2> has_same_inputs_;                        ///< by computed result
  std::array<std::vector<std::optional<std::int64_t>>, 2> last_positions_;  ///< likewise
  std::array<std::set<std::string>, 2> later_tokens_;  ///< what they look up, by id of the value from outside
  std::array<std::set<std::string>, 2> step_tokens_;   ///< where there are pairs: ids of the tokens of all steps
  std::array<std::vector<std::string>, 2> tokens_;     ///< ids of the first ones that each table is looked up by
  std::vector<StepPair> pairs_;                        ///< empty: the runs read their texts in the same steps
  std::array<ReadTexts, 2> texts_;                     ///< where there are pairs
  std::size_t step_ = 0;                               ///< in pairs_: the one that is aligned
  std::array<std::size_t, 2> first_ = {}, end_ = {};   ///< its computed results
  std::array<std::vector<std::size_t>, 2> partner_;    ///< by computed result: that of the other run in this step
  std::array<std::vector<bool>, 2> has_partner_;       ///< by computed result: in any step
  std::vector<Pair> listed_;                           ///< computed results of RunAlignment::results
  std::vector<AlignedBy> by_;                          ///< by computed result of a
  std::array<std::map<std::string, std::optional<std::size_t>>, 2> hashes_;  ///< of values from outside, by id
  std::map<std::string, AlignedSource> source_of_a_;                         ///< by id in a
  std::map<std::string, std::string> tables_;                                ///< what integers of a are looked up in
  std::set<std::string> taken_, taken_here_;      ///< sources of b: of any step, and of this one
  std::map<std::string, std::string> twin_in_b_;  ///< the first source of b with the same bits as another one
  std::map<RecordedResult, std::set<RecordedResult>> in_b_;  ///< by result of a
  std::set<RecordedResult> aligned_in_b_;
  RunAlignment alignment_;
};

}  // namespace

std::string_view name_of(AlignedBy by) {
  switch (by) {
    case AlignedBy::op:
      return "op";
    case AlignedBy::module:
      return "module";
    case AlignedBy::order:
      return "order";
    case AlignedBy::numbers:
      return "numbers";
  }
  return "";
}

std::optional<AlignedRows> RunAlignment::rows_of(const AlignedResult& result) const {
  if (result.has_same_inputs) return std::nullopt;
  const std::optional<AlignedRows>& all = steps.empty() ? rows : steps[result.in_step].rows;
  return all && all->positions && result.last_position ? std::optional(rows_up_to(*all, *result.last_position)) : all;
}

const std::optional<AlignedRows>& RunAlignment::rows_of(const AlignedSource& source) const {
  return steps.empty() ? rows : steps[source.in_step].rows;
}

RunAlignment without_pairs(const RunAlignment& alignment, const std::set<std::size_t>& pairs) {
  RunAlignment some = alignment;
  some.results.clear();
  std::vector<std::size_t> place(alignment.results.size());
  std::vector<std::set<std::size_t>> reads(alignment.results.size()), sources(alignment.results.size());
  for (std::size_t i = 0; i < alignment.results.size(); ++i) {
    AlignedResult one = alignment.results[i];
    sources[i].insert(one.reads_sources.begin(), one.reads_sources.end());
    for (const std::size_t read : one.reads) {
      if (read >= i || pairs.count(read) == 0) {
        reads[i].insert(read);
        continue;
      }
      reads[i].insert(reads[read].begin(), reads[read].end());
      sources[i].insert(sources[read].begin(), sources[read].end());
      if (one.operands == OperandsAre::same) one.operands = OperandsAre::open;
      one.reads_left_out = true;
    }
    if (pairs.count(i) != 0) {
      some.only_a.push_back(one.a);
      some.only_b.push_back(one.b);
      continue;
    }
    place[i] = some.results.size();
    one.reads.clear();
    for (const std::size_t read : reads[i])
      if (read < i) one.reads.push_back(place[read]);
    one.reads_sources.assign(sources[i].begin(), sources[i].end());
    some.results.push_back(std::move(one));
  }
  for (std::vector<RecordedResult>* alone : {&some.only_a, &some.only_b}) std::sort(alone->begin(), alone->end());
  return some;
}

RunAlignment align_runs(const RecordedRun& a, const RecordedRun& b) {
  return Aligner(a, b).align();
}

}  // namespace driftbound
