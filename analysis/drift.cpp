#include "analysis/drift.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "analysis/drift_verdict.hpp"
#include "analysis/text.hpp"
#include "driftbound/num/errors.hpp"
#include "driftbound/num/format.hpp"

namespace driftbound::analysis {
namespace {

/// A stretch of elements of a tensor.
StoredTensor stretch_of(const StoredTensor& tensor, std::size_t first, std::size_t count) {
  const std::size_t width = bytes_per_element(tensor.type());
  return StoredTensor(tensor.type(), {static_cast<std::int64_t>(count)},
                      tensor.bytes().subspan(first * width, count * width),
                      std::make_shared<const StoredTensor>(tensor));
}

/// The squared standard error of a mean of `count` numbers, from their sum and that of their squares.
double squared_error_of_mean(double sum, double squares, double count) {
  return std::max(squares / count - (sum / count) * (sum / count), 0.0) / (count - 1.0);
}

/// Sums over the elements of two values, and over the means of their rows and columns.
class DifferenceSums {
public:
  DifferenceSums(std::size_t width, const Format* format) : width_(width), format_(format), of_columns_(width, 0.0) {}

  void add(double x, double y, bool is_same) {
    const auto element = difference_.elements++;
    if (!is_same) ++difference_.differing;
    row_is_identical_ = row_is_identical_ && is_same;
    if (std::isfinite(x) != std::isfinite(y))
      ++(std::isfinite(x) ? difference_.not_finite_b : difference_.not_finite_a);
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
  RunDifference difference_;
  bool row_is_identical_ = true;
  std::vector<double> of_columns_;
  double finite_ = 0.0, sum_ = 0.0, squares_ = 0.0, size_ = 0.0, of_row_ = 0.0, rows_ = 0.0, rows_squares_ = 0.0;
};

}  // namespace

RunDifference difference_of(const AlignedNumbers& numbers) {
  constexpr std::size_t at_once = std::size_t{1} << 16;
  const Shape& shape = numbers.b.shape();
  const std::optional<FormatId> id = float_format(numbers.b.type());
  const Format* const own = id ? &format(*id) : nullptr;
  DifferenceSums sums(shape.empty() ? 1 : static_cast<std::size_t>(std::max<std::int64_t>(shape.back(), 1)), own);
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

JudgedRun judge_run_alone(const RecordedRun& run, const DriftOptions& options) {
  JudgedRun judged{&run, judge_records(run, options.judge, options.audit), std::nullopt, {}};
  if (judged.judgement.interrupted || options.audit.draws > 0) return judged;
  const RecordChain chain = chain_records(run, options.most_numbers);
  if (chain.why_not.empty()) judged.arithmetic = chain.trace.arithmetic;
  JudgeOptions from_input = options.judge;
  from_input.progress = {};
  from_input.most_output_elements = most_bounded_elements(chain.graph, chain.trace, options.bounds_outputs);
  from_input.keep_block = [&](const Reference& reference, const Bounds& bounds, std::int64_t, std::int64_t) {
    for (const ValueId output : chain.graph.outputs) {
      const std::optional<std::size_t> node = chain.graph.producer(output);
      if (!node || !chain.results[*node] || reference.layers[*node].size() > most_exact) continue;
      judged.known[*chain.results[*node]].add(reference.layers[*node], bounds.layers[*node]);
    }
  };
  judge_from_input(run, chain, from_input, judged.judgement);
  return judged;
}

namespace {

std::string id_of(const RecordedRun& run, RecordedResult at) {
  return run.records()[at.record].results[at.result].value();
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

/// "eps is 1e-06, and 1e-05 in the first run"; empty where the arguments are alike.
std::string other_argument(const Record& a, const Record& b, const std::optional<AlignedRows>& rows) {
  if (a.op != b.op) return "";
  for (const auto& [name, of_b] : b.attributes) {
    const auto found = a.attributes.find(name);
    if (found != a.attributes.end() && !are_alike(found->second, of_b, rows))
      return fmt::format("{} is {}, and {} in the first run", name, text_of(of_b), text_of(found->second));
  }
  return "";
}

/// The narrower type to which the first run's numbers are rounded in the second one; empty: none.
std::string rounded_to(const AlignedNumbers& numbers) {
  if (!is_float(numbers.a.type()) || !is_float(numbers.b.type())) return "";
  const std::vector<double> x = numbers.a.to_double().values, y = numbers.b.to_double().values;
  for (const FormatId id : {FormatId::fp32, FormatId::tf32, FormatId::fp16, FormatId::bf16}) {
    const Format& to = format(id);
    bool fits = true;
    for (std::size_t i = 0; i < x.size() && fits; ++i) fits = round_to(x[i], to, Rounding::nearest_even) == y[i];
    if (fits) return std::string(to.name);
  }
  return "";
}

class RunComparer {
public:
  RunComparer(const JudgedRun& a, const JudgedRun& b, const DriftOptions& options)
      : a_(a),
        b_(b),
        run_a_(*a.run),
        run_b_(*b.run),
        options_(options),
        alignment_(align_runs(run_a_, run_b_)),
        layers_a_(a),
        layers_b_(b) {}

  RunsDrift compare() && {
    if (alignment_.results.empty())
      throw InvalidArgument("the runs are of different models: no op of one is an op of the other");
    drift_.rows = alignment_.rows;
    drift_.interrupted = a_.judgement.interrupted || b_.judgement.interrupted;
    compare_sources();
    compare_values();
    judge_as_b();
    compare_decisions();
    for (std::size_t i = 0; i < drift_.ops.size(); ++i) settle_op(i);
    name_what_is_alone();
    find_culprit(drift_);
    add_others(a_, "first");
    add_others(b_, "second");
    return std::move(drift_);
  }

private:
  // ---- values from outside

  void compare_sources() {
    for (std::size_t i = 0; i < alignment_.sources.size(); ++i) {
      const AlignedSource& source = alignment_.sources[i];
      if (source.is_identical) continue;
      DriftSource differing{source.a, source.b, reader_of(i), std::nullopt, "", false};
      std::optional<AlignedNumbers> numbers = numbers_of_both(run_a_, source.a, run_b_, source.b, alignment_.rows);
      if (!numbers) numbers = numbers_of_both(run_a_, source.a, run_b_, source.b, std::nullopt);  // it has no such rows
      if (!numbers) {
        unknown_sources_.insert(i);
        continue;
      }
      differing.difference = difference_of(*numbers);
      if (differing.difference->is_zero()) continue;  // another type with the same numbers
      require_same_input(source, *differing.difference, *numbers);
      differing.rounded_to = rounded_to(*numbers);
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
          source.a, source.b, reader_of(position_of(source)), difference.differing, difference.elements));
  }

  std::size_t position_of(const AlignedSource& source) const {
    return static_cast<std::size_t>(&source - alignment_.sources.data());
  }

  std::string reader_of(std::size_t source) const {
    for (const AlignedResult& one : alignment_.results)
      if (std::find(one.reads_sources.begin(), one.reads_sources.end(), source) != one.reads_sources.end())
        return run_a_.records()[one.a.record].name;
    return "nothing";
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
      if (const auto numbers = numbers_of_both(run_a_, id_of(run_a_, one.a), run_b_, id_of(run_b_, one.b), drift_.rows))
        op.difference = difference_of(*numbers);
      op.has_same_operands = one.operands == OperandsAre::same && !one.casts_otherwise && reads_the_same(one);
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

  static std::string name_of_result(const Record& record, RecordedResult at) {
    return record.results.size() > 1 && at.result > 0 ? fmt::format("{}[{}]", record.name, at.result) : record.name;
  }

  bool reads_the_same(const AlignedResult& one) const {
    const auto is_same_result = [&](std::size_t i) {
      return i < drift_.ops.size() && drift_.ops[i].difference && drift_.ops[i].difference->is_zero();
    };
    const auto is_same_source = [&](std::size_t i) {
      return other_sources_.count(i) == 0 && unknown_sources_.count(i) == 0;
    };
    return std::all_of(one.reads.begin(), one.reads.end(), is_same_result) &&
           std::all_of(one.reads_sources.begin(), one.reads_sources.end(), is_same_source);
  }

  // ---- decisions

  void compare_decisions() {
    std::set<std::size_t> read;
    for (const AlignedResult& one : alignment_.results)
      if (is_float(run_a_.type_of(id_of(run_a_, one.a))))  // not those that choose
        read.insert(one.reads.begin(), one.reads.end());
    for (std::size_t i = 0; i < alignment_.results.size(); ++i) {
      const AlignedResult& one = alignment_.results[i];
      const std::string id = id_of(run_a_, one.a);
      const Shape& shape = run_a_.shape_of(id);
      if (read.count(i) != 0 || !is_float(run_a_.type_of(id)) || shape.size() < 2 || shape.back() < 2) continue;
      const auto numbers = numbers_of_both(run_a_, id, run_b_, id_of(run_b_, one.b), drift_.rows);
      if (!numbers || run_a_.part_of(id)) continue;
      const auto known = [&](const JudgedRun& run, RecordedResult at) -> const KnownNumbers* {
        const auto found = run.known.find(at);
        return drift_.rows || !drift_.sources.empty() || found == run.known.end() ? nullptr : &found->second;
      };
      add_rows(drift_.ops[i].name, *numbers, known(a_, one.a), known(b_, one.b), options_.top, drift_);
    }
  }

  // ---- the first run as one of the second run's network

  void judge_as_b() {
    if (options_.audit.draws > 0) {
      drift_.not_as_b = "elements are drawn (--audit)";
      return;
    }
    std::map<RecordedResult, RecordedResult> of_a;
    for (const AlignedResult& one : alignment_.results) of_a[one.b] = one.a;
    const NumbersOf numbers = [&](RecordedResult at) -> std::optional<StoredTensor> {
      const auto found = of_a.find(at);
      if (found == of_a.end()) return std::nullopt;
      const std::string id = id_of(run_a_, found->second);
      if (!run_a_.is_stored(id) || run_a_.part_of(id)) return std::nullopt;
      const std::string id_b = id_of(run_b_, at);
      if (!run_b_.is_stored(id_b) || run_b_.part_of(id_b)) return std::nullopt;
      return as_in_b(run_a_.stored(id), run_b_.stored(id_b), drift_.rows);
    };
    RecordChain chain = chain_records(run_b_, options_.most_numbers, numbers);
    drift_.not_as_b = chain.why_not;
    if (!chain.why_not.empty()) return;
    if (a_.arithmetic) chain.trace.arithmetic = *a_.arithmetic;
    chain.trace.provenance = run_a_.provenance();
    JudgeOptions options = options_.judge;
    if (chain.may_round_numbers) options.without.emplace_back(BoundKind::rounded_shadow);
    options.progress = {};
    try {
      take_statuses(chain, judge(chain.graph, chain.trace, options).comparison);
    } catch (const Unsupported& error) {
      drift_.not_as_b = error.what();
    }
  }

  void take_statuses(const RecordChain& chain, const Comparison& comparison) {
    std::map<RecordedResult, std::size_t> position;
    for (std::size_t i = 0; i < alignment_.results.size(); ++i) position[alignment_.results[i].b] = i;
    for (std::size_t layer = 0; layer < chain.results.size() && layer < comparison.layers.size(); ++layer) {
      if (!chain.results[layer]) continue;
      const auto found = position.find(*chain.results[layer]);
      if (found == position.end()) continue;
      drift_.ops[found->second].as_b = own_status(comparison.layers[layer]);
      complaints_[found->second] = complaint_of(comparison.layers[layer]);
    }
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
    evidence.other_numbers = source_of(one, false);
    evidence.rounded_numbers = source_of(one, true);
    evidence.unknown_numbers = unknown_source_of(one);
    if (one.operands == OperandsAre::other) {
      evidence.other_function = fmt::format("its operand {} is another value in the second run", one.other_slot);
    } else if (const std::string argument = other_argument(record_a, record_b, drift_.rows); !argument.empty()) {
      evidence.other_function = "the runs compute other functions: " + argument;
    }
    if (const auto found = complaints_.find(i); found != complaints_.end()) evidence.complaint_as_b = found->second;
    evidence.is_choice = !is_float(run_b_.type_of(id_of(run_b_, one.b)));
    evidence.is_same_op = one.by == AlignedBy::op && one.operands == OperandsAre::same && record_a.op == record_b.op;
    evidence.adds_and_multiplies = adds_and_multiplies(one.kind);
    if (reads_drifted(one)) drift_.ops[i].as_b = Status::not_checked;  // the second run's operand is another one
    settle(drift_.ops[i], evidence, drift_.ops.size());
  }

  bool reads_drifted(const AlignedResult& one) const {
    return std::any_of(one.reads_sources.begin(), one.reads_sources.end(), [&](std::size_t i) {
      const auto found = other_sources_.find(i);
      return found != other_sources_.end() && drift_.sources[found->second].is_drifted;
    });
  }

  /// Which of the numbers from outside that an op reads differ; those that are rounded alone, or the others.
  std::string source_of(const AlignedResult& one, bool is_rounded) const {
    for (const std::size_t i : one.reads_sources) {
      const auto found = other_sources_.find(i);
      if (found == other_sources_.end()) continue;
      const DriftSource& source = drift_.sources[found->second];
      if (source.rounded_to.empty() == is_rounded || source.is_drifted) continue;
      if (is_rounded) return fmt::format("the second run reads '{}' rounded to {}", source.a, source.rounded_to);
      return fmt::format("the runs read other numbers: {} of {} elements of '{}' differ, by {} of its scale at most",
                         source.difference->differing, source.difference->elements, source.a,
                         error_text(source.difference->largest / source.difference->scale));
    }
    return "";
  }

  std::string unknown_source_of(const AlignedResult& one) const {
    for (const std::size_t i : one.reads_sources)
      if (unknown_sources_.count(i) != 0)
        return fmt::format("the runs did not record the same elements of '{}', which it reads",
                           alignment_.sources[i].a);
    return "";
  }

  void name_what_is_alone() {
    const auto name = [](const RecordedRun& run, const LayersOf& layers, const std::vector<RecordedResult>& results) {
      std::vector<DriftAlone> alone;
      for (const RecordedResult& at : results) {
        const Record& record = run.records()[at.record];
        DriftAlone one{name_of_result(record, at), record.op, Status::not_checked, ""};
        if (const LayerSummary* layer = layers.at(at)) {
          one.status = layer->status;
          one.reason = complaint_of(*layer);
        }
        alone.push_back(std::move(one));
      }
      return alone;
    };
    drift_.only_a = name(run_a_, layers_a_, alignment_.only_a);
    drift_.only_b = name(run_b_, layers_b_, alignment_.only_b);
    drift_.sources_only_a = alignment_.sources_only_a;
    drift_.sources_only_b = alignment_.sources_only_b;
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
  std::map<std::size_t, std::size_t> other_sources_;  ///< by position in the alignment: that in the drift
  std::set<std::size_t> unknown_sources_;             ///< by position in the alignment: they may differ
  std::map<std::size_t, std::string> complaints_;     ///< of the first run as one of the second run's network, by op
};

}  // namespace

RunsDrift compare_runs(const JudgedRun& a, const JudgedRun& b, const DriftOptions& options) {
  return RunComparer(a, b, options).compare();
}

}  // namespace driftbound::analysis
