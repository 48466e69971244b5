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
#include "trace/value_view.hpp"

namespace driftbound {
namespace {

using Pair = std::pair<std::size_t, std::size_t>;
using Positions = std::map<RecordedResult, std::size_t>;

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

/// By row of b: a row of a with the same bytes, -1 where there is none. Of several, the row at the same place, else the
/// first that is not taken.
std::vector<std::int64_t> rows_with_same_bytes(const StoredTensor& a, const StoredTensor& b) {
  const std::int64_t rows_a = a.shape().front(), rows_b = b.shape().front();
  std::map<std::string_view, std::vector<std::int64_t>> places;
  for (std::int64_t row = rows_a; row-- > 0;) places[text_of(bytes_of_row(a, rows_a, row))].push_back(row);
  std::vector<std::int64_t> of_b(static_cast<std::size_t>(rows_b), -1);
  for (std::int64_t row = 0; row < rows_b; ++row) {
    const auto found = places.find(text_of(bytes_of_row(b, rows_b, row)));
    if (found == places.end()) continue;
    std::vector<std::int64_t>& free = found->second;
    const auto same = std::find(free.begin(), free.end(), row);
    of_b[static_cast<std::size_t>(row)] = same != free.end() ? row : free.back();
    if (free.size() > 1) free.erase(same != free.end() ? same : free.end() - 1);
  }
  return of_b;
}

bool has_rows(const Shape& shape) {
  return !shape.empty() && shape.front() > 0 && element_count(shape) > 0;
}

bool have_same_rows(const Shape& a, const Shape& b) {
  return has_rows(a) && has_rows(b) && std::equal(a.begin() + 1, a.end(), b.begin() + 1, b.end());
}

/// The tensor of a matrix, its axes exchanged.
StoredTensor transposed(const StoredTensor& matrix) {
  return ValueView(matrix, matrix.shape()).transposed({1, 0}).tensor();
}

class Aligner {
public:
  Aligner(const RecordedRun& a, const RecordedRun& b) : runs_{&a, &b}, outlines_{outline_of(a), outline_of(b)} {}

  RunAlignment align() && {
    find_rows();
    align_results();
    align_sources();
    compare_operands();
    return std::move(alignment_);
  }

private:
  static constexpr std::size_t nobody = static_cast<std::size_t>(-1);

  // ---- rows

  /// Where the numbers of a value are known wholly.
  std::optional<StoredTensor> numbers(std::size_t run, const std::string& id) const {
    if (!runs_[run]->is_stored(id) || runs_[run]->part_of(id)) return std::nullopt;
    return runs_[run]->stored(id);
  }

  /// A value that comes from outside, moved or not.
  struct Outside {
    std::string id;
    bool is_alone = false;  ///< the other run has no such numbers
  };

  /// The same samples in batches of another size, or in another order.
  void find_rows() {
    const std::vector<Outside> of_a = from_outside(0), of_b = from_outside(1);
    std::vector<Pair> pairs;
    for (std::size_t i = 0; i < of_a.size(); ++i)
      for (std::size_t j = 0; j < of_b.size(); ++j) {
        const Shape &a = runs_[0]->shape_of(of_a[i].id), &b = runs_[1]->shape_of(of_b[j].id);
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

  /// Those that are read first.
  std::vector<Outside> from_outside(std::size_t run) {
    constexpr std::size_t most = 48;
    const auto ids_of = [&](std::size_t which) {
      std::vector<std::string> ids;
      for (const SourceUse& use : outlines_[which].sources)
        if (ids.size() < most) ids.push_back(use.id);
      const std::vector<std::string>& moved = outlines_[which].moved;
      ids.insert(ids.end(), moved.begin(), moved.begin() + static_cast<std::ptrdiff_t>(std::min(most, moved.size())));
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
      return RecordedValues(*runs_[run]).view(id).tensor();
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

  std::int64_t rows_of_run(std::size_t run) const {
    return !alignment_.rows ? 1 : run == 0 ? alignment_.rows->a : alignment_.rows->b;
  }

  /// Elements a row; negative: of a value that has no such rows.
  std::int64_t width_of(std::size_t run, const Shape& shape) const {
    const std::int64_t rows = rows_of_run(run), count = element_count(shape);
    return count % rows == 0 ? count / rows : -1 - count;
  }

  // ---- results

  const ComputedResult& result(std::size_t run, std::size_t i) const { return outlines_[run].computed[i]; }

  void align_results() {
    for (const std::size_t run : {std::size_t{0}, std::size_t{1}})
      partner_[run].assign(outlines_[run].computed.size(), nobody);
    by_.resize(partner_[0].size());
    using Key = std::tuple<std::string, std::string, std::int64_t>;
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
    align_by_numbers();
    list_results();
  }

  /// The stretches of both runs between aligned results: [first of a, end of a, first of b, end of b].
  std::vector<std::array<std::size_t, 4>> gaps() const {
    std::vector<std::array<std::size_t, 4>> all;
    std::size_t a = 0, b = 0;
    for (std::size_t i = 0; i <= partner_[0].size(); ++i) {
      const bool is_end = i == partner_[0].size();
      if (!is_end && partner_[0][i] == nobody) continue;
      const std::size_t j = is_end ? partner_[1].size() : partner_[0][i];
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
      for (const auto& [i, j] : common_subsequence(a, b)) {
        const auto in_a = std::count(a.begin(), a.end(), a[i]), in_b = std::count(b.begin(), b.end(), b[j]);
        if (by == AlignedBy::op || in_a == in_b || (in_a == 1 || in_b == 1)) join(first_a + i, first_b + j, by);
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
    const std::optional<AlignedNumbers> both = aligned_numbers(*in_a, *in_b, alignment_.rows);
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
    for (std::size_t i = 0; i < partner_[0].size(); ++i) {
      const ComputedResult& a = result(0, i);
      if (partner_[0][i] == nobody) {
        alignment_.only_a.push_back(a.at);
      } else {
        AlignedResult& one = alignment_.results.emplace_back();
        one.a = a.at;
        one.b = result(1, partner_[0][i]).at;
        one.by = by_[i];
        one.kind = a.kind;
      }
    }
    for (std::size_t j = 0; j < partner_[1].size(); ++j)
      if (partner_[1][j] == nobody) alignment_.only_b.push_back(result(1, j).at);
  }

  // ---- values from outside

  void align_sources() {
    join_sources_of_aligned_records(true);
    join_identical_sources();
    join_sources_of_aligned_records(false);
    join_transposed_sources();
    for (const SourceUse& use : outlines_[0].sources) {
      const auto joined = source_of_a_.find(use.id);
      if (joined == source_of_a_.end())
        alignment_.sources_only_a.push_back(use.id);
      else
        alignment_.sources.push_back(joined->second);
    }
    for (const SourceUse& use : outlines_[1].sources)
      if (taken_.count(use.id) == 0) alignment_.sources_only_b.push_back(use.id);
  }

  void join_sources(const std::string& a, const std::string& b, bool is_transposed, bool is_identical) {
    source_of_a_[a] = {a, b, is_transposed, is_identical};
    taken_.insert(b);
  }

  /// Values with the same bits, in the order in which they are read.
  void join_identical_sources() {
    std::map<std::size_t, std::vector<std::string>> of_b;  // by hash
    for (const SourceUse& use : outlines_[1].sources)
      if (const auto hash = hash_of(1, use.id)) of_b[*hash].push_back(use.id);
    for (const auto& [hash, ids] : of_b)
      for (std::size_t i = 1; i < ids.size(); ++i) note_twin(ids, i);
    for (const SourceUse& use : outlines_[0].sources) {
      const auto hash = source_of_a_.count(use.id) == 0 ? hash_of(0, use.id) : std::nullopt;
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
    for (std::size_t i = 0; i < partner_[0].size(); ++i) {
      if (partner_[0][i] == nobody) continue;
      const ComputedResult &a = result(0, i), &b = result(1, partner_[0][i]);
      for (std::size_t slot = 0; slot < std::min(a.operands.size(), b.operands.size()); ++slot)
        join_sources_of(a.operands[slot], b.operands[slot], identical_alone);
    }
  }

  /// Values from outside at the same places among those that an operand of both runs comes from.
  void join_sources_of(const std::vector<Root>& a, const std::vector<Root>& b, bool identical_alone) {
    if (a.size() != b.size()) return;
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (a[i].result || b[i].result || source_of_a_.count(a[i].id) != 0 || taken_.count(b[i].id) != 0) continue;
      const Shape &shape_a = runs_[0]->shape_of(a[i].id), &shape_b = runs_[1]->shape_of(b[i].id);
      if (shape_a != shape_b && !have_same_rows(shape_a, shape_b)) continue;
      const bool is_identical = are_identical(a[i].id, b[i].id);
      if (is_identical || !identical_alone) join_sources(a[i].id, b[i].id, false, is_identical);
    }
  }

  bool are_identical(const std::string& a, const std::string& b) const {
    const std::optional<StoredTensor> in_a = numbers(0, a), in_b = numbers(1, b);
    if (!in_a || !in_b) return false;
    const std::optional<AlignedNumbers> both = aligned_numbers(*in_a, *in_b, alignment_.rows);
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
    for (std::size_t i = 0; i < alignment_.results.size(); ++i) at[alignment_.results[i].a] = i;
    for (const AlignedResult& one : alignment_.results) aligned_in_b_.insert(one.b);
    std::map<std::string, std::size_t> sources;
    for (std::size_t i = 0; i < alignment_.sources.size(); ++i) sources[alignment_.sources[i].a] = i;
    std::size_t next = 0;
    for (std::size_t i = 0; i < partner_[0].size(); ++i) {
      if (partner_[0][i] == nobody) continue;
      AlignedResult& one = alignment_.results[next++];
      const ComputedResult &a = result(0, i), &b = result(1, partner_[0][i]);
      compare_operands_of(a, b, at, one);
      for (const std::vector<Root>& roots : a.operands)
        for (const Root& root : roots) note_read(root, at, sources, one);
    }
  }

  /// Operands of the same op are compared one by one; those of another op, or of one whose operands may be exchanged, all
  /// together.
  void compare_operands_of(const ComputedResult& a, const ComputedResult& b, const Positions& at,
                           AlignedResult& one) const {
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
      one.operands = compare(all_of(a), all_of(b), at, one);
      if (one.operands == OperandsAre::same || !is_same_op) {
        if (one.operands == OperandsAre::other) one.operands = OperandsAre::open;
        return;
      }
    }
    one.operands = a.operands.size() == b.operands.size() ? OperandsAre::same : OperandsAre::open;
    for (std::size_t slot = 0; slot < std::min(a.operands.size(), b.operands.size()); ++slot) {
      const OperandsAre are = compare(a.operands[slot], b.operands[slot], at, one);
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
      if (found != results.end()) note(reader.reads, found->second);
    } else if (const auto found = sources.find(root.id); found != sources.end()) {
      note(reader.reads_sources, found->second);
    }
  }

  /// Also notes whether one of the runs alone casts the operand.
  OperandsAre compare(const std::vector<Root>& a, const std::vector<Root>& b, const Positions& aligned,
                      AlignedResult& one) const {
    const auto is_cast = [](const Root& root) { return root.is_cast; };
    if (std::any_of(a.begin(), a.end(), is_cast) != std::any_of(b.begin(), b.end(), is_cast))
      one.casts_otherwise = true;
    std::vector<Root> expected;
    for (const Root& root : a) {
      if (!root.result) {
        const auto found = source_of_a_.find(root.id);
        if (found == source_of_a_.end()) return OperandsAre::open;
        expected.push_back({std::nullopt, source_in_b(found->second.b), false});
        continue;
      }
      const auto found = aligned.find(*root.result);
      if (found == aligned.end()) return OperandsAre::open;
      const RecordedResult at = alignment_.results[found->second].b;
      expected.push_back({at, runs_[1]->records()[at.record].results[at.result].value(), false});
    }
    const auto is_expected = [&](const Root& root) {
      const std::string& id = root.result ? root.id : source_in_b(root.id);
      return std::any_of(expected.begin(), expected.end(),
                         [&](const Root& other) { return other.result == root.result && other.id == id; });
    };
    if (expected.size() == b.size() && std::all_of(b.begin(), b.end(), is_expected)) return OperandsAre::same;
    const auto has_counterpart = [&](const Root& root) {
      return root.result ? aligned_in_b_.count(*root.result) != 0 : taken_.count(root.id) != 0;
    };
    return std::all_of(b.begin(), b.end(), has_counterpart) ? OperandsAre::other : OperandsAre::open;
  }

  static constexpr double infinite = std::numeric_limits<double>::infinity();

  std::array<const RecordedRun*, 2> runs_;
  std::array<RunOutline, 2> outlines_;
  std::array<std::vector<std::size_t>, 2> partner_;  ///< by computed result: that of the other run
  std::vector<AlignedBy> by_;                        ///< by computed result of a
  std::array<std::map<std::string, std::optional<std::size_t>>, 2> hashes_;  ///< of values from outside, by id
  std::map<std::string, AlignedSource> source_of_a_;                         ///< by id in a
  std::set<std::string> taken_;                                              ///< sources of b
  std::map<std::string, std::string> twin_in_b_;  ///< the first source of b with the same bits as another one
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

RunAlignment align_runs(const RecordedRun& a, const RecordedRun& b) {
  return Aligner(a, b).align();
}

namespace {

/// Where the rows of a run lie in a value: along an axis, each as one block of it, or each at every (rows)-th place.
struct RowLayout {
  std::size_t axis = 0;
  bool is_block = true;
};

std::vector<RowLayout> layouts_of(const Shape& a, const Shape& b, const AlignedRows& rows) {
  std::vector<RowLayout> layouts;
  const auto fits = [&](std::size_t axis) {
    return a[axis] > 0 && a[axis] % rows.a == 0 && b[axis] % rows.b == 0 && a[axis] / rows.a == b[axis] / rows.b;
  };
  const auto add = [&](std::size_t axis) {
    layouts.push_back({axis, true});
    if (a[axis] > rows.a) layouts.push_back({axis, false});
  };
  if (a.size() != b.size()) {
    const bool has_rows_first = !a.empty() && !b.empty() && a.front() % rows.a == 0 && b.front() % rows.b == 0 &&
                                element_count(a) / rows.a == element_count(b) / rows.b;
    if (has_rows_first) layouts.push_back({0, true});
    return layouts;
  }
  for (std::size_t axis = 0; axis < a.size(); ++axis) {
    const bool others_agree = std::equal(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(axis), b.begin()) &&
                              std::equal(a.begin() + static_cast<std::ptrdiff_t>(axis) + 1, a.end(),
                                         b.begin() + static_cast<std::ptrdiff_t>(axis) + 1);
    if (others_agree && fits(axis)) add(axis);
  }
  return layouts;
}

/// The given rows of a value.
StoredTensor some_rows(const StoredTensor& tensor, std::int64_t rows, const RowLayout& layout,
                       const std::vector<std::int64_t>& chosen) {
  Shape shape = tensor.shape();
  const auto axis = static_cast<std::ptrdiff_t>(layout.axis);
  const std::int64_t before = element_count(Shape(shape.begin(), shape.begin() + axis));
  const std::int64_t per_row = shape[layout.axis] / rows;
  const std::size_t width = tensor.bytes().size() / static_cast<std::size_t>(before * shape[layout.axis]);
  std::vector<std::byte> bytes;
  bytes.reserve(static_cast<std::size_t>(before * per_row) * chosen.size() * width);
  const auto append = [&](std::int64_t place, std::int64_t count) {
    const auto one =
        tensor.bytes().subspan(static_cast<std::size_t>(place) * width, static_cast<std::size_t>(count) * width);
    bytes.insert(bytes.end(), one.begin(), one.end());
  };
  for (std::int64_t i = 0; i < before; ++i) {
    const std::int64_t first = i * shape[layout.axis];
    if (layout.is_block)
      for (const std::int64_t row : chosen) append(first + row * per_row, per_row);
    else
      for (std::int64_t j = 0; j < per_row; ++j)
        for (const std::int64_t row : chosen) append(first + j * rows + row, 1);
  }
  shape[layout.axis] = per_row * static_cast<std::int64_t>(chosen.size());
  return StoredTensor(tensor.type(), std::move(shape), std::move(bytes));
}

double square_distance(const AlignedNumbers& numbers) {
  const std::vector<double> x = numbers.a.to_double().values, y = numbers.b.to_double().values;
  double sum = 0.0;
  for (std::size_t i = 0; i < x.size(); ++i)
    if (std::isfinite(x[i]) && std::isfinite(y[i])) sum += (x[i] - y[i]) * (x[i] - y[i]);
  return sum;
}

double square_of(const StoredTensor& tensor) {
  double sum = 0.0;
  for (const double x : tensor.to_double().values)
    if (std::isfinite(x)) sum += x * x;
  return sum;
}

/// Every way in which both values may have the same rows, and the values as they are where that fits.
std::vector<AlignedNumbers> ways_to_align(const StoredTensor& a, const StoredTensor& b,
                                          const std::optional<AlignedRows>& rows) {
  std::vector<AlignedNumbers> ways;
  if (rows && a.size() > 0 && b.size() > 0) {
    std::vector<std::int64_t> in_a, in_b;
    for (std::size_t row = 0; row < rows->of_b.size(); ++row) {
      if (rows->of_b[row] < 0) continue;
      in_a.push_back(rows->of_b[row]);
      in_b.push_back(static_cast<std::int64_t>(row));
    }
    for (const RowLayout& layout : layouts_of(a.shape(), b.shape(), *rows)) {
      StoredTensor of_b = some_rows(b, rows->b, layout, in_b);
      ways.push_back({reshaped(some_rows(a, rows->a, layout, in_a), of_b.shape()), of_b});
    }
  }
  if (a.size() == b.size()) ways.push_back({reshaped(a, b.shape()), b});
  return ways;
}

}  // namespace

std::optional<AlignedNumbers> aligned_numbers(const StoredTensor& a, const StoredTensor& b,
                                              const std::optional<AlignedRows>& rows) {
  constexpr double unrelated = 0.5;  // relative, of squares: the rows of this value lie otherwise
  std::vector<AlignedNumbers> ways = ways_to_align(a, b, rows);
  if (ways.empty()) return std::nullopt;
  if (!rows) return std::move(ways.front());
  std::vector<double> distances;
  for (const AlignedNumbers& way : ways) distances.push_back(square_distance(way));
  const auto best = static_cast<std::size_t>(std::min_element(distances.begin(), distances.end()) - distances.begin());
  if (distances[best] > unrelated * square_of(ways[best].b)) return std::nullopt;
  return std::move(ways[best]);
}

std::optional<StoredTensor> as_in_b(const StoredTensor& of_a, const StoredTensor& of_b,
                                    const std::optional<AlignedRows>& rows) {
  std::optional<AlignedNumbers> both = aligned_numbers(of_a, of_b, rows);
  if (!both || both->b.size() != of_b.size()) return std::nullopt;  // b has rows that a lacks
  return reshaped(both->a, of_b.shape());
}

}  // namespace driftbound
