#include "analysis/drift.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "analysis/choices.hpp"
#include "analysis/drift_verdict.hpp"
#include "analysis/text.hpp"
#include "driftbound/num/errors.hpp"
#include "driftbound/num/format.hpp"

namespace driftbound::analysis {
namespace {

/// Scores from here down are masked.
constexpr double least_mask = -1e4;

/// What constants that a run rounds to float32 may change, relative.
constexpr double rounded_constants = 0x1p-21;

/// The squared standard error of a mean of `count` numbers, from their sum and that of their squares.
double squared_error_of_mean(double sum, double squares, double count) {
  return std::max(squares / count - (sum / count) * (sum / count), 0.0) / (count - 1.0);
}

/// Sums over the elements of two values, and over the means of their rows and columns.
class DifferenceSums {
public:
  DifferenceSums(std::size_t width, const Format* format, bool are_scores)
      : width_(width), format_(format), are_scores_(are_scores), of_columns_(width, 0.0) {}

  void add(double x, double y, bool is_same) {
    const auto element = difference_.elements++;
    if (!is_same && are_scores_ && x <= least_mask && y <= least_mask) {
      ++difference_.masked;
      y = x;
      is_same = true;
    }
    if (!is_same) ++difference_.differing;
    row_is_identical_ = row_is_identical_ && is_same;
    if (std::isfinite(x) != std::isfinite(y))
      ++(std::isfinite(x) ? difference_.not_finite_b : difference_.not_finite_a);
    if (std::isnan(x) && std::isnan(y)) ++difference_.nan_in_both;
    if (std::isfinite(x) && std::isfinite(y)) add_finite(x, y, element);
    if (++in_row_ == width_) end_row();
  }

  RunDifference finish() && {
    if (in_row_ > 0) end_row();
    if (finite_ > 0.0) {
      difference_.rms = std::sqrt(squares_ / finite_);
      difference_.scale =
          difference_.differing == 0 ? 0.0 : std::sqrt(size_ / static_cast<double>(difference_.differing));
      difference_.mean = sum_ / finite_;
    }
    constexpr std::size_t enough = 32;
    const auto rows = static_cast<double>(difference_.rows), columns = static_cast<double>(width_);
    if (difference_.rows < static_cast<std::int64_t>(enough) || width_ < enough) return difference_;
    double of_columns = 0.0, squares_of_columns = 0.0;
    for (const double sum : of_columns_) {
      of_columns += sum / rows;
      squares_of_columns += sum / rows * (sum / rows);
    }
    difference_.mean_error = std::sqrt(squared_error_of_mean(rows_, rows_squares_, rows) +
                                       squared_error_of_mean(of_columns, squares_of_columns, columns));
    return difference_;
  }

private:
  void add_finite(double x, double y, std::int64_t element) {
    const double d = y - x;
    finite_ += 1.0;
    sum_ += d;
    of_row_ += d;
    of_columns_[in_row_] += d;
    squares_ += d * d;
    if (d == 0.0) return;
    size_ += x * x;
    if (format_ != nullptr)
      difference_.ulps = std::max(difference_.ulps, std::abs(d) / ulp(std::max(std::abs(x), std::abs(y)), *format_));
    if (!(std::abs(d) > difference_.largest)) return;
    difference_.largest = std::abs(d);
    difference_.worst = element;
    difference_.worst_a = x;
    difference_.worst_b = y;
  }

  void end_row() {
    ++difference_.rows;
    difference_.identical_rows += row_is_identical_ ? 1 : 0;
    const double mean = of_row_ / static_cast<double>(in_row_);
    rows_ += mean;
    rows_squares_ += mean * mean;
    of_row_ = 0.0;
    in_row_ = 0;
    row_is_identical_ = true;
  }

  std::size_t width_, in_row_ = 0;
  const Format* format_;
  bool are_scores_;
  RunDifference difference_;
  bool row_is_identical_ = true;
  std::vector<double> of_columns_;
  double finite_ = 0.0, sum_ = 0.0, squares_ = 0.0, size_ = 0.0, of_row_ = 0.0, rows_ = 0.0, rows_squares_ = 0.0;
};

}  // namespace

RunDifference difference_of(const AlignedNumbers& numbers, bool are_scores) {
  constexpr std::size_t at_once = std::size_t{1} << 16;
  const Shape& shape = numbers.b.shape();
  const std::optional<FormatId> id = float_format(numbers.b.type());
  const Format* const own = id ? &format(*id) : nullptr;
  DifferenceSums sums(shape.empty() ? 1 : static_cast<std::size_t>(std::max<std::int64_t>(shape.back(), 1)), own,
                      are_scores);
  const bool have_same_bytes = numbers.a.identical(numbers.b);
  for (std::size_t first = 0; first < numbers.b.size(); first += at_once) {
    const std::size_t count = std::min(at_once, numbers.b.size() - first);
    const std::vector<double> x = stretch_of(numbers.a, first, count).to_double().values;
    const std::vector<double> y = stretch_of(numbers.b, first, count).to_double().values;
    for (std::size_t i = 0; i < count; ++i)
      sums.add(x[i], y[i], have_same_bytes || x[i] == y[i] || (std::isnan(x[i]) && std::isnan(y[i])));
  }
  return std::move(sums).finish();
}

double RunDifference::relative() const {
  if (differing == 0 || rms == 0.0) return 0.0;
  return rms * std::sqrt(static_cast<double>(elements) / static_cast<double>(differing)) / scale;
}

std::string_view name_of(DriftVerdict verdict) {
  switch (verdict) {
    case DriftVerdict::expected:
      return "expected";
    case DriftVerdict::undecided:
      return "undecided";
    case DriftVerdict::suspicious:
      return "suspicious";
    case DriftVerdict::bug:
      return "bug";
  }
  return "";
}

Status status_of(DriftVerdict verdict) {
  switch (verdict) {
    case DriftVerdict::expected:
      return Status::holds;
    case DriftVerdict::undecided:
      return Status::undecided;
    case DriftVerdict::suspicious:
      return Status::improbable;
    case DriftVerdict::bug:
      return Status::violated;
  }
  return Status::undecided;
}

double DriftOp::introduced() const {
  return has_same_operands && difference ? difference->largest : error_a + error_b;
}

double DriftOp::propagated() const {
  return difference ? std::max(difference->largest - introduced(), 0.0) : 0.0;
}

RunAlignment aligned_runs(const RecordedRun& a, const RecordedRun& b) {
  RunAlignment alignment = align_runs(a, b);
  if (alignment.results.empty())
    throw InvalidArgument("the runs are of different models: no op of one is an op of the other");
  return alignment;
}

JudgedRun judge_run_alone(const RecordedRun& run, const DriftOptions& options) {
  JudgedRun judged{&run, judge_records(run, options.judge, options.audit), std::nullopt, {}};
  if (judged.judgement.interrupted || options.audit.draws > 0) return judged;
  const RecordChain chain = chain_records(run, options.most_numbers);
  if (chain.why_not.empty()) judged.arithmetic = chain.trace.arithmetic;
  JudgeOptions from_input = options.judge;
  from_input.progress = {};
  from_input.most_output_elements = most_bounded_elements(chain.graph, chain.trace, options.bounds_outputs);
  from_input.keep_block = [&](const Reference& reference, const Bounds& bounds, std::int64_t first,
                              std::int64_t count) {
    for (std::size_t output = 0; output < chain.graph.outputs.size(); ++output) {
      const std::optional<std::size_t> node = chain.graph.producer(chain.graph.outputs[output]);
      if (!node || !chain.results[*node] || reference.layers[*node].size() > most_exact) continue;
      judged.known[*chain.results[*node]].add(chain.graph, chain.trace, output, reference, bounds, first, count,
                                              options.judge.precision.threads);
    }
  };
  judge_from_input(run, chain, from_input, judged.judgement);
  return judged;
}

namespace {

std::string id_of(const RecordedRun& run, RecordedResult at) {
  return run.records()[at.record].results[at.result].value();
}

bool is_choice(ElementType type) {
  return !is_float(type) && type != ElementType::boolean;
}

/// Whether run a has all rows and positions of run b.
bool has_all_of(const AlignedRows& rows) {
  for (std::size_t row = 0; row < rows.of_b.size(); ++row)
    if (rows.of_b[row] < 0 || (rows.positions && rows.positions->of_b[row].count < rows.positions->b)) return false;
  return true;
}

/// The same rows, seen from the other run.
AlignedRows exchanged(const AlignedRows& rows) {
  AlignedRows other{rows.b, rows.a, std::vector<std::int64_t>(static_cast<std::size_t>(rows.a), -1), std::nullopt,
                    rows.lacks_rows};
  if (rows.positions)
    other.positions = AlignedPositions{rows.positions->b,
                                       rows.positions->a,
                                       std::vector<AlignedStretch>(static_cast<std::size_t>(rows.a)),
                                       rows.positions->tokens_in_b,
                                       rows.positions->tokens_in_a,
                                       std::nullopt,
                                       rows.positions->lie_first};
  for (std::size_t row = rows.of_b.size(); row-- > 0;) {
    if (rows.of_b[row] < 0) continue;
    const auto of_a = static_cast<std::size_t>(rows.of_b[row]);
    other.of_b[of_a] = static_cast<std::int64_t>(row);
    if (!rows.positions) continue;
    const AlignedStretch& stretch = rows.positions->of_b[row];
    other.positions->of_b[of_a] = {stretch.first_b, stretch.first_a, stretch.count};
  }
  return other;
}

bool are_same_part(const std::optional<RecordedPart>& a, const std::optional<RecordedPart>& b) {
  return (!a && !b) || (a && b && a->axes == b->axes && a->elements == b->elements);
}

/// The numbers of a value that both runs recorded, or the same part of them.
std::optional<AlignedNumbers> numbers_of_both(const RecordedRun& a, const std::string& id_a, const RecordedRun& b,
                                              const std::string& id_b, const std::optional<AlignedRows>& rows) {
  if (!a.is_stored(id_a) || !b.is_stored(id_b)) return std::nullopt;
  const std::optional<RecordedPart> part_a = a.part_of(id_a), part_b = b.part_of(id_b);
  if (!are_same_part(part_a, part_b) || (part_a && rows)) return std::nullopt;
  return aligned_numbers(a.stored(id_a), b.stored(id_b), rows);
}

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

/// Numbers by which programs pack batches, as opposed to those that say what is computed.
bool is_of_rows(const Attribute& a, const Attribute& b, const AlignedRows& rows) {
  const auto* x = std::get_if<std::int64_t>(&a.value);
  const auto* y = std::get_if<std::int64_t>(&b.value);
  return x != nullptr && y != nullptr && *x % rows.a == 0 && *y % rows.b == 0 && *x / rows.a == *y / rows.b;
}

std::string text_of(const Attribute& attribute) {
  if (const auto* truth = std::get_if<bool>(&attribute.value)) return *truth ? "true" : "false";
  if (const auto* integer = std::get_if<std::int64_t>(&attribute.value)) return fmt::format("{}", *integer);
  if (const auto* real = std::get_if<double>(&attribute.value)) return fmt::format("{}", *real);
  if (const auto* text = std::get_if<std::string>(&attribute.value)) return *text;
  return attribute.is_none() ? "none" : "a list";
}

bool are_alike(const Attribute& a, const Attribute& b, const std::optional<AlignedRows>& rows) {
  if (a.value.index() != b.value.index()) return false;
  if (const auto* x = std::get_if<Attribute::List>(&a.value)) {
    const auto& y = std::get<Attribute::List>(b.value);
    return x->size() == y.size() &&
           std::equal(x->begin(), x->end(), y.begin(),
                      [&](const auto& one, const auto& other) { return are_alike(one, other, rows); });
  }
  const bool is_equal = std::visit(
      [&]<class T>(const T& x) {
        if constexpr (std::is_same_v<T, Attribute::List> || std::is_same_v<T, std::monostate>)
          return true;
        else
          return x == std::get<T>(b.value);
      },
      a.value);
  return is_equal || (rows && is_of_rows(a, b, *rows));
}

/// Numbers by which programs mask scores: which of them makes no difference where the softmax that reads them is compared.
bool are_masks(const Attribute& a, const Attribute& b) {
  const auto* x = std::get_if<double>(&a.value);
  const auto* y = std::get_if<double>(&b.value);
  return x != nullptr && y != nullptr && *x <= least_mask && *y <= least_mask;
}

/// "eps is 1e-06, and 1e-05 in the first run"; empty where the arguments are alike.
/// `are_other_steps`: the runs compute the same positions in different steps. A step of one query sees all keys that there
/// are, and needs no causal mask.
std::string other_argument(const Record& a, const Record& b, const std::optional<AlignedRows>& rows,
                           bool are_other_steps) {
  if (a.op != b.op) return "";
  for (const auto& [name, of_b] : b.attributes) {
    const auto found = a.attributes.find(name);
    if (name == "generator") continue;  // its state is not recorded
    if (name == "is_causal" && are_other_steps) continue;
    if (name == "value" && found != a.attributes.end() && are_masks(found->second, of_b)) continue;
    if (found != a.attributes.end() && !are_alike(found->second, of_b, rows))
      return fmt::format("{} is {}, and {} in the first run", name, text_of(of_b), text_of(found->second));
  }
  return "";
}

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

/// The values that a computed one follows from, directly or by moves.
std::set<std::string> read_in(const RecordedRun& run, const std::set<std::string>& computed) {
  std::set<std::string> ids;
  const std::vector<Record>& records = run.records();
  for (std::size_t i = records.size(); i-- > 0;) {
    const bool leads_on = std::any_of(records[i].results.begin(), records[i].results.end(), [&](const auto& id) {
      return id && (ids.count(*id) != 0 || computed.count(*id) != 0);
    });
    if (!leads_on) continue;
    for (const std::optional<std::string>& id : records[i].operands)
      if (id) ids.insert(*id);
  }
  return ids;
}

class RunComparer {
public:
  RunComparer(const JudgedRun& a, const JudgedRun& b, const DriftOptions& options, RunAlignment alignment)
      : a_(a),
        b_(b),
        run_a_(*a.run),
        run_b_(*b.run),
        options_(options),
        alignment_(std::move(alignment)),
        layers_a_(a),
        layers_b_(b) {}

  RunsDrift compare() && {
    for (std::size_t i = 0; i < alignment_.results.size(); ++i) {
      positions_[0][alignment_.results[i].a] = i;
      positions_[1][alignment_.results[i].b] = i;
    }
    drift_.rows = alignment_.rows;
    drift_.pairs_of_steps = static_cast<std::int64_t>(alignment_.steps.size());
    const JoinedSources joined = joined_sources();
    from_unmatched_a_ = following_from(run_a_, without(alignment_.sources_only_a, joined.a));
    from_unmatched_b_ = following_from(run_b_, without(alignment_.sources_only_b, joined.b));
    drift_.interrupted = a_.judgement.interrupted || b_.judgement.interrupted;
    require_common_positions();
    find_scores();
    find_parting();
    const bool parts_in_a_sequence = drift_.parting.has_value();
    compare_sources();
    parts_at_source_ = drift_.parting && !parts_in_a_sequence;
    compare_values();
    require_parting();
    find_numbers_for_choices();
    judge_in_network();
    compare_decisions();
    note_unjudged();
    for (std::size_t i = 0; i < drift_.ops.size(); ++i) settle_op(i);
    name_what_is_alone();
    find_culprit(drift_);
    add_others(a_, "first");
    add_others(b_, "second");
    return std::move(drift_);
  }

private:
  // ---- weights that one run joins

  struct JoinedSources {
    std::set<std::string> a, b;  ///< ids
  };

  /// Weights that one run has as one, and the other run as several: its rows are theirs, one after the other, bit for bit.
  JoinedSources joined_sources() const {
    JoinedSources joined;
    const auto add = [&](const RecordedRun& whole, const std::vector<std::string>& wholes, const RecordedRun& part,
                         const std::vector<std::string>& parts, std::set<std::string>& of_whole,
                         std::set<std::string>& of_parts) {
      for (const std::string& id : wholes)
        if (const auto found = parts_of(whole, id, part, parts)) {
          of_whole.insert(id);
          of_parts.insert(found->begin(), found->end());
        }
    };
    add(run_a_, alignment_.sources_only_a, run_b_, alignment_.sources_only_b, joined.a, joined.b);
    add(run_b_, alignment_.sources_only_b, run_a_, alignment_.sources_only_a, joined.b, joined.a);
    return joined;
  }

  static std::optional<std::vector<std::string>> parts_of(const RecordedRun& in, const std::string& whole,
                                                          const RecordedRun& other,
                                                          const std::vector<std::string>& candidates) {
    const auto is_known = [](const RecordedRun& run, const std::string& id) {
      return run.is_stored(id) && !run.part_of(id) && is_float(run.type_of(id)) && !run.shape_of(id).empty();
    };
    if (!is_known(in, whole)) return std::nullopt;
    const StoredTensor all = in.stored(whole);
    std::vector<std::string> parts;
    for (std::size_t done = 0; done < all.bytes().size();) {
      const auto is_next = [&](const std::string& id) {
        if (!is_known(other, id)) return false;
        const StoredTensor part = other.stored(id);
        const Shape &shape = part.shape(), &of_all = all.shape();
        const std::size_t count = part.bytes().size();
        return part.type() == all.type() && count > 0 && count <= all.bytes().size() - done &&
               std::equal(shape.begin() + 1, shape.end(), of_all.begin() + 1, of_all.end()) &&
               std::equal(part.bytes().begin(), part.bytes().end(),
                          all.bytes().begin() + static_cast<std::ptrdiff_t>(done));
      };
      const auto next = std::find_if(candidates.begin(), candidates.end(), is_next);
      if (next == candidates.end()) return std::nullopt;
      parts.push_back(*next);
      done += other.stored(*next).bytes().size();
    }
    return parts;
  }

  static std::vector<std::string> without(std::vector<std::string> ids, const std::set<std::string>& some) {
    std::erase_if(ids, [&](const std::string& id) { return some.count(id) != 0; });
    return ids;
  }

  // ---- masked scores

  /// Finds the scores: what nothing but softmax and attention reads, and nothing but masks on the way to them. Where both
  /// runs mask an element of them, by whatever large negative number, its numbers are not compared, and one run's number
  /// is held to be the other one's: each softmax is compared, and shows whether it makes a difference.
  void find_scores() {
    std::vector<bool> is_read(alignment_.results.size()), has_other_reader(alignment_.results.size());
    std::vector<bool> is_source_read(alignment_.sources.size()), has_source_other(alignment_.sources.size());
    for (std::size_t i = alignment_.results.size(); i-- > 0;) {
      const AlignedResult& one = alignment_.results[i];
      const bool is_mask = (one.kind == "Where" || one.kind == "Add") && is_read[i] && !has_other_reader[i];
      if (is_mask) scores_.insert(i);
      const bool is_softmax = one.kind.find("Softmax") != std::string::npos && one.kind != "LogSoftmax";
      const bool is_other = !is_mask && !is_softmax && one.kind != "Attention";
      const auto note = [&](std::size_t place, std::vector<bool>& read, std::vector<bool>& other) {
        read[place] = true;
        other[place] = other[place] || is_other;
      };
      for (const std::size_t operand : one.reads)
        if (operand < i) note(operand, is_read, has_other_reader);
      for (const std::size_t source : one.reads_sources) note(source, is_source_read, has_source_other);
    }
    for (std::size_t i = 0; i < alignment_.sources.size(); ++i)
      if (is_source_read[i] && !has_source_other[i]) score_sources_.insert(i);
  }

  /// Whether an op masks scores, and its results are no further apart than the scores that it reads and the errors of both
  /// runs there: then both runs mask the same elements of those that both have.
  bool masks_what_differs(std::size_t i) const {
    const DriftOp& op = drift_.ops[i];
    if (scores_.count(i) == 0 || !op.difference || !op.difference->is_finite_in_both()) return false;
    double largest = 0.0;
    bool is_known = false;
    for (const std::size_t operand : alignment_.results[i].reads) {
      if (operand >= i || is_choice(run_a_.type_of(id_of(run_a_, alignment_.results[operand].a)))) continue;
      const std::optional<RunDifference>& difference = drift_.ops[operand].difference;
      if (!difference || !difference->is_finite_in_both()) return false;
      largest += difference->largest;
      is_known = true;
    }
    return is_known && is_within_errors(*op.difference, largest, op.error_a + op.error_b);
  }

  /// Scores of one run with the masks of the other one, where both mask an element.
  /// Returns:   empty where that would not be a finite number
  static std::optional<StoredTensor> with_masks_of(StoredTensor of, const StoredTensor& in) {
    if (!is_float(of.type()) || !is_float(in.type()) || of.size() != in.size()) return of;
    Tensor<double> numbers = of.to_double();
    const std::vector<double> masks = in.to_double().values;
    bool is_other = false;
    for (std::size_t i = 0; i < masks.size(); ++i) {
      if (!(numbers.values[i] <= least_mask && masks[i] <= least_mask) || numbers.values[i] == masks[i]) continue;
      if (!std::isfinite(masks[i])) return std::nullopt;
      numbers.values[i] = masks[i];
      is_other = true;
    }
    if (!is_other) return of;
    if (of.type() == ElementType::f64 || in.type() == ElementType::f64) return StoredTensor::from(numbers);
    Tensor<float> in_float32(numbers.shape);
    std::transform(numbers.values.begin(), numbers.values.end(), in_float32.values.begin(),
                   [](double x) { return static_cast<float>(x); });
    return StoredTensor::from(in_float32);
  }

  // ---- values from outside

  void compare_sources() {
    for (std::size_t i = 0; i < alignment_.sources.size(); ++i) {
      const AlignedSource& source = alignment_.sources[i];
      if (source.is_identical) continue;
      // Tokens are the same where steps are aligned, and other integers show in what reads them (T-137).
      if (!alignment_.steps.empty() && !is_float(run_a_.type_of(source.a))) continue;
      DriftSource differing;
      differing.a = source.a;
      differing.b = source.b;
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

  /// Throws:    InvalidArgument where the numbers have nothing to do with each other
  void require_same_input(const AlignedSource& source, const RunDifference& difference,
                          const AlignedNumbers& numbers) const {
    constexpr double most = 0.9, far = 0.1;
    const double share = static_cast<double>(difference.differing) / static_cast<double>(difference.elements);
    const bool is_other = share > most && difference.relative() > far && difference.elements > 1;
    if (is_other || !is_float(numbers.a.type()))
      throw InvalidArgument(fmt::format(
          "the runs are of different inputs or models: '{}' and '{}', which '{}' reads, differ in {} of {} elements; "
          "record both runs with the same inputs and weights",
          source.a, source.b, reader_of(place_of(source)), difference.differing, difference.elements));
  }

  std::size_t place_of(const AlignedSource& source) const {
    return static_cast<std::size_t>(&source - alignment_.sources.data());
  }

  std::string reader_of(std::size_t source) const {
    for (const AlignedResult& one : alignment_.results)
      if (std::find(one.reads_sources.begin(), one.reads_sources.end(), source) != one.reads_sources.end())
        return run_a_.records()[one.a.record].name;
    return "nothing";
  }

  // ---- sequences that part

  /// Throws:    InvalidArgument where texts have so little in common that they are not the same ones
  void require_common_positions() const {
    if (!drift_.rows || !drift_.rows->positions) return;
    const AlignedRows& rows = *drift_.rows;
    const auto known = std::count_if(rows.of_b.begin(), rows.of_b.end(), [](auto row) { return row >= 0; });
    if (2 * known < std::min(rows.a, rows.b))
      throw InvalidArgument(
          fmt::format("the runs are of different inputs: {} of {} rows of tokens in '{}' begin like a row of '{}' in "
                      "the first run; record both runs with the same inputs",
                      known, rows.b, rows.positions->tokens_in_b, rows.positions->tokens_in_a));
  }

  /// Where sequences part whose first positions are the same.
  void find_parting() {
    if (!drift_.rows || !drift_.rows->positions) return;
    if (const auto& parting = drift_.rows->positions->parting)
      drift_.parting = DriftParting{
          drift_.rows->positions->tokens_in_a, parting->row, parting->position, parting->a, parting->b, false};
  }

  /// A run that goes on with its own tokens reads one after the other from outside: those behind the first one that
  /// differs follow from other choices.
  bool is_later_token(std::size_t source) const {
    const AlignedSource& one = alignment_.sources[source];
    if (!is_choice(run_a_.type_of(one.a)) || one.table.empty()) return false;
    for (std::size_t i = 0; i < source; ++i) {
      const AlignedSource& earlier = alignment_.sources[i];
      if (earlier.table == one.table && (earlier.is_identical || parted_sources_.count(i) != 0)) return true;
    }
    return false;
  }

  /// Integers that the runs read in a later step, as which rows have ended, may follow from other tokens as well.
  bool may_follow_tokens(std::size_t source) const {
    return alignment_.sources[source].step > 0 && is_choice(run_a_.type_of(alignment_.sources[source].a));
  }

  /// Throws:    InvalidArgument where the runs do not part, and such integers differ
  void require_parting() const {
    for (const std::size_t i : parted_sources_) {
      const AlignedSource& source = alignment_.sources[i];
      if (drift_.parting || is_later_token(i)) continue;
      const auto numbers = numbers_of_both(run_a_, source.a, run_b_, source.b, std::nullopt);
      if (numbers) require_same_input(source, difference_of(*numbers), *numbers);
    }
  }

  void note_parting(const std::string& name, const AlignedNumbers& numbers, bool is_drawn) {
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

  bool follows_choice(const AlignedResult& one) const {
    return std::any_of(one.reads.begin(), one.reads.end(),
                       [&](std::size_t i) { return follow_choice_.count(i) != 0; }) ||
           reads_parted(one);
  }

  /// Floats that both runs draw at random, and what follows from them.
  bool reads_drawn(const AlignedResult& one) const {
    return std::any_of(one.reads.begin(), one.reads.end(), [&](std::size_t i) {
      return drawn_.count(i) != 0 && is_float(run_a_.type_of(id_of(run_a_, alignment_.results[i].a)));
    });
  }

  /// Those of which nothing but choices follows. What nothing reads is a result of the run.
  void find_numbers_for_choices() {
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

  bool reads_parted(const AlignedResult& one) const {
    return std::any_of(one.reads_sources.begin(), one.reads_sources.end(),
                       [&](std::size_t i) { return parted_sources_.count(i) != 0; });
  }

  // ---- values of both runs

  void compare_values() {
    for (const AlignedResult& one : alignment_.results) {
      const Record &record_a = run_a_.records()[one.a.record], &record_b = run_b_.records()[one.b.record];
      DriftOp op;
      op.name = name_of_result(record_a, one.a);
      op.name_b = name_of_result(record_b, one.b);
      op.module = record_a.module;
      op.op = record_a.op;
      op.op_b = record_b.op;
      op.by = one.by;
      const std::size_t place = drift_.ops.size();
      const bool is_choice_of_both = is_choice(run_b_.type_of(id_of(run_b_, one.b)));
      const bool draws = draws_at_random(record_a.op) && draws_at_random(record_b.op);
      const bool is_drawn = reads_drawn(one);
      if (follows_choice(one)) {
        follow_choice_.insert(place);
      } else if (is_drawn && !is_choice_of_both) {
        drawn_.insert(place);
      } else if (const auto numbers = numbers_of_both(run_a_, id_of(run_a_, one.a), run_b_, id_of(run_b_, one.b),
                                                      alignment_.rows_of(one))) {
        op.difference = difference_of(*numbers, scores_.count(place) != 0);
        const bool differs = !op.difference->is_zero();
        if (differs && (draws || is_drawn)) drawn_.insert(place);
        if (differs && is_choice_of_both && !alignment_.steps.empty() && reads_integers_alone(run_a_, record_a)) {
          op.difference.reset();  // as positions in a window: what reads them is compared
        } else if (differs && is_choice_of_both) {
          if (parts_at_source_) drift_.parting.reset();  // which follows from this choice
          parts_at_source_ = false;
          note_parting(op.name, *numbers, draws || is_drawn);
          follow_choice_.insert(place);
        } else if (differs && draws) {
          op.difference.reset();
        }
      } else if (is_unrelated(one)) {
        unrelated_.insert(place);
      }
      op.has_same_operands = one.operands == OperandsAre::same && !one.casts_otherwise && reads_the_same(one) &&
                             (alignment_.steps.empty() || !alignment_.steps[one.in_step].leaves_some_out);
      take_reports(op, layers_a_.at(one.a), layers_b_.at(one.b));
      const bool reads_the_same_sources = drift_.sources.empty() && unknown_sources_.empty();
      if (reads_the_same_sources)
        op.apart_at_most = any_runs_apart(a_.judgement.comparison, op.name, b_.judgement.comparison, op.name_b);
      std::vector<const RunDifference*> operands;
      for (const std::size_t i : one.reads)
        if (i < drift_.ops.size() && drift_.ops[i].difference) operands.push_back(&*drift_.ops[i].difference);
      add_op(std::move(op), operands, drift_);
    }
  }

  /// Whether a record chooses nothing, but computes integers from integers, or makes constants.
  static bool reads_integers_alone(const RecordedRun& run, const Record& record) {
    return std::none_of(record.operands.begin(), record.operands.end(), [&](const std::optional<std::string>& id) {
      return id && run.has(*id) && is_float(run.type_of(*id));
    });
  }

  /// Whether both runs recorded the value, and it may have the rows of both, but none of its numbers are near.
  bool is_unrelated(const AlignedResult& one) const {
    const std::string a = id_of(run_a_, one.a), b = id_of(run_b_, one.b);
    const bool are_known = run_a_.is_stored(a) && run_b_.is_stored(b) && !run_a_.part_of(a) && !run_b_.part_of(b);
    const std::optional<AlignedRows> rows = alignment_.rows_of(one);
    return are_known && rows && may_have_rows_in_common(run_a_.shape_of(a), run_b_.shape_of(b), *rows);
  }

  static std::string name_of_result(const Record& record, RecordedResult at) {
    return record.results.size() > 1 && at.result > 0 ? fmt::format("{}[{}]", record.name, at.result) : record.name;
  }

  bool reads_the_same(const AlignedResult& one) const {
    const auto is_same_result = [&](std::size_t i) {
      return i < drift_.ops.size() && drift_.ops[i].difference && drift_.ops[i].difference->is_zero();
    };
    const auto is_same_source = [&](std::size_t i) {
      return other_sources_.count(i) == 0 && unknown_sources_.count(i) == 0 && parted_sources_.count(i) == 0;
    };
    return std::all_of(one.reads.begin(), one.reads.end(), is_same_result) &&
           std::all_of(one.reads_sources.begin(), one.reads_sources.end(), is_same_source);
  }

  // ---- decisions

  void compare_decisions() {
    const ChosenFrom outputs_a(run_a_), outputs_b(run_b_);
    for (std::size_t i = 0; i < alignment_.results.size(); ++i) {
      const AlignedResult& one = alignment_.results[i];
      const std::string id = id_of(run_a_, one.a);
      const Shape& shape = run_a_.shape_of(id);
      if (!is_float(run_a_.type_of(id)) || shape.size() < 2 || shape.back() < 2) continue;
      if (!outputs_a.are_chosen_from(id) || !outputs_b.are_chosen_from(id_of(run_b_, one.b))) continue;
      if (follow_choice_.count(i) != 0 || drawn_.count(i) != 0) continue;
      const auto numbers = numbers_of_both(run_a_, id, run_b_, id_of(run_b_, one.b), alignment_.rows_of(one));
      if (!numbers || run_a_.part_of(id)) continue;
      const auto known = [&](const JudgedRun& run, RecordedResult at) -> const KnownNumbers* {
        const auto found = run.known.find(at);
        const bool are_found =
            !alignment_.rows_of(one) || !numbers->rows_of_a.empty();  // else it is not known which rows these are
        return !drift_.sources.empty() || !are_found || found == run.known.end() ? nullptr : &found->second;
      };
      const std::vector<std::int64_t> next = options_.chosen.empty() ? next_tokens(one, shape) : options_.chosen;
      add_rows(drift_.ops[i].name, *numbers, known(a_, one.a), known(b_, one.b),
               {options_.top, row_before_parting(one, shape), next}, drift_);
    }
  }

  /// Where the runs read a text in different steps, by row of a value of run a: the token of the text behind the row's
  /// position, which a sampler chose there; -1: the text ends. Empty: it is not known which rows these are.
  std::vector<std::int64_t> next_tokens(const AlignedResult& one, const Shape& shape) const {
    if (alignment_.steps.empty()) return {};
    const AlignedStep& step = alignment_.steps[one.in_step];
    const std::int64_t texts = alignment_.texts.shape[0], positions = alignment_.texts.shape[1];
    const std::int64_t rows = element_count(shape) / shape.back(), count = rows / texts;
    const bool is_first = drift_.rows->positions->lie_first && shape.size() > 2;
    if (rows != texts * count || (step.rows && step.rows->positions && count != step.rows->positions->a)) return {};
    std::vector<std::int64_t> next;
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::int64_t text = is_first ? row % texts : row / count;
      const std::int64_t position = step.first_a + (is_first ? row / texts : row % count) + 1;
      next.push_back(
          position < positions ? alignment_.texts.values[static_cast<std::size_t>(text * positions + position)] : -1);
    }
    const std::int64_t classes = shape.back();
    const bool are_classes = std::all_of(next.begin(), next.end(), [&](auto token) { return token < classes; });
    return are_classes ? next : std::vector<std::int64_t>();
  }

  /// The row that the first token that differs was chosen from; empty where the value does not have it.
  std::optional<std::int64_t> row_before_parting(const AlignedResult& one, const Shape& shape) const {
    const std::optional<AlignedRows> of_value = alignment_.rows_of(one);
    if (!drift_.parting || !of_value || !of_value->positions) return std::nullopt;
    const AlignedPositions& positions = *of_value->positions;
    const std::int64_t rows = of_value->a, count = positions.a;
    const std::int64_t before = alignment_.steps.empty() ? 0 : alignment_.steps[one.in_step].first_a;
    const std::int64_t row = drift_.parting->row, position = drift_.parting->position - 1 - before;
    if (position < 0 || position >= count) return std::nullopt;
    const Shape first = positions.lie_first ? Shape{count, rows} : Shape{rows, count};
    const bool fits = (shape.size() > 2 && shape[0] == first[0] && shape[1] == first[1]) ||
                      (shape.size() == 2 && shape[0] == rows * count);
    if (!fits) return std::nullopt;
    return positions.lie_first ? position * rows + row : row * count + position;
  }

  // ---- the first run as one of the second run's network

  /// The numbers of one run are judged as a run of the other one's network, which must have no other rows: the first
  /// run's in that of the second; the other way round where only this is possible, and for ops that this leaves open.
  void judge_in_network() {
    if (options_.audit.draws > 0) {
      drift_.not_as_b = "elements are drawn (--audit)";
      return;
    }
    if (!alignment_.steps.empty()) {
      drift_.not_as_b = "the runs compute the same positions in different steps";
      return;
    }
    const bool has_all_of_b = !drift_.rows || has_all_of(*drift_.rows);
    const bool has_all_of_a = !drift_.rows || has_all_of(exchanged(*drift_.rows));
    if (!has_all_of_b && !has_all_of_a) {
      drift_.not_as_b = "each run has rows or positions that the other has not";
      return;
    }
    drift_.is_as_a = !has_all_of_b;
    drift_.not_as_b = judge_as(drift_.is_as_a);
    if (has_all_of_b && has_all_of_a && is_one_open() && judge_as(true).empty()) drift_.not_as_b.clear();
  }

  /// Whether an op is computed by other ops, and not held against the other run's network.
  bool is_one_open() const {
    for (std::size_t i = 0; i < drift_.ops.size(); ++i)
      if (!is_judged(drift_.ops[i].as_b) && !is_same_op(i) && !follow_choice_.count(i) && drift_.ops[i].difference &&
          !drift_.ops[i].difference->is_zero())
        return true;
    return false;
  }

  static bool is_judged(Status status) { return status != Status::not_checked && status != Status::undecided; }

  bool is_same_op(std::size_t i) const {
    const AlignedResult& one = alignment_.results[i];
    return one.by == AlignedBy::op && one.operands == OperandsAre::same &&
           run_a_.records()[one.a.record].op == run_b_.records()[one.b.record].op;
  }

  /// Judges the numbers of one run as those of the network of the other one: of the second run's, or (`as_a`) the first's.
  /// Returns:   why not; empty: they were judged
  std::string judge_as(bool as_a) {
    const JudgedRun& numbers_of = as_a ? b_ : a_;
    const RecordedRun &of = *numbers_of.run, &in = *(as_a ? a_ : b_).run;
    const NumbersOf numbers = [&](RecordedResult at) -> std::optional<StoredTensor> {
      const std::optional<std::size_t> i = position_of(at, as_a);
      if (!i) return std::nullopt;
      const AlignedResult& one = alignment_.results[*i];
      const std::string id = id_of(of, as_a ? one.b : one.a), id_in = id_of(in, at);
      if (!of.is_stored(id) || of.part_of(id) || !in.is_stored(id_in) || in.part_of(id_in)) return std::nullopt;
      std::optional<AlignedRows> of_value = alignment_.rows_of(one);
      if (of_value && as_a) of_value = exchanged(*of_value);
      const std::optional<StoredTensor> numbers = as_in_b(of.stored(id), in.stored(id_in), of_value);
      if (!numbers || scores_.count(*i) == 0) return numbers;
      std::optional<StoredTensor> masked = with_masks_of(*numbers, in.stored(id_in));
      if (!masked) other_masks_.insert(*i);
      return masked ? masked : numbers;
    };
    std::set<std::size_t> doubtful;  // ops
    const auto take = [&](const RecordChain& chain) {
      const Comparison comparison = judge(chain.graph, chain.trace, options_in(chain)).comparison;
      for (std::size_t i = 0; i < chain.results.size() && i < comparison.layers.size(); ++i) {
        const auto op = chain.results[i] ? position_of(*chain.results[i], as_a) : std::nullopt;
        if (op && take_status(*op, comparison.layers[i], as_a)) doubtful.insert(*op);
      }
    };
    const std::string why_not = with_chain(in, numbers, numbers_of, take);
    if (!doubtful.empty()) compare_exact_networks(doubtful, in, numbers, as_a);
    return why_not;
  }

  /// Returns:   whether the exact networks are to be compared: it is violated, or the runs compute it by other ways
  bool take_status(std::size_t i, const LayerSummary& layer, bool as_a) {
    DriftOp& op = drift_.ops[i];
    if (is_judged(op.as_b) || other_masks_.count(i) != 0) return false;
    op.as_b = own_status(layer);
    op.is_as_a = as_a;
    complaints_[i] = complaint_of(layer);
    return op.as_b == Status::violated || (is_judged(op.as_b) && alignment_.results[i].reads_left_out);
  }

  /// By another way to the same numbers a run may round more than the other run's ops do. Between the values of both runs
  /// the exact networks then give the same, and each run's own bounds say whether it computed that. Where they do not give
  /// the same, the runs compute other functions, however much rounding would explain (T-137).
  void compare_exact_networks(const std::set<std::size_t>& doubtful, const RecordedRun& in, const NumbersOf& numbers,
                              bool as_a) {
    const JudgedRun& numbers_of = as_a ? b_ : a_;
    const RecordedRun& of = *numbers_of.run;
    const NumbersOf own = [&](RecordedResult at) -> std::optional<StoredTensor> {
      const std::string id = id_of(of, at);
      if (!position_of(at, !as_a) || !of.is_stored(id) || of.part_of(id)) return std::nullopt;
      return of.stored(id);
    };
    std::map<std::size_t, StoredTensor> exact_own, exact_other;
    const auto keep = [&](std::map<std::size_t, StoredTensor>& exact, bool in_a) {
      return [&doubtful, &exact, in_a, this](const RecordChain& chain) {
        const Reference reference = ReferenceMaker(chain.graph).local(chain.trace, options_.judge.precision);
        for (std::size_t i = 0; i < chain.results.size() && i < reference.layers.size(); ++i) {
          const auto op = chain.results[i] ? position_of(*chain.results[i], in_a) : std::nullopt;
          if (op && doubtful.count(*op) != 0) exact.emplace(*op, nearest_numbers(reference.layers[i]));
        }
      };
    };
    with_chain(of, own, numbers_of, keep(exact_own, !as_a));
    with_chain(in, numbers, numbers_of, keep(exact_other, as_a));
    for (const std::size_t i : doubtful) {
      DriftOp& op = drift_.ops[i];
      const auto x = exact_own.find(i), y = exact_other.find(i);
      std::optional<AlignedRows> rows = alignment_.rows_of(alignment_.results[i]);
      if (rows && as_a) rows = exchanged(*rows);
      const bool are_known = x != exact_own.end() && y != exact_other.end();
      const std::optional<StoredTensor> in_other =
          are_known ? as_in_b(x->second, y->second, rows) : std::optional<StoredTensor>();
      if (in_other && are_same_function(*in_other, y->second, scores_.count(i) != 0)) {
        op.as_b = Status::holds;
        complaints_.erase(i);
      } else if (op.as_b != Status::violated) {
        op.as_b = in_other ? Status::violated : Status::not_checked;
        complaints_[i] = "exact values differ between what both runs have";
      }
    }
  }

  static StoredTensor nearest_numbers(const Tensor<Ball>& exact) {
    Tensor<double> numbers(exact.shape);
    std::transform(exact.values.begin(), exact.values.end(), numbers.values.begin(),
                   [](const Ball& ball) { return ball.hi; });
    return StoredTensor::from(numbers);
  }

  /// Whether exact values of two networks on the same numbers differ by no more than constants that each of them rounds.
  static bool are_same_function(const StoredTensor& of_a, const StoredTensor& of_b, bool are_scores) {
    const std::vector<double> x = of_a.to_double().values, y = of_b.to_double().values;
    const auto is_masked = [&](std::size_t i) { return are_scores && x[i] <= least_mask && y[i] <= least_mask; };
    double size = 0.0, count = 0.0;
    for (std::size_t i = 0; i < x.size(); ++i)
      if (!is_masked(i)) {
        size += std::abs(y[i]);
        count += 1.0;
      }
    for (std::size_t i = 0; i < x.size(); ++i)
      if (!is_masked(i) && !(std::abs(x[i] - y[i]) <= rounded_constants * (std::abs(y[i]) + size / count)))
        return false;
    return true;
  }

  /// The position in the alignment of a result of the first run (`in_a`) or the second.
  std::optional<std::size_t> position_of(RecordedResult at, bool in_a) const {
    const std::map<RecordedResult, std::size_t>& all = positions_[in_a ? 0 : 1];
    const auto found = all.find(at);
    return found == all.end() ? std::nullopt : std::optional(found->second);
  }

  /// Hands over the network of a run with numbers in the place of its results.
  /// Returns:   why not; empty: it was handed over
  std::string with_chain(const RecordedRun& in, const NumbersOf& numbers, const JudgedRun& numbers_of,
                         const std::function<void(const RecordChain&)>& take) const {
    RecordChain chain = chain_records(in, options_.most_numbers, numbers);
    if (!chain.why_not.empty()) return chain.why_not;
    if (numbers_of.arithmetic) chain.trace.arithmetic = *numbers_of.arithmetic;
    chain.trace.provenance = numbers_of.run->provenance();
    try {
      take(chain);
    } catch (const Unsupported& error) {
      return error.what();
    }
    return "";
  }

  JudgeOptions options_in(const RecordChain& chain) const {
    JudgeOptions options = options_.judge;
    if (chain.may_round_numbers) options.without.emplace_back(BoundKind::rounded_shadow);
    options.progress = {};
    return options;
  }

  /// What a layer's own errors say: those from the input on follow from other layers.
  static Status own_status(const LayerSummary& layer) {
    const auto exceeds = [&](const BoundSummary& bound) { return bound.gives_verdict() && bound.violations > 0; };
    const auto is_improbable = [&](const BoundSummary& bound) { return bound.is_improbable(); };
    const std::vector<BoundSummary>& bounds = layer.local.bounds;
    if (std::any_of(bounds.begin(), bounds.end(), exceeds)) return Status::violated;
    const bool reads_otherwise = layer.nearest_reading && layer.nearest_reading->is_decisive;
    if (reads_otherwise || std::any_of(bounds.begin(), bounds.end(), is_improbable)) return Status::improbable;
    return layer.status == Status::violated || layer.status == Status::improbable ? Status::holds : layer.status;
  }

  // ---- verdicts

  void settle_op(std::size_t i) {
    const AlignedResult& one = alignment_.results[i];
    const Record &record_a = run_a_.records()[one.a.record], &record_b = run_b_.records()[one.b.record];
    OpEvidence evidence;
    evidence.a = layers_a_.at(one.a);
    evidence.b = layers_b_.at(one.b);
    evidence.other_numbers = other_source_of(one);
    const auto is_not_finite = [](const DriftSource& source) { return !source.difference->is_finite_in_both(); };
    evidence.reads_not_finite = differing_source_of(one, is_not_finite) != nullptr;
    evidence.rounded_numbers = rounded_source_of(one, false);
    evidence.declared_rounding = rounded_source_of(one, true);
    evidence.unknown_numbers = unknown_source_of(one);
    evidence.are_other_steps = !alignment_.steps.empty();
    evidence.unmatched_source = unmatched_source_of(one);
    evidence.reads_the_same_sources = drift_.sources.empty() && unknown_sources_.empty() && !alignment_.rows &&
                                      drawn_.count(i) == 0 && follow_choice_.count(i) == 0;
    if (one.operands == OperandsAre::other && !evidence.are_other_steps && !alignment_.has_other_texts) {
      evidence.other_function = fmt::format("its operand {} is another value in the second run", one.other_slot);
    } else if (const std::string argument =
                   other_argument(record_a, record_b, alignment_.rows_of(one), !alignment_.steps.empty());
               !argument.empty() && !(evidence.are_other_steps && !is_float(run_b_.type_of(id_of(run_b_, one.b))))) {
      // Positions of a step are counted from where it begins.
      evidence.other_function = "the runs compute other functions: " + argument;
    }
    if (const auto found = complaints_.find(i); found != complaints_.end()) evidence.complaint_as_b = found->second;
    evidence.is_choice = !is_float(run_b_.type_of(id_of(run_b_, one.b)));
    evidence.is_same_op = is_same_op(i);
    evidence.adds_and_multiplies = adds_and_multiplies(one.kind);
    evidence.follows_choice = follow_choice_.count(i) != 0 && !(evidence.is_choice && drift_.ops[i].difference);
    evidence.is_drawn = drawn_.count(i) != 0;
    evidence.is_for_choices = for_choices_.count(i) != 0;
    evidence.is_as_a = drift_.ops[i].is_as_a;
    evidence.is_unrelated = unrelated_.count(i) != 0;
    // One run's operand is another one, or is rounded.
    if (reads_drifted(one) || follow_choice_.count(i) != 0 || drawn_.count(i) != 0 || one.casts_otherwise ||
        !evidence.declared_rounding.empty())
      drift_.ops[i].as_b = Status::not_checked;
    evidence.masks_what_differs = masks_what_differs(i);
    if (const std::string text = answers_to_others(i, evidence); !text.empty()) {
      const std::optional<AlignedRows> rows = alignment_.rows_of(one);
      const bool may_look_ahead = rows && rows->positions && !evidence.are_other_steps;
      (may_look_ahead ? evidence.answers_to_positions : evidence.answers_to_rows) = text;
    }
    evidence.follows_other_function = answers_.count(i) != 0;
    settle(drift_.ops[i], evidence, drift_.ops.size());
  }

  /// What shows that the same rows or positions do not follow from the same numbers alone, or by another function: they are
  /// further apart than both runs are from their exact values, or from the exact op on the same operands. Empty: nothing, or
  /// an operand does already.
  /// Source:    docs/theory.md T-137
  std::string answers_to_others(std::size_t i, const OpEvidence& evidence) {
    const AlignedResult& one = alignment_.results[i];
    const DriftOp& op = drift_.ops[i];
    const bool reads_others = std::any_of(one.reads.begin(), one.reads.end(),
                                          [&](std::size_t operand) { return answers_.count(operand) != 0; });
    if (reads_others) answers_.insert(i);
    // Their exact networks read other numbers.
    if (!unmatched_source_of(one).empty()) return "";
    const std::optional<AlignedRows> rows = alignment_.rows_of(one);
    const bool is_known = drift_.sources.empty() && unknown_sources_.empty() && parted_sources_.empty() &&
                          op.difference && op.difference->is_finite_in_both() && !evidence.is_choice &&
                          options_.audit.draws == 0 && evidence.other_function.empty();
    if (!is_known || reads_others) return "";
    const bool are_both_judged = evidence.a != nullptr && evidence.b != nullptr;
    const bool has_inputs = op.from_input_a && op.from_input_b && !follows_unjudged(one);
    const bool prefers_inputs = !alignment_.steps.empty() && has_inputs;
    const bool has_operands = rows && op.has_same_operands && evidence.is_same_op && are_both_judged && !prefers_inputs;
    if (!has_inputs && !has_operands) return "";
    if (!rows && (drawn_.count(i) != 0 || follow_choice_.count(i) != 0)) return "";
    const double a = has_operands ? op.error_a : *op.from_input_a, b = has_operands ? op.error_b : *op.from_input_b;
    const double constants =
        rows ? 0.0 : rounded_constants * std::max(std::abs(op.difference->worst_a), op.difference->scale);
    if (is_within_errors(*op.difference, a + constants, b)) return "";
    answers_.insert(i);
    const std::string text = fmt::format("{} apart, and the runs are within {} and {} of the exact value: ",
                                         error_text(op.difference->largest), error_text(a), error_text(b));
    if (!rows && alignment_.steps.empty()) return text + "from the same inputs the runs compute other functions";
    if (!alignment_.steps.empty())
      return text +
             "at the same positions of the same text the runs compute other functions: keys of a cache that are "
             "stale or missing, another mask, or other positions";
    return text +
           (rows->positions
                ? "positions that both runs have answer to what follows them, or to padding, which a causal mask "
                  "or a padding mask excludes"
                : "rows that both runs have answer to other rows, or the runs compute other functions");
  }

  bool reads_drifted(const AlignedResult& one) const {
    return std::any_of(one.reads_sources.begin(), one.reads_sources.end(), [&](std::size_t i) {
      const auto found = other_sources_.find(i);
      return found != other_sources_.end() && drift_.sources[found->second].is_drifted;
    });
  }

  /// The value from outside, of floating-point numbers that the other run has not, which a result of either run follows from.
  std::string unmatched_source_of(const AlignedResult& one) const {
    if (const auto found = from_unmatched_a_.find(id_of(run_a_, one.a)); found != from_unmatched_a_.end())
      return found->second;
    const auto found = from_unmatched_b_.find(id_of(run_b_, one.b));
    return found == from_unmatched_b_.end() ? "" : found->second;
  }

  /// Notes what follows from results that are not judged and whose numbers may differ: errors from the input on then begin
  /// at other numbers in each run. Results that are made of no numbers are constants.
  void note_unjudged() {
    std::vector<std::string> of_a, of_b;
    const auto add = [](const RecordedRun& run, RecordedResult at, std::vector<std::string>& ids) {
      if (!reads_integers_alone(run, run.records()[at.record])) ids.push_back(id_of(run, at));
    };
    for (std::size_t i = 0; i < drift_.ops.size(); ++i) {
      const DriftOp& op = drift_.ops[i];
      if (op.difference && op.difference->is_zero() && op.difference->masked == 0) continue;
      if (op.a == Status::not_checked) add(run_a_, alignment_.results[i].a, of_a);
      if (op.b == Status::not_checked) add(run_b_, alignment_.results[i].b, of_b);
    }
    const auto add_alone = [&](const RecordedRun& run, const LayersOf& layers, const std::vector<RecordedResult>& alone,
                               std::vector<std::string>& ids) {
      for (const RecordedResult& at : alone) {
        const LayerSummary* layer = layers.at(at);
        if (layer == nullptr || layer->status == Status::not_checked) add(run, at, ids);
      }
    };
    add_alone(run_a_, layers_a_, alignment_.only_a, of_a);
    add_alone(run_b_, layers_b_, alignment_.only_b, of_b);
    from_unjudged_a_ = following_from(run_a_, of_a);
    from_unjudged_b_ = following_from(run_b_, of_b);
  }

  bool follows_unjudged(const AlignedResult& one) const {
    return from_unjudged_a_.count(id_of(run_a_, one.a)) != 0 || from_unjudged_b_.count(id_of(run_b_, one.b)) != 0;
  }

  /// The first of the values from outside that an op reads whose numbers differ and that is such a one.
  template <class Is>
  const DriftSource* differing_source_of(const AlignedResult& one, const Is& is) const {
    for (const std::size_t i : one.reads_sources) {
      const auto found = other_sources_.find(i);
      if (found == other_sources_.end()) continue;
      const DriftSource& source = drift_.sources[found->second];
      if (!source.is_drifted && is(source)) return &source;
    }
    return nullptr;
  }

  std::string other_source_of(const AlignedResult& one) const {
    const auto* source =
        differing_source_of(one, [](const DriftSource& each) { return !each.difference->is_finite_in_both(); });
    if (source == nullptr)
      source = differing_source_of(one, [](const DriftSource& each) { return each.rounded_to.empty(); });
    if (source == nullptr) return "";
    const RunDifference& difference = *source->difference;
    if (!difference.is_finite_in_both())
      return fmt::format(
          "the {} run reads numbers that are not finite: {} of {} elements of '{}', which are finite in "
          "the other run",
          difference.not_finite_a > 0 ? "first" : "second", std::max(difference.not_finite_a, difference.not_finite_b),
          difference.elements, difference.not_finite_a > 0 ? source->a : source->b);
    if (!is_float(run_a_.type_of(source->a)))
      return fmt::format("the runs read other numbers: {} of {} elements of '{}' differ", difference.differing,
                         difference.elements, source->a);
    if (source->is_zero_in_one)
      return fmt::format("'{}' is 0 in one run alone, in all of {} elements", source->a, difference.elements);
    return fmt::format("the runs read other numbers: {} of {} elements of '{}' differ, by {} of its scale at most",
                       difference.differing, difference.elements, source->a,
                       error_text(difference.largest / difference.scale));
  }

  std::string rounded_source_of(const AlignedResult& one, bool is_declared) const {
    const auto* source = differing_source_of(
        one, [&](const DriftSource& each) { return !each.rounded_to.empty() && each.is_declared == is_declared; });
    if (source == nullptr) return "";
    return fmt::format("the {} run reads '{}' rounded to {}", source->is_first_rounded ? "first" : "second",
                       source->is_first_rounded ? source->a : source->b, source->rounded_to);
  }

  std::string unknown_source_of(const AlignedResult& one) const {
    for (const std::size_t i : one.reads_sources)
      if (unknown_sources_.count(i) != 0)
        return fmt::format("the runs did not record the same elements of '{}', which it reads",
                           alignment_.sources[i].a);
    return "";
  }

  void name_what_is_alone() {
    const auto name = [&](const RecordedRun& run, const LayersOf& layers, const std::vector<RecordedResult>& results,
                          const std::set<std::string>& of_both, const std::map<std::string, std::string>& from) {
      const std::set<std::string> leads = leading_to(run, of_both);
      std::set<std::string> computed = of_both;
      for (const RecordedResult& at : results) computed.insert(id_of(run, at));
      const std::set<std::string> read = read_in(run, computed);
      std::vector<DriftAlone> alone;
      for (const RecordedResult& at : results) {
        const Record& record = run.records()[at.record];
        DriftAlone one{name_of_result(record, at), record.op, Status::not_checked, ""};
        if (const LayerSummary* layer = layers.at(at)) {
          one.status = layer->status;
          one.reason = complaint_of(*layer);
        }
        const std::string& id = *record.results[at.result];
        one.is_result = at.result == 0 && is_float(run.type_of(id)) && read.count(id) == 0 && !is_of_longer_run(record);
        const auto source = from.find(id);
        one.follows_unknown = source != from.end() && leads.count(id) == 0 && !drift_.parting;
        if (one.follows_unknown && one.reason.empty())
          one.reason = "it follows from '" + source->second +
                       "', which comes from outside and the other run has not, and is not compared";
        alone.push_back(std::move(one));
      }
      return alone;
    };
    std::set<std::string> of_a, of_b;
    for (const AlignedResult& one : alignment_.results) {
      of_a.insert(id_of(run_a_, one.a));
      of_b.insert(id_of(run_b_, one.b));
    }
    drift_.only_a = name(run_a_, layers_a_, alignment_.only_a, of_a, from_unmatched_a_);
    drift_.only_b = name(run_b_, layers_b_, alignment_.only_b, of_b, from_unmatched_b_);
    drift_.sources_only_a = alignment_.sources_only_a;
    drift_.sources_only_b = alignment_.sources_only_b;
  }

  /// The values of a run from which one of these follows, and these.
  static std::set<std::string> leading_to(const RecordedRun& run, std::set<std::string> ids) {
    ids.merge(read_in(run, ids));
    return ids;
  }

  /// By id: which of these values from outside, of floating-point numbers, a value of the run follows from.
  static std::map<std::string, std::string> following_from(const RecordedRun& run,
                                                           const std::vector<std::string>& ids) {
    std::map<std::string, std::string> from;
    for (const std::string& id : ids)
      if (is_float(run.type_of(id))) from[id] = id;
    for (const Record& record : run.records())
      for (const std::optional<std::string>& operand : record.operands) {
        const auto found = operand ? from.find(*operand) : from.end();
        if (found == from.end()) continue;
        const std::string source = found->second;
        for (const std::optional<std::string>& id : record.results)
          if (id) from.emplace(*id, source);
      }
    return from;
  }

  /// Whether a run may have a result of this record alone because it goes on longer, with other tokens or more of them.
  bool is_of_longer_run(const Record& record) const {
    if (alignment_.has_other_texts) return false;
    if (drift_.parting || (drift_.rows && drift_.rows->positions)) return true;
    return std::any_of(drift_.ops.begin(), drift_.ops.end(), [&](const DriftOp& op) {
      return op.module == record.module && (op.op == record.op || op.op_b == record.op);
    });
  }

  /// What a run's own report finds in ops that are not compared, such as casts.
  void add_others(const JudgedRun& run, std::string_view which) {
    const Comparison& comparison = run.judgement.comparison;
    const DriftVerdict own = comparison.verdict == Status::violated     ? DriftVerdict::bug
                             : comparison.verdict == Status::improbable ? DriftVerdict::suspicious
                                                                        : DriftVerdict::expected;
    if (own <= drift_.verdict) return;
    for (const LayerSummary& layer : comparison.layers) {
      if (layer.status != comparison.verdict) continue;
      drift_.verdict = own;
      drift_.culprit.reset();
      drift_.alone = DriftAlone{layer.name, layer.op, layer.status,
                                fmt::format("the {} run's own report: {}", which, complaint_of(layer))};
      return;
    }
  }

  const JudgedRun &a_, &b_;
  const RecordedRun &run_a_, &run_b_;
  const DriftOptions& options_;
  const RunAlignment alignment_;
  const LayersOf layers_a_, layers_b_;
  RunsDrift drift_;
  std::array<std::map<RecordedResult, std::size_t>, 2> positions_;  ///< in the alignment, by result of each run
  std::map<std::size_t, std::size_t> other_sources_;                ///< by position in the alignment: that in the drift
  std::set<std::size_t> scores_, score_sources_;  ///< by position in the alignment: those that find_scores finds
  std::set<std::size_t> other_masks_;             ///< scores masked by -∞ in the run that the other is judged as
  std::set<std::size_t> unknown_sources_;         ///< by position in the alignment: they may differ
  std::set<std::size_t> parted_sources_;          ///< by position in the alignment: tokens behind others that differ
  std::set<std::size_t> follow_choice_;           ///< ops that choose otherwise, and what follows from them
  /// By id: which of the values from outside that the other run has not a value of a run follows from.
  std::map<std::string, std::string> from_unmatched_a_, from_unmatched_b_;
  std::map<std::string, std::string> from_unjudged_a_, from_unjudged_b_;  ///< the same of results that are not judged
  std::set<std::size_t> drawn_;                    ///< ops whose numbers both runs draw, and what follows from them
  std::set<std::size_t> for_choices_;              ///< of these, those that nothing but choices follows from
  bool parts_at_source_ = false;                   ///< DriftParting is of tokens that a step reads from outside
  std::set<std::size_t> unrelated_;                ///< ops whose rows are not found in both runs
  std::set<std::size_t> answers_;                  ///< ops that answer to others, and what follows from them
  std::map<std::size_t, std::string> complaints_;  ///< of one run as one of the other's network, by op
};

}  // namespace

namespace {

/// Pairs of results by which there is a bug, and which may be no pairs: the runs compute them by other ops, or from other
/// operands, as a scale that one run splits over both factors. What no other numbers are made of stays: the runs must
/// agree there in the end.
std::set<std::size_t> doubtful_pairs(const RunsDrift& drift, const RunAlignment& alignment, const RecordedRun& a) {
  std::set<std::size_t> doubtful;
  std::set<std::string> computed;
  const auto add = [&](RecordedResult at) {
    if (const std::string id = id_of(a, at); is_float(a.type_of(id))) computed.insert(id);
  };
  for (const AlignedResult& one : alignment.results) add(one.a);
  for (const RecordedResult& at : alignment.only_a) add(at);
  const std::set<std::string> read = read_in(a, computed);
  for (std::size_t i = 0; i < drift.ops.size(); ++i) {
    const AlignedResult& one = alignment.results[i];
    const DriftOp& op = drift.ops[i];
    const bool is_scale = one.kind == "Mul" || one.kind == "Div";
    const bool may_be_others = op.op != op.op_b || one.operands != OperandsAre::same || is_scale;
    const bool hold_alone = op.a != Status::violated && op.b != Status::violated;
    if (op.verdict == DriftVerdict::bug && may_be_others && hold_alone && read.count(id_of(a, one.a)) != 0)
      doubtful.insert(i);
  }
  return doubtful;
}

std::int64_t bugs_in(const RunsDrift& drift) {
  return std::count_if(drift.ops.begin(), drift.ops.end(),
                       [](const DriftOp& op) { return op.verdict == DriftVerdict::bug; });
}

/// Ops and results of one run alone of which it is not known whether they are expected.
std::size_t open_in(const RunsDrift& drift) {
  const auto ops = std::count_if(drift.ops.begin(), drift.ops.end(),
                                 [](const DriftOp& op) { return op.verdict == DriftVerdict::undecided; });
  std::size_t alone = 0;
  for (const std::vector<DriftAlone>* side : {&drift.only_a, &drift.only_b})
    for (const DriftAlone& one : *side) alone += one.is_result || one.follows_unknown ? 1 : 0;
  return static_cast<std::size_t>(ops) + alone;
}

}  // namespace

RunsDrift compare_runs(const JudgedRun& a, const JudgedRun& b, const DriftOptions& options,
                       std::optional<RunAlignment> alignment) {
  if (!alignment) alignment = aligned_runs(*a.run, *b.run);
  RunsDrift drift = RunComparer(a, b, options, *alignment).compare(), without = drift;
  if (!drift.not_as_b.empty() || !alignment->steps.empty()) return drift;
  // Where more is as expected without these pairs, by what the networks compute between the others, they are none.
  constexpr int most_rounds = 8, few_rounds = 2;  // what is behind such a pair may be none, too
  const std::size_t open = open_in(drift);
  for (int round = 0; round < most_rounds; ++round) {
    const std::set<std::size_t> doubtful = doubtful_pairs(without, *alignment, *a.run);
    if (doubtful.empty()) break;
    alignment = without_pairs(*alignment, doubtful);
    without = RunComparer(a, b, options, *alignment).compare();
    // A fault beside such pairs is a bug at few ops.
    const bool names_it = round < few_rounds && 2 * bugs_in(without) < bugs_in(drift);
    const bool explains_more = without.verdict < DriftVerdict::bug || names_it;
    if (open_in(without) <= open && explains_more) drift = without;
    if (without.verdict < DriftVerdict::bug) break;
  }
  return drift;
}

}  // namespace driftbound::analysis
