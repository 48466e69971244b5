#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "analysis/run_comparer.hpp"
#include "driftbound/num/errors.hpp"
#include "driftbound/trace/run_scores.hpp"

namespace driftbound::analysis {
namespace {

/// Scores of one run with the masks of the other one, where both mask an element.
/// Returns:   empty where that would not be a finite number
std::optional<StoredTensor> with_masks_of(StoredTensor of, const StoredTensor& in) {
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

/// What a layer's own errors say: those from the input on follow from other layers.
Status own_status(const LayerSummary& layer) {
  const auto exceeds = [&](const BoundSummary& bound) { return bound.gives_verdict() && bound.violations > 0; };
  const auto is_improbable = [&](const BoundSummary& bound) { return bound.is_improbable(); };
  const std::vector<BoundSummary>& bounds = layer.local.bounds;
  if (std::any_of(bounds.begin(), bounds.end(), exceeds)) return Status::violated;
  const bool reads_otherwise = layer.nearest_reading && layer.nearest_reading->is_decisive;
  if (reads_otherwise || std::any_of(bounds.begin(), bounds.end(), is_improbable)) return Status::improbable;
  return layer.status == Status::violated || layer.status == Status::improbable ? Status::holds : layer.status;
}

bool is_judged(Status status) {
  return status != Status::not_checked && status != Status::undecided;
}

}  // namespace

void RunComparer::find_scores() {
  ScoreFinder in_a(run_a_), in_b(run_b_);
  const auto are_in_both = [&](const std::string& a, const std::string& b) {
    return in_a.are_scores(a) && in_b.are_scores(b);
  };
  const std::set<std::string_view> may_mask = {"Where", "Add", "Max", "Min", "Clip", "Mul", "Div", "product+Add"};
  for (std::size_t i = 0; i < alignment_.results.size(); ++i)
    if (may_mask.count(alignment_.results[i].kind) != 0 &&
        are_in_both(id_of(run_a_, alignment_.results[i].a), id_of(run_b_, alignment_.results[i].b)))
      scores_.insert(i);
  for (std::size_t i = 0; i < alignment_.sources.size(); ++i)
    if (are_in_both(alignment_.sources[i].a, alignment_.sources[i].b)) score_sources_.insert(i);
}

bool RunComparer::masks_what_differs(std::size_t i) const {
  const DriftOp& op = drift_.ops[i];
  const std::string& kind = alignment_.results[i].kind;
  if (scores_.count(i) == 0 || (kind != "Where" && kind != "Add") || !op.difference ||
      !op.difference->is_finite_in_both())
    return false;
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

void RunComparer::judge_in_network() {
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

bool RunComparer::is_one_open() const {
  for (std::size_t i = 0; i < drift_.ops.size(); ++i)
    if (!is_judged(drift_.ops[i].as_b) && !is_same_op(i) && !follow_choice_.count(i) && drift_.ops[i].difference &&
        !drift_.ops[i].difference->is_zero())
      return true;
  return false;
}

bool RunComparer::is_same_op(std::size_t i) const {
  const AlignedResult& one = alignment_.results[i];
  return one.by == AlignedBy::op && one.operands == OperandsAre::same &&
         run_a_.records()[one.a.record].op == run_b_.records()[one.b.record].op;
}

std::string RunComparer::judge_as(bool as_a) {
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
    const std::optional<StoredTensor> in_place = as_in_b(of.stored(id), in.stored(id_in), of_value);
    if (!in_place || scores_.count(*i) == 0) return in_place;
    std::optional<StoredTensor> masked = with_masks_of(*in_place, in.stored(id_in));
    if (!masked) other_masks_.insert(*i);
    return masked ? masked : in_place;
  };
  std::set<std::size_t> doubtful;  // ops
  const auto take = [&](const RecordChain& chain) {
    // Bounds of another arithmetic than that of the numbers say nothing.
    const Comparison comparison =
        numbers_of.arithmetic ? judge(chain.graph, chain.trace, options_in(chain)).comparison : Comparison();
    for (std::size_t i = 0; i < chain.results.size(); ++i) {
      const auto op = chain.results[i] ? position_of(*chain.results[i], as_a) : std::nullopt;
      if (!op || is_judged(drift_.ops[*op].as_b) || other_masks_.count(*op) != 0) continue;
      drift_.ops[*op].is_as_a = as_a;
      const bool is_open = i < comparison.layers.size() && take_status(*op, comparison.layers[i]);
      if (is_open || !numbers_of.arithmetic) doubtful.insert(*op);
    }
  };
  const std::string why_not = with_chain(in, numbers, numbers_of, take);
  if (!doubtful.empty()) compare_exact_networks(doubtful, in, numbers, as_a);
  return why_not;
}

bool RunComparer::take_status(std::size_t i, const LayerSummary& layer) {
  DriftOp& op = drift_.ops[i];
  op.as_b = own_status(layer);
  complaints_[i] = complaint_of(layer);
  const AlignedResult& one = alignment_.results[i];
  const bool is_by_other_ways = one.reads_left_out || (one.operands == OperandsAre::open && !drift_.sources.empty());
  return op.as_b == Status::violated || (is_judged(op.as_b) && is_by_other_ways);
}

void RunComparer::compare_exact_networks(const std::set<std::size_t>& doubtful, const RecordedRun& in,
                                         const NumbersOf& numbers, bool as_a) {
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
        if (op && doubtful.count(*op) != 0)
          exact.emplace(*op, nearest_numbers(reference.layers[i], reference.layers[i].shape));
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
    const AlignedResult& one = alignment_.results[i];
    const double relative =
        rounded_constants_of(run_a_.type_of(id_of(run_a_, one.a)), run_b_.type_of(id_of(run_b_, one.b)));
    if (in_other && are_same_function(*in_other, y->second, {scores_.count(i) != 0, relative, {}})) {
      op.as_b = follows_open(one) ? Status::not_checked : Status::holds;  // what is right in each run is not known
      complaints_.erase(i);
    } else if (op.as_b != Status::violated) {
      op.as_b = in_other ? Status::violated : Status::not_checked;
      complaints_[i] = "exact values differ between what both runs have";
    }
    if (op.as_b == Status::violated) complaints_[i] += text_of_joined_source();
  }
}

std::string RunComparer::text_of_joined_source() const {
  const auto of_alignment = drift_.sources.end() - static_cast<std::ptrdiff_t>(other_sources_.size());
  const auto found =
      std::find_if(drift_.sources.begin(), of_alignment, [](const auto& one) { return !one.is_declared; });
  if (found == of_alignment) return "";
  const DriftSource& source = *found;
  const bool is_a_whole = element_count(run_a_.shape_of(source.a)) == source.difference->elements;
  return fmt::format(", and {} of {} elements of '{}', of which one run has '{}' as a part",
                     source.difference->differing, source.difference->elements,
                     is_a_whole ? source.called_a : source.called_b, is_a_whole ? source.called_b : source.called_a);
}

std::optional<std::size_t> RunComparer::position_of(RecordedResult at, bool in_a) const {
  const std::map<RecordedResult, std::size_t>& all = positions_[in_a ? 0 : 1];
  const auto found = all.find(at);
  return found == all.end() ? std::nullopt : std::optional(found->second);
}

std::string RunComparer::with_chain(const RecordedRun& in, const NumbersOf& numbers, const JudgedRun& numbers_of,
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

JudgeOptions RunComparer::options_in(const RecordChain& chain) const {
  JudgeOptions options = options_.judge;
  if (chain.may_round_numbers) options.without.emplace_back(BoundKind::rounded_shadow);
  options.progress = {};
  return options;
}

}  // namespace driftbound::analysis
